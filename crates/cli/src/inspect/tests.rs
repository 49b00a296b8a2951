//! Reports of the tiny checkpoints.

use std::path::Path;

use serde_json::{Value, json};
use ucuz_formats::Checkpoint;
use ucuz_tensor::reference::ReferenceBackend;

use super::sizes::{Serving, Sizes};
use super::{json, text};

const ALL: [&str; 9] = [
    "tiny/gemma3-pattern",
    "tiny/llama-gqa",
    "tiny/llama-linear-rope-f16",
    "tiny/llama3-rope",
    "tiny/mistral-bf16",
    "tiny/mistral-window",
    "tiny/qwen2",
    "tiny-gguf/llama-gqa-mixed/model.gguf",
    "tiny-gguf/llama3-rope-f32/model.gguf",
];

fn open(name: &str) -> Checkpoint {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    Checkpoint::open(&golden.join(name)).expect("a golden checkpoint")
}

fn reports(name: &str) -> (String, Value) {
    let checkpoint = open(name);
    let sizes = Sizes::of(&checkpoint);
    let serving = Serving::of(&checkpoint, &ReferenceBackend::new(1), 4, 32);
    let text =
        text::report(&checkpoint, (&sizes, serving), true).expect("a string takes everything");
    (text, json::report(&checkpoint, &sizes, serving))
}

#[test]
fn text_holds_words_and_no_debug_output() {
    for name in ALL {
        let (text, _) = reports(name);
        for leak in ["None", "Some(", "null", "{", "}", "\"", "[", "inf"] {
            assert!(!text.contains(leak), "{name}: {leak:?} in\n{text}");
        }
        for line in [
            "KV bytes/token",
            "memory to serve",
            "rope ",
            "tokenizer ",
            "defaults ",
            "format ",
        ] {
            assert!(text.contains(line), "{name}: no {line:?} in\n{text}");
        }
    }
}

#[test]
fn columns_of_the_format_table_end_at_the_same_place() {
    let (text, json) = reports("tiny-gguf/llama-gqa-mixed/model.gguf");
    let mut lines = text.lines().skip_while(|line| !line.starts_with("format "));
    let header = lines.next().expect("a header").len();
    let rows: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    assert_eq!(Some(rows.len()), json["formats"].as_array().map(Vec::len));
    assert!(rows.len() > 1, "{text}");
    for row in rows {
        assert_eq!(row.len(), header, "{text}");
        assert_eq!(row.split_whitespace().count(), 8, "sizes have units: {row}");
    }
}

#[test]
fn rope_is_null_or_an_object_and_local_bases_are_named() {
    let rope = |name: &str| {
        let (text, report) = reports(name);
        let line = text.lines().find(|line| line.starts_with("rope "));
        let line = line.expect("a line of its own").to_owned();
        (
            line,
            report["rope_scaling"].clone(),
            report["rope_local"].clone(),
        )
    };
    let (line, scaling, local) = rope("tiny/qwen2");
    assert!(line.ends_with("no scaling"), "{line}");
    assert_eq!((scaling, local), (Value::Null, Value::Null));

    let (line, scaling, _) = rope("tiny/llama-linear-rope-f16");
    assert!(line.contains("positions divided by"), "{line}");
    assert_eq!(scaling["kind"], json!("linear"));

    let (line, scaling, _) = rope("tiny/llama3-rope");
    assert!(line.contains("Llama 3"), "{line}");
    assert_eq!(scaling["kind"], json!("llama3"));

    let (line, scaling, _) = rope("tiny-gguf/llama3-rope-f32/model.gguf");
    assert!(line.contains("frequencies divided by"), "{line}");
    assert_eq!(scaling["kind"], json!("factors"));

    let (line, _, local) = rope("tiny/gemma3-pattern");
    assert!(line.contains("in sliding layers theta"), "{line}");
    assert!(local["theta"].is_f64(), "{local}");
}

#[test]
fn totals_are_the_sums_of_the_tensors() {
    for name in ALL {
        let checkpoint = open(name);
        let sizes = Sizes::of(&checkpoint);
        let stored: u64 = sizes.tensors.iter().map(|t| t.total.stored_bytes).sum();
        assert_eq!(sizes.total.stored_bytes, stored, "{name}");
        assert_eq!(sizes.total.tensors as usize, sizes.tensors.len(), "{name}");
    }
}

#[test]
fn what_serving_takes_is_weights_and_workspace_and_grows_with_the_step() {
    let (_, report) = reports("tiny/qwen2");
    let serving = &report["serving"];
    let bytes = |value: &Value| value.as_u64().expect("bytes");
    assert_eq!(
        bytes(&serving["bytes_before_kv"]),
        bytes(&report["resident_bytes"]) + bytes(&serving["workspace_bytes"])
    );
    let checkpoint = open("tiny/qwen2");
    let with = |step| Serving::of(&checkpoint, &ReferenceBackend::new(1), 4, step);
    assert!(with(64).workspace_bytes > with(32).workspace_bytes);
}
