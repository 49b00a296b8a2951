//! Damage to GGUF headers and tensor tables.

use super::Row;
use super::common::array;

pub const HEADERS: &[Row] = &[
    ("empty file", |f| f.keep = Some(0), "at least one byte"),
    ("two bytes", |f| f.keep = Some(2), "the magic needs 4 bytes"),
    ("other magic", |f| f.magic = *b"GGML", "starts with GGUF"),
    (
        "ends in the version",
        |f| f.keep = Some(6),
        "the version needs 4 bytes",
    ),
    ("version 0", |f| f.version = 0, "versions 2 and 3"),
    ("version 1", |f| f.version = 1, "version 1 is not read"),
    ("version 4", |f| f.version = 4, "versions 2 and 3"),
    (
        "big-endian",
        |f| f.version = 3u32.swap_bytes(),
        "big-endian",
    ),
    (
        "ends in the counts",
        |f| f.keep = Some(12),
        "number of tensors needs",
    ),
    (
        "tensor count wraps",
        |f| f.tensor_count = Some(u64::MAX),
        "at most 65536 tensors",
    ),
    (
        "key count wraps",
        |f| f.key_count = Some(u64::MAX / 8),
        "at most 65536 keys",
    ),
    (
        "tensor count beyond the file",
        |f| f.tensor_count = Some(65_000),
        "take at least 33 bytes",
    ),
    (
        "key count beyond the file",
        |f| f.key_count = Some(65_000),
        "take at least 14 bytes",
    ),
    (
        "empty key",
        |f| f.keys[0].0.clear(),
        "a metadata key is not empty",
    ),
    (
        "long key",
        |f| f.keys[0].0 = vec![b'k'; 1025],
        "a metadata key has at most 1024",
    ),
    (
        "key not UTF-8",
        |f| f.keys[0].0 = vec![0xff],
        "a metadata key is UTF-8",
    ),
    (
        "key twice",
        |f| f.keys.push(f.keys[0].clone()),
        "a key appears once",
    ),
    (
        "value type 13",
        |f| f.keys[0].1 = 13,
        "a value type is one of 0 to 12",
    ),
    ("bool of 2", |f| f.set("x", 7, vec![2]), "a bool is 0 or 1"),
    (
        "string length wraps",
        |f| f.set("x", 8, u64::MAX.to_le_bytes().into()),
        "a metadata string has at most",
    ),
    (
        "string beyond the file",
        |f| f.set("x", 8, (1u64 << 23).to_le_bytes().into()),
        "the file ends before",
    ),
    (
        "array length wraps",
        |f| f.set("x", 9, array(0, u64::MAX, b"")),
        "elements lie in the",
    ),
    (
        "u64 array wraps",
        |f| f.set("x", 9, array(10, 1 << 61, b"")),
        "elements lie in the",
    ),
    (
        "string array wraps",
        |f| f.set("x", 9, array(8, 1 << 40, b"")),
        "elements lie in the",
    ),
    (
        "array array wraps",
        |f| f.set("x", 9, array(9, 1 << 40, b"")),
        "elements lie in the",
    ),
    (
        "array of type 99",
        |f| f.set("x", 9, array(99, 1, b"")),
        "a value type is one of",
    ),
    (
        "bool array of 7",
        |f| f.set("x", 9, array(7, 1, &[7])),
        "a bool is 0 or 1",
    ),
    (
        "array nested deep",
        |f| f.set("x", 9, array(9, 1, &nested(9))),
        "nest at most 4 deep",
    ),
    (
        "alignment 0",
        |f| f.u32("general.alignment", 0),
        "power of two from 8",
    ),
    (
        "alignment 3",
        |f| f.u32("general.alignment", 3),
        "power of two from 8",
    ),
    (
        "alignment 4",
        |f| f.u32("general.alignment", 4),
        "power of two from 8",
    ),
    (
        "alignment 2^31",
        |f| f.u32("general.alignment", 1 << 31),
        "power of two from 8",
    ),
    (
        "alignment text",
        |f| f.text("general.alignment", "32"),
        "a non-negative integer",
    ),
];

fn nested(depth: u32) -> Vec<u8> {
    if depth == 0 {
        array(0, 0, b"")
    } else {
        array(9, 1, &nested(depth - 1))
    }
}

const Q: &str = "blk.0.attn_q.weight";

pub const TENSORS: &[Row] = &[
    (
        "0 dimensions",
        |f| f.tensor(Q).dim_count = Some(0),
        "1 to 4 dimensions",
    ),
    (
        "5 dimensions",
        |f| f.tensor(Q).dims = vec![1; 5],
        "1 to 4 dimensions",
    ),
    (
        "2^32-1 dimensions",
        |f| f.tensor(Q).dim_count = Some(u32::MAX),
        "1 to 4 dimensions",
    ),
    (
        "dimension 0",
        |f| f.tensor(Q).dims[1] = 0,
        "every dimension is at least 1",
    ),
    (
        "row wraps",
        |f| f.tensor(Q).dims[0] = 1 << 62,
        "fits 63 bits",
    ),
    (
        "product wraps",
        |f| f.tensor(Q).dims = vec![1 << 31; 3],
        "fits 63 bits",
    ),
    (
        "product wraps to 0",
        |f| f.tensor(Q).dims = vec![1 << 32, 1 << 30],
        "fits 63 bits",
    ),
    (
        "type IQ2_XXS",
        |f| f.tensor(Q).type_id = 16,
        "type IQ2_XXS is not read",
    ),
    (
        "type TQ1_0",
        |f| f.tensor(Q).type_id = 34,
        "type TQ1_0 is not read",
    ),
    (
        "type I32",
        |f| f.tensor(Q).type_id = 26,
        "type I32 is not read",
    ),
    (
        "type 4000000000",
        |f| f.tensor(Q).type_id = 4_000_000_000,
        "unknown type is not read",
    ),
    (
        "32 columns of Q4_K",
        |f| f.tensor(Q).type_id = 12,
        "whole number of 256-element",
    ),
    (
        "offset of 1",
        |f| f.tensor(Q).offset = Some(1),
        "multiples of the alignment 32",
    ),
    (
        "offset wraps",
        |f| f.tensor(Q).offset = Some(u64::MAX - 31),
        "lies in the file",
    ),
    (
        "offset beyond",
        |f| f.tensor(Q).offset = Some(1 << 20),
        "lies in the file",
    ),
    (
        "one byte short",
        |f| f.keep = Some(f.encode().len() - 1),
        "lies in the file",
    ),
    (
        "no data at all",
        |f| f.keep = Some(f.encode().len() - 31_000),
        "lies in the file",
    ),
    (
        "overlap",
        |f| f.tensor(Q).offset = Some(0),
        "tensors do not overlap",
    ),
    (
        "tensor twice",
        |f| f.tensor(Q).name = "blk.0.attn_k.weight".into(),
        "a tensor appears once",
    ),
    (
        "empty name",
        |f| f.tensor(Q).name.clear(),
        "a tensor name is not empty",
    ),
    (
        "long name",
        |f| f.tensor(Q).name = "n".repeat(256),
        "a tensor name has at most 255",
    ),
    (
        "no embedding",
        |f| f.tensors[0].name = "other".into(),
        "the model has an embedding",
    ),
    (
        "missing tensor",
        |f| f.tensors.retain(|t| t.name != Q),
        "a llama model has this tensor",
    ),
    (
        "transposed",
        |f| f.tensor("blk.0.attn_k.weight").dims = vec![16, 32],
        "implies the shape",
    ),
    (
        "flat matrix",
        |f| f.tensor(Q).dims = vec![1024],
        "implies the shape",
    ),
    (
        "quantised norm",
        |f| {
            let norm = f.tensor("output_norm.weight");
            (norm.type_id, norm.bytes) = (8, vec![0; 34]);
        },
        "norms and biases are stored as floats",
    ),
    (
        "foreign bias",
        |f| f.add("blk.0.ffn_gate.bias", &[64]),
        "would change results",
    ),
    (
        "foreign norm",
        |f| f.add("blk.0.attn_q_norm.weight", &[16]),
        "would change results",
    ),
    (
        "rope factors short",
        |f| f.add("rope_freqs.weight", &[7]),
        "one factor for each of 8",
    ),
    (
        "rope factors of 0",
        |f| f.add("rope_freqs.weight", &[8]),
        "positive and finite",
    ),
    (
        "rope factor matrix",
        |f| f.add("rope_freqs.weight", &[4, 2]),
        "a vector of F32",
    ),
    (
        "rope factors huge",
        |f| f.add("rope_freqs.weight", &[4096]),
        "at most 1024 rope factors",
    ),
];
