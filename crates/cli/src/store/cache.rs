//! The cache on disk: which model is whole, who may change it, how a finished one appears.
//!
//! ```text
//! models/pypi/<package>/<version|latest>/<file>.gguf            + <file>.gguf.verified
//! models/hf/<org>--<repo>/<revision>/gguf/<file>.gguf           + <file>.gguf.verified
//! models/hf/<org>--<repo>/<revision>/safetensors/               + safetensors.verified
//! ```
//! A model counts as whole only with its record (`.verified`): names, sizes, times and hashes of its
//! files, written after the rename, so a kill at any moment leaves either nothing or a whole model.
//! One lock file per folder is held by whoever brings something into it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};

use super::digest;
use super::progress::Progress;
use super::reference::check_file;

/// Records and other small JSON files of the cache are never larger.
const JSON_BYTES_MAX: u64 = 1 << 20;

/// What is known about a whole model in the cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Where it came from, for people: `pypi:package==version` or `hf:org/repo@commit`.
    pub source: String,
    /// Its files; the one file of a single-file model has the name `""`.
    pub files: Vec<FileRecord>,
}

/// One file as it was when its hash was computed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Path below the model's folder, `/` between parts.
    pub name: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Modification time in nanoseconds since 1970.
    pub mtime_ns: u64,
    /// SHA-256 of the content.
    pub sha256: String,
}

impl Record {
    /// The hash of a single-file model.
    pub fn single_sha256(&self) -> Option<&str> {
        match self.files.as_slice() {
            [file] if file.name.is_empty() => Some(&file.sha256),
            _ => None,
        }
    }
}

/// The record of a whole model at `target`, or `None`.
///
/// Sizes and times are compared; where only a time differs (a copied cache) the file is hashed again
/// and the record renewed.
pub fn lookup(target: &Path) -> Option<Record> {
    let mut record: Record = read_json(&record_path(target))?;
    let mut renewed = false;
    for file in &mut record.files {
        let path = file_path(target, &file.name)?;
        let (size_bytes, mtime_ns) = stamp(&path).ok()?;
        if size_bytes != file.size_bytes {
            return None;
        }
        if mtime_ns != file.mtime_ns {
            if digest::sha256_file(&path).ok()? != file.sha256 {
                return None;
            }
            file.mtime_ns = mtime_ns;
            renewed = true;
        }
    }
    if renewed {
        // A read-only cache only costs the hash again next time.
        let _ = write_json(&record_path(target), &record);
    }
    Some(record)
}

/// Renames a whole and verified `part` (file or folder) to `target` and writes its record from
/// `(name, sha256)` pairs.
///
/// # Errors
/// The disk's.
pub fn install(
    part: &Path,
    target: &Path,
    source: String,
    files: Vec<(String, String)>,
) -> Result<Record> {
    remove(&record_path(target))?;
    if part != target {
        remove(target)?;
        fs::rename(part, target).map_err(|e| on_disk(e, "rename to", target))?;
    }
    let record = describe(target, source, files)?;
    write_json(&record_path(target), &record)?;
    Ok(record)
}

fn describe(target: &Path, source: String, files: Vec<(String, String)>) -> Result<Record> {
    let files = files.into_iter().map(|(name, sha256)| {
        let path = file_path(target, &name).with_context(|| format!("bad file name {name:?}"))?;
        let (size_bytes, mtime_ns) = stamp(&path).map_err(|e| on_disk(e, "read", &path))?;
        Ok(FileRecord {
            name,
            size_bytes,
            mtime_ns,
            sha256,
        })
    });
    Ok(Record {
        source,
        files: files.collect::<Result<_>>()?,
    })
}

/// Held while something is brought into a folder; the lock ends with it, also by a kill.
pub struct Lock {
    _file: File,
}

/// Takes the lock of a folder (made if missing), waiting for another process or thread if need be.
///
/// # Errors
/// The folder cannot be made or written.
pub fn lock(folder: &Path, progress: &mut dyn Progress) -> Result<Lock> {
    fs::create_dir_all(folder).map_err(|e| on_disk(e, "make folder", folder))?;
    let path = folder.join(".lock");
    let file = File::options().create(true).append(true).open(&path);
    let file = file.map_err(|e| on_disk(e, "open", &path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => {
            progress.note("another ucuz is bringing this model; waiting for it");
            file.lock().map_err(|e| on_disk(e, "lock", &path))?;
        }
        Err(fs::TryLockError::Error(e)) => return Err(on_disk(e, "lock", &path)),
    }
    Ok(Lock { _file: file })
}

/// Removes a file or a folder; one that is not there is fine.
///
/// # Errors
/// The disk's.
pub fn remove(path: &Path) -> Result<()> {
    let outcome = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(e) => Err(e),
    };
    match outcome {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(on_disk(e, "remove", path)),
        _ => Ok(()),
    }
}

/// A small JSON file of the cache; `None` if missing, too large or damaged.
pub fn read_json<T: for<'de> Deserialize<'de>>(path: &Path) -> Option<T> {
    if fs::metadata(path).ok()?.len() > JSON_BYTES_MAX {
        return None;
    }
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Writes a small JSON file of the cache so that readers see the old or the new one, never half.
///
/// # Errors
/// The disk's.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let part = with_suffix(path, ".new");
    let bytes = serde_json::to_vec_pretty(value)?;
    let written = File::create(&part).and_then(|mut file| {
        file.write_all(&bytes)?;
        file.sync_all()
    });
    written
        .and_then(|()| fs::rename(&part, path))
        .map_err(|e| on_disk(e, "write", path))
}

/// The path with a suffix added to its whole file name: `a.gguf` to `a.gguf.part`.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// An error of the disk with what was done, where, and the way out if the disk is full.
pub fn on_disk(error: io::Error, action: &str, path: &Path) -> anyhow::Error {
    let way_out = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space there, or choose another place with --cache-dir"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; choose a place that may be written with --cache-dir"
        }
        _ => "",
    };
    anyhow!("cannot {action} {}: {error}{way_out}", path.display())
}

fn record_path(target: &Path) -> PathBuf {
    with_suffix(target, ".verified")
}

fn file_path(target: &Path, name: &str) -> Option<PathBuf> {
    if name.is_empty() {
        return Some(target.to_path_buf());
    }
    check_file(name).ok()?;
    Some(target.join(name))
}

fn stamp(path: &Path) -> io::Result<(u64, u64)> {
    let meta = fs::metadata(path)?;
    let since_1970 = meta
        .modified()?
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Ok((
        meta.len(),
        u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX),
    ))
}
