//! Typed access to GGUF metadata: every accessor checks the value's type, arrays their element type and length.

use super::{Array, GgufFile, Value};
use crate::error::{FormatError, Place};
use crate::limits;

impl<'a> GgufFile<'a> {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<Value<'a>> {
        self.index
            .get(key)
            .and_then(|i| self.keys.get(*i))
            .map(|(_, value)| *value)
    }

    /// All keys in the order of the file.
    pub fn keys(&self) -> impl Iterator<Item = (&'a str, Value<'a>)> + '_ {
        self.keys.iter().copied()
    }

    /// A non-negative integer of any width.
    ///
    /// # Errors
    /// [`FormatError::Damaged`] for another type or a negative number; so all accessors below.
    pub fn count(&self, key: &str) -> Result<Option<u64>, FormatError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Unsigned(n)) => Ok(Some(n)),
            Some(Value::Signed(n)) if n >= 0 => Ok(Some(n.unsigned_abs())),
            Some(other) => Err(mistyped(key, "a non-negative integer", other)),
        }
    }

    /// A count within `1..=limit`, as `usize`.
    pub fn size(&self, key: &str, limit: u64) -> Result<Option<usize>, FormatError> {
        let Some(n) = self.count(key)? else {
            return Ok(None);
        };
        match usize::try_from(n) {
            Ok(size) if (1..=limit).contains(&n) => Ok(Some(size)),
            _ => Err(FormatError::setting(
                key,
                format!("the value lies in 1 to {limit}"),
                n,
            )),
        }
    }

    /// A finite float.
    pub fn float(&self, key: &str) -> Result<Option<f64>, FormatError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Float(x)) if x.is_finite() => Ok(Some(x)),
            Some(Value::Float(x)) => Err(FormatError::setting(key, "the value is finite", x)),
            Some(other) => Err(mistyped(key, "a float", other)),
        }
    }

    /// A truth value.
    pub fn boolean(&self, key: &str) -> Result<Option<bool>, FormatError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Bool(b)) => Ok(Some(b)),
            Some(other) => Err(mistyped(key, "a bool", other)),
        }
    }

    /// A UTF-8 string.
    pub fn text(&self, key: &str) -> Result<Option<&'a str>, FormatError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(bytes)) => std::str::from_utf8(bytes)
                .map(Some)
                .map_err(|e| FormatError::damaged(Place::key(key), "the string is UTF-8", e)),
            Some(other) => Err(mistyped(key, "a string", other)),
        }
    }

    /// An array of any type.
    pub fn array(&self, key: &str) -> Result<Option<Array<'a>>, FormatError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(array)) => Ok(Some(array)),
            Some(other) => Err(mistyped(key, "an array", other)),
        }
    }

    /// `general.alignment`, 32 when the file is silent.
    pub(super) fn read_alignment(&self) -> Result<u64, FormatError> {
        let key = "general.alignment";
        let alignment = self.count(key)?.unwrap_or(32);
        let range = limits::ALIGNMENT_MIN..=limits::ALIGNMENT_MAX;
        if alignment.is_power_of_two() && range.contains(&alignment) {
            return Ok(alignment);
        }
        let rule = "the alignment is a power of two from 8 to 65536";
        Err(FormatError::damaged(Place::key(key), rule, alignment))
    }
}

/// A value of the wrong type.
pub(super) fn mistyped(key: &str, wanted: &str, found: Value<'_>) -> FormatError {
    FormatError::damaged(
        Place::key(key),
        format!("the value is {wanted}"),
        found.kind(),
    )
}

/// An array of the wrong element type.
pub(super) fn mistyped_array(key: &str, wanted: &str, found: Array<'_>) -> FormatError {
    mistyped(key, wanted, Value::Array(found))
}
