//! Damaged and hostile checkpoints: each row has one fault and gets the error that names it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "../common/mod.rs"]
mod common;
mod config;
mod folder;
mod gguf_metadata;
mod gguf_tables;
mod safetensors;

use std::path::Path;

use common::{RawGguf, hf_tensors, safetensors_file};
use folder::Folder;
use ucuz_formats::{Checkpoint, FormatError};

/// Name, what is broken, a part of the rule that must be told.
type Row = (&'static str, fn(&mut RawGguf), &'static str);
type FolderRow = (&'static str, fn(&mut Folder), &'static str);

const GGUF: [&[Row]; 4] = [
    gguf_tables::HEADERS,
    gguf_tables::TENSORS,
    gguf_metadata::METADATA,
    gguf_metadata::VOCABULARY,
];
const FOLDERS: [&[FolderRow]; 4] = [
    safetensors::FILES,
    safetensors::INDEXES,
    config::CONFIGURATIONS,
    config::SIDE_FILES,
];

fn open(file: &RawGguf) -> Result<Checkpoint, FormatError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, file.encode()).unwrap();
    Checkpoint::open(&path)
}

/// The text names the rule, a way out, and stays short whatever the file holds.
fn expect(name: &str, rule: &str, result: Result<Checkpoint, FormatError>) {
    let error = result
        .err()
        .unwrap_or_else(|| panic!("{name}: was accepted"));
    let text = error.to_string();
    assert!(text.contains(rule), "{name}: {text}");
    assert!(text.contains("; "), "{name} names a way out: {text}");
    assert!(text.len() < 800, "{name}: {} bytes of text", text.len());
}

#[test]
fn the_undamaged_file_opens() {
    let checkpoint = open(&RawGguf::valid()).unwrap();
    assert_eq!(checkpoint.tensors().count(), 11);
    assert_eq!(checkpoint.chat_template.as_deref(), Some("{{ messages }}"));
}

#[test]
fn the_undamaged_folders_open() {
    let mut folder = Folder::valid();
    assert_eq!(folder.open().unwrap().tensors().count(), 11);
    folder.sharded();
    assert_eq!(folder.open().unwrap().tensors().count(), 11);
}

#[test]
fn a_weight_file_opens_beside_its_config_and_other_files_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    std::fs::write(&path, safetensors_file(&hf_tensors())).unwrap();
    let missing = Checkpoint::open(&path).unwrap_err();
    assert!(matches!(missing, FormatError::Missing(_)), "{missing}");
    std::fs::write(
        folder.path().join("config.json"),
        common::config().to_string(),
    )
    .unwrap();
    assert!(Checkpoint::open(&path).is_ok());
    let other = Checkpoint::open(&folder.path().join("config.json")).unwrap_err();
    assert!(
        other.to_string().contains("a model is a .gguf file"),
        "{other}"
    );
    let absent = Checkpoint::open(Path::new("no/such/model.gguf")).unwrap_err();
    assert!(matches!(absent, FormatError::Io { .. }), "{absent}");
}

#[test]
fn every_damaged_gguf_is_refused_by_name() {
    for (name, damage, rule) in GGUF.into_iter().flatten() {
        let mut file = RawGguf::valid();
        damage(&mut file);
        let result = open(&file);
        let text = result
            .as_ref()
            .err()
            .map(ToString::to_string)
            .unwrap_or_default();
        assert!(
            text.contains("model.gguf: "),
            "{name} names the file: {text}"
        );
        expect(name, rule, result);
    }
}

#[test]
fn every_damaged_folder_is_refused_by_name() {
    for (name, damage, rule) in FOLDERS.into_iter().flatten() {
        let mut folder = Folder::valid();
        damage(&mut folder);
        expect(name, rule, folder.open());
    }
}

#[test]
fn refusing_the_corpus_takes_little_memory() {
    let ggufs = GGUF.iter().map(|rows| rows.len()).sum::<usize>();
    let folders = FOLDERS.iter().map(|rows| rows.len()).sum::<usize>();
    println!("{ggufs} damaged GGUF files, {folders} damaged folders");
    assert!(ggufs + folders >= 60);
    every_damaged_gguf_is_refused_by_name();
    every_damaged_folder_is_refused_by_name();
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else {
        println!("skipped the memory check: no /proc/self/status here");
        return;
    };
    let peak = status
        .lines()
        .find_map(|l| l.strip_prefix("VmHWM:"))
        .unwrap()
        .trim();
    let peak_kib: u64 = peak.trim_end_matches(" kB").parse().unwrap();
    assert!(peak_kib < 128 * 1024, "peak resident memory {peak}");
}
