//! `model.safetensors.index.json`: which shard holds which tensor.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use crate::error::{FormatError, Place};
use crate::limits;

/// The index, its file names checked to be plain names inside the folder.
#[derive(Debug, PartialEq)]
pub struct Index {
    /// Shards, each once, in name order.
    pub files: Vec<String>,
    /// Tensor to position in `files`.
    pub tensors: HashMap<String, usize>,
}

#[derive(Deserialize)]
struct Raw {
    weight_map: WeightMap,
}

struct WeightMap(Vec<(String, String)>);

/// Reads the index.
///
/// # Errors
/// [`FormatError::Damaged`] for bytes that are not such an index, names given twice, more tensors or shards than allowed,
/// and shard names that are not plain `*.safetensors` names.
pub fn parse_index(bytes: &[u8]) -> Result<Index, FormatError> {
    if bytes.len() as u64 > limits::SIDE_FILE_BYTES_MAX {
        let rule = format!("an index has at most {} bytes", limits::SIDE_FILE_BYTES_MAX);
        return Err(FormatError::damaged(Place::File, rule, bytes.len()));
    }
    let raw: Raw = serde_json::from_slice(bytes).map_err(|e| {
        let rule = format!("a shard index is JSON with a weight_map of names: {e}");
        FormatError::damaged(Place::key("weight_map"), rule, "")
    })?;
    let files: BTreeSet<&str> = raw
        .weight_map
        .0
        .iter()
        .map(|(_, file)| file.as_str())
        .collect();
    if files.is_empty() || files.len() > limits::SHARDS_MAX {
        let rule = format!("a model has 1 to {} shards", limits::SHARDS_MAX);
        return Err(FormatError::damaged(
            Place::key("weight_map"),
            rule,
            files.len(),
        ));
    }
    if let Some(file) = files.iter().find(|file| !is_plain(file)) {
        let rule = "a shard is a plain *.safetensors name in the same folder";
        return Err(FormatError::damaged(Place::key("weight_map"), rule, file));
    }
    let files: Vec<String> = files.into_iter().map(str::to_owned).collect();
    let position: HashMap<&str, usize> = files
        .iter()
        .enumerate()
        .map(|(i, file)| (file.as_str(), i))
        .collect();
    let pairs = raw.weight_map.0.into_iter();
    let tensors = pairs
        .filter_map(|(name, file)| Some((name, *position.get(file.as_str())?)))
        .collect();
    Ok(Index { files, tensors })
}

/// Only letters, digits, `.`, `-`, `_`; no leading dot: no separator, drive, stream or parent can be spelled.
fn is_plain(file: &str) -> bool {
    file.len() <= 255
        && file.ends_with(".safetensors")
        && !file.starts_with('.')
        && !file.contains("..")
        && file
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

impl<'de> Deserialize<'de> for WeightMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Pairs)
    }
}

struct Pairs;

impl<'de> Visitor<'de> for Pairs {
    type Value = WeightMap;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of file names")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WeightMap, A::Error> {
        let mut names = std::collections::HashSet::new();
        let mut pairs = Vec::new();
        while let Some((name, file)) = map.next_entry::<String, String>()? {
            if !names.insert(name.clone()) {
                return Err(A::Error::custom(format!("{name:?} appears twice")));
            }
            if pairs.len() as u64 >= limits::TENSORS_MAX {
                let text = format!("a model has at most {} tensors", limits::TENSORS_MAX);
                return Err(A::Error::custom(text));
            }
            pairs.push((name, file));
        }
        Ok(WeightMap(pairs))
    }
}
