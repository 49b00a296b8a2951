//! The rules of the house that no compiler checks: which crate may use which, where `unsafe` may stand, how long a file is.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Crates that a crate may name; everything else is a forbidden arrow.
const ARROWS: &[(&str, &[&str])] = &[
    ("tensor", &[]),
    ("text", &[]),
    ("report", &[]),
    ("formats", &["tensor"]),
    ("cpu", &["tensor"]),
    ("models", &["formats", "tensor"]),
    ("engine", &["models", "tensor"]),
    (
        "llm",
        &["engine", "text", "formats", "models", "tensor", "report"],
    ),
    ("serve", &["llm", "report"]),
    ("measure", &["llm", "models", "formats", "report", "tensor"]),
    (
        "cli",
        &[
            "llm", "serve", "measure", "report", "cpu", "formats", "models", "tensor",
        ],
    ),
];

/// Where `async` may stand: what serves, and what puts load on a server.
const ASYNC: &[&str] = &[
    "crates/serve/",
    "crates/cli/",
    "crates/measure/src/load/",
    "crates/measure/tests/load",
];

/// Files (or folders, with a trailing slash) where `unsafe` may stand.
const UNSAFE: &[&str] = &[
    "crates/cpu/src/arch/",
    "crates/cpu/src/emulator/",
    "crates/cpu/src/ops/",
    "crates/cpu/src/pool.rs",
    "crates/cpu/src/repack.rs",
    "crates/cpu/src/table.rs",
    "crates/cpu/src/table/tiles.rs",
    "crates/cpu/tests/amx.rs",
    "crates/formats/src/mmap.rs",
];

const LINES_MAX: usize = 600;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every Rust file under `crates/`, as (path from the root, text).
fn sources() -> BTreeMap<String, String> {
    let root = root();
    let mut files = BTreeMap::new();
    let mut folders = vec![root.join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let name = path
                    .strip_prefix(&root)
                    .unwrap()
                    .to_string_lossy()
                    .replace('\\', "/");
                files.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    assert!(
        files.len() > 50,
        "only {} files found: the walk is broken",
        files.len()
    );
    files
}

/// Code of a line, without its comment and without string contents.
fn code(line: &str) -> String {
    let line = line.split("//").next().unwrap_or("");
    line.split('"').step_by(2).collect()
}

#[test]
fn arrows_point_down() {
    let folders: Vec<String> = fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    for folder in &folders {
        let (_, allowed) = ARROWS
            .iter()
            .find(|(name, _)| name == folder)
            .unwrap_or_else(|| panic!("crate {folder} has no row in ARROWS"));
        let manifest =
            fs::read_to_string(root().join("crates").join(folder).join("Cargo.toml")).unwrap();
        let dependencies = manifest
            .split("[dependencies]")
            .nth(1)
            .unwrap_or("")
            .split("\n[")
            .next()
            .unwrap();
        for line in dependencies.lines() {
            let Some(name) = line.strip_prefix("ucuz-") else {
                continue;
            };
            let name: String = name
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '-')
                .collect();
            assert!(
                allowed.contains(&name.as_str()),
                "crate {folder} may not depend on {name}"
            );
        }
    }
}

#[test]
fn unsafe_stands_only_where_listed() {
    for (name, text) in sources() {
        if UNSAFE.iter().any(|allowed| {
            name == *allowed || (allowed.ends_with('/') && name.starts_with(allowed))
        }) {
            continue;
        }
        for (i, line) in text.lines().enumerate() {
            let words = code(line);
            let found = words
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .any(|word| word == "unsafe");
            assert!(
                !found,
                "{name}:{}: unsafe outside of the listed files",
                i + 1
            );
        }
    }
}

#[test]
fn every_unsafe_block_says_why_it_is_sound() {
    for (name, text) in sources() {
        let lines: Vec<&str> = text.lines().collect();
        for (i, line) in lines.iter().enumerate() {
            let words = code(line);
            if !words.contains("unsafe {") && !words.contains("unsafe impl") {
                continue;
            }
            let from = i.saturating_sub(8);
            let said = lines[from..=i].iter().any(|near| near.contains("SAFETY:"));
            assert!(
                said,
                "{name}:{}: unsafe without a SAFETY note above it",
                i + 1
            );
        }
    }
}

#[test]
fn files_are_short_enough_to_read() {
    for (name, text) in sources() {
        let lines = text.lines().count();
        assert!(
            lines <= LINES_MAX,
            "{name}: {lines} lines, limit {LINES_MAX}; split it by noun"
        );
    }
}

#[test]
fn only_the_command_line_reads_the_environment() {
    for (name, text) in sources() {
        if name.starts_with("crates/cli/")
            || name.contains("/tests/")
            || name.contains("/examples/")
        {
            continue;
        }
        let library = text.split("#[cfg(test)]").next().unwrap_or("");
        for (i, line) in library.lines().enumerate() {
            assert!(
                !code(line).contains("env::var"),
                "{name}:{}: reads the environment",
                i + 1
            );
        }
    }
}

#[test]
fn async_stays_in_serve_and_above() {
    for (name, text) in sources() {
        if ASYNC.iter().any(|allowed| name.starts_with(allowed)) {
            continue;
        }
        for (i, line) in text.lines().enumerate() {
            let words = code(line);
            let found = words
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .any(|word| word == "async");
            assert!(!found, "{name}:{}: async below serve", i + 1);
        }
    }
}

#[test]
fn nothing_is_left_undone_in_words() {
    for (name, text) in sources() {
        if name.ends_with("tests/tidy.rs") {
            continue;
        }
        for word in ["TODO", "FIXME", "XXX", "#[ignore", "dbg!("] {
            assert!(!text.contains(word), "{name} contains {word}");
        }
    }
}

/// The right column of the table in SECURITY.md proves nothing when a test is gone or has another name.
#[test]
fn tests_named_in_the_security_page_exist() {
    let page = fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let sources = sources();
    let (mut named, mut rows) = (0, 0);
    for row in page.lines().filter(|row| row.matches('|').count() == 4) {
        let proof = row.rsplit('|').nth(1).unwrap_or_default();
        let names = proof.split('`').skip(1).step_by(2);
        let tests: Vec<_> = names.map(|name| format!("fn {name}(")).collect();
        rows += usize::from(!tests.is_empty());
        for test in tests {
            named += 1;
            let exists = sources.iter().any(|(_, text)| text.contains(&test));
            assert!(exists, "{test}) of SECURITY.md is in no source");
        }
        for target in proof.split("fuzz: ").skip(1) {
            let target = target.split([',', ' ']).next().unwrap_or_default();
            let path = root().join(format!("fuzz/targets/{target}.rs"));
            assert!(path.exists(), "no fuzz target {target}");
        }
    }
    assert!(rows > 20 && named > 30, "{rows} rows name {named} tests");
}
