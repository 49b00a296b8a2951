//! One wheel brought by `python3 -m pip download`, run as a child process and watched.
//!
//! pip knows the person's index, proxy and certificates; so no index client of our own. Here: the
//! child and its errors. Not here: reading the wheel (`wheel`).

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};

use super::cache::on_disk;
use super::progress::Progress;
use super::reference::shorten;
use super::wheel::Failure;

/// How often the child and the size of its folder are looked at.
const WATCH_EVERY: Duration = Duration::from_millis(100);
/// How much of the end of the child's stderr is kept, in bytes.
const STDERR_BYTES_MAX: usize = 16 * 1024;
/// Interpreters tried in order when none is named.
const PYTHONS: [&str; 2] = ["python3", "python"];

/// Downloads the wheel of `requirement` (`package` or `package==version`, already checked) into the
/// empty folder `into` and returns its path. Temporary files stay in `into` too, so that progress can
/// be read from its size and a kill leaves nothing elsewhere.
///
/// # Errors
/// No Python, no pip, or pip's refusal, each with what to do; pip's last line is quoted. Only a full
/// disk counts as `Failure::Refused`: another source would not fit either.
pub fn download(
    python: Option<&Path>,
    requirement: &str,
    into: &Path,
    total_bytes: Option<u64>,
    progress: &mut dyn Progress,
) -> Result<PathBuf, Failure> {
    let candidates = python.map_or_else(|| PYTHONS.map(PathBuf::from).to_vec(), |p| vec![p.into()]);
    progress.begin(&format!("downloading {requirement} with pip"), total_bytes);
    let outcome = try_each(&candidates, requirement, into, progress);
    progress.end();
    outcome?;
    only_wheel(into).map_err(Failure::Unavailable)
}

fn try_each(
    candidates: &[PathBuf],
    requirement: &str,
    into: &Path,
    progress: &mut dyn Progress,
) -> Result<(), Failure> {
    let mut failure = None;
    for python in candidates {
        match run(python, requirement, into, progress) {
            Ok((status, _)) if status.success() => return Ok(()),
            Ok((_, stderr)) if stderr.contains("No module named pip") => {
                failure = Some(anyhow!(
                    "{} has no pip; install it (`{0} -m ensurepip`, or the package python3-pip), \
                     or name another interpreter with --python",
                    python.display()
                ));
            }
            Ok((status, stderr)) => return Err(refused(requirement, status, &stderr)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => failure = Some(anyhow!("cannot run {}: {error}", python.display())),
        }
    }
    let names: Vec<String> = candidates.iter().map(|p| p.display().to_string()).collect();
    Err(Failure::Unavailable(failure.unwrap_or_else(|| {
        anyhow!(
            "no Python found (tried {}); install python3 with pip, or name one with --python",
            names.join(", ")
        )
    })))
}

/// Runs one interpreter to its end; returns its status and the end of its stderr.
fn run(
    python: &Path,
    requirement: &str,
    into: &Path,
    progress: &mut dyn Progress,
) -> io::Result<(ExitStatus, String)> {
    let temporary = into.join("tmp");
    fs::create_dir_all(&temporary)?;
    let child = Command::new(python)
        .args(["-m", "pip", "download", "--no-deps", "--only-binary=:all:"])
        .args([
            "--disable-pip-version-check",
            "--no-input",
            "--progress-bar",
            "off",
            "-d",
        ])
        .arg(into)
        .arg(requirement)
        .env("TMPDIR", &temporary)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut child = KillOnDrop(child);
    let stderr = child.0.stderr.take().map(tail_of);
    let status = loop {
        if let Some(status) = child.0.try_wait()? {
            break status;
        }
        progress.set(folder_bytes(into, 4));
        thread::sleep(WATCH_EVERY);
    };
    let text = stderr
        .and_then(|reader| reader.join().ok())
        .unwrap_or_default();
    Ok((status, text))
}

/// Ends the child when we leave early; after a normal end both calls do nothing.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads a child's stderr on its own thread, so that the pipe never fills, and keeps its end.
fn tail_of(mut stderr: ChildStderr) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut tail = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(len @ 1..) = stderr.read(&mut buffer) {
            tail.extend_from_slice(&buffer[..len]);
            let surplus = tail.len().saturating_sub(STDERR_BYTES_MAX);
            tail.drain(..surplus);
        }
        String::from_utf8_lossy(&tail).into_owned()
    })
}

fn refused(requirement: &str, status: ExitStatus, stderr: &str) -> Failure {
    let mut lines = stderr
        .lines()
        .rev()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    // A crash of pip ends in the exception itself, below a line that says only "ERROR: Exception:".
    let is_said = |line: &&str| line.starts_with("ERROR:") && *line != "ERROR: Exception:";
    let said = lines.clone().find(is_said).or_else(|| lines.next());
    let said = said.map_or_else(|| "it printed nothing".to_owned(), shorten);
    if stderr.contains("No space left on device") {
        return Failure::Refused(anyhow!(
            "pip could not store {requirement}: {said}; free some space in the cache folder, or choose \
             another with --cache-dir"
        ));
    }
    Failure::Unavailable(anyhow!(
        "pip could not download {requirement} ({status}): {said}; check the network and pip's index \
         settings (`pip config list`)"
    ))
}

fn only_wheel(folder: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(folder).map_err(|e| on_disk(e, "read", folder))?;
    let mut wheels: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "whl"))
        .collect();
    ensure!(
        wheels.len() == 1,
        "pip ended well but left {} wheels instead of 1",
        wheels.len()
    );
    Ok(wheels.remove(0))
}

/// Bytes of the files below a folder; errors count as nothing, since pip moves files meanwhile.
fn folder_bytes(folder: &Path, depth: u32) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() && depth > 0 => folder_bytes(&entry.path(), depth - 1),
            Ok(meta) if meta.is_file() => meta.len(),
            _ => 0,
        })
        .sum()
}
