//! What a hub repository holds, and which of its files make up the model.
//!
//! Pure: JSON bytes in, a choice out. Names from the list that break the character rules of
//! `reference` are dropped at this door, so a chosen name may be joined to a path or a URL.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::digest::is_sha256;
use super::reference::{check_file, check_part, is_gguf};

/// The most files of a repository that are looked at.
const FILES_MAX: usize = 20_000;
/// The most shards of one model.
const SHARDS_MAX: usize = 1_000;
/// The index of a sharded model.
pub const SHARD_INDEX: &str = "model.safetensors.index.json";
/// The one weight file of a model that is not sharded.
const SINGLE_WEIGHTS: &str = "model.safetensors";
/// Brought beside the weights where present; the first must be.
const COMPANIONS: [&str; 5] = [
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
    "chat_template.jinja",
];

/// The list of a repository at one commit.
#[derive(Debug)]
pub struct Listing {
    /// The commit the list belongs to, if the hub says it: 40 hex digits.
    pub commit: Option<String>,
    /// The files with allowed names.
    pub files: Vec<Listed>,
}

/// One file of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Path in the repository.
    pub name: String,
    /// Size in bytes, if the hub says it.
    pub size_bytes: Option<u64>,
    /// SHA-256, if the hub says it (large files only).
    pub sha256: Option<String>,
}

/// What to bring.
#[derive(Debug, PartialEq, Eq)]
pub enum Choice {
    /// One GGUF file.
    Gguf(Listed),
    /// Config, tokenizer and, unless an index must be read first, weights.
    Safetensors {
        /// Files to bring in any case.
        files: Vec<Listed>,
        /// Whether the weights are those named by `SHARD_INDEX`, which is among `files`.
        sharded: bool,
    },
}

impl Listing {
    /// Reads the answer of `/api/models/{repo}`.
    ///
    /// # Errors
    /// Not the JSON of a hub, or too many files.
    pub fn parse(json: &[u8]) -> Result<Self> {
        let raw: RawListing =
            serde_json::from_slice(json).context("the hub's list is not its JSON")?;
        let num_files = raw.siblings.len();
        ensure!(
            num_files <= FILES_MAX,
            "the repository has {num_files} files, limit {FILES_MAX}"
        );
        let allowed = raw
            .siblings
            .into_iter()
            .filter(|file| check_file(&file.rfilename).is_ok());
        let is_commit =
            |sha: &String| sha.len() == 40 && sha.bytes().all(|b| b.is_ascii_hexdigit());
        Ok(Self {
            commit: raw.sha.filter(is_commit),
            files: allowed.map(Listed::from).collect(),
        })
    }

    /// The listed file of that name.
    pub fn find(&self, name: &str) -> Option<&Listed> {
        self.files.iter().find(|file| file.name == name)
    }

    /// Picks the files of the model: the named GGUF; else the only GGUF, else the only one with
    /// `Q4_K_M` in its name; else the safetensors set.
    ///
    /// # Errors
    /// No such file, several GGUFs to choose from (listed), no model at all.
    pub fn choose(&self, named: Option<&str>) -> Result<Choice> {
        let ggufs: Vec<&Listed> = self
            .files
            .iter()
            .filter(|file| is_model_gguf(&file.name))
            .collect();
        if let Some(name) = named {
            let Some(file) = self.find(name) else {
                bail!("the repository has no file \"{name}\"{}", offer(&ggufs));
            };
            ensure!(
                !is_split(name),
                "{name} is one piece of a split GGUF; those are not supported"
            );
            return Ok(Choice::Gguf(file.clone()));
        }
        if let [only] = ggufs.as_slice() {
            return Ok(Choice::Gguf((*only).clone()));
        }
        let is_q4_k_m = |file: &&&Listed| file.name.to_ascii_lowercase().contains("q4_k_m");
        let medium: Vec<&&Listed> = ggufs.iter().filter(is_q4_k_m).collect();
        if let [only] = medium.as_slice() {
            return Ok(Choice::Gguf((**only).clone()));
        }
        ensure!(
            ggufs.is_empty(),
            "the repository has {} GGUF files and not exactly one Q4_K_M; name one{}",
            ggufs.len(),
            offer(&ggufs)
        );
        self.choose_safetensors()
    }

    fn choose_safetensors(&self) -> Result<Choice> {
        let is_there = |name: &str| self.find(name).is_some();
        let weights = [SINGLE_WEIGHTS, SHARD_INDEX]
            .into_iter()
            .find(|name| is_there(name));
        let (Some(weights), true) = (weights, is_there(COMPANIONS[0])) else {
            bail!(
                "the repository holds no model: neither a .gguf nor config.json with {SINGLE_WEIGHTS} or \
                 {SHARD_INDEX}{}",
                if self.files.iter().any(|f| is_split(&f.name)) {
                    " (split GGUFs are not supported)"
                } else {
                    ""
                }
            );
        };
        let names = COMPANIONS.into_iter().chain([weights]);
        let files = names.filter_map(|name| self.find(name).cloned()).collect();
        Ok(Choice::Safetensors {
            files,
            sharded: weights == SHARD_INDEX,
        })
    }

    /// The shards named by an index, each listed.
    ///
    /// # Errors
    /// Not an index, a shard with a name that is not allowed or not listed, too many.
    pub fn shards(&self, index_json: &[u8]) -> Result<Vec<Listed>> {
        let index: RawIndex = serde_json::from_slice(index_json)
            .with_context(|| format!("{SHARD_INDEX} is damaged"))?;
        let names: BTreeSet<&str> = index.weight_map.values().map(String::as_str).collect();
        let num_shards = names.len();
        ensure!(num_shards > 0, "{SHARD_INDEX} names no shard");
        ensure!(
            num_shards <= SHARDS_MAX,
            "{SHARD_INDEX} names {num_shards} shards, limit {SHARDS_MAX}"
        );
        let find = |name: &&str| {
            check_part("shard", name)?;
            ensure!(
                name.ends_with(".safetensors"),
                "shard \"{name}\" is not a .safetensors file"
            );
            self.find(name)
                .cloned()
                .with_context(|| format!("shard \"{name}\" is not in the repository"))
        };
        names.iter().map(find).collect()
    }
}

/// A whole model: neither a piece of a split file nor a vision projector.
fn is_model_gguf(name: &str) -> bool {
    is_gguf(name) && !is_split(name) && !name.to_ascii_lowercase().contains("mmproj")
}

/// Pieces are named `...-00001-of-00003.gguf`.
fn is_split(name: &str) -> bool {
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit());
    let stem = name.get(..name.len().saturating_sub(5)).unwrap_or_default();
    let mut words = stem.rsplitn(4, '-');
    is_gguf(name)
        && words.next().is_some_and(is_number)
        && words.next() == Some("of")
        && words.next().is_some_and(is_number)
}

/// ": a, b, c" of at most thirty names.
fn offer(files: &[&Listed]) -> String {
    let names: Vec<&str> = files
        .iter()
        .take(30)
        .map(|file| file.name.as_str())
        .collect();
    if names.is_empty() {
        String::new()
    } else {
        format!(": {}", names.join(", "))
    }
}

#[derive(Deserialize)]
struct RawListing {
    sha: Option<String>,
    #[serde(default)]
    siblings: Vec<RawFile>,
}

#[derive(Deserialize)]
struct RawFile {
    rfilename: String,
    size: Option<u64>,
    lfs: Option<RawLfs>,
}

#[derive(Deserialize)]
struct RawLfs {
    sha256: Option<String>,
    size: Option<u64>,
}

impl From<RawFile> for Listed {
    fn from(raw: RawFile) -> Self {
        let (size, sha256) = raw.lfs.map_or((None, None), |lfs| (lfs.size, lfs.sha256));
        let sha256 = sha256
            .map(|sha256| sha256.to_ascii_lowercase())
            .filter(|s| is_sha256(s));
        Self {
            name: raw.rfilename,
            size_bytes: size.or(raw.size),
            sha256,
        }
    }
}

#[derive(Deserialize)]
struct RawIndex {
    weight_map: BTreeMap<String, String>,
}
