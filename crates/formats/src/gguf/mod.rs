//! GGUF: the container (v2, v3, little-endian), its metadata, its tensor table.
//!
//! Here: [`parse`] over plain bytes, a [`Writer`] for tests and tools, and what metadata says of a model
//! ([`config`], [`vocab`]). Not here: files (see [`crate::checkpoint`]) and the decoding of tensors.
//! Source: `ggml/include/gguf.h` and `docs/gguf.md` of ggml.

pub mod config;
mod cursor;
mod metadata;
mod types;
mod value;
pub mod vocab;
mod writer;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use ucuz_tensor::Format;

use crate::error::{FormatError, Place};
use crate::limits;
use cursor::Cursor;
pub use types::type_name;
pub use value::{Array, Value, ValueType};
pub use writer::Writer;

/// A GGUF file's metadata and tensor table; borrows the bytes.
#[derive(Debug)]
pub struct GgufFile<'a> {
    /// 2 or 3.
    pub version: u32,
    /// Tensors start at multiples of this, in bytes.
    pub alignment: u64,
    /// Tensors in the order of the file.
    pub tensors: Vec<TensorInfo<'a>>,
    keys: Vec<(&'a str, Value<'a>)>,
    index: HashMap<&'a str, usize>,
}

/// One row of the tensor table, checked against the file's length.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorInfo<'a> {
    /// Stored name.
    pub name: &'a str,
    /// Number format.
    pub format: Format,
    /// Outermost dimension first.
    pub shape: Vec<usize>,
    /// Bytes of the file, from its start.
    pub span: Range<usize>,
}

/// A tensor row before its place in the data section is known.
struct RawTensor<'a> {
    name: &'a str,
    format: Format,
    shape: Vec<usize>,
    bytes: u64,
    offset: u64,
}

/// Reads the header, all metadata and the tensor table of `bytes`, a whole GGUF file.
///
/// # Errors
/// [`FormatError::Damaged`] for a broken rule, [`FormatError::Unsupported`] for v1, big-endian files and tensor types that
/// are not read here. Memory used is bounded by the number of entries the bytes can hold.
pub fn parse(bytes: &[u8]) -> Result<GgufFile<'_>, FormatError> {
    let mut cursor = Cursor::new(bytes);
    let version = read_version(&mut cursor)?;
    // Smallest entries: a tensor is a 1-byte name, one dimension, type and offset; a key is 1 byte and a 1-byte value.
    let tensors = read_count(&mut cursor, "tensors", limits::TENSORS_MAX, 33)?;
    let keys = read_count(&mut cursor, "keys", limits::GGUF_KEYS_MAX, 14)?;
    let (keys, index) = read_keys(&mut cursor, keys)?;
    let mut file = GgufFile {
        version,
        alignment: 32,
        tensors: Vec::new(),
        keys,
        index,
    };
    file.alignment = file.read_alignment()?;
    let raw = read_tensors(&mut cursor, tensors)?;
    file.tensors = place_tensors(raw, cursor.at() as u64, file.alignment, bytes.len() as u64)?;
    refuse_overlap(&file.tensors)?;
    Ok(file)
}

fn read_version(cursor: &mut Cursor<'_>) -> Result<u32, FormatError> {
    let magic = cursor.take(4, "the magic")?;
    if magic != b"GGUF" {
        let value = magic.escape_ascii();
        return Err(FormatError::damaged(
            Place::Offset(0),
            "a GGUF file starts with GGUF",
            value,
        ));
    }
    let place = cursor.place();
    let version = cursor.u32("the version")?;
    match version {
        2 | 3 => Ok(version),
        1 => Err(
            FormatError::unsupported(place, "GGUF version 1 is not read", 1)
                .advise("convert the model again: versions 2 and 3 are read"),
        ),
        v if (1..=0xffff).contains(&v.swap_bytes()) => {
            let rule = "big-endian GGUF is not read";
            Err(
                FormatError::unsupported(place, rule, format!("version {}", v.swap_bytes()))
                    .advise("take the little-endian file of this model"),
            )
        }
        v => Err(FormatError::unsupported(
            place,
            "GGUF versions 2 and 3 are read",
            v,
        )),
    }
}

fn read_count(
    cursor: &mut Cursor<'_>,
    what: &str,
    limit: u64,
    least_bytes: u64,
) -> Result<u64, FormatError> {
    let place = cursor.place();
    let count = cursor.u64(&format!("the number of {what}"))?;
    if count > limit {
        let rule = format!("a file has at most {limit} {what}");
        return Err(FormatError::damaged(place, rule, count));
    }
    // `count` is at most 65 536 here, so the product is small.
    if count * least_bytes > cursor.left() {
        let rule = format!("{what} take at least {least_bytes} bytes each, more than the file has");
        return Err(FormatError::damaged(place, rule, count));
    }
    Ok(count)
}

type Keys<'a> = (Vec<(&'a str, Value<'a>)>, HashMap<&'a str, usize>);

fn read_keys<'a>(cursor: &mut Cursor<'a>, count: u64) -> Result<Keys<'a>, FormatError> {
    let mut keys = Vec::new();
    let mut index = HashMap::new();
    for _ in 0..count {
        let key = cursor.name(limits::KEY_BYTES_MAX, "a metadata key")?;
        let in_key = |e: FormatError| e.at_key(key);
        let value_type = value::read_type(cursor).map_err(in_key)?;
        let value = value::read_value(cursor, value_type).map_err(in_key)?;
        if index.insert(key, keys.len()).is_some() {
            return Err(FormatError::damaged(
                Place::key(key),
                "a key appears once",
                "a second one",
            ));
        }
        keys.push((key, value));
    }
    Ok((keys, index))
}

fn read_tensors<'a>(
    cursor: &mut Cursor<'a>,
    count: u64,
) -> Result<Vec<RawTensor<'a>>, FormatError> {
    let mut names = HashSet::new();
    let mut tensors = Vec::new();
    for _ in 0..count {
        let name = cursor.name(limits::TENSOR_NAME_BYTES_MAX, "a tensor name")?;
        if !names.insert(name) {
            let place = Place::tensor(name);
            return Err(FormatError::damaged(
                place,
                "a tensor appears once",
                "a second one",
            ));
        }
        tensors.push(read_tensor(cursor, name)?);
    }
    Ok(tensors)
}

fn read_tensor<'a>(cursor: &mut Cursor<'a>, name: &'a str) -> Result<RawTensor<'a>, FormatError> {
    let refuse = |rule: &str, value: String| {
        Err(FormatError::damaged(
            Place::tensor(name),
            rule.to_owned(),
            value,
        ))
    };
    let dimensions = cursor.u32("the number of dimensions")?;
    if !(1..=limits::DIMENSIONS_MAX).contains(&dimensions) {
        return refuse("a tensor has 1 to 4 dimensions", dimensions.to_string());
    }
    let mut shape = Vec::new();
    for _ in 0..dimensions {
        let size = cursor.u64("a dimension")?;
        match usize::try_from(size) {
            Ok(size) if size >= 1 => shape.push(size),
            _ => return refuse("every dimension is at least 1", size.to_string()),
        }
    }
    // The file gives the length of a row first.
    shape.reverse();
    let id = cursor.u32("a tensor type")?;
    let Some(format) = Format::from_gguf_id(id) else {
        let rule = format!("tensor type {} is not read", type_name(id));
        return Err(FormatError::unsupported(Place::tensor(name), rule, format!("type id {id}"))
            .advise("take a file of this model in Q8_0, Q4_K_M or another format that `ucuz doctor` lists"));
    };
    let offset = cursor.u64("a tensor offset")?;
    let bytes = tensor_bytes(name, format, &shape)?;
    Ok(RawTensor {
        name,
        format,
        shape,
        bytes,
        offset,
    })
}

/// Bytes of a tensor, computed wide so that no product can wrap.
fn tensor_bytes(name: &str, format: Format, shape: &[usize]) -> Result<u64, FormatError> {
    let (cols, rows) = shape.split_last().unwrap_or((&1, &[]));
    let block = format.info().block_elements;
    if !cols.is_multiple_of(block) {
        let rule = format!("a row of {format} is a whole number of {block}-element blocks");
        return Err(FormatError::damaged(
            Place::tensor(name),
            rule,
            format!("{cols} columns"),
        ));
    }
    format
        .row_bytes(*cols)
        .and_then(|row| {
            rows.iter()
                .try_fold(row as u64, |bytes, n| bytes.checked_mul(*n as u64))
        })
        .filter(|bytes| i64::try_from(*bytes).is_ok())
        .ok_or_else(|| {
            let rule = "a tensor's size fits 63 bits";
            FormatError::damaged(Place::tensor(name), rule, format!("{shape:?}"))
        })
}

/// The tensors with their spans in a file of `file_bytes`, of which the tables take `header_bytes`.
fn place_tensors<'a>(
    raw: Vec<RawTensor<'a>>,
    header_bytes: u64,
    alignment: u64,
    file_bytes: u64,
) -> Result<Vec<TensorInfo<'a>>, FormatError> {
    let start = header_bytes.checked_next_multiple_of(alignment);
    let mut placed = Vec::with_capacity(raw.len());
    for tensor in raw {
        let place = || Place::tensor(tensor.name);
        if tensor.offset % alignment != 0 {
            let rule = format!("offsets are multiples of the alignment {alignment}");
            return Err(FormatError::damaged(place(), rule, tensor.offset));
        }
        let span =
            span_in_file(start, tensor.offset, tensor.bytes, file_bytes).ok_or_else(|| {
                let rule = format!("a tensor lies in the file of {file_bytes} bytes");
                let value = format!(
                    "{} bytes at {} of the data that starts at {}",
                    tensor.bytes,
                    tensor.offset,
                    start.unwrap_or(u64::MAX)
                );
                FormatError::damaged(place(), rule, value)
            })?;
        let RawTensor {
            name,
            format,
            shape,
            ..
        } = tensor;
        placed.push(TensorInfo {
            name,
            format,
            shape,
            span,
        });
    }
    Ok(placed)
}

fn span_in_file(start: Option<u64>, offset: u64, bytes: u64, file: u64) -> Option<Range<usize>> {
    let from = start?.checked_add(offset)?;
    let to = from.checked_add(bytes)?;
    (to <= file).then_some(usize::try_from(from).ok()?..usize::try_from(to).ok()?)
}

fn refuse_overlap(tensors: &[TensorInfo<'_>]) -> Result<(), FormatError> {
    let mut order: Vec<&TensorInfo<'_>> = tensors.iter().collect();
    order.sort_by_key(|t| (t.span.start, t.span.end));
    for pair in order.windows(2) {
        if pair[0].span.end > pair[1].span.start {
            let rule = format!(
                "tensors do not overlap; this one does with {}",
                pair[0].name
            );
            let value = format!("bytes {:?} and {:?}", pair[0].span, pair[1].span);
            return Err(FormatError::damaged(
                Place::tensor(pair[1].name),
                rule,
                value,
            ));
        }
    }
    Ok(())
}
