//! Read-only maps of model files: the only `unsafe` of this crate.
//!
//! Here: [`Map`]. A file must not be truncated or rewritten while it is mapped: the system would answer a read past the
//! new end with `SIGBUS`, and changed bytes would be seen. Models are replaced by renaming a new file over the old name,
//! which leaves the mapped one whole.

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use memmap2::Mmap;

use crate::error::{FormatError, Place};

/// A whole file, mapped read-only for as long as this lives.
#[derive(Debug)]
pub struct Map {
    map: Mmap,
}

impl Map {
    /// Maps the file at `path`.
    ///
    /// # Errors
    /// [`FormatError::Io`] when the system refuses, [`FormatError::Damaged`] for an empty file or one that changes size
    /// while it is opened.
    pub fn open(path: &Path) -> Result<Self, FormatError> {
        let file = File::open(path).map_err(|e| FormatError::io(path, e))?;
        let metadata = file.metadata().map_err(|e| FormatError::io(path, e))?;
        if !metadata.is_file() || metadata.len() == 0 {
            let rule = "a model file is a regular file of at least one byte";
            return Err(FormatError::damaged(Place::File, rule, metadata.len()).in_file(path));
        }
        // SAFETY: the map is private to this value and only read. That nobody truncates the file meanwhile is asked of the
        // caller in the module's header; Rust sees plain bytes whatever they are.
        let map = unsafe { Mmap::map(&file) }.map_err(|e| FormatError::io(path, e))?;
        if u64::try_from(map.len()).ok() != Some(metadata.len()) {
            let rule = format!("the file has {} bytes throughout", metadata.len());
            return Err(FormatError::damaged(Place::File, rule, map.len()).in_file(path));
        }
        Ok(Self { map })
    }

    /// The file's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Tells the system that the pages of `range` are not needed soon; best effort, contents stay readable.
    pub fn release(&self, range: Range<usize>) {
        let Some(len) = range.end.checked_sub(range.start) else {
            return;
        };
        if len == 0 || range.end > self.map.len() {
            return;
        }
        #[cfg(unix)]
        {
            // SAFETY: DONTNEED on a read-only map of a file only drops clean pages; a later read brings the same bytes
            // from the file. The range lies in the map (checked above).
            let advised = unsafe {
                self.map.unchecked_advise_range(
                    memmap2::UncheckedAdvice::DontNeed,
                    range.start,
                    len,
                )
            };
            drop(advised);
        }
    }
}
