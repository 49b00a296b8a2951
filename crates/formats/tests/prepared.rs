//! Prepared weights on disk: what was made is found again, bit for bit; anything else is refused by name and made anew.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::path::{Path, PathBuf};

use ucuz_formats::FormatError;
use ucuz_formats::prepared::{Index, Key, Prepared, Preparing, remove_abandoned};
use ucuz_tensor::destination::{Destination, PartPlan};
use ucuz_tensor::layout::PanelLayout;
use ucuz_tensor::part_bytes::PartBytes;
use ucuz_tensor::reference::ReferenceBackend;
use ucuz_tensor::{Format, TensorError};

const KEY: Key = Key([7; 32]);
const OTHER_KEY: Key = Key([8; 32]);

/// Names and rows of the parts; one is longer than a piece that is written, one has no row.
const PARTS: [(&str, usize); 5] = [
    ("token_embd.weight", 10_000),
    ("blk.0.attn_q.weight", 48),
    ("blk.0.none.weight", 0),
    ("blk.0.attn_k.weight", 1),
    ("output.weight", 300),
];

fn plan(name: &str, rows: usize) -> PartPlan<'_> {
    let layout = PanelLayout::new(Format::Q8_0, rows, 64).unwrap();
    PartPlan::new(&ReferenceBackend::new(1), name, layout).unwrap()
}

/// Bytes that differ between parts and places.
fn byte(name: &str, at: usize) -> u8 {
    (at.wrapping_mul(0x9e37_79b1) >> 13) as u8 ^ name.as_bytes()[name.len() / 2]
}

/// Places a part; says what it got and how many chunks had to be made.
fn place(destination: &mut dyn Destination, name: &str, rows: usize) -> (PartBytes, usize) {
    let mut made = 0;
    let bytes = destination
        .place(&plan(name, rows), &mut |chunk, bytes| {
            made += 1;
            assert!(bytes.iter().all(|byte| *byte == 0), "chunks begin as zeros");
            for (at, to) in chunk.bytes.clone().zip(bytes) {
                *to = byte(name, at);
            }
            Ok(())
        })
        .unwrap();
    (bytes, made)
}

fn check(name: &str, bytes: &PartBytes) {
    let wrong = (0..)
        .zip(bytes.bytes())
        .find(|(at, b)| **b != byte(name, *at));
    assert_eq!(wrong, None, "{name}");
}

/// All parts, placed and checked; how many chunks were made.
fn place_all(destination: &mut dyn Destination) -> usize {
    let mut total = 0;
    let mut kept = Vec::new();
    for (name, rows) in PARTS {
        let (bytes, made) = place(destination, name, rows);
        assert_eq!(bytes.len_bytes(), rows * 64 * 4);
        total += made;
        kept.push((name, bytes));
    }
    kept.iter().for_each(|(name, bytes)| check(name, bytes));
    total
}

/// A published file with all parts.
fn prepare(folder: &Path) -> PathBuf {
    let mut preparing = Preparing::create(folder, KEY, "1").unwrap();
    assert!(place_all(&mut preparing) > PARTS.len());
    preparing.publish().unwrap()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn what_was_made_is_found_again() {
    let folder = folder();
    let path = prepare(folder.path());
    assert_eq!(names(folder.path()), [KEY.file_name()]);
    let mut prepared = Prepared::open(&path, &KEY).unwrap();
    assert_eq!(place_all(&mut prepared), 0, "nothing is made again");
    assert!(prepared.fault().is_none());
    let (bytes, _) = place(&mut prepared, PARTS[1].0, PARTS[1].1);
    assert!(!bytes.is_own());
    drop(prepared);
    check(PARTS[1].0, &bytes);
}

#[test]
fn other_models_and_layouts_are_not_taken() {
    let folder = folder();
    let path = prepare(folder.path());
    let stale = Prepared::open(&path, &OTHER_KEY).unwrap_err().to_string();
    assert!(
        stale.contains("belongs to this model, layout and version"),
        "{stale}"
    );
    // The key fits and the parts do not: a name, a number of rows.
    for (name, rows) in [("blk.1.attn_q.weight", 48), ("blk.0.attn_q.weight", 49)] {
        let mut prepared = Prepared::open(&path, &KEY).unwrap();
        let (bytes, made) = place(&mut prepared, name, rows);
        assert!(bytes.is_own() && made > 0);
        check(name, &bytes);
        let fault = prepared.fault().unwrap().to_string();
        assert!(
            fault.contains(name) && fault.contains("in this layout"),
            "{fault}"
        );
    }
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let folder = folder();
    let whole = fs::read(prepare(folder.path())).unwrap();
    assert!(Index::parse(&whole, &KEY).is_ok());
    let near = |at: usize| at.saturating_sub(1)..at + 2;
    let mut lens: Vec<usize> = (0..whole.len()).step_by(509).collect();
    lens.extend((0..64).chain(near(64)).chain(near(4096)));
    for span in Index::parse(&whole, &KEY).unwrap().spans() {
        lens.extend(near(span.start).chain(near(span.end)));
    }
    lens.extend(whole.len() - 4096..whole.len());
    for len in lens {
        let cut = Index::parse(&whole[..len], &KEY);
        assert!(matches!(cut, Err(FormatError::Damaged(_))), "{len} bytes");
    }
    let longer = [&whole[..], &[0]].concat();
    assert!(Index::parse(&longer, &KEY).is_err());
    let path = folder.path().join("empty");
    fs::write(&path, []).unwrap();
    assert!(Prepared::open(&path, &KEY).is_err());
}

#[test]
fn a_flipped_bit_is_found_before_the_bytes_are_used() {
    let folder = folder();
    let path = prepare(folder.path());
    let whole = fs::read(&path).unwrap();
    let index = Index::parse(&whole, &KEY).unwrap();
    assert_eq!(
        index.len(),
        PARTS.len() - 1,
        "parts without rows are not kept"
    );
    let table = index.spans().map(|span| span.end).max().unwrap();
    let mut flipped = whole.clone();
    for at in (0..64).chain(table.next_multiple_of(4096)..whole.len()) {
        for bit in 0..8 {
            flipped[at] ^= 1 << bit;
            assert!(
                Index::parse(&flipped, &KEY).is_err(),
                "bit {bit} of byte {at}"
            );
            flipped[at] ^= 1 << bit;
        }
    }
    for span in index.spans() {
        for at in [span.start, span.start + span.len() / 2, span.end - 1] {
            let mut flipped = whole.clone();
            flipped[at] ^= 16;
            fs::write(&path, flipped).unwrap();
            let mut prepared = Prepared::open(&path, &KEY).unwrap();
            assert!(place_all(&mut prepared) > 0, "its bytes are made anew");
            let mut again = Prepared::open(&path, &KEY).unwrap();
            let own = PARTS.iter().filter(|(name, rows)| {
                let (bytes, _) = place(&mut again, name, *rows);
                *rows > 0 && bytes.is_own()
            });
            assert_eq!(own.count(), 1, "and those of no other part");
            let fault = prepared.fault().unwrap().to_string();
            assert!(
                fault.contains("checksum") && fault.contains("tensor "),
                "{fault}"
            );
        }
    }
}

#[test]
fn parts_outside_or_on_top_of_each_other_are_refused() {
    let folder = folder();
    let whole = fs::read(prepare(folder.path())).unwrap();
    let table = usize::try_from(u64::from_le_bytes(whole[48..56].try_into().unwrap())).unwrap();
    let (offset, bytes) = (32..40, 40..48);
    let rows = [
        ("before the parts", 0, &offset, 0),
        ("askew", 0, &offset, 4097),
        ("at the end of numbers", 0, &offset, u64::MAX - 4095),
        ("past the table", 3, &offset, whole.len() as u64),
        ("longer than the file", 3, &bytes, u64::MAX),
        ("into the next part", 0, &bytes, 10_000 * 256 + 8192),
        ("back to the first", 1, &offset, 4096),
    ];
    for (what, row, field, value) in rows {
        let mut file = whole.clone();
        let start = table + row * 64;
        file[start + field.start..start + field.end].copy_from_slice(&value.to_le_bytes());
        let refused = Index::parse(&sealed(file, table), &KEY).map_err(|e| e.to_string());
        let error = refused.expect_err(what);
        assert!(error.contains("one after the other"), "{what}: {error}");
    }
    let mut file = whole.clone();
    file.copy_within(table..table + 32, table + 64);
    let twice = Index::parse(&sealed(file, table), &KEY).unwrap_err();
    assert!(
        twice.to_string().contains("each part is there once"),
        "{twice}"
    );
}

/// The file with checksums that fit its header and table.
fn sealed(mut file: Vec<u8>, table: usize) -> Vec<u8> {
    let crc = crc32fast::hash(&file[table..]).to_le_bytes();
    file[56..60].copy_from_slice(&crc);
    let crc = crc32fast::hash(&file[..60]).to_le_bytes();
    file[60..64].copy_from_slice(&crc);
    file
}

#[test]
fn two_may_write_at_once_and_readers_keep_what_they_have() {
    let folder = folder();
    let [mut first, mut second] =
        ["1", "2"].map(|unique| Preparing::create(folder.path(), KEY, unique).unwrap());
    assert!(
        Preparing::create(folder.path(), KEY, "1").is_err(),
        "names are not shared"
    );
    assert!(remove_abandoned(folder.path(), &KEY), "somebody writes it");
    assert!(!remove_abandoned(folder.path(), &OTHER_KEY));
    let (name, rows) = PARTS[0];
    let (bytes, _) = place(&mut first, name, rows);
    place_all(&mut second);
    for (name, rows) in &PARTS[1..] {
        place(&mut first, name, *rows);
    }
    let path = first.publish().unwrap();
    let mut prepared = Prepared::open(&path, &KEY).unwrap();
    assert_eq!(second.publish().unwrap(), path);
    assert_eq!(names(folder.path()), [KEY.file_name()]);
    // The first file has lost its name; those who have it keep it.
    check(name, &bytes);
    assert_eq!(place_all(&mut prepared), 0);
    assert_eq!(place_all(&mut Prepared::open(&path, &KEY).unwrap()), 0);
}

#[test]
fn unfinished_files_are_never_found() {
    let folder = folder();
    let mut given_up = Preparing::create(folder.path(), KEY, "1").unwrap();
    place_all(&mut given_up);
    assert!(Prepared::open(&folder.path().join(KEY.file_name()), &KEY).is_err());
    drop(given_up);
    assert_eq!(names(folder.path()), [""; 0]);
    // What a killed process leaves: nobody has it locked.
    let left = folder.path().join(format!("{}.9.writing", KEY.file_name()));
    fs::write(&left, [0; 5000]).unwrap();
    assert!(!remove_abandoned(folder.path(), &KEY));
    assert_eq!(names(folder.path()), [""; 0]);
}

#[test]
fn an_error_while_making_ends_the_loading_and_leaves_no_file() {
    let folder = folder();
    let mut preparing = Preparing::create(folder.path(), KEY, "1").unwrap();
    let error = TensorError::shape("a test", 1, 2);
    let made = preparing.place(&plan("w", 16), &mut |_, _| Err(error.clone()));
    assert_eq!(made.unwrap_err(), error);
    drop(preparing);
    assert_eq!(names(folder.path()), [""; 0]);
}
