//! A reader over bytes that never passes their end; the only way GGUF fields are taken.

use crate::error::{FormatError, Place};
use crate::limits;

/// Position in a file's bytes.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes read so far.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Where the next field starts, for messages.
    pub(super) fn place(&self) -> Place {
        Place::Offset(self.at as u64)
    }

    /// Bytes not yet read.
    pub(super) fn left(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    /// The bytes from `start` to here.
    pub(super) fn since(&self, start: usize) -> &'a [u8] {
        &self.bytes[start..self.at]
    }

    /// The next `n` bytes.
    pub(super) fn take(&mut self, n: u64, what: &str) -> Result<&'a [u8], FormatError> {
        let end = usize::try_from(n).ok().and_then(|n| self.at.checked_add(n));
        match end.and_then(|end| self.bytes.get(self.at..end)) {
            Some(taken) => {
                self.at += taken.len();
                Ok(taken)
            }
            None => Err(FormatError::damaged(
                self.place(),
                format!("{what} needs {n} bytes, the file ends before"),
                format!("{} bytes left", self.left()),
            )),
        }
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], FormatError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N as u64, what)?);
        Ok(out)
    }

    pub(super) fn u8(&mut self, what: &str) -> Result<u8, FormatError> {
        Ok(self.array::<1>(what)?[0])
    }

    pub(super) fn u16(&mut self, what: &str) -> Result<u16, FormatError> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32, FormatError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64, FormatError> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// A string of at most `limit` bytes, length first.
    pub(super) fn string(&mut self, limit: u64, what: &str) -> Result<&'a [u8], FormatError> {
        let place = self.place();
        let length = self.u64(what)?;
        if length > limit.min(limits::STRING_BYTES_MAX) {
            let rule = format!("{what} has at most {limit} bytes");
            return Err(FormatError::damaged(place, rule, length));
        }
        self.take(length, what)
    }

    /// A string of at most `limit` bytes that is not empty and is UTF-8.
    pub(super) fn name(&mut self, limit: u64, what: &str) -> Result<&'a str, FormatError> {
        let place = self.place();
        let bytes = self.string(limit, what)?;
        match std::str::from_utf8(bytes) {
            Ok("") => Err(FormatError::damaged(
                place,
                format!("{what} is not empty"),
                "",
            )),
            Ok(text) => Ok(text),
            Err(e) => Err(FormatError::damaged(place, format!("{what} is UTF-8"), e)),
        }
    }
}
