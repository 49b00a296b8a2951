//! The JSON of a safetensors header, read entry by entry: names given twice and entries beyond the limit are refused as
//! they are met.

use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use crate::error::{FormatError, Place};
use crate::limits;

/// One entry, not yet compared with the file.
pub(super) struct RawTensor {
    pub(super) name: String,
    pub(super) dtype: String,
    pub(super) shape: Vec<u64>,
    pub(super) offsets: (u64, u64),
}

/// All entries but `__metadata__`.
pub(super) struct Header {
    pub(super) tensors: Vec<RawTensor>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

pub(super) fn parse(json: &[u8]) -> Result<Header, FormatError> {
    if json.first() != Some(&b'{') {
        let value = json.get(..8).unwrap_or(json).escape_ascii();
        let rule = "a safetensors header starts with {";
        return Err(FormatError::damaged(Place::Offset(8), rule, value));
    }
    serde_json::from_slice(json).map_err(|e| {
        let rule = format!("the safetensors header is JSON of tensors: {e}");
        FormatError::damaged(Place::Offset(8), rule, "")
    })
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Entries)
    }
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut names = HashSet::new();
        let mut tensors = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if !names.insert(name.clone()) {
                return Err(A::Error::custom(format!("{name:?} appears twice")));
            }
            if name == "__metadata__" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            if tensors.len() as u64 >= limits::TENSORS_MAX {
                let text = format!("a file has at most {} tensors", limits::TENSORS_MAX);
                return Err(A::Error::custom(text));
            }
            if name.is_empty() || name.len() as u64 > limits::TENSOR_NAME_BYTES_MAX {
                let limit = limits::TENSOR_NAME_BYTES_MAX;
                return Err(A::Error::custom(format!(
                    "a tensor name has 1 to {limit} bytes"
                )));
            }
            let Entry {
                dtype,
                shape,
                data_offsets,
            } = map.next_value()?;
            if shape.len() > limits::SAFETENSORS_DIMENSIONS_MAX {
                let limit = limits::SAFETENSORS_DIMENSIONS_MAX;
                let text = format!("{name:?} has {} dimensions, at most {limit}", shape.len());
                return Err(A::Error::custom(text));
            }
            tensors.push(RawTensor {
                name,
                dtype,
                shape,
                offsets: data_offsets,
            });
        }
        Ok(Header { tensors })
    }
}
