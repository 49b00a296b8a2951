//! A Hugging Face folder: its small files, its shards, its tensors under canonical names.
//!
//! Only files of the folder are opened, each up to its own limit; names in a shard index are plain names.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use ucuz_tensor::Format;

use crate::checkpoint::{Checkpoint, Parts};
use crate::config::TokenizerSource;
use crate::config_json::{self, HfConfig};
use crate::error::{FormatError, Place};
use crate::expected::{Entry, Layout};
use crate::family::Family;
use crate::mmap::Map;
use crate::safetensors::{self, Index};
use crate::{generation, hf_names, limits, template};

/// Opens the checkpoint in `folder`; `weights` names the one weight file to use instead of the usual names.
pub(crate) fn open_folder(
    folder: &Path,
    weights: Option<&Path>,
) -> Result<Checkpoint, FormatError> {
    let config_path = folder.join("config.json");
    let config_bytes = read_bounded(&config_path, limits::CONFIG_BYTES_MAX)?.ok_or_else(|| {
        FormatError::missing(Place::File, "a Hugging Face folder has a config.json")
            .in_file(folder)
            .advise("name a folder with config.json and *.safetensors, or a .gguf file")
    })?;
    let hf = config_json::parse(&config_bytes).map_err(|e| e.in_file(&config_path))?;
    let generation = read_generation(folder, &config_path, &config_bytes)?;
    let tokenizer_config = read_bounded(
        &folder.join("tokenizer_config.json"),
        limits::SIDE_FILE_BYTES_MAX,
    )?;
    let templates = template::of_folder(folder, tokenizer_config.as_deref())?;
    let tokenizer = match read_bounded(&folder.join("tokenizer.json"), limits::TOKENIZER_BYTES_MAX)?
    {
        Some(tokenizer) => TokenizerSource::HuggingFace {
            tokenizer,
            config: tokenizer_config,
        },
        None => TokenizerSource::Missing,
    };
    let HfConfig {
        mut config,
        tied,
        attention_bias,
        mut warnings,
        family,
        multimodal,
    } = hf;
    let mut shards = Shards {
        family,
        multimodal,
        maps: Vec::new(),
        entries: Vec::new(),
    };
    shards.read_all(folder, weights, &mut warnings)?;
    config.embedding_scale = round_scale(config.embedding_scale, &shards.entries);
    let parts = Parts {
        name: name_of(folder),
        path: folder.to_owned(),
        config,
        tokenizer,
        templates,
        generation,
        warnings,
        maps: shards.maps,
        entries: shards.entries,
    };
    let layout = Layout {
        tied: Some(tied),
        attention_bias: Some(attention_bias),
    };
    Checkpoint::assemble(parts, family, layout).map_err(|e| e.in_file(folder))
}

/// The bytes of a file of at most `limit` bytes; `None` when there is none.
pub(crate) fn read_bounded(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, FormatError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(FormatError::io(path, e)),
    };
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|e| FormatError::io(path, e))?;
    if bytes.len() as u64 > limit {
        let rule = format!("the file has at most {limit} bytes");
        return Err(FormatError::damaged(Place::File, rule, "more").in_file(path));
    }
    Ok(Some(bytes))
}

/// `generation_config.json`; where there is none, the same keys of `config.json`.
fn read_generation(
    folder: &Path,
    config_path: &Path,
    config: &[u8],
) -> Result<crate::config::GenerationDefaults, FormatError> {
    let path = folder.join("generation_config.json");
    match read_bounded(&path, limits::CONFIG_BYTES_MAX)? {
        Some(bytes) => generation::parse(&bytes).map_err(|e| e.in_file(&path)),
        None => generation::parse(config).map_err(|e| e.in_file(config_path)),
    }
}

/// transformers multiplies in the embedding's dtype, so the scale is rounded to it first (`Gemma3TextScaledWordEmbedding`).
fn round_scale(scale: f32, entries: &[Entry]) -> f32 {
    match entries
        .iter()
        .find(|e| e.name == "token_embd.weight")
        .map(|e| e.format)
    {
        Some(Format::BF16) => bf16::from_f32(scale).to_f32(),
        Some(Format::F16) => f16::from_f32(scale).to_f32(),
        _ => scale,
    }
}

fn name_of(folder: &Path) -> String {
    let full = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    full.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// The weight files read so far.
struct Shards {
    family: &'static Family,
    multimodal: bool,
    maps: Vec<Map>,
    entries: Vec<Entry>,
}

impl Shards {
    fn read_all(
        &mut self,
        folder: &Path,
        weights: Option<&Path>,
        warnings: &mut Vec<String>,
    ) -> Result<(), FormatError> {
        let single = weights.map_or_else(|| folder.join("model.safetensors"), PathBuf::from);
        if single.exists() {
            return self.read(&single, |_, _| Ok(true));
        }
        let index_path = folder.join("model.safetensors.index.json");
        let Some(bytes) = read_bounded(&index_path, limits::SIDE_FILE_BYTES_MAX)? else {
            let rule = "the folder holds model.safetensors or model.safetensors.index.json";
            return Err(FormatError::missing(Place::File, rule)
                .in_file(folder)
                .advise("fetch the weights as safetensors (other kinds are never read)"));
        };
        let index = safetensors::parse_index(&bytes).map_err(|e| e.in_file(&index_path))?;
        self.read_shards(folder, &index, warnings)?;
        self.require_indexed(&index)
            .map_err(|e| e.in_file(&index_path))
    }

    fn read_shards(
        &mut self,
        folder: &Path,
        index: &Index,
        warnings: &mut Vec<String>,
    ) -> Result<(), FormatError> {
        for (i, file) in index.files.iter().enumerate() {
            self.read(&folder.join(file), |name, _| {
                match index.tensors.get(name) {
                    Some(shard) if *shard == i => Ok(true),
                    Some(_) => {
                        let rule = "a tensor lies in the shard that the index names";
                        Err(FormatError::damaged(Place::tensor(name), rule, file))
                    }
                    None => {
                        let shown = name.escape_debug();
                        warnings.push(format!("tensor {shown} is not in the index and not used"));
                        Ok(false)
                    }
                }
            })?;
        }
        Ok(())
    }

    /// Adds the tensors of one file that `wanted` accepts.
    fn read(
        &mut self,
        path: &Path,
        mut wanted: impl FnMut(&str, &Path) -> Result<bool, FormatError>,
    ) -> Result<(), FormatError> {
        let map = Map::open(path)?;
        let file = self.maps.len();
        for tensor in safetensors::parse(map.bytes()).map_err(|e| e.in_file(path))? {
            if !wanted(&tensor.name, path).map_err(|e| e.in_file(path))?
                || (self.multimodal && hf_names::is_vision(&tensor.name))
            {
                continue;
            }
            if self.entries.len() as u64 >= limits::TENSORS_MAX {
                let rule = format!("a model has at most {} tensors", limits::TENSORS_MAX);
                return Err(FormatError::damaged(Place::File, rule, "more").in_file(path));
            }
            // A name that means nothing here may have any element type and must not pass for a canonical one.
            let (name, format) = match hf_names::canonical(self.family, &tensor.name) {
                Some(name) => (name, tensor.format().map_err(|e| e.in_file(path))?),
                None => (format!("unmapped {}", tensor.name), Format::F32),
            };
            let safetensors::TensorInfo {
                name: stored,
                shape,
                span,
                ..
            } = tensor;
            self.entries.push(Entry {
                name,
                stored,
                format,
                shape,
                file,
                span,
            });
        }
        self.maps.push(map);
        Ok(())
    }

    fn require_indexed(&self, index: &Index) -> Result<(), FormatError> {
        let found: std::collections::HashSet<&str> =
            self.entries.iter().map(|e| e.stored.as_str()).collect();
        let lost = index
            .tensors
            .keys()
            .filter(|name| !(self.multimodal && hf_names::is_vision(name)))
            .filter(|name| !found.contains(name.as_str()))
            .min();
        match lost {
            None => Ok(()),
            Some(name) => Err(FormatError::missing(
                Place::tensor(name),
                "a tensor of the index is in its shard",
            )),
        }
    }
}
