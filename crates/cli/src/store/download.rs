//! One file of a hub, streamed to a `.part` beside its place, resumed where a try broke off.
//!
//! A `.part.json` beside the part holds the etag it belongs to; another etag starts from zero. The
//! part counts for nothing until its size and hash are checked; the caller renames it.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use anyhow::{Result, anyhow, ensure};
use serde::{Deserialize, Serialize};

use super::cache::{self, on_disk, with_suffix};
use super::digest::{COPY_BYTES, Hasher, read_some};
use super::http::{Client, Failure, Reply, text_of};
use super::progress::Progress;
use super::wheel::check_hash;

/// The largest file taken from a hub, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 40;

/// A file to bring and what the hub's list says about it.
pub struct Remote<'a> {
    /// Path below the endpoint, made of checked parts.
    pub path: &'a str,
    /// Name for people.
    pub name: &'a str,
    /// Size in bytes, if listed.
    pub size_bytes: Option<u64>,
    /// SHA-256, if listed.
    pub sha256: Option<&'a str>,
}

/// What a part belongs to.
#[derive(Serialize, Deserialize)]
struct Sidecar {
    path: String,
    etag: Option<String>,
}

/// Brings one file into `part`, resuming what lies there, checks its size and hash as far as the hub
/// states them, and returns its SHA-256.
///
/// # Errors
/// The connection's after four tries without progress (the part stays and is resumed next time), a
/// size or hash other than stated (the part is deleted), the disk's.
pub fn fetch(
    client: &Client,
    remote: &Remote<'_>,
    part: &Path,
    progress: &mut dyn Progress,
) -> Result<String> {
    progress.begin(&format!("downloading {}", remote.name), remote.size_bytes);
    let outcome = client.retry(|done| attempt(client, remote, part, progress, done));
    progress.end();
    let (actual, stated) = outcome?;
    let expected = remote.sha256.map(str::to_owned).or(stated);
    cache::remove(&with_suffix(part, ".json"))?;
    if let Some(expected) = &expected
        && let Err(error) = check_hash(expected, &actual)
    {
        cache::remove(part)?;
        return Err(error.context(format!("{} is refused", remote.name)));
    }
    Ok(actual)
}

/// One try; returns the hash of what was written and the hash the hub stated.
fn attempt(
    client: &Client,
    remote: &Remote<'_>,
    part: &Path,
    progress: &mut dyn Progress,
    done_bytes: &mut u64,
) -> Result<(String, Option<String>), Failure> {
    let Opened { reply, offset } = open(client, remote, part)?;
    let total = total_bytes(&reply, remote)?;
    let sidecar = Sidecar {
        path: remote.path.to_owned(),
        etag: reply.etag,
    };
    cache::write_json(&with_suffix(part, ".json"), &sidecar)?;
    let (mut file, mut hasher) = continue_part(part, offset)?;
    let mut source = reply.response.into_body().into_reader();
    let mut buffer = vec![0; COPY_BYTES];
    let mut done = offset;
    let broke_off = |done: u64, why: String| {
        Failure::Passing(anyhow!("{} broke off after {done} bytes{why}", remote.name))
    };
    loop {
        let len = read_some(&mut source, &mut buffer)
            .map_err(|error| broke_off(done, format!(": {error}")))?;
        if len == 0 {
            break;
        }
        done += len as u64;
        if done > total.unwrap_or(FILE_BYTES_MAX) {
            return Err(anyhow!("{} is longer than its stated size", remote.name).into());
        }
        file.write_all(&buffer[..len])
            .map_err(|e| on_disk(e, "write", part))?;
        hasher.update(&buffer[..len]);
        *done_bytes = done.max(*done_bytes);
        progress.set(done);
    }
    if total.is_some_and(|total| done != total) {
        return Err(broke_off(done, String::new()));
    }
    file.sync_all().map_err(|e| on_disk(e, "write", part))?;
    Ok((hasher.finish(), reply.sha256))
}

/// An answer whose body continues the part at `offset`.
struct Opened {
    reply: Reply,
    offset: u64,
}

/// Asks for the rest of the part if there is a usable one, else for the whole file.
fn open(client: &Client, remote: &Remote<'_>, part: &Path) -> Result<Opened, Failure> {
    if let Some((offset, etag)) = resumable(remote, part) {
        let reply = client.get(remote.path, offset)?;
        let continues = reply.response.status() == 206
            && reply.etag == Some(etag)
            && content_range(&reply).is_some_and(|(start, _)| start == offset);
        if continues {
            return Ok(Opened { reply, offset });
        }
        if reply.response.status() == 200 {
            return Ok(Opened { reply, offset: 0 });
        }
    }
    let reply = client.get(remote.path, 0)?;
    if reply.response.status() != 200 {
        let status = reply.response.status().as_u16();
        return Err(anyhow!("{} answered HTTP {status} to a plain request", remote.name).into());
    }
    Ok(Opened { reply, offset: 0 })
}

/// Where the part may be continued, and the etag it belongs to. A part that has its full size gives
/// up its last byte, so that one request still tells whether it is current.
fn resumable(remote: &Remote<'_>, part: &Path) -> Option<(u64, String)> {
    let sidecar: Sidecar = cache::read_json(&with_suffix(part, ".json"))?;
    let part_bytes = fs::metadata(part).ok()?.len();
    let last = remote.size_bytes.unwrap_or(u64::MAX).saturating_sub(1);
    let offset = part_bytes.min(last);
    (offset > 0 && sidecar.path == remote.path).then_some((offset, sidecar.etag?))
}

/// The part cut to `offset` and ready to be written there, and the hash of what it holds.
fn continue_part(part: &Path, offset: u64) -> Result<(File, Hasher)> {
    let mut hasher = Hasher::default();
    let file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(part);
    let prepared = file.and_then(|mut file| {
        file.set_len(offset)?;
        hasher.update_from(&mut file)?;
        Ok(file)
    });
    Ok((prepared.map_err(|e| on_disk(e, "prepare", part))?, hasher))
}

/// The size of the whole file as served, which must be the listed one.
fn total_bytes(reply: &Reply, remote: &Remote<'_>) -> Result<Option<u64>> {
    let served = match content_range(reply) {
        Some((_, total)) => Some(total),
        None => reply.response.body().content_length(),
    };
    if let (Some(served), Some(listed)) = (served, remote.size_bytes) {
        ensure!(
            served == listed,
            "{} is refused: the hub lists {listed} bytes and serves {served}",
            remote.name
        );
    }
    let total = served.or(remote.size_bytes);
    ensure!(
        total.is_none_or(|total| total <= FILE_BYTES_MAX),
        "{} is refused: {} bytes, limit {FILE_BYTES_MAX}",
        remote.name,
        total.unwrap_or_default()
    );
    Ok(total)
}

/// First byte and whole size from `content-range: bytes first-last/size`.
fn content_range(reply: &Reply) -> Option<(u64, u64)> {
    let text = text_of(reply.response.headers(), "content-range")?;
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, _) = range.split_once('-')?;
    Some((first.trim().parse().ok()?, total.trim().parse().ok()?))
}
