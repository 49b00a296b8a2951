//! safetensors: the header, the shard index, a small writer.
//!
//! Here: [`parse`] and [`parse_index`] over plain bytes. The header is read here and not with the `safetensors` crate because
//! duplicate names must be refused, and told by name; the crate is the oracle of the tests.
//! Source: the format's description in the `safetensors` repository.

mod header;
mod index;
mod writer;

use std::ops::Range;

use ucuz_tensor::Format;

use crate::error::{FormatError, Place};
use crate::limits;
use header::RawTensor;
pub use index::{Index, parse_index};
pub use writer::write;

/// A safetensors element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dtype {
    /// Name in the header.
    pub name: &'static str,
    /// Bits of one element.
    pub bits: u64,
    /// The format, when weights of it are read here.
    pub format: Option<Format>,
}

/// Every element type of the format.
pub static DTYPES: &[Dtype] = &[
    Dtype {
        name: "F32",
        bits: 32,
        format: Some(Format::F32),
    },
    Dtype {
        name: "F16",
        bits: 16,
        format: Some(Format::F16),
    },
    Dtype {
        name: "BF16",
        bits: 16,
        format: Some(Format::BF16),
    },
    Dtype {
        name: "BOOL",
        bits: 8,
        format: None,
    },
    Dtype {
        name: "U8",
        bits: 8,
        format: None,
    },
    Dtype {
        name: "I8",
        bits: 8,
        format: None,
    },
    Dtype {
        name: "F8_E5M2",
        bits: 8,
        format: None,
    },
    Dtype {
        name: "F8_E4M3",
        bits: 8,
        format: None,
    },
    Dtype {
        name: "F8_E5M2FNUZ",
        bits: 8,
        format: None,
    },
    Dtype {
        name: "F8_E4M3FNUZ",
        bits: 8,
        format: None,
    },
    Dtype {
        name: "F8_E8M0",
        bits: 8,
        format: None,
    },
    Dtype {
        name: "F6_E2M3",
        bits: 6,
        format: None,
    },
    Dtype {
        name: "F6_E3M2",
        bits: 6,
        format: None,
    },
    Dtype {
        name: "F4",
        bits: 4,
        format: None,
    },
    Dtype {
        name: "I16",
        bits: 16,
        format: None,
    },
    Dtype {
        name: "U16",
        bits: 16,
        format: None,
    },
    Dtype {
        name: "I32",
        bits: 32,
        format: None,
    },
    Dtype {
        name: "U32",
        bits: 32,
        format: None,
    },
    Dtype {
        name: "I64",
        bits: 64,
        format: None,
    },
    Dtype {
        name: "U64",
        bits: 64,
        format: None,
    },
    Dtype {
        name: "F64",
        bits: 64,
        format: None,
    },
    Dtype {
        name: "C64",
        bits: 64,
        format: None,
    },
];

/// A tensor of the file, checked against the file's length.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorInfo {
    /// Stored name.
    pub name: String,
    /// Element type.
    pub dtype: &'static Dtype,
    /// Outermost dimension first; may be empty (a scalar) or hold zeros.
    pub shape: Vec<usize>,
    /// Bytes of the file, from its start.
    pub span: Range<usize>,
}

impl TensorInfo {
    /// The format of a weight.
    ///
    /// # Errors
    /// [`FormatError::Unsupported`] naming the element type when it is none of F32, F16, BF16.
    pub fn format(&self) -> Result<Format, FormatError> {
        self.dtype.format.ok_or_else(|| {
            let rule = "weights are F32, F16 or BF16";
            FormatError::unsupported(Place::tensor(&self.name), rule, self.dtype.name)
        })
    }
}

/// Reads the header of `bytes`, a whole safetensors file; tensors come in the order of their bytes.
///
/// # Errors
/// [`FormatError::Damaged`] for a broken rule: header size and JSON, names given twice, unknown element types, sizes that
/// differ from shape and type, gaps, overlaps, bytes beyond the end.
pub fn parse(bytes: &[u8]) -> Result<Vec<TensorInfo>, FormatError> {
    let (header, data) = split(bytes)?;
    let mut raw = header::parse(header)?.tensors;
    raw.sort_by_key(|t| t.offsets);
    let mut at = 0;
    let mut tensors = Vec::with_capacity(raw.len());
    for tensor in raw {
        let (start, end) = tensor.offsets;
        if start != at {
            let rule = format!("tensors follow each other without gap or overlap; {at} is next");
            let value = format!("{start}..{end}");
            return Err(FormatError::damaged(
                Place::Tensor(tensor.name),
                rule,
                value,
            ));
        }
        tensors.push(place(tensor, bytes.len() - data, data)?);
        at = end;
    }
    if usize::try_from(at).ok() != Some(bytes.len() - data) {
        let rule = format!("tensors cover the {} bytes of data", bytes.len() - data);
        return Err(FormatError::damaged(Place::File, rule, at));
    }
    Ok(tensors)
}

/// The header's JSON and where the data starts.
fn split(bytes: &[u8]) -> Result<(&[u8], usize), FormatError> {
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else {
        let rule = "a safetensors file starts with 8 bytes of header length";
        return Err(FormatError::damaged(Place::Offset(0), rule, bytes.len()));
    };
    let length = u64::from_le_bytes(*length);
    if length > limits::SAFETENSORS_HEADER_BYTES_MAX {
        let rule = format!(
            "a safetensors header has at most {} bytes",
            limits::SAFETENSORS_HEADER_BYTES_MAX
        );
        return Err(FormatError::damaged(Place::Offset(0), rule, length));
    }
    match usize::try_from(length)
        .ok()
        .and_then(|length| rest.get(..length))
    {
        Some(header) => Ok((header, 8 + header.len())),
        None => {
            let rule = format!("the header lies in the file of {} bytes", bytes.len());
            Err(FormatError::damaged(Place::Offset(0), rule, length))
        }
    }
}

fn place(raw: RawTensor, data_bytes: usize, data: usize) -> Result<TensorInfo, FormatError> {
    let RawTensor {
        name,
        dtype,
        shape,
        offsets: (start, end),
    } = raw;
    let refuse = |rule: String, value: String| {
        Err(FormatError::damaged(
            Place::Tensor(name.clone()),
            rule,
            value,
        ))
    };
    let Some(dtype) = DTYPES.iter().find(|d| d.name == dtype) else {
        return refuse("the element type is one of the format".into(), dtype);
    };
    let bits = shape
        .iter()
        .try_fold(u128::from(dtype.bits), |bits, n| {
            bits.checked_mul(u128::from(*n))
        })
        .filter(|bits| bits % 8 == 0);
    let Some(bits) = bits else {
        return refuse(
            "a tensor's size is a whole number of bytes".into(),
            format!("{shape:?}"),
        );
    };
    let size = end.checked_sub(start).map(|size| u128::from(size) * 8);
    if size != Some(bits) {
        let rule = format!("{} of shape {shape:?} takes {} bytes", dtype.name, bits / 8);
        return refuse(rule, format!("{start}..{end}"));
    }
    let inside = |at: u64| usize::try_from(at).ok().filter(|at| *at <= data_bytes);
    let (Some(from), Some(to)) = (inside(start), inside(end)) else {
        let rule = format!("a tensor lies in the {data_bytes} bytes of data");
        return refuse(rule, format!("{start}..{end}"));
    };
    match shape.iter().map(|n| usize::try_from(*n)).collect() {
        Ok(shape) => Ok(TensorInfo {
            name,
            dtype,
            shape,
            span: data + from..data + to,
        }),
        Err(_) => refuse("dimensions fit the machine".into(), format!("{shape:?}")),
    }
}
