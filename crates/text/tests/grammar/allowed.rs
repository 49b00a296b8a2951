//! What grammars allow, and that nothing else is.

use ucuz_text::{GrammarSource, NextTokens};

use crate::vocabulary::{accepts, allows, matcher, vocabulary};

fn schema(text: &str) -> GrammarSource {
    GrammarSource::JsonSchema(text.to_owned())
}

fn regex(text: &str) -> GrammarSource {
    GrammarSource::Regex(text.to_owned())
}

fn choices(texts: &[&str]) -> GrammarSource {
    GrammarSource::Choice(texts.iter().map(|&text| text.to_owned()).collect())
}

fn lark(text: &str) -> GrammarSource {
    GrammarSource::Grammar(text.to_owned())
}

/// Texts that the grammar must take, and texts that it must not.
fn check(source: GrammarSource, good: &[&str], bad: &[&str]) {
    for text in good {
        assert!(accepts(&source, text), "{source:?} takes {text:?}");
    }
    for text in bad {
        assert!(!accepts(&source, text), "{source:?} refuses {text:?}");
    }
}

#[test]
fn json_objects() {
    check(
        GrammarSource::JsonObject,
        &["{}", r#"{"a":1}"#, r#"{"a": [1, null], "b":{"c":"\n\"é"}}"#],
        &[
            "",
            "[]",
            "1",
            r#"{"a":1"#,
            "{ }",
            "{\"a\":\n1}",
            r#"{"a":  1}"#,
            r#"{"a":"\u0061"}"#,
        ],
    );
}

#[test]
fn schemas_of_objects() {
    let plain = r#"{"type":"object","properties":{"a":{"type":"integer","minimum":1,"maximum":20},"b":{"enum":["x","y"]}},"required":["a"],"additionalProperties":false}"#;
    check(
        schema(plain),
        &[r#"{"a":1}"#, r#"{"a":20,"b":"x"}"#],
        &[
            "{}",
            r#"{"a":0}"#,
            r#"{"a":21}"#,
            r#"{"a":1.5}"#,
            r#"{"b":"x","a":1}"#,
            r#"{"a":1,"c":1}"#,
            r#"{"a":1,"b":"z"}"#,
        ],
    );
    let more = r#"{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":{"type":"string"}}"#;
    check(
        schema(more),
        &[r#"{"a":1}"#, r#"{"a":1,"b":"x"}"#],
        // Written another way, a declared key is not a further one.
        &[
            r#"{"a":1,"b":2}"#,
            r#"{"a":1,"a":"x"}"#,
            r#"{"a":1,"\u0061":"x"}"#,
        ],
    );
}

#[test]
fn schemas_of_other_values() {
    check(
        schema(r#"{"type":"array","items":{"type":"boolean"},"minItems":1,"maxItems":2}"#),
        &["[true]", "[false, true]"],
        &["[]", "[1]", "[true,true,true]"],
    );
    check(
        schema(r#"{"type":"string","pattern":"^[a-c]+-\\d{2}$"}"#),
        &[r#""ab-12""#],
        &[r#""ab-1""#, r#""xab-12""#, r#""ab-123""#],
    );
    check(
        schema(r#"{"type":"string","minLength":2,"maxLength":3}"#),
        &[r#""ab""#, r#""éaé""#],
        &[r#""a""#, r#""abcd""#],
    );
    check(
        schema(r#"{"type":"number","exclusiveMinimum":0,"maximum":2e10}"#),
        &["0.5", "20000000000", "1"],
        &["0", "-1", "20000000001"],
    );
    check(
        schema(r#"{"type":"string","format":"date"}"#),
        &[r#""2024-02-03""#],
        &[r#""""#, r#""2024-13-01""#],
    );
    check(
        schema(r#"{"type":"string","format":"ipv6"}"#),
        &[r#""::1""#],
        &[r#""""#],
    );
    check(
        schema(r#"{"anyOf":[{"type":"null"},{"const":{"a":[1,"x"]}}]}"#),
        &["null", r#"{"a":[1,"x"]}"#],
        &[r#"{"a":[1]}"#, "0"],
    );
    let tree = r##"{"$ref":"#/$defs/tree","$defs":{"tree":{"type":"object","properties":{"v":{"type":"integer"},"c":{"type":"array","items":{"$ref":"#/$defs/tree"}}},"required":["v"],"additionalProperties":false}}}"##;
    check(
        schema(tree),
        &[r#"{"v":1}"#, r#"{"v":1,"c":[{"v":2,"c":[]}]}"#],
        &[r#"{"c":[]}"#],
    );
    check(schema("true"), &["1", "{}", r#""x""#], &["", "x"]);
}

#[test]
fn annotations_change_nothing() {
    let noisy = r#"{"$schema":"http://json-schema.org/draft-07/schema#","title":"T","description":"d","type":"integer","default":3,"examples":[1],"deprecated":true,"x-order":1,"minimum":3,"maximum":4,"nullable":false}"#;
    check(schema(noisy), &["3", "4"], &["5", "null"]);
}

#[test]
fn regular_expressions_match_the_whole_text() {
    check(regex(r"[a-c]+\d?"), &["a", "abc1"], &["", "d", "a12", "1"]);
    check(regex(r"(a+)+b"), &["aaaaaaaaaaaaaaaab"], &["aaaaaaaa", "b"]);
    check(regex(r"a/b|\n"), &["a/b", "\n"], &["a", "n"]);
    check(regex("é{2}"), &["éé"], &["é"]);
}

#[test]
fn choices_are_taken_literally() {
    check(
        choices(&["yes", "no", "yes, but", "a.*(b", "/\\n\""]),
        &["yes", "no", "yes, but", "a.*(b", "/\\n\""],
        &["", "ye", "axx(b", "yes, "],
    );
}

#[test]
fn grammars_in_lark() {
    check(
        lark(
            "start: expr\nexpr: NUMBER | \"(\" expr OP expr \")\"\nOP: \"+\" | \"-\"\nNUMBER: /[0-9]+/\n",
        ),
        &["1", "(1+23)", "((1-2)+3)"],
        &["", "(1+", "1+2", "()"],
    );
}

#[test]
fn grammars_in_gbnf() {
    let arithmetic = "# a comment\nroot  ::= expr \"\\n\"? # the end\nexpr ::= term ([-+] term)*\nterm ::= num | \"(\" expr \")\"\nnum-digits ::= [0-9]\nnum ::= num-digits+\n";
    check(
        lark(arithmetic),
        &["1+2", "(1-20)+3", "1\n"],
        &["", "1+", "(1"],
    );
    let classes = "root ::= [^a-z\\]\\n]{2,3} | \"x\\x41\\u00e9\\\"\" |\n  \"k\" [\\u00e9/]\n";
    check(
        lark(classes),
        &["AB", "1]2".replace(']', "-").as_str(), "xAé\"", "ké", "k/"],
        &["A", "ab", "A]", "ABCD", "k"],
    );
}

#[test]
fn the_end_is_allowed_only_where_the_text_may_end() {
    let end = vocabulary().end;
    let mut it = matcher(&regex("ab?")).unwrap();
    for (id, may_end) in [(u32::from(b'a'), false), (u32::from(b'b'), true)] {
        let NextTokens::Ids(bits) = it.next_tokens().unwrap() else {
            panic!("it goes on");
        };
        assert!(allows(&bits, id));
        assert_eq!(allows(&bits, end), may_end);
        it.accept(id).unwrap();
    }
    assert_eq!(it.next_tokens().unwrap(), NextTokens::End);
    assert!(it.accept(u32::from(b'b')).is_err());
}

#[test]
fn without_ends_a_text_ends_only_where_nothing_can_follow() {
    let grammar = vocabulary().compiler.compile(&regex("ab?"), 0).unwrap();
    let mut it = grammar.matcher(false);
    it.accept(u32::from(b'a')).unwrap();
    let NextTokens::Ids(bits) = it.next_tokens().unwrap() else {
        panic!("b may follow");
    };
    assert_eq!(bits.iter().map(|word| word.count_ones()).sum::<u32>(), 1);
}

#[test]
fn no_special_token_is_ever_allowed() {
    let NextTokens::Ids(bits) = matcher(&regex("(?s:.)*")).unwrap().next_tokens().unwrap() else {
        panic!("anything may follow");
    };
    let vocabulary = vocabulary();
    assert!(allows(&bits, vocabulary.end));
    for id in 0..vocabulary.end {
        assert!(
            !allows(&bits, id) || !vocabulary.tokenizer.is_special(id),
            "{id}"
        );
    }
}

#[test]
fn one_text_leaves_no_trace_in_another() {
    let source = regex("[a-z]{3}|x[0-9]+");
    let grammar = vocabulary().compiler.compile(&source, 0).unwrap();
    let masks = |ids: &[u8]| {
        let mut it = grammar.matcher(true);
        let mut masks = Vec::new();
        for id in ids {
            masks.push(it.next_tokens().unwrap());
            it.accept(u32::from(*id)).unwrap();
        }
        masks
    };
    let first = masks(b"x12345");
    masks(b"abc");
    assert_eq!(masks(b"x12345"), first);
}
