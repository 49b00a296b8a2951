//! Small hostile files cannot make the readers allocate or work without bound.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

use std::sync::Arc;

use ucuz_text::{
    ChatTemplate, Message, RenderOptions, SpecialIds, TemplateTokens, Tokenizer, TokenizerConfig,
    VocabSpec,
};

const OUTPUT_BYTES: usize = 10_000;

fn tokenizer(special: &str) -> Arc<Tokenizer> {
    let spec = VocabSpec {
        model: "gpt2",
        pre: Some("gpt-2"),
        tokens: vec![b"a", special.as_bytes()],
        token_types: Some(vec![1, 3]),
        merges: Some(vec![]),
        ids: SpecialIds {
            eos: Some(1),
            ..SpecialIds::default()
        },
        ..VocabSpec::default()
    };
    Arc::new(Tokenizer::from_vocab(&spec).unwrap())
}

fn refused(source: &str, special: &str, expected: &str) {
    let tokens = TemplateTokens::new(tokenizer(special));
    let template = ChatTemplate::new(Some(source), &tokens).unwrap();
    let messages = [Message::new("user", "a")];
    let result = template.render(&messages, &RenderOptions::new(OUTPUT_BYTES));
    let error = result.map(|_| source).unwrap_err().to_string();
    assert!(error.contains(expected), "{source}: {error}");
}

/// Lists made by `+` and `*` are lazy in the engine: their length is not what they cost.
#[test]
fn writing_a_lazy_list_is_paid_for_before_it_is_made() {
    let doubled = "{% set ns = namespace(x=[1, 2]) %}\
                   {% for i in range(30) %}{% set ns.x = ns.x + ns.x %}{% endfor %}";
    for written in [
        "{{ ns.x }}",
        "{{ [ns.x] }}",
        "{{ ns.x | string | length }}",
        "{{ ns.x | tojson | length }}",
        "{{ {'a': ns.x} | tojson | length }}",
        "{{ (['aaaaaaaaaaaaaaaa' * 1000000] * 90000000) | tojson | length }}",
        "{{ ([[[[[1]]]]] * 100000) | tojson(indent=16) | length }}",
    ] {
        refused(
            &format!("{doubled}{written}"),
            "<s>",
            "more work than the limit",
        );
    }
}

#[test]
fn long_special_tokens_do_not_outgrow_the_output_limit() {
    let long = format!("<|{}|>", "x".repeat(4000));
    let source = format!("{{% for i in range(2000) %}}{long}{{% endfor %}}");
    refused(&source, &long, "limit 10000");
}

#[test]
fn a_vocabulary_is_not_longer_than_its_file_can_mean() {
    for (largest, is_read) in [(4000, true), (1_048_575, false)] {
        let json = format!(r#"{{"model":{{"type":"BPE","vocab":{{"a":{largest}}},"merges":[]}}}}"#);
        let result = Tokenizer::from_json(json.as_bytes(), &TokenizerConfig::default());
        assert_eq!(result.is_ok(), is_read, "{largest}");
    }
}
