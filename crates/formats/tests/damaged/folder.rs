//! A Hugging Face folder as plain data, so that a row can break one thing.

use serde_json::{Value, json};
use ucuz_formats::{Checkpoint, FormatError};

use super::common::{config, hf_tensors, safetensors_file};

/// The files of a folder, written as they stand.
pub struct Folder {
    pub config: Value,
    pub files: Vec<(&'static str, Vec<u8>)>,
}

impl Folder {
    pub fn valid() -> Self {
        let weights = safetensors_file(&hf_tensors());
        Self {
            config: config(),
            files: vec![("model.safetensors", weights)],
        }
    }

    pub fn put(&mut self, name: &'static str, bytes: impl Into<Vec<u8>>) {
        self.files.retain(|(n, _)| *n != name);
        self.files.push((name, bytes.into()));
    }

    pub fn set(&mut self, key: &str, value: Value) {
        self.config[key] = value;
    }

    pub fn remove(&mut self, key: &str) {
        self.config.as_object_mut().unwrap().remove(key);
    }

    /// Two shards, the embedding in the first.
    pub fn sharded(&mut self) {
        let tensors = hf_tensors();
        let (first, second) = tensors.split_at(1);
        self.files = vec![
            ("a.safetensors", safetensors_file(first)),
            ("b.safetensors", safetensors_file(second)),
        ];
        let map = |names: &[(String, Vec<usize>)], file: &str| -> Vec<(String, Value)> {
            names
                .iter()
                .map(|(n, _)| (n.clone(), json!(file)))
                .collect()
        };
        let all: serde_json::Map<String, Value> =
            [map(first, "a.safetensors"), map(second, "b.safetensors")]
                .concat()
                .into_iter()
                .collect();
        self.put(
            "model.safetensors.index.json",
            json!({ "weight_map": all }).to_string(),
        );
    }

    pub fn index(&mut self, map: Value) {
        self.sharded();
        self.put(
            "model.safetensors.index.json",
            json!({ "weight_map": map }).to_string(),
        );
    }

    pub fn open(&self) -> Result<Checkpoint, FormatError> {
        let folder = tempfile::tempdir().unwrap();
        if !self.config.is_null() {
            std::fs::write(folder.path().join("config.json"), self.config.to_string()).unwrap();
        }
        for (name, bytes) in &self.files {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        Checkpoint::open(folder.path())
    }
}
