//! Tokenizers from `tokenizer.json` and from hand-made vocabularies, against Hugging Face's values
//! (`golden/make_tokenizers.py`) and against damaged and hostile files.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

use proptest::prelude::*;
use serde_json::{Value, json};
use ucuz_text::{
    DecodeOptions, LeadingSpace, Special, SpecialIds, TextError, Tokenizer, TokenizerConfig,
    VocabSpec,
};

const CASES: &str = include_str!("golden/tokenizers.json");

fn config() -> TokenizerConfig {
    TokenizerConfig {
        bos_token: Some("<s>".to_owned()),
        eos_token: Some("</s>".to_owned()),
        ..TokenizerConfig::default()
    }
}

fn ids(value: &Value) -> Vec<u32> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_u64().unwrap() as u32)
        .collect()
}

#[test]
fn json_tokenizers_give_hugging_face_ids_and_texts() {
    let cases: Vec<Value> = serde_json::from_str(CASES).unwrap();
    assert_eq!(cases.len(), 5);
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let json = case["tokenizer"].to_string();
        let tokenizer = Tokenizer::from_json(json.as_bytes(), &config()).unwrap();
        assert_eq!(
            tokenizer.adds_bos(),
            case["adds_bos"].as_bool().unwrap(),
            "{name}"
        );
        for row in case["rows"].as_array().unwrap() {
            let text = row["text"].as_str().unwrap();
            let expected = ids(&row["ids"]);
            assert_eq!(
                tokenizer.encode(text, Special::Parse).unwrap(),
                expected,
                "{name} {text:?}"
            );
            let options = DecodeOptions {
                leading_space: LeadingSpace::Strip,
                ..DecodeOptions::default()
            };
            let decoded = row["decoded"].as_str().unwrap();
            assert_eq!(
                tokenizer.decode(&expected, options),
                decoded,
                "{name} {text:?}"
            );
        }
    }
}

#[test]
fn special_text_is_plain_unless_parsed() {
    let cases: Vec<Value> = serde_json::from_str(CASES).unwrap();
    for case in cases {
        let json = case["tokenizer"].to_string();
        let tokenizer = Tokenizer::from_json(json.as_bytes(), &config()).unwrap();
        let text = "a<s>b</s>";
        let plain = tokenizer.encode(text, Special::Plain).unwrap();
        assert!(
            plain.iter().all(|&id| !tokenizer.is_special(id)),
            "{}",
            case["name"]
        );
        let parsed = tokenizer.encode(text, Special::Parse).unwrap();
        assert_eq!(
            parsed
                .iter()
                .filter(|&&id| tokenizer.is_special(id))
                .count(),
            2
        );
        let twice = tokenizer.encode_prompt("<s>a", Special::Parse).unwrap();
        let bos = tokenizer.bos().unwrap();
        assert_eq!(
            twice.iter().filter(|&&id| id == bos).count(),
            1,
            "exactly one begin token"
        );
        assert_eq!(tokenizer.id_of("<s>"), Some(bos));
        assert!(tokenizer.is_eog(tokenizer.eos().unwrap()));
    }
}

fn check_json(edit: impl Fn(&mut Value), expected: &str) {
    let cases: Vec<Value> = serde_json::from_str(CASES).unwrap();
    let mut json = cases[0]["tokenizer"].clone();
    edit(&mut json);
    let error = Tokenizer::from_json(json.to_string().as_bytes(), &config()).unwrap_err();
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn parts_that_are_not_implemented_are_refused_by_name() {
    check_json(|json| json["model"]["type"] = json!("Unigram"), "Unigram");
    check_json(|json| json["normalizer"] = json!({"type": "NFKC"}), "NFKC");
    check_json(
        |json| json["pre_tokenizer"] = json!({"type": "BertPreTokenizer"}),
        "BertPreTokenizer",
    );
    check_json(|json| json["model"]["dropout"] = json!(0.1), "dropout");
    check_json(
        |json| json["model"]["end_of_word_suffix"] = json!("</w>"),
        "suffix",
    );
    let look = json!({"type": "Split", "pattern": {"Regex": "a(?=b)"}, "behavior": "Isolated"});
    check_json(move |json| json["pre_tokenizer"] = look.clone(), "a(?=b)");
    check_json(
        |json| json["model"]["merges"][0] = json!(["\u{1}", "b"]),
        "merge 0",
    );
    check_json(
        |json| json["added_tokens"][0]["id"] = json!(4_000_000_000u32),
        "limit",
    );
    check_json(|json| json["model"]["vocab"] = json!({}), "vocabulary");
    check_json(|json| json["model"]["merges"] = json!(7), "damaged");
    check_json(
        |json| json["added_tokens"][0]["content"] = json!("x".repeat(5000)),
        "limit",
    );
}

#[test]
fn configs_are_read_in_both_spellings() {
    let json = br#"{"bos_token": {"content": "<s>"}, "eos_token": "</s>", "add_bos_token": true,
        "chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]}"#;
    let config = TokenizerConfig::from_json(json).unwrap();
    assert_eq!(config.bos_token.as_deref(), Some("<s>"));
    assert_eq!(config.eos_token.as_deref(), Some("</s>"));
    assert_eq!(config.chat_template.as_deref(), Some("d"));
    for bad in [&b""[..], b"[]", b"{\"add_bos_token\": 3}", b"\xff", b"{"] {
        assert!(matches!(
            TokenizerConfig::from_json(bad),
            Err(TextError::BadJson { .. })
        ));
    }
}

/// A SentencePiece vocabulary in which the scores decide.
fn scored() -> VocabSpec<'static> {
    let mut tokens: Vec<&[u8]> = vec![
        b"<unk>",
        b"<s>",
        b"</s>",
        b"<0xC3>",
        b"<0xA9>",
        "\u{2581}".as_bytes(),
        b"a",
        b"b",
    ];
    tokens.extend([
        &b"ab"[..],
        b"ba",
        b"aba",
        "\u{2581}a".as_bytes(),
        b"\n\n",
        b"<|turn|>",
    ]);
    VocabSpec {
        model: "llama",
        pre: Some("default"),
        scores: Some((0..tokens.len()).map(|id| -(id as f32)).collect()),
        token_types: Some(vec![2, 3, 3, 6, 6, 1, 1, 1, 1, 1, 1, 1, 4, 4]),
        ids: SpecialIds {
            bos: Some(1),
            eos: Some(2),
            unk: Some(0),
            ..SpecialIds::default()
        },
        tokens,
        ..VocabSpec::default()
    }
}

#[test]
fn scores_decide_and_bytes_catch_the_rest() {
    let tokenizer = Tokenizer::from_vocab(&scored()).unwrap();
    for (text, expected) in [
        ("ab", vec![5, 8]),
        ("bab", vec![5, 7, 8]),
        ("aab", vec![11, 8]),
        (" a", vec![5, 11]),
        ("\u{2581}a", vec![5, 11]),
        ("b\u{e9}", vec![5, 7, 3, 4]),
        ("b?", vec![5, 7, 0]),
        ("b\n\na", vec![5, 7, 12, 11]),
        ("<s>b", vec![1, 5, 7]),
        ("<|turn|>", vec![13]),
    ] {
        assert_eq!(
            tokenizer.encode(text, Special::Parse).unwrap(),
            expected,
            "{text:?}"
        );
    }
    assert_eq!(
        tokenizer.encode_prompt("b", Special::Plain).unwrap(),
        [1, 5, 7]
    );
    // A "user-defined" token that looks like a turn marker cannot be written by plain text.
    assert!(
        !tokenizer
            .encode("<|turn|>", Special::Plain)
            .unwrap()
            .contains(&13)
    );
    assert_eq!(
        tokenizer.decode(&[5, 7, 3, 4, 1], DecodeOptions::default()),
        " b\u{e9}"
    );
    assert_eq!(
        (tokenizer.vocab_size(), tokenizer.token_bytes(99)),
        (14, None)
    );
}

#[test]
fn broken_vocabularies_are_refused_with_the_reason() {
    let check = |edit: fn(&mut VocabSpec<'static>), expected: &str| {
        let mut spec = scored();
        edit(&mut spec);
        let error = Tokenizer::from_vocab(&spec).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(
        |spec| spec.model = "rwkv",
        "\"rwkv\" is not supported; known: gpt2, llama",
    );
    check(|spec| spec.model = "gpt2", "\"default\" is not supported");
    check(|spec| spec.pre = Some("new"), "\"new\" is not supported");
    check(|spec| spec.scores = None, "needs scores");
    check(
        |spec| spec.scores = Some(vec![0.0]),
        "14 tokens, but 1 scores",
    );
    check(
        |spec| spec.scores.as_mut().unwrap()[3] = f32::NAN,
        "token 3 is not a number",
    );
    check(
        |spec| spec.token_types = Some(vec![]),
        "14 tokens, but 0 token types",
    );
    check(
        |spec| spec.token_types.as_mut().unwrap()[6] = 6,
        "not <0xNN>",
    );
    check(
        |spec| spec.ids.eos = Some(14),
        "end id is 14, but there are 14 tokens",
    );
    check(|spec| spec.tokens.clear(), "no tokens");
    check(
        |spec| spec.tokens[6] = Box::leak(vec![b'x'; 5000].into_boxed_slice()),
        "limit 4096",
    );
    let pairs = |merges: Option<Vec<&'static [u8]>>| {
        let mut spec = scored();
        (spec.model, spec.pre, spec.merges) = ("gpt2", Some("gpt-2"), merges);
        spec.token_types = None;
        Tokenizer::from_vocab(&spec)
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    assert!(pairs(None).unwrap_err().contains("needs merges"));
    assert!(pairs(Some(vec![b"ab"])).unwrap_err().contains("merge 0"));
    assert!(
        pairs(Some(vec![b"a b", b"a x"]))
            .unwrap_err()
            .contains("merge 1 is \"a x\"")
    );
    assert!(pairs(Some(vec![b"a b"])).is_ok());
}

#[test]
fn text_without_a_token_is_an_error_that_names_it() {
    let spec = VocabSpec {
        model: "gpt2",
        pre: Some("gpt-2"),
        tokens: vec![b"a"],
        merges: Some(vec![]),
        ..VocabSpec::default()
    };
    let tokenizer = Tokenizer::from_vocab(&spec).unwrap();
    assert_eq!(tokenizer.encode("aa", Special::Plain).unwrap(), [0, 0]);
    assert_eq!(
        tokenizer.encode("ab", Special::Plain),
        Err(TextError::Unencodable {
            piece: "b".to_owned()
        })
    );
    let long = "a".repeat(ucuz_text::limits::MAX_TEXT_BYTES + 1);
    assert!(matches!(
        tokenizer.encode(&long, Special::Plain),
        Err(TextError::TooLarge { .. })
    ));
}

#[test]
fn equal_vocabularies_have_equal_fingerprints() {
    let first = Tokenizer::from_vocab(&scored()).unwrap();
    let mut changed = scored();
    assert_eq!(
        first.fingerprint(),
        Tokenizer::from_vocab(&changed).unwrap().fingerprint()
    );
    changed.tokens[6] = b"c";
    assert_ne!(
        first.fingerprint(),
        Tokenizer::from_vocab(&changed).unwrap().fingerprint()
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn encoding_loses_no_text(text in "\\PC{0,40}", case in 0usize..5) {
        let cases: Vec<Value> = serde_json::from_str(CASES).unwrap();
        prop_assume!(cases[case]["name"] != "nfc");
        let json = cases[case]["tokenizer"].to_string();
        let tokenizer = Tokenizer::from_json(json.as_bytes(), &config()).unwrap();
        let ids = tokenizer.encode(&text, Special::Plain).unwrap();
        let decoded = tokenizer.decode(&ids, DecodeOptions::default());
        let spaces = |text: &str| text.replace("\u{2581}", " ").trim_start().to_owned();
        if tokenizer.adds_space() {
            prop_assert_eq!(spaces(&decoded), spaces(&text));
        } else {
            prop_assert_eq!(decoded, text);
        }
    }

    #[test]
    fn damaged_json_never_panics(at in 0usize..9000, byte in any::<u8>(), cut in any::<bool>()) {
        let cases: Vec<Value> = serde_json::from_str(CASES).unwrap();
        let mut json = cases[3]["tokenizer"].to_string().into_bytes();
        let at = at % json.len();
        if cut { json.truncate(at) } else { json[at] = byte }
        if let Ok(tokenizer) = Tokenizer::from_json(&json, &config()) {
            let _ = tokenizer.encode("the quick <s> br\u{e9}wn", Special::Parse);
        }
    }
}
