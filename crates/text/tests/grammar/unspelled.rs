//! A vocabulary that has not all bytes: rules that need a missing one are refused, and what leads there in the end is an error.

use ucuz_text::{GrammarCompiler, GrammarSource, NextTokens, SpecialIds, Tokenizer, VocabSpec};

/// Needs byte 0xf2.
const LOST: &str = "\u{a5878}";

/// One token a byte but for those in `missing`, and longer ones; SmolLM2 lacks 0x04 and 0xf2 among others.
fn compiler(missing: &[u8], longer: &[&str]) -> GrammarCompiler {
    let is_printable = |byte: u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let stand_ins = (0u32..256).filter(|&byte| !is_printable(byte)).zip(256..);
    let stand_ins: Vec<_> = stand_ins.collect();
    let mut texts = vec!["<end>".to_owned()];
    for byte in (0u32..256).filter(|&byte| !missing.contains(&(byte as u8))) {
        let found = stand_ins.iter().find(|(other, _)| *other == byte);
        let point = found.map_or(byte, |(_, stand_in)| *stand_in);
        texts.push(char::from_u32(point).unwrap().to_string());
    }
    texts.extend(longer.iter().map(|&text| text.to_owned()));
    let types = (0..texts.len()).map(|id| if id == 0 { 3 } else { 1 });
    let tokenizer = Tokenizer::from_vocab(&VocabSpec {
        model: "gpt2",
        pre: Some("gpt-2"),
        tokens: texts.iter().map(String::as_bytes).collect(),
        token_types: Some(types.collect()),
        merges: Some(Vec::new()),
        ids: SpecialIds {
            eos: Some(0),
            ..SpecialIds::default()
        },
        add_bos: Some(false),
        ..VocabSpec::default()
    });
    GrammarCompiler::new(&tokenizer.unwrap(), &[0]).unwrap()
}

fn refusal(compiler: &GrammarCompiler, source: &GrammarSource) -> Option<String> {
    let refused = compiler.compile(source, 0).err()?.to_string();
    assert!(refused.len() < 1000, "{refused}");
    Some(refused)
}

#[test]
fn what_no_token_spells_is_refused_wherever_a_rule_has_it() {
    let compiler = compiler(&[0x04, 0xf2], &[]);
    let whole = self::compiler(&[], &[]);
    let choice = |texts: &[&str]| GrammarSource::Choice(texts.iter().map(|&t| t.into()).collect());
    let schema = |text: &str| GrammarSource::JsonSchema(text.replace("LOST", LOST));
    let grammar = |text: &str| GrammarSource::Grammar(text.replace("LOST", LOST));
    let sources = [
        choice(&["\u{92}", &format!("\u{db}{LOST}")]),
        choice(&["a", LOST]),
        schema(r#"{"const": "LOST"}"#),
        schema(r#"{"enum": ["a", "LOST"]}"#),
        schema(
            r#"{"type": "object", "properties": {"LOST": {"type": "null"}}, "additionalProperties": false}"#,
        ),
        schema(r#"{"type": "string", "pattern": "^a|LOST$"}"#),
        GrammarSource::Regex(format!("a|b{LOST}")),
        GrammarSource::Regex("[\\x{80000}-\\x{bffff}]".to_owned()),
        grammar("start: \"a\" | \"LOST\""),
        grammar("start: T\nT: /a|bLOST/"),
        grammar("root ::= \"a\" | \"LOST\""),
        grammar("root ::= \"a\" | [LOST]"),
    ];
    for source in sources {
        let refused = refusal(&compiler, &source).unwrap_or_else(|| panic!("{source:?}"));
        assert!(refused.contains("0xf2"), "{refused}");
        assert!(
            refused.contains("no token of this model spells"),
            "{refused}"
        );
        assert_eq!(refusal(&whole, &source), None, "{source:?}");
    }
    let refused = refusal(&compiler, &GrammarSource::Regex("a\u{4}".to_owned()));
    assert!(refused.unwrap().contains("byte 0x04"));
    for source in [
        choice(&["\u{92}", "\u{db}"]),
        schema(r#"{"type": "string"}"#),
        GrammarSource::Regex(".[^a]\\w".to_owned()),
        GrammarSource::JsonObject,
    ] {
        assert_eq!(refusal(&compiler, &source), None, "{source:?}");
    }
}

/// The last byte of the character is there, but only together with an `x`.
#[test]
fn a_choice_that_no_tokens_add_up_to_is_refused() {
    let compiler = compiler(&[0xa9], &["x\u{c3}\u{a9}"]);
    let choice = |text: &str| GrammarSource::Choice(vec!["a".to_owned(), text.to_owned()]);
    assert_eq!(refusal(&compiler, &choice("ax\u{e9}")), None);
    let refused = refusal(&compiler, &choice("a\u{e9}")).unwrap();
    assert!(
        refused.contains("no tokens of this model together"),
        "{refused}"
    );
}

/// That the two sides of an intersection share no letter that can be written shows only when a text comes there.
#[test]
fn a_text_that_can_not_go_on_is_an_error() {
    let compiler = compiler(&[0xf2], &[]);
    let rule = format!("start: T\nT: /a[b{LOST}]/ & /a[^b]/");
    let grammar = compiler.compile(&GrammarSource::Grammar(rule), 0).unwrap();
    let mut matcher = grammar.matcher(true);
    assert!(matches!(matcher.next_tokens(), Ok(NextTokens::Ids(_))));
    // The first id is the end's.
    matcher.accept(1 + u32::from(b'a')).unwrap();
    let error = matcher.next_tokens().unwrap_err().to_string();
    assert!(error.contains("no token of this model fits"), "{error}");
    assert!(matcher.next_tokens().is_err());
}
