//! Metadata values: read once for structure, decoded when asked for.
//!
//! Arrays keep their encoded bytes; a vocabulary of 262 144 tokens costs one walk and no copy until it is wanted.

use super::cursor::Cursor;
use crate::error::FormatError;
use crate::limits;

/// Type of a metadata value, with its id in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the format's own names")]
#[repr(u32)]
pub enum ValueType {
    U8 = 0,
    I8 = 1,
    U16 = 2,
    I16 = 3,
    U32 = 4,
    I32 = 5,
    F32 = 6,
    Bool = 7,
    String = 8,
    Array = 9,
    U64 = 10,
    I64 = 11,
    F64 = 12,
}

impl ValueType {
    /// The type with this id.
    pub fn from_id(id: u32) -> Option<Self> {
        use ValueType::*;
        [
            U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64,
        ]
        .into_iter()
        .find(|t| *t as u32 == id)
    }

    /// Bytes of one value, for types of fixed size.
    fn fixed_bytes(self) -> Option<u64> {
        match self {
            Self::U8 | Self::I8 | Self::Bool => Some(1),
            Self::U16 | Self::I16 => Some(2),
            Self::U32 | Self::I32 | Self::F32 => Some(4),
            Self::U64 | Self::I64 | Self::F64 => Some(8),
            Self::String | Self::Array => None,
        }
    }

    /// Fewest bytes one value can take.
    fn least_bytes(self) -> u64 {
        self.fixed_bytes()
            .unwrap_or(if self == Self::Array { 12 } else { 8 })
    }
}

/// A metadata value that borrows the file's bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// Any unsigned integer.
    Unsigned(u64),
    /// Any signed integer.
    Signed(i64),
    /// F32 or F64.
    Float(f64),
    /// One byte, 0 or 1.
    Bool(bool),
    /// Bytes, usually UTF-8.
    String(&'a [u8]),
    /// A typed array.
    Array(Array<'a>),
}

impl Value<'_> {
    /// What kind of value it is, for messages.
    pub fn kind(&self) -> String {
        match self {
            Self::Unsigned(_) => "an unsigned integer".into(),
            Self::Signed(_) => "a signed integer".into(),
            Self::Float(_) => "a float".into(),
            Self::Bool(_) => "a bool".into(),
            Self::String(_) => "a string".into(),
            Self::Array(array) => format!("an array of {:?} × {}", array.element, array.len),
        }
    }
}

/// An array whose elements are all there; decoded on demand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Array<'a> {
    /// Type of each element.
    pub element: ValueType,
    /// Elements.
    pub len: usize,
    bytes: &'a [u8],
}

impl<'a> Array<'a> {
    /// The strings of an array of strings.
    pub fn strings(&self) -> Option<impl Iterator<Item = &'a [u8]> + use<'a>> {
        let mut rest = self.bytes;
        (self.element == ValueType::String).then(|| {
            std::iter::from_fn(move || {
                let (length, tail) = rest.split_first_chunk::<8>()?;
                let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
                let (text, tail) = tail.split_at_checked(length)?;
                rest = tail;
                Some(text)
            })
        })
    }

    /// The numbers of an F32 array.
    pub fn floats(&self) -> Option<impl Iterator<Item = f32> + use<'a>> {
        let bytes = self.bytes;
        (self.element == ValueType::F32)
            .then(|| bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)))
    }

    /// The numbers of an I32 array.
    pub fn integers(&self) -> Option<impl Iterator<Item = i32> + use<'a>> {
        let bytes = self.bytes;
        (self.element == ValueType::I32)
            .then(|| bytes.as_chunks().0.iter().map(|b| i32::from_le_bytes(*b)))
    }

    /// The non-negative numbers of a 32-bit integer array, as counts; `None` for other types or a negative number.
    pub fn counts(&self) -> Option<Vec<u64>> {
        let words = self.bytes.as_chunks::<4>().0;
        match self.element {
            ValueType::U32 => Some(
                words
                    .iter()
                    .map(|b| u64::from(u32::from_le_bytes(*b)))
                    .collect(),
            ),
            ValueType::I32 => words
                .iter()
                .map(|b| u64::try_from(i32::from_le_bytes(*b)).ok())
                .collect(),
            _ => None,
        }
    }

    /// The truth values of a bool array.
    pub fn bools(&self) -> Option<impl Iterator<Item = bool> + use<'a>> {
        let bytes = self.bytes;
        (self.element == ValueType::Bool).then(|| bytes.iter().map(|b| *b != 0))
    }
}

/// Reads the type id at the cursor.
pub(super) fn read_type(cursor: &mut Cursor<'_>) -> Result<ValueType, FormatError> {
    let place = cursor.place();
    let id = cursor.u32("a value type")?;
    ValueType::from_id(id)
        .ok_or_else(|| FormatError::damaged(place, "a value type is one of 0 to 12", id))
}

/// Reads one value; `depth` counts the arrays around it.
pub(super) fn read_value<'a>(
    cursor: &mut Cursor<'a>,
    value_type: ValueType,
) -> Result<Value<'a>, FormatError> {
    let what = "a metadata value";
    Ok(match value_type {
        ValueType::U8 => Value::Unsigned(cursor.u8(what)?.into()),
        ValueType::I8 => Value::Signed(cursor.u8(what)?.cast_signed().into()),
        ValueType::U16 => Value::Unsigned(cursor.u16(what)?.into()),
        ValueType::I16 => Value::Signed(cursor.u16(what)?.cast_signed().into()),
        ValueType::U32 => Value::Unsigned(cursor.u32(what)?.into()),
        ValueType::I32 => Value::Signed(cursor.u32(what)?.cast_signed().into()),
        ValueType::F32 => Value::Float(f32::from_bits(cursor.u32(what)?).into()),
        ValueType::U64 => Value::Unsigned(cursor.u64(what)?),
        ValueType::I64 => Value::Signed(cursor.u64(what)?.cast_signed()),
        ValueType::F64 => Value::Float(f64::from_bits(cursor.u64(what)?)),
        ValueType::Bool => Value::Bool(read_bool(cursor)?),
        ValueType::String => {
            Value::String(cursor.string(limits::STRING_BYTES_MAX, "a metadata string")?)
        }
        ValueType::Array => Value::Array(read_array(cursor, 1)?),
    })
}

fn read_bool(cursor: &mut Cursor<'_>) -> Result<bool, FormatError> {
    let place = cursor.place();
    match cursor.u8("a bool")? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(FormatError::damaged(place, "a bool is 0 or 1", other)),
    }
}

fn read_array<'a>(cursor: &mut Cursor<'a>, depth: u32) -> Result<Array<'a>, FormatError> {
    if depth > limits::ARRAY_DEPTH_MAX {
        let rule = format!("arrays nest at most {} deep", limits::ARRAY_DEPTH_MAX);
        return Err(FormatError::damaged(cursor.place(), rule, depth));
    }
    let element = read_type(cursor)?;
    let place = cursor.place();
    let len = cursor.u64("an array length")?;
    if u128::from(len) * u128::from(element.least_bytes()) > u128::from(cursor.left()) {
        let rule = format!(
            "an array's elements lie in the {} bytes left",
            cursor.left()
        );
        return Err(FormatError::damaged(
            place,
            rule,
            format!("{len} × {element:?}"),
        ));
    }
    let start = cursor.at();
    skip_elements(cursor, element, len, depth)?;
    let len = usize::try_from(len)
        .map_err(|_| FormatError::damaged(place, "an array length fits the machine", len))?;
    Ok(Array {
        element,
        len,
        bytes: cursor.since(start),
    })
}

fn skip_elements(
    cursor: &mut Cursor<'_>,
    element: ValueType,
    len: u64,
    depth: u32,
) -> Result<(), FormatError> {
    match (element, element.fixed_bytes()) {
        (ValueType::Bool, _) => {
            let start = cursor.place();
            if cursor
                .take(len, "an array of bools")?
                .iter()
                .any(|b| *b > 1)
            {
                return Err(FormatError::damaged(
                    start,
                    "a bool is 0 or 1",
                    "another byte",
                ));
            }
        }
        // No overflow: the product was compared with the bytes left.
        (_, Some(bytes)) => drop(cursor.take(len.saturating_mul(bytes), "an array")?),
        (ValueType::Array, None) => {
            for _ in 0..len {
                read_array(cursor, depth + 1)?;
            }
        }
        (_, None) => {
            for _ in 0..len {
                cursor.string(limits::STRING_BYTES_MAX, "a string of an array")?;
            }
        }
    }
    Ok(())
}
