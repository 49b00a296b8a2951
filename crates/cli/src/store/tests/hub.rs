//! `hf:` models from a fake hub: choice, resume, redirects, hashes, tokens, refusals, two at once.

use std::fs;

use tempfile::TempDir;

use super::super::{ModelRef, Resolved};
use super::fake_hub::{Answer, FakeHub};
use super::*;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const FILE: &str = "/org/tiny/resolve/0123456789abcdef0123456789abcdef01234567/tiny.gguf";
const LIST: &str = "/api/models/org/tiny?blobs=true";

/// A hub with one GGUF of `bytes` in `org/tiny`, and an empty cache.
fn tiny(bytes: &[u8]) -> (FakeHub, TempDir, Store) {
    let hub = FakeHub::start();
    hub.put_repo(
        "org/tiny",
        COMMIT,
        &[("tiny.gguf", bytes), ("README.md", b"hello")],
    );
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path(), &hub.url);
    (hub, dir, store)
}

fn resolve(store: &Store, model: &str) -> anyhow::Result<Resolved> {
    store.resolve(&ModelRef::parse(model).unwrap(), &mut Recorder::default())
}

#[test]
fn a_gguf_is_brought_once_and_then_found_without_a_request() {
    let bytes = gguf(700_000);
    let (hub, dir, mut store) = tiny(&bytes);
    let first = resolve(&store, "hf:org/tiny").unwrap();
    assert_eq!(fs::read(&first.path).unwrap(), bytes);
    assert_eq!(first.display_name, "tiny");
    assert_eq!(first.sha256_verified, Some(sha256(&bytes)));
    let at = "models/hf/org--tiny/main";
    let expected = [
        format!("{at}/gguf/tiny.gguf"),
        format!("{at}/gguf/tiny.gguf.verified"),
        format!("{at}/pick.json"),
    ];
    assert_eq!(files_below(dir.path()), expected);
    assert_eq!(hub.requests().len(), 2);
    store.offline = true;
    for model in ["hf:org/tiny", "hf:org/tiny/tiny.gguf"] {
        assert_eq!(resolve(&store, model).unwrap().path, first.path);
    }
    assert_eq!(hub.requests().len(), 2);
    assert_says(
        &error_text(resolve(&store, "hf:org/other")),
        &["hf:org/other", "--offline"],
    );
}

#[test]
fn a_revision_has_its_own_place_and_its_own_list() {
    let (hub, dir, mut store) = tiny(&gguf(100));
    store.revision = "refs/pr/7".to_owned();
    let json = "{\"siblings\":[{\"rfilename\":\"tiny.gguf\"}]}";
    hub.put(
        "/api/models/org/tiny/revision/refs%2Fpr%2F7?blobs=true",
        [Answer::body(json)],
    );
    hub.put(
        "/org/tiny/resolve/refs%2Fpr%2F7/tiny.gguf",
        [Answer::body(gguf(200))],
    );
    let resolved = resolve(&store, "hf:org/tiny").unwrap();
    assert_eq!(fs::metadata(&resolved.path).unwrap().len(), 200);
    assert!(
        resolved
            .path
            .starts_with(dir.path().join("models/hf/org--tiny/refs~pr~7"))
    );
}

#[test]
fn a_safetensors_set_becomes_a_folder_and_shards_come_by_the_index() {
    let index = b"{\"weight_map\":{\"a\":\"model-1.safetensors\",\"b\":\"model-2.safetensors\"}}";
    let single: Vec<(&str, &[u8])> = vec![
        ("config.json", b"{}"),
        ("tokenizer.json", b"{\"t\":1}"),
        ("model.safetensors", b"weights"),
        ("pytorch_model.bin", b"not wanted"),
    ];
    let sharded: Vec<(&str, &[u8])> = vec![
        ("config.json", b"{}"),
        ("model.safetensors.index.json", index),
        ("model-1.safetensors", b"one"),
        ("model-2.safetensors", b"two"),
        ("model-3.safetensors", b"not wanted"),
    ];
    let single_expected = ["config.json", "model.safetensors", "tokenizer.json"].as_slice();
    let sharded_expected = [
        "config.json",
        "model-1.safetensors",
        "model-2.safetensors",
        "model.safetensors.index.json",
    ];
    for (files, expected) in [(single, single_expected), (sharded, &sharded_expected)] {
        let hub = FakeHub::start();
        hub.put_repo("org/tiny", COMMIT, &files);
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path(), &hub.url);
        let resolved = resolve(&store, "hf:org/tiny").unwrap();
        assert_eq!(files_below(&resolved.path), expected);
        assert_eq!(
            (resolved.display_name.as_str(), &resolved.sha256_verified),
            ("tiny", &None)
        );
        let num_requests = hub.requests().len();
        assert_eq!(resolve(&store, "hf:org/tiny").unwrap().path, resolved.path);
        assert_eq!(hub.requests().len(), num_requests);
        fs::write(resolved.path.join("config.json"), b"{ }").unwrap();
        resolve(&store, "hf:org/tiny").unwrap();
        assert!(
            hub.requests().len() > num_requests,
            "a changed file is brought again"
        );
        assert_eq!(fs::read(resolved.path.join("config.json")).unwrap(), b"{}");
    }
}

#[test]
fn a_broken_download_continues_where_it_broke_off() {
    let bytes = gguf(600_000);
    let (hub, _dir, store) = tiny(&bytes);
    let broken = |sent_bytes| Answer::Broken {
        etag: "v1".into(),
        bytes: bytes.clone(),
        sent_bytes,
    };
    hub.put(
        FILE,
        [
            broken(250_000),
            broken(100_000),
            Answer::with_etag(bytes.clone(), "v1"),
        ],
    );
    let resolved = resolve(&store, "hf:org/tiny").unwrap();
    assert_eq!(fs::read(resolved.path).unwrap(), bytes);
    let ranges: Vec<_> = hub
        .requests_of(FILE)
        .into_iter()
        .map(|request| request.range)
        .collect();
    let expected = [
        None,
        Some("bytes=250000-".to_owned()),
        Some("bytes=350000-".to_owned()),
    ];
    assert_eq!(ranges, expected);
}

#[test]
fn a_given_up_download_is_resumed_next_time_unless_the_file_changed() {
    let bytes = gguf(600_000);
    let changed: Vec<u8> = bytes.iter().rev().copied().collect();
    let changed = [b"GGUF", &changed[4..]].concat();
    for (etag_now, bytes_now, num_requests) in [("v1", &bytes, 1), ("v2", &changed, 2)] {
        let (hub, dir, store) = tiny(&bytes);
        let broken = |sent_bytes| Answer::Broken {
            etag: "v1".into(),
            bytes: bytes.clone(),
            sent_bytes,
        };
        hub.put(FILE, [broken(300_000), broken(0)]);
        assert_says(
            &error_text(resolve(&store, "hf:org/tiny")),
            &["tiny.gguf broke off"],
        );
        assert_eq!(hub.requests_of(FILE).len(), 5);
        let names = files_below(dir.path());
        assert!(names.iter().all(|name| name.contains(".part")), "{names:?}");
        hub.put(FILE, [Answer::with_etag(bytes_now.clone(), etag_now)]);
        let resolved = resolve(&store, "hf:org/tiny").unwrap();
        assert_eq!(&fs::read(resolved.path).unwrap(), bytes_now);
        let again = hub.requests_of(FILE).split_off(5);
        assert_eq!(again[0].range.as_deref(), Some("bytes=300000-"));
        assert_eq!(again.len(), num_requests);
    }
}

#[test]
fn a_whole_part_left_by_a_kill_costs_one_byte() {
    let bytes = gguf(10_000);
    let (hub, dir, store) = tiny(&bytes);
    let folder = dir.path().join("models/hf/org--tiny/main/gguf");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("tiny.gguf.part"), &bytes).unwrap();
    let sidecar = format!("{{\"path\":\"{FILE}\",\"etag\":\"etag of tiny.gguf\"}}");
    fs::write(folder.join("tiny.gguf.part.json"), sidecar).unwrap();
    resolve(&store, "hf:org/tiny").unwrap();
    assert_eq!(
        hub.requests_of(FILE)[0].range.as_deref(),
        Some("bytes=9999-")
    );
}

#[test]
fn a_server_without_ranges_starts_from_zero() {
    let bytes = gguf(600_000);
    let (hub, _dir, store) = tiny(&bytes);
    let broken = Answer::Broken {
        etag: "v1".into(),
        bytes: bytes.clone(),
        sent_bytes: 300_000,
    };
    let headers = vec![("ETag", "\"v1\"".to_owned())];
    hub.put(
        FILE,
        [
            broken,
            Answer::Body {
                ranges: false,
                headers,
                bytes: bytes.clone(),
            },
        ],
    );
    assert_eq!(
        fs::read(resolve(&store, "hf:org/tiny").unwrap().path).unwrap(),
        bytes
    );
}

#[test]
fn a_file_that_differs_from_a_stated_hash_or_size_is_deleted() {
    let (right, wrong) = (gguf(5000), vec![b'G'; 5000]);
    let (want, have) = (sha256(&right), sha256(&wrong));
    let lfs = format!(
        "{{\"siblings\":[{{\"rfilename\":\"tiny.gguf\",\"lfs\":{{\"sha256\":\"{want}\",\"size\":5000}}}}]}}"
    );
    let linked = || vec![("X-Linked-Etag", format!("\"{want}\""))];
    let wrong_body = |headers| Answer::Body {
        ranges: true,
        headers,
        bytes: wrong.clone(),
    };
    let plain = "{\"siblings\":[{\"rfilename\":\"tiny.gguf\",\"size\":5000}]}".to_owned();
    let path = "/org/tiny/resolve/main/tiny.gguf";
    let both: &[&str] = &[&want, &have, "deleted"];
    let cases: [(String, Answer, &[&str]); 5] = [
        (lfs, wrong_body(vec![]), both),
        (plain.clone(), wrong_body(linked()), both),
        (plain.clone(), Answer::with_etag(wrong.clone(), &want), both),
        (
            plain.clone(),
            wrong_body(vec![]),
            &["tiny.gguf of org/tiny is not a GGUF file"],
        ),
        (
            plain,
            Answer::body(gguf(5001)),
            &["lists 5000 bytes and serves 5001"],
        ),
    ];
    for (list, answer, says) in cases {
        let (hub, dir, store) = tiny(&right);
        hub.put(LIST, [Answer::body(list)]);
        hub.put(path, [answer]);
        assert_says(&error_text(resolve(&store, "hf:org/tiny")), says);
        assert_eq!(files_below(dir.path()), Vec::<String>::new());
        assert_eq!(
            hub.requests_of(path).len(),
            1,
            "a wrong file is not asked for again"
        );
    }
}

#[test]
fn redirects_carry_the_hash_but_never_the_token_to_another_host() {
    let bytes = gguf(5000);
    let (hub, _dir, mut store) = tiny(&bytes);
    let storage = FakeHub::start();
    storage.put("/blob", [Answer::with_etag(bytes.clone(), &"f".repeat(64))]);
    let headers = vec![("X-Linked-Etag", format!("\"{}\"", sha256(&bytes)))];
    hub.put(
        FILE,
        [Answer::Redirect {
            to: "/moved".into(),
            headers: vec![],
        }],
    );
    hub.put(
        "/moved",
        [Answer::Redirect {
            to: format!("{}/blob", storage.url),
            headers,
        }],
    );
    store.token = http::Token::new(" secret\n");
    resolve(&store, "hf:org/tiny").unwrap();
    for request in hub.requests() {
        assert_eq!(
            request.authorization.as_deref(),
            Some("Bearer secret"),
            "{}",
            request.path
        );
    }
    assert_eq!(storage.requests().len(), 1);
    assert_eq!(storage.requests()[0].authorization, None);
}

#[test]
fn refusals_of_the_hub_say_what_to_do() {
    let redirect = |to: &str| Answer::Redirect {
        to: to.to_owned(),
        headers: vec![],
    };
    let long = format!("{{\"x\":\"{}\"}}", "y".repeat(17 << 20));
    let cases: [(&str, Answer, &[&str], usize); 9] = [
        (
            LIST,
            Answer::Status(404),
            &["HTTP 404", "check the spelling"],
            1,
        ),
        (
            LIST,
            Answer::Status(401),
            &["HTTP 401", "no token", "set HF_TOKEN"],
            1,
        ),
        (
            LIST,
            Answer::Status(503),
            &["HTTP 503", "try again later"],
            4,
        ),
        (LIST, Answer::Status(418), &["HTTP 418"], 1),
        (LIST, Answer::body("<html>"), &["is not its JSON"], 1),
        (LIST, Answer::body(long), &["longer than 16777216 bytes"], 1),
        (LIST, redirect(LIST), &["HTTP 302"], 7),
        (
            LIST,
            redirect("file:///etc/passwd"),
            &["not an allowed address"],
            1,
        ),
        (FILE, Answer::Status(404), &["tiny.gguf", "HTTP 404"], 1),
    ];
    for (path, answer, says, num_requests) in cases {
        let (hub, dir, store) = tiny(&gguf(100));
        hub.put(path, [answer]);
        assert_says(&error_text(resolve(&store, "hf:org/tiny")), says);
        assert_eq!(hub.requests_of(path).len(), num_requests, "{says:?}");
        assert_eq!(files_below(dir.path()), Vec::<String>::new());
    }
    let dir = tempfile::tempdir().unwrap();
    let text = error_text(resolve(&store(dir.path(), NO_HUB), "hf:org/tiny"));
    assert_says(
        &text,
        &["no answer from http://127.0.0.1:9", "check the network"],
    );
}

#[test]
fn two_pulls_at_once_bring_the_files_once() {
    let bytes = gguf(2_000_000);
    let (hub, _dir, store) = tiny(&bytes);
    std::thread::scope(|scope| {
        let pulls: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| resolve(&store, "hf:org/tiny")))
            .collect();
        for pull in pulls {
            assert_eq!(fs::read(pull.join().unwrap().unwrap().path).unwrap(), bytes);
        }
    });
    assert_eq!(hub.requests_of(FILE).len(), 1);
    assert_eq!(hub.requests_of(LIST).len(), 1);
}
