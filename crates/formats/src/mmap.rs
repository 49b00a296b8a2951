//! Read-only maps of model files: the only `unsafe` of this crate.
//!
//! Here: [`Map`] and the [`Stamp`] of what it maps. A file must not be truncated or rewritten while it is mapped: the system would answer a read past the
//! new end with `SIGBUS`, and changed bytes would be seen. Models are replaced by renaming a new file over the old name,
//! which leaves the mapped one whole; so are prepared weights.

use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use memmap2::{Mmap, MmapOptions};
use ucuz_tensor::part_bytes::SharedMemory;

use crate::error::{FormatError, Place};

/// A whole file, mapped read-only for as long as this lives.
#[derive(Debug)]
pub struct Map {
    map: Mmap,
    path: PathBuf,
    stamp: Stamp,
}

/// What tells one state of a file from another without reading it: a change in place or another file under the same name
/// has another stamp.
///
/// The time of change (ctime) cannot be set by a program, so a file that was rewritten and given back its old time of
/// modification is found out too. The device is left out: its number may differ after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// Size in bytes.
    pub bytes: u64,
    /// Number of the file in its file system.
    pub inode: u64,
    /// Seconds and nanoseconds of the last change of the contents.
    pub modified: (i64, i64),
    /// Seconds and nanoseconds of the last change of contents, name or rights.
    pub changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            bytes: metadata.len(),
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
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
        Ok(Self {
            map,
            path: path.to_owned(),
            stamp: Stamp::of(&metadata),
        })
    }

    /// Maps `len` bytes from `offset` on of a file that this process has just written there and does not shorten.
    ///
    /// # Errors
    /// The system's refusal, or a file that ends before.
    pub(crate) fn of_range(file: &File, offset: usize, len: usize) -> io::Result<MapRange> {
        let end = (offset as u64).saturating_add(len as u64);
        if file.metadata()?.len() < end {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // SAFETY: only read, like the whole file above. The range lies in the file (just checked), which the caller wrote
        // under a name of its own and only lets grow.
        let map = unsafe { MmapOptions::new().offset(offset as u64).len(len).map(file) }?;
        expect_reading(&map);
        Ok(MapRange(map))
    }

    /// The file as it was when it was mapped.
    pub fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    /// Whether the file's name still means the file that was mapped, unchanged.
    pub fn is_unchanged(&self) -> bool {
        let now = std::fs::metadata(&self.path);
        now.is_ok_and(|metadata| Stamp::of(&metadata) == self.stamp)
    }

    /// Tells the system that all of it will be read again and again.
    pub fn expect_reading(&self) {
        expect_reading(&self.map);
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

/// A range of a file, mapped read-only for as long as this lives.
#[derive(Debug)]
pub(crate) struct MapRange(Mmap);

impl SharedMemory for MapRange {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl SharedMemory for Map {
    fn bytes(&self) -> &[u8] {
        &self.map
    }
}

/// Asks for large pages, where the file system has them; best effort.
fn expect_reading(map: &Mmap) {
    #[cfg(target_os = "linux")]
    {
        // A kernel without them says so; nothing is lost.
        let _ = map.advise(memmap2::Advice::HugePage);
    }
}
