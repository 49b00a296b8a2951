//! A checkpoint on disk: opened, checked whole, mapped, its tensors under canonical names.
//!
//! Here: [`Checkpoint`]. Canonical names are GGUF's; Hugging Face names are mapped onto them. Used by `models` (weights and
//! configuration), `llm` (tokenizer, template, defaults), `cli` (`inspect`).

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use ucuz_tensor::Format;

use crate::config::{GenerationDefaults, ModelConfig, TokenizerSource};
use crate::error::{FormatError, Place};
use crate::expected::{self, Entry, Layout};
use crate::mmap::Map;
use crate::template::{self, Templates};
use crate::{generation, gguf, hf, validate};

/// A model's files, mapped, with everything they say.
#[derive(Debug)]
pub struct Checkpoint {
    /// Stem of the GGUF file, or name of the folder.
    pub name: String,
    /// Sizes and constants, checked against limits and against the tensors' shapes.
    pub config: ModelConfig,
    /// Where the tokenizer comes from.
    pub tokenizer: TokenizerSource,
    /// The default chat template.
    pub chat_template: Option<String>,
    /// Further chat templates, by name.
    pub named_templates: Vec<(String, String)>,
    /// What the publisher samples with.
    pub generation: GenerationDefaults,
    path: PathBuf,
    warnings: Vec<String>,
    maps: Vec<Map>,
    entries: Vec<Entry>,
    index: HashMap<String, usize>,
}

/// One tensor of a [`Checkpoint`].
#[derive(Debug, Clone, Copy)]
pub struct TensorRef<'a> {
    /// Canonical name.
    pub name: &'a str,
    /// Name in the file.
    pub stored_name: &'a str,
    /// Number format.
    pub format: Format,
    /// Outermost dimension first: `[rows, columns]` of a matrix.
    pub shape: &'a [usize],
    /// The stored numbers, row after row; no alignment is promised.
    pub bytes: &'a [u8],
}

/// What a file of either kind says; a [`Checkpoint`] once its tensors were compared with it.
pub(crate) struct Parts {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) config: ModelConfig,
    pub(crate) tokenizer: TokenizerSource,
    pub(crate) templates: Templates,
    pub(crate) generation: GenerationDefaults,
    pub(crate) warnings: Vec<String>,
    pub(crate) maps: Vec<Map>,
    pub(crate) entries: Vec<Entry>,
}

impl Checkpoint {
    /// Opens a `.gguf` file, a Hugging Face folder, or a `.safetensors` file that lies beside its `config.json`.
    ///
    /// # Errors
    /// [`FormatError`] naming file, place and rule for anything missing, damaged or not supported; nothing of a refused
    /// file is used.
    pub fn open(path: &Path) -> Result<Self, FormatError> {
        if path.is_dir() {
            return hf::open_folder(path, None);
        }
        let mut magic = Vec::new();
        File::open(path)
            .and_then(|file| file.take(4).read_to_end(&mut magic))
            .map_err(|e| FormatError::io(path, e))?;
        let extension = path
            .extension()
            .and_then(|e| e.to_str())
            .unwrap_or_default();
        match (magic.as_slice(), extension) {
            (b"GGUF", _) | (_, "gguf") => open_gguf(path),
            (_, "safetensors") => {
                let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
                let folder = parent.unwrap_or(Path::new("."));
                hf::open_folder(folder, Some(path))
            }
            _ => Err(FormatError::unsupported(
                Place::File,
                "a model is a .gguf file, a .safetensors file or a folder with config.json",
                magic.escape_ascii(),
            )
            .in_file(path)),
        }
    }

    /// The tensor with this canonical name.
    pub fn tensor(&self, name: &str) -> Option<TensorRef<'_>> {
        self.index
            .get(name)
            .and_then(|i| self.entries.get(*i))
            .map(|entry| self.view(entry))
    }

    /// The tensor with this canonical name.
    ///
    /// # Errors
    /// [`FormatError::Missing`] naming it.
    pub fn require(&self, name: &str) -> Result<TensorRef<'_>, FormatError> {
        self.tensor(name).ok_or_else(|| {
            FormatError::missing(Place::tensor(name), "the model has this tensor")
                .in_file(&self.path)
        })
    }

    /// All tensors that the model uses, in the order of the files.
    pub fn tensors(&self) -> impl Iterator<Item = TensorRef<'_>> {
        self.entries.iter().map(|entry| self.view(entry))
    }

    /// Bytes of all files that hold tensors.
    pub fn file_bytes(&self) -> u64 {
        self.maps.iter().map(|map| map.bytes().len() as u64).sum()
    }

    /// A hash of what the tensors are made from: their names, formats, shapes and places, and the [stamps](crate::mmap::Stamp)
    /// of the files.
    ///
    /// The weights are not read: hashing them would take longer than bringing them into a layout. So a copy of a file has
    /// another identity, and so has a file that was moved; equal identities mean equal weights.
    pub fn identity(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        for map in &self.maps {
            hash.update(format!("{:?}\n", map.stamp()));
        }
        for e in &self.entries {
            let row = (&e.name, &e.stored, e.format, &e.shape, e.file, &e.span);
            hash.update(format!("{row:?}\n"));
        }
        hash.finalize().into()
    }

    /// Whether the files are still those that were opened, unchanged.
    pub fn is_unchanged(&self) -> bool {
        self.maps.iter().all(Map::is_unchanged)
    }

    /// Tells the system that the pages of `tensor` are not needed soon; best effort.
    pub fn release_pages(&self, tensor: &TensorRef<'_>) {
        if let Some(entry) = self
            .index
            .get(tensor.name)
            .and_then(|i| self.entries.get(*i))
            && let Some(map) = self.maps.get(entry.file)
        {
            map.release(entry.span.clone());
        }
    }

    /// What was met and not used, one sentence each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The file or folder that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn view<'a>(&'a self, entry: &'a Entry) -> TensorRef<'a> {
        // Spans were checked against their file when it was read, so neither default is reached.
        let bytes = self
            .maps
            .get(entry.file)
            .map(Map::bytes)
            .unwrap_or_default();
        TensorRef {
            name: &entry.name,
            stored_name: &entry.stored,
            format: entry.format,
            shape: &entry.shape,
            bytes: bytes.get(entry.span.clone()).unwrap_or_default(),
        }
    }

    /// Compares tensors and configuration and joins them.
    pub(crate) fn assemble(
        parts: Parts,
        family: &crate::family::Family,
        layout: Layout,
    ) -> Result<Self, FormatError> {
        let Parts {
            path,
            config,
            mut warnings,
            ..
        } = parts;
        validate::validate(&config)?;
        let entries = expected::select(parts.entries, family, &config, layout, &mut warnings)?;
        let mut index = HashMap::new();
        for (i, entry) in entries.iter().enumerate() {
            if index.insert(entry.name.clone(), i).is_some() {
                let rule = format!("two stored tensors mean {}", entry.name);
                return Err(FormatError::damaged(Place::tensor(&entry.stored), rule, ""));
            }
        }
        if parts.templates.default.is_none() && !parts.templates.named.is_empty() {
            warnings.push("no chat template is named default; none is used unless chosen".into());
        }
        Ok(Self {
            name: parts.name,
            config,
            tokenizer: parts.tokenizer,
            chat_template: parts.templates.default,
            named_templates: parts.templates.named,
            generation: parts.generation,
            path,
            warnings,
            maps: parts.maps,
            entries,
            index,
        })
    }
}

fn open_gguf(path: &Path) -> Result<Checkpoint, FormatError> {
    let map = Map::open(path)?;
    read_gguf(map, path).map_err(|e| e.in_file(path))
}

fn read_gguf(map: Map, path: &Path) -> Result<Checkpoint, FormatError> {
    let file = gguf::parse(map.bytes())?;
    let family = file.family()?;
    let config = file.model_config(map.bytes())?;
    let entries = file.tensors.iter().map(|t| Entry {
        name: t.name.to_owned(),
        stored: t.name.to_owned(),
        format: t.format,
        shape: t.shape.clone(),
        file: 0,
        span: t.span.clone(),
    });
    let parts = Parts {
        name: path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        path: path.to_owned(),
        config,
        tokenizer: file.tokenizer()?,
        templates: template::of_gguf(&file)?,
        generation: generation::of_gguf(&file)?,
        warnings: Vec::new(),
        entries: entries.collect(),
        maps: Vec::new(),
    };
    let mut checkpoint = Checkpoint::assemble(
        parts,
        family,
        Layout {
            tied: None,
            attention_bias: None,
        },
    )?;
    checkpoint.maps.push(map);
    Ok(checkpoint)
}
