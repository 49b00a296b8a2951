//! Prepared weights in the cache folder: which model's are kept, for how long, and what happens when they cannot be.
//!
//! ```text
//! prepared/<32 hex digits>.prepared      one model on one backend; `formats::prepared` says what is in it
//! ```
//! The files are a cache: whoever deletes one pays with one slower start. The file used last is removed last. Nothing here
//! fails a start: what cannot be kept is made in memory, with a line in the log.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use ucuz_formats::prepared::{self, Key, Prepared, Preparing};
use ucuz_formats::{Checkpoint, FormatError, TensorRef};
use ucuz_tensor::destination::{Anonymous, Destination, MakeChunk, PartPlan};
use ucuz_tensor::layout::PanelLayout;
use ucuz_tensor::part_bytes::PartBytes;
use ucuz_tensor::{Backend, OnLoad, TensorResult};

/// Models with fewer bytes in memory are not kept: they are made beside the tokenizer, which takes as long.
pub const WORTH_KEEPING_BYTES: u64 = 256 << 20;

/// Where prepared weights are kept, and how much of them.
#[derive(Debug, Clone)]
pub struct PreparedCache {
    /// The folder; made when first needed.
    pub folder: PathBuf,
    /// Most bytes of all files together.
    pub bytes_max: u64,
    /// Least bytes of a model that is kept.
    pub worth_bytes: u64,
}

/// Where a model's weights come from or go to.
#[derive(Debug)]
pub enum Weights {
    /// Memory; nothing is kept.
    Memory(Anonymous),
    /// A file that is there.
    Found(Box<Prepared>),
    /// A file that is being written.
    Made(Box<Preparing>),
}

impl PreparedCache {
    /// Finds the prepared weights of `checkpoint`, or begins their file if they are worth it.
    pub fn open(&self, checkpoint: &Checkpoint, backend: &dyn Backend, on_load: OnLoad) -> Weights {
        let memory = Weights::memory();
        let bytes = weight_bytes(checkpoint, backend, on_load);
        if bytes < self.worth_bytes || bytes > self.bytes_max {
            tracing::debug!(bytes, "weights of this size are not kept prepared");
            return memory;
        }
        let key = Key::new(checkpoint, backend, on_load);
        let path = self.folder.join(key.file_name());
        match Prepared::open(&path, &key) {
            Ok(found) => {
                mark_used(&path);
                tracing::info!(path = %path.display(), "weights are mapped as prepared earlier");
                return Weights::Found(Box::new(found));
            }
            Err(FormatError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            // The file may be good: it is left for a time when it can be read.
            Err(error @ FormatError::Io { .. }) => {
                warn_unkept(&error);
                return memory;
            }
            Err(error) => discard(&path, &error),
        }
        self.begin(key, bytes).unwrap_or(memory)
    }

    fn begin(&self, key: Key, bytes: u64) -> Option<Weights> {
        let begun = fs::create_dir_all(&self.folder).map_err(|error| FormatError::Io {
            path: self.folder.clone(),
            source: error,
        });
        let begun = begun.and_then(|()| {
            if prepared::remove_abandoned(&self.folder, &key) {
                tracing::debug!("another process is preparing these weights");
                return Ok(None);
            }
            self.make_room(bytes);
            if free_bytes(&self.folder).is_some_and(|free| free / 2 < bytes) {
                tracing::info!(bytes, "the disk is too full for prepared weights");
                return Ok(None);
            }
            Preparing::create(&self.folder, key, &unique()).map(Some)
        });
        match begun {
            Ok(file) => file.map(|file| Weights::Made(Box::new(file))),
            Err(error) => {
                warn_unkept(&error);
                None
            }
        }
    }

    /// Removes files, the longest unused first, until `bytes` more fit.
    fn make_room(&self, bytes: u64) {
        let mut files = self.files();
        files.sort();
        let mut total: u64 = files.iter().map(|(_, size, _)| size).sum();
        for (_, size, path) in files {
            if total.saturating_add(bytes) <= self.bytes_max {
                break;
            }
            match fs::remove_file(&path) {
                Ok(()) => {
                    tracing::info!(path = %path.display(), "removed prepared weights to make room");
                    total -= size;
                }
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "cannot remove prepared weights");
                }
            }
        }
    }

    /// Last use, size and path of each file.
    fn files(&self) -> Vec<(SystemTime, u64, PathBuf)> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let files = entries.filter_map(|entry| {
            let path = entry.path();
            let is_ours = path.to_str()?.ends_with(prepared::SUFFIX);
            let metadata = entry.metadata().ok().filter(|m| is_ours && m.is_file())?;
            Some((metadata.modified().ok()?, metadata.len(), path))
        });
        files.collect()
    }
}

impl Weights {
    /// Memory of the process.
    pub const fn memory() -> Self {
        Self::Memory(Anonymous)
    }

    /// Keeps what was made, if the model's files are still those it was made from, and removes what proved damaged.
    pub fn finish(self, checkpoint: &Checkpoint) {
        match self {
            Self::Memory(_) => {}
            Self::Found(file) => {
                if let Some(fault) = file.fault() {
                    discard(file.path(), fault);
                }
            }
            Self::Made(_) if !checkpoint.is_unchanged() => {
                tracing::warn!(
                    "the model's files changed while they were read; restart to be sure"
                );
            }
            Self::Made(file) => match file.publish() {
                Ok(path) => {
                    tracing::info!(path = %path.display(), "prepared weights are kept for the next start");
                }
                Err(error) => warn_unkept(&error),
            },
        }
    }
}

impl Destination for Weights {
    fn place(&mut self, plan: &PartPlan<'_>, make: &mut MakeChunk<'_>) -> TensorResult<PartBytes> {
        match self {
            Self::Memory(memory) => memory.place(plan, make),
            Self::Found(file) => file.place(plan, make),
            Self::Made(file) => file.place(plan, make),
        }
    }
}

/// What the matrices of a model take on `backend`, at most (the ends are not converted on load); vectors are not kept.
fn weight_bytes(checkpoint: &Checkpoint, backend: &dyn Backend, on_load: OnLoad) -> u64 {
    let bytes_of = |tensor: TensorRef<'_>| {
        let [rows, cols] = *tensor.shape else {
            return None;
        };
        let formats = [tensor.format, on_load.format(tensor.format)];
        let layouts = formats.map(|to| PanelLayout::converted(tensor.format, to, rows, cols));
        let bytes = layouts.into_iter().flatten();
        bytes
            .filter_map(|layout| backend.layout_bytes(&layout).ok())
            .max()
    };
    let bytes = checkpoint.tensors().filter_map(bytes_of);
    bytes.fold(0, |sum, bytes| sum.saturating_add(bytes as u64))
}

/// What a disk has left for this user.
fn free_bytes(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    disk.f_bavail.checked_mul(disk.f_frsize)
}

/// The time of modification is the time of last use. A folder that may only be read keeps its order.
fn mark_used(path: &Path) {
    let _ = File::open(path).and_then(|file| file.set_modified(SystemTime::now()));
}

fn discard(path: &Path, fault: &FormatError) {
    tracing::warn!("{fault}");
    if let Err(error) = fs::remove_file(path) {
        tracing::warn!(path = %path.display(), %error, "cannot remove it");
    }
}

fn warn_unkept(error: &FormatError) {
    tracing::warn!(
        "prepared weights are not kept: {error}; name another place with --cache-dir, or use --prepared-cache 0"
    );
}

/// Differs between processes and between the models that one loads.
fn unique() -> String {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanos = since_1970.unwrap_or_default().as_nanos();
    format!("{}-{nanos}", std::process::id())
}
