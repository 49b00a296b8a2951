//! GGUF: container, metadata as a model, vocabulary, templates, and the file opened as a checkpoint.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use ucuz_formats::config::TokenizerSource;
use ucuz_formats::{Checkpoint, generation, gguf};
use ucuz_fuzz::{bounded, check_error, put, scratch};

static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(scratch);

fuzz_target!(|data: &[u8]| {
    LazyLock::force(&FOLDER);
    bounded(data.len(), || read(data));
});

fn read(data: &[u8]) {
    let file = match gguf::parse(data) {
        Ok(file) => file,
        Err(error) => return check_error(&error),
    };
    for tensor in &file.tensors {
        assert!(tensor.span.start <= tensor.span.end && tensor.span.end <= data.len());
    }
    for (key, value) in file.keys() {
        assert!(file.get(key).is_some() && !value.kind().is_empty());
        if let gguf::Value::Array(array) = value {
            let counted = array.strings().map(Iterator::count);
            assert!(counted.is_none_or(|counted| counted == array.len), "{key}");
        }
    }
    let config = file.model_config(data).map_err(|e| check_error(&e));
    match file.tokenizer() {
        Ok(TokenizerSource::Gguf(vocab)) => assert!(!vocab.tokens.is_empty()),
        Ok(_) => {}
        Err(error) => check_error(&error),
    }
    generation::of_gguf(&file).map_or_else(|e| check_error(&e), drop);
    if config.is_ok() {
        open(data);
    }
}

/// All that a loader relies on afterwards: tensors named once, their bytes as their shapes say.
fn open(data: &[u8]) {
    let path = FOLDER.path().join("model.gguf");
    put(&path, data);
    let checkpoint = match Checkpoint::open(&path) {
        Ok(checkpoint) => checkpoint,
        Err(error) => return check_error(&error),
    };
    for tensor in checkpoint.tensors() {
        let (cols, rows) = tensor.shape.split_last().expect("a tensor has a dimension");
        let row = tensor.format.row_bytes(*cols).expect("whole blocks");
        assert_eq!(tensor.bytes.len(), row * rows.iter().product::<usize>());
        assert!(checkpoint.require(tensor.name).is_ok());
    }
    checkpoint.summary();
}
