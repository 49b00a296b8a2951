//! A small safetensors writer for tests and tools.

use serde_json::{Map, Value, json};
use ucuz_tensor::Format;

/// A file with these tensors: name, format (F32, F16 or BF16), shape, bytes (their number is not checked).
pub fn write(tensors: &[(&str, Format, &[usize], &[u8])]) -> Vec<u8> {
    let mut header = Map::new();
    let mut data = Vec::new();
    for (name, format, shape, bytes) in tensors {
        let start = data.len();
        data.extend_from_slice(bytes);
        let offsets = [start, data.len()];
        let entry: Value =
            json!({ "dtype": format.info().name, "shape": shape, "data_offsets": offsets });
        header.insert((*name).to_owned(), entry);
    }
    let mut json = Value::Object(header).to_string().into_bytes();
    while !json.len().is_multiple_of(8) {
        json.push(b' ');
    }
    let mut out = (json.len() as u64).to_le_bytes().to_vec();
    out.extend(json);
    out.extend(data);
    out
}
