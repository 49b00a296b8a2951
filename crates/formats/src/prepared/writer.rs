//! A prepared file that is being written, as a destination: parts are made, written, and read back through a map.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ucuz_tensor::destination::{Anonymous, Destination, MakeChunk, PartPlan};
use ucuz_tensor::part_bytes::PartBytes;
use ucuz_tensor::{TensorError, TensorResult};

use super::index::{self, PART_ALIGN_BYTES, Part};
use super::{Identity, Key};
use crate::error::FormatError;
use crate::mmap::Map;

/// How names of files end that are not complete.
const SUFFIX_WHILE_WRITTEN: &str = ".writing";

/// Writes end at multiples of this where they can: the page cache then holds the file in pages of this size, which cost the
/// kernels fewer address translations than pages of 4 KiB (reading 512 MiB through a map on Linux 6.18, ext4: all of it in
/// 2 MiB pages after writes of 2 MiB, none after writes of 1 MiB).
const WRITE_BYTES: usize = 2 << 20;

/// A file of prepared weights under a name of its own; it is removed unless it is [published](Preparing::publish).
#[derive(Debug)]
pub struct Preparing {
    file: File,
    path: PathBuf,
    target: PathBuf,
    key: Key,
    parts: Vec<(Identity, Part)>,
    /// Bytes in the file.
    written: usize,
    /// Bytes that follow those.
    staging: Vec<u8>,
    failed: Option<FormatError>,
}

/// Why a part is not in the file.
enum Failure {
    /// The part cannot be made at all.
    Tensor(TensorError),
    /// It cannot be written; it can be made elsewhere.
    File(io::Error),
}

impl From<TensorError> for Failure {
    fn from(error: TensorError) -> Self {
        Self::Tensor(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

impl Preparing {
    /// Begins a file that will be `folder/`[`Key::file_name`]; `unique` tells it from what other processes and threads write.
    ///
    /// # Errors
    /// [`FormatError::Io`] when the folder cannot be written.
    pub fn create(folder: &Path, key: Key, unique: &str) -> Result<Self, FormatError> {
        let target = folder.join(key.file_name());
        let path = folder.join(format!(
            "{}.{unique}{SUFFIX_WHILE_WRITTEN}",
            key.file_name()
        ));
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(|e| FormatError::io(&path, e))?;
        // Held as long as the file is open, for `remove_abandoned`. Where locks are not to be had, nothing is removed.
        let _ = file.try_lock();
        Ok(Self {
            file,
            path,
            target,
            key,
            parts: Vec::new(),
            written: 0,
            staging: vec![0; PART_ALIGN_BYTES],
            failed: None,
        })
    }

    /// Completes the file and gives it its name; a file of that name that is mapped stays whole for those who have it.
    ///
    /// # Errors
    /// [`FormatError::Io`] when anything could not be written, now or earlier. The weights that were placed stay good.
    pub fn publish(mut self) -> Result<PathBuf, FormatError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.complete()
            .map_err(|e| FormatError::io(&self.path, e))?;
        Ok(self.target.clone())
    }

    fn complete(&mut self) -> io::Result<()> {
        self.align();
        let table_offset = (self.written + self.staging.len()) as u64;
        let (table, header) = index::encode(&self.key, &self.parts, table_offset)
            .ok_or_else(|| io::Error::other("more parts than a file can list"))?;
        self.staging.extend(table);
        self.write_out(0)?;
        self.file.write_all_at(&header, 0)?;
        fs::rename(&self.path, &self.target)
    }

    /// Zeros up to where a part may begin.
    fn align(&mut self) {
        let end = self.written + self.staging.len();
        let zeros = end.next_multiple_of(PART_ALIGN_BYTES) - end;
        self.staging.resize(self.staging.len() + zeros, 0);
    }

    fn write(
        &mut self,
        plan: &PartPlan<'_>,
        make: &mut MakeChunk<'_>,
    ) -> Result<PartBytes, Failure> {
        self.align();
        let start = self.written + self.staging.len();
        let mut crc = crc32fast::Hasher::new();
        for chunk in &plan.chunks {
            let from = self.staging.len();
            self.staging.resize(from + chunk.bytes.len(), 0);
            make(chunk, &mut self.staging[from..])?;
            crc.update(&self.staging[from..]);
            let past_a_multiple = (self.written + self.staging.len()) % WRITE_BYTES;
            if past_a_multiple < self.staging.len() {
                self.write_out(past_a_multiple)?;
            }
        }
        self.write_out(0)?;
        let map = Map::of_range(&self.file, start, plan.bytes)?;
        let crc = crc.finalize();
        let span = start..start + plan.bytes;
        self.parts.push((Identity::of(plan), Part { span, crc }));
        Ok(PartBytes::shared(Arc::new(map), 0..plan.bytes)?)
    }

    /// Writes all that is staged but the last `keep` bytes.
    fn write_out(&mut self, keep: usize) -> io::Result<()> {
        let len = self.staging.len() - keep;
        self.file
            .write_all_at(&self.staging[..len], self.written as u64)?;
        self.written += len;
        self.staging.copy_within(len.., 0);
        self.staging.truncate(keep);
        Ok(())
    }
}

impl Destination for Preparing {
    fn place(&mut self, plan: &PartPlan<'_>, make: &mut MakeChunk<'_>) -> TensorResult<PartBytes> {
        // A part without bytes cannot be mapped.
        if self.failed.is_none() && plan.bytes > 0 {
            match self.write(plan, make) {
                Ok(bytes) => return Ok(bytes),
                Err(Failure::Tensor(error)) => return Err(error),
                Err(Failure::File(error)) => {
                    self.failed = Some(FormatError::io(&self.path, error));
                    self.staging = Vec::new();
                }
            }
        }
        Anonymous.place(plan, make)
    }
}

impl Drop for Preparing {
    fn drop(&mut self) {
        // After publishing nothing has this name any more.
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes what processes that were killed left of the files they wrote. Says whether another one is writing `key` now.
pub fn remove_abandoned(folder: &Path, key: &Key) -> bool {
    let Ok(entries) = fs::read_dir(folder) else {
        return false;
    };
    let mut is_written = false;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !name.ends_with(SUFFIX_WHILE_WRITTEN) {
            continue;
        }
        let locked = File::open(entry.path()).map(|file| file.try_lock());
        match locked {
            Ok(Ok(())) => {
                let _ = fs::remove_file(entry.path());
            }
            Ok(Err(fs::TryLockError::WouldBlock)) => {
                is_written |= name.starts_with(&key.file_name());
            }
            _ => {}
        }
    }
    is_written
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use ucuz_tensor::Format;
    use ucuz_tensor::layout::PanelLayout;
    use ucuz_tensor::reference::ReferenceBackend;

    use super::*;

    /// What a full disk does, at the second part.
    #[test]
    fn weights_come_to_memory_when_the_file_cannot_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut preparing = Preparing::create(folder.path(), Key([1; 32]), "1").unwrap();
        let layout = PanelLayout::new(Format::Q8_0, 300, 64).unwrap();
        let plan = PartPlan::new(&ReferenceBackend::new(1), "w", layout).unwrap();
        let place = |preparing: &mut Preparing| {
            let made = preparing.place(&plan, &mut |_, bytes| {
                bytes.fill(3);
                Ok(())
            });
            made.unwrap()
        };
        let first = place(&mut preparing);
        preparing.file = File::open(&preparing.path).unwrap();
        let (second, third) = (place(&mut preparing), place(&mut preparing));
        assert!(!first.is_own() && second.is_own() && third.is_own());
        assert!(matches!(preparing.publish(), Err(FormatError::Io { .. })));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        for part in [first, second, third] {
            assert_eq!(part.bytes(), vec![3; plan.bytes]);
        }
    }
}
