//! safetensors: the header, the shard index, and both opened beside the configuration of a tiny model.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use ucuz_formats::{Checkpoint, safetensors};
use ucuz_fuzz::{bounded, check_error, put, scratch};

const CONFIG: &[u8] = include_bytes!("../seeds/config/llama.json");
const SHARD: &[u8] = include_bytes!("../seeds/safetensors/llama.safetensors");

static FOLDERS: LazyLock<[tempfile::TempDir; 2]> = LazyLock::new(|| {
    let folders = [scratch(), scratch()];
    folders
        .iter()
        .for_each(|folder| put(&folder.path().join("config.json"), CONFIG));
    put(
        &folders[1].path().join("model-00001-of-00001.safetensors"),
        SHARD,
    );
    folders
});

fuzz_target!(|data: &[u8]| {
    LazyLock::force(&FOLDERS);
    bounded(data.len(), || {
        read_header(data);
        read_index(data);
    });
});

fn read_header(data: &[u8]) {
    let tensors = match safetensors::parse(data) {
        Ok(tensors) => tensors,
        Err(error) => return check_error(&error),
    };
    for tensor in &tensors {
        assert!(tensor.span.start <= tensor.span.end && tensor.span.end <= data.len());
        tensor.format().map_or_else(|e| check_error(&e), drop);
    }
    open("model.safetensors", &FOLDERS[0], data);
}

fn read_index(data: &[u8]) {
    match safetensors::parse_index(data) {
        Ok(index) => {
            assert!(index.tensors.values().all(|file| *file < index.files.len()));
            assert!(index.files.iter().all(|file| !file.contains(['/', '\\'])));
        }
        Err(error) => return check_error(&error),
    }
    open("model.safetensors.index.json", &FOLDERS[1], data);
}

fn open(name: &str, folder: &tempfile::TempDir, data: &[u8]) {
    put(&folder.path().join(name), data);
    match Checkpoint::open(folder.path()) {
        Ok(checkpoint) => checkpoint
            .tensors()
            .for_each(|tensor| assert!(!tensor.bytes.is_empty())),
        Err(error) => check_error(&error),
    }
}
