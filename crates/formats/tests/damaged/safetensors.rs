//! Damage to safetensors files and shard indexes.

use serde_json::json;

use super::FolderRow;
use super::common::{hf_tensors, safetensors_file, with_header};
use super::folder::Folder;

fn weights(folder: &mut Folder, header: &str, data: usize) {
    folder.put("model.safetensors", with_header(header, data));
}

pub const FILES: &[FolderRow] = &[
    (
        "empty",
        |f| f.put("model.safetensors", b""),
        "at least one byte",
    ),
    (
        "five bytes",
        |f| f.put("model.safetensors", b"12345"),
        "8 bytes of header length",
    ),
    (
        "header wraps",
        |f| f.put("model.safetensors", [255; 64]),
        "at most 26214400 bytes",
    ),
    (
        "header beyond the file",
        |f| f.put("model.safetensors", [1, 1, 1, 0, 0, 0, 0, 0, b'{']),
        "the header lies in the file",
    ),
    (
        "not an object",
        |f| weights(f, "[1, 2]", 0),
        "starts with {",
    ),
    ("cut JSON", |f| weights(f, r#"{"a":"#, 0), "JSON of tensors"),
    (
        "entry is a number",
        |f| weights(f, r#"{"a":1}"#, 0),
        "JSON of tensors",
    ),
    (
        "name twice",
        |f| {
            let entry = r#""a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}"#;
            weights(f, &format!("{{{entry},{entry}}}"), 4);
        },
        "appears twice",
    ),
    (
        "unknown key in an entry",
        |f| {
            weights(
                f,
                r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}}"#,
                4,
            )
        },
        "unknown field",
    ),
    (
        "unknown element type",
        |f| {
            weights(
                f,
                r#"{"a":{"dtype":"Q7","shape":[1],"data_offsets":[0,4]}}"#,
                4,
            )
        },
        "element type is one of the format",
    ),
    (
        "offsets reversed",
        |f| {
            weights(
                f,
                r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}"#,
                4,
            )
        },
        "without gap or overlap",
    ),
    (
        "gap",
        |f| {
            weights(
                f,
                r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#,
                8,
            )
        },
        "without gap or overlap",
    ),
    (
        "overlap",
        |f| {
            let entry = r#"{"dtype":"F32","shape":[2],"data_offsets""#;
            weights(
                f,
                &format!(r#"{{"a":{entry}:[0,8]}},"b":{entry}:[4,12]}}}}"#),
                12,
            );
        },
        "without gap or overlap",
    ),
    (
        "beyond the end",
        |f| {
            weights(
                f,
                r#"{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}}"#,
                8,
            )
        },
        "lies in the 8 bytes of data",
    ),
    (
        "end wraps",
        |f| {
            let end = u64::MAX;
            weights(
                f,
                &format!(r#"{{"a":{{"dtype":"U8","shape":[{end}],"data_offsets":[0,{end}]}}}}"#),
                8,
            );
        },
        "lies in the 8 bytes of data",
    ),
    (
        "size differs from shape",
        |f| {
            weights(
                f,
                r#"{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}"#,
                8,
            )
        },
        "takes 12 bytes",
    ),
    (
        "shape wraps",
        |f| {
            let n = u64::MAX;
            let shape = format!("[{n},{n},{n}]");
            weights(
                f,
                &format!(r#"{{"a":{{"dtype":"F32","shape":{shape},"data_offsets":[0,4]}}}}"#),
                4,
            );
        },
        "whole number of bytes",
    ),
    (
        "half a byte",
        |f| {
            weights(
                f,
                r#"{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}}"#,
                1,
            )
        },
        "whole number of bytes",
    ),
    (
        "negative dimension",
        |f| {
            weights(
                f,
                r#"{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}"#,
                4,
            )
        },
        "JSON of tensors",
    ),
    (
        "nine dimensions",
        |f| {
            weights(
                f,
                r#"{"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}}"#,
                1,
            );
        },
        "9 dimensions, at most 8",
    ),
    (
        "bytes left over",
        |f| {
            weights(
                f,
                r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#,
                5,
            )
        },
        "tensors cover the 5 bytes",
    ),
    (
        "deep metadata",
        |f| {
            let deep = "[".repeat(100_000);
            weights(f, &format!(r#"{{"__metadata__":{deep}"#), 0);
        },
        "EOF while parsing a list",
    ),
    (
        "no tensors",
        |f| weights(f, "{}", 0),
        "a llama model has this tensor",
    ),
    (
        "integer weight",
        |f| {
            let name = "model.norm.weight";
            let entry = r#"{"dtype":"I8","shape":[32],"data_offsets":[0,32]}"#;
            weights(f, &format!(r#"{{"{name}":{entry}}}"#), 32);
        },
        "weights are F32, F16 or BF16, found I8",
    ),
    (
        "two names of one tensor",
        |f| {
            let mut all = hf_tensors();
            all.push(("norm.weight".into(), vec![32]));
            f.put("model.safetensors", safetensors_file(&all));
        },
        "two stored tensors mean output_norm.weight",
    ),
    (
        "canonical name passes for nothing",
        |f| {
            let mut all = hf_tensors();
            all[1].0 = "output_norm.weight".into();
            f.put("model.safetensors", safetensors_file(&all));
        },
        "tensor output_norm.weight: a llama model has this tensor",
    ),
    (
        "too many rows",
        |f| {
            let mut all = hf_tensors();
            all[0].1 = vec![9, 32];
            f.put("model.safetensors", safetensors_file(&all));
        },
        "implies the shape [8, 32]",
    ),
    (
        "no weights",
        |f| f.files.clear(),
        "model.safetensors.index.json",
    ),
];

const NAME: &str = "model.norm.weight";

pub const INDEXES: &[FolderRow] = &[
    (
        "not JSON",
        |f| {
            f.sharded();
            f.put("model.safetensors.index.json", "{");
        },
        "a shard index is JSON",
    ),
    ("a list", |f| f.index(json!([1])), "a shard index is JSON"),
    (
        "numbers",
        |f| f.index(json!({ NAME: 1 })),
        "a shard index is JSON",
    ),
    ("empty", |f| f.index(json!({})), "1 to 1024 shards"),
    (
        "parent",
        |f| f.index(json!({ NAME: "../b.safetensors" })),
        "plain *.safetensors name",
    ),
    (
        "absolute",
        |f| f.index(json!({ NAME: "/b.safetensors" })),
        "plain *.safetensors name",
    ),
    (
        "folder",
        |f| f.index(json!({ NAME: "x/b.safetensors" })),
        "plain *.safetensors name",
    ),
    (
        "backslash",
        |f| f.index(json!({ NAME: "..\\b.safetensors" })),
        "plain *.safetensors",
    ),
    (
        "hidden",
        |f| f.index(json!({ NAME: ".b.safetensors" })),
        "plain *.safetensors name",
    ),
    (
        "NUL",
        |f| f.index(json!({ NAME: "b\0.safetensors" })),
        "plain *.safetensors name",
    ),
    (
        "pickle",
        |f| f.index(json!({ NAME: "b.bin" })),
        "plain *.safetensors name",
    ),
    (
        "absent shard",
        |f| f.index(json!({ NAME: "c.safetensors" })),
        "c.safetensors",
    ),
    (
        "wrong shard",
        |f| f.index(json!({ NAME: "a.safetensors", "model.embed_tokens.weight": "b.safetensors" })),
        "the shard that the index names",
    ),
    (
        "absent tensor",
        |f| f.index(json!({ "model.other.weight": "a.safetensors" })),
        "a tensor of the index is in its shard",
    ),
    (
        "name twice",
        |f| {
            f.sharded();
            let pair = r#""a":"a.safetensors""#;
            f.put(
                "model.safetensors.index.json",
                format!(r#"{{"weight_map":{{{pair},{pair}}}}}"#),
            );
        },
        "appears twice",
    ),
];
