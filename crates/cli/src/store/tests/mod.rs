//! Tests of the store without an outside network: a fake hub on loopback, a fake pip, wheels made here.

mod fake_hub;
mod hub;
mod parse;
mod prepared;
#[cfg(unix)]
mod wheel;

use std::path::Path;
use std::time::Duration;

use super::{Alias, Progress, Store, cache, digest, http};

/// An address where nothing listens, for tests that must not ask a hub.
const NO_HUB: &str = "http://127.0.0.1:9";

/// Remembers notes and stages.
#[derive(Default)]
struct Recorder {
    notes: Vec<String>,
    stages: Vec<String>,
}

impl Progress for Recorder {
    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }
    fn begin(&mut self, what: &str, _total_bytes: Option<u64>) {
        self.stages.push(what.to_owned());
    }
    fn set(&mut self, _done_bytes: u64) {}
    fn end(&mut self) {}
}

fn store(cache: &Path, endpoint: &str) -> Store {
    Store {
        models: cache.join("models"),
        endpoint: http::Endpoint::parse(endpoint).unwrap(),
        token: None,
        revision: "main".to_owned(),
        python: Some(cache.join("no-python")),
        offline: false,
        aliases: &[],
        retry_wait: Duration::ZERO,
    }
}

/// A small "model": GGUF's magic and some bytes that do not repeat soon.
fn gguf(num_bytes: usize) -> Vec<u8> {
    let noise = (0..).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 13) as u8);
    b"GGUF"
        .iter()
        .copied()
        .chain(noise)
        .take(num_bytes)
        .collect()
}

fn sha256(bytes: &[u8]) -> String {
    let mut hasher = digest::Hasher::default();
    hasher.update(bytes);
    hasher.finish()
}

/// An alias table of one line for a file of our own; leaked, since aliases are static.
fn alias_of(bytes: &[u8]) -> &'static [Alias] {
    Box::leak(Box::new([Alias {
        name: "tiny",
        package: "llm-tiny",
        version: "1.0",
        wheel_bytes: 1,
        file: "tiny.gguf",
        sha256: sha256(bytes).leak(),
        size_bytes: bytes.len() as u64,
        fallback_repo: "org/tiny",
        licence: "none",
        about: "a test",
    }]))
}

/// Every file below a folder, as sorted relative paths, without lock files.
fn files_below(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).into_iter().flatten().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => open.push(entry.path()),
                false if entry.file_name() == ".lock" => {}
                false => {
                    let path = entry.path();
                    found.push(
                        path.strip_prefix(folder)
                            .unwrap()
                            .to_string_lossy()
                            .into_owned(),
                    );
                }
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_full_disk_names_the_place_and_the_way_out() {
    let error = std::io::Error::from(std::io::ErrorKind::StorageFull);
    let text = cache::on_disk(error, "write", Path::new("/c/x.part")).to_string();
    assert_says(
        &text,
        &["cannot write /c/x.part", "free some space", "--cache-dir"],
    );
}

fn error_text<T: std::fmt::Debug>(outcome: anyhow::Result<T>) -> String {
    format!("{:#}", outcome.unwrap_err())
}

fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
}
