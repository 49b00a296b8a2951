//! What is refused, with a reason, in bounded time.

use std::time::{Duration, Instant};

use ucuz_text::{GrammarSource, TextError};

use crate::vocabulary::{Random, accepts, draw, vocabulary};

fn check(source: GrammarSource, reason: &str) {
    let began = Instant::now();
    let error = vocabulary()
        .compiler
        .compile(&source, 0)
        .unwrap_err()
        .to_string();
    assert!(error.contains(reason), "{error}\nfor {source:?}");
    assert!(error.len() < 1000 && !error.contains("panic"), "{error}");
    // Two seconds for a place, two for the result.
    assert!(began.elapsed() < Duration::from_secs(5));
}

fn schema(text: &str, reason: &str) {
    check(GrammarSource::JsonSchema(text.to_owned()), reason);
}

fn regex(text: &str, reason: &str) {
    check(GrammarSource::Regex(text.to_owned()), reason);
}

fn grammar(text: &str, reason: &str) {
    check(GrammarSource::Grammar(text.to_owned()), reason);
}

#[test]
fn schemas_that_cannot_be_enforced() {
    for (text, reason) in [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("3", "# is a number"),
        ("false", "no value fits"),
        (r#"{"type":"intger"}"#, "intger"),
        (
            r#"{"type":"string","minLenght":3}"#,
            "#/minLenght cannot be enforced",
        ),
        (r#"{"type":"array","uniqueItems":true}"#, "#/uniqueItems"),
        (
            r#"{"properties":{"a":{"not":{"type":"null"}}}}"#,
            "#/properties/a/not",
        ),
        (r#"{"if":{},"then":{}}"#, "#/if"),
        (
            r#"{"type":"object","propertyNames":{"pattern":"a"}}"#,
            "#/propertyNames",
        ),
        (r#"{"name":"person","type":"object"}"#, "#/name"),
        (r#"{"nullable":true,"type":"string"}"#, "#/nullable"),
        (
            r#"{"x-guidance":{"lenient":true},"type":"integer"}"#,
            "#/x-guidance",
        ),
        (r#"{"items":{"x-guidance":{}}}"#, "#/items/x-guidance"),
        (r#"{"type":"string","format":"phone"}"#, "phone"),
        (r#"{"type":"string","pattern":"(?=a)b"}"#, "look-around"),
        (
            r#"{"type":"array","items":{"type":"string","pattern":"a(b"}}"#,
            "a(b",
        ),
        (
            r#"{"oneOf":[{"type":"integer"},{"type":"number"}]}"#,
            "oneOf",
        ),
        (r#"{"$ref":"https://example.com/s.json"}"#, "#/$ref"),
        (r##"{"$ref":"#/$defs/none"}"##, "none"),
        (r#"{"enum":[]}"#, "#/enum"),
        (r#"{"const":9007199254740993}"#, "2^53"),
        (r#"{"type":"integer","minimum":5,"maximum":4}"#, "5"),
        (
            r#"{"type":"string","minLength":3,"maxLength":2}"#,
            "minLength",
        ),
        (
            r#"{"type":"string","maxLength":100000}"#,
            "between 0 and 10000",
        ),
        (r#"{"type":"array","minItems":-1}"#, "#/minItems is -1"),
        (r#"{"type":"object","minProperties":2}"#, "#/minProperties"),
        (r#"{"prefixItems":[{}],"items":[{}]}"#, "prefixItems"),
        (r#"{"properties":[]}"#, "#/properties is a list"),
    ] {
        schema(text, reason);
    }
}

/// What the compiler would multiply is refused before it is asked.
#[test]
fn schemas_that_multiply() {
    let many = |n: usize, one: &dyn Fn(usize) -> String| {
        let all: Vec<_> = (0..n).map(one).collect();
        all.join(",")
    };
    let properties = many(4900, &|i| format!("\"a{i}\":true"));
    let options = many(4900, &|_| "{}".to_owned());
    let values = many(40_000, &|i| i.to_string());
    let few = many(400, &|i| i.to_string());
    for (text, reason) in [
        (
            format!(r#"{{"type":"object","properties":{{{properties}}},"anyOf":[{options}]}}"#),
            "alternatives",
        ),
        (
            format!(r#"{{"allOf":[{{"properties":{{{properties}}}}},{{"anyOf":[{options}]}}]}}"#),
            "alternatives",
        ),
        (
            format!(r#"{{"properties":{{{properties}}},"enum":[{few}]}}"#),
            "alternatives",
        ),
        (format!(r#"{{"enum":[{values}]}}"#), "listed values"),
        (
            format!(
                r##"{{"properties":{{{properties}}},"$ref":"#/$defs/a","$defs":{{"a":{{}}}}}}"##
            ),
            "beside $ref",
        ),
    ] {
        schema(&text, reason);
    }
    // Lists of values are only added, in one place or in many.
    let wide = many(100, &|i| {
        format!("\"a{i}\":{{\"enum\":[1,2,3,4,5,6,7,8,9]}}")
    });
    let wide =
        format!(r#"{{"type":"object","properties":{{{wide}}},"additionalProperties":false}}"#);
    let long = format!(
        r#"{{"type":"integer","enum":[{}]}}"#,
        many(2000, &|i| i.to_string())
    );
    for text in [wide, long] {
        let compiled = vocabulary()
            .compiler
            .compile(&GrammarSource::JsonSchema(text), 0);
        assert!(compiled.is_ok(), "{compiled:?}");
    }
}

#[test]
fn deep_long_and_endless_schemas() {
    let deep = |n: usize| format!("{}{{}}{}", r#"{"items":"#.repeat(n), "}".repeat(n));
    schema(&deep(70), "nested deeper");
    schema(&deep(10_000), "recursion limit");
    schema(
        &format!("{{\"title\":\"{}\"}}", "x".repeat(300_000)),
        "limit 262144",
    );
    let many = (0..20_000).map(|i| format!("\"{i}\":{{}}"));
    let many = many.collect::<Vec<_>>().join(",");
    schema(
        &format!("{{\"properties\":{{{many}}}}}"),
        "10000 subschemas",
    );
    // Each of a thousand definitions refers to the next one: recursion that depth does not bound.
    let chain = (0..3000).map(|i| {
        format!(
            "\"d{i}\":{{\"anyOf\":[{{\"$ref\":\"#/$defs/d{}\"}},{{\"type\":\"null\"}}]}}",
            i + 1
        )
    });
    let chain = chain.collect::<Vec<_>>().join(",");
    let chain = format!(
        "{{\"$ref\":\"#/$defs/d0\",\"$defs\":{{{chain},\"d3000\":{{\"type\":\"integer\"}}}}}}"
    );
    let compiled = vocabulary()
        .compiler
        .compile(&GrammarSource::JsonSchema(chain), 0);
    if let Err(error) = compiled {
        assert!(matches!(error, TextError::Grammar { .. }), "{error}");
    }
    schema(r##"{"$ref":"#"}"##, "");
    // A value that contains itself has no end: no text of it is ever complete.
    let endless = r##"{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"],"additionalProperties":false}"##;
    let endless = GrammarSource::JsonSchema(endless.to_owned());
    if vocabulary().compiler.compile(&endless, 0).is_ok() {
        assert_eq!(draw(&endless, &mut Random(1)), None);
    }
}

#[test]
fn regular_expressions() {
    for (text, reason) in [
        ("", "empty"),
        ("a(b", "a(b"),
        ("[z-a]", ""),
        (r"a\bc", ""),
        ("(?=a)b", "look-around"),
        (r"(a)\1", "backreference"),
    ] {
        regex(text, reason);
    }
    regex(&"a".repeat(20_000), "limit 16384");
    regex(&format!("{}a{}", "(".repeat(5000), ")".repeat(5000)), "");
}

/// Expressions that are small to write and large to follow: refused or compiled, in bounded time.
#[test]
fn expressions_that_grow() {
    for text in [
        "(?:(?:a{1,1000}){1,1000}){1,1000}",
        "(?:[a-z]{1,500}x){400}",
        "(?:a|b)*a(?:a|b){60}",
        "(a+)+(a+)+(a+)+b",
        "(?i:[\\w\\s]{0,200}x){0,50}",
    ] {
        let began = Instant::now();
        let source = GrammarSource::Regex(text.to_owned());
        let compiled = vocabulary().compiler.compile(&source, 0);
        println!(
            "{text}: {:?} in {:?}",
            compiled.map(|_| ()),
            began.elapsed()
        );
        assert!(began.elapsed() < Duration::from_secs(5));
    }
}

#[test]
fn grammars() {
    for (text, reason) in [
        ("", ""),
        ("start: missing", "missing"),
        ("start: \"a", ""),
        ("start: start", ""),
        ("start: <|im_start|> \"a\"", ""),
        (
            "start: %json {\"type\":\"object\",\"x-guidance\":{\"lenient\":true}}",
            "%json",
        ),
        ("root ::= missing", "missing"),
        ("root ::= \"a", ""),
        ("expr ::= \"a\"", "root"),
    ] {
        grammar(text, reason);
    }
    grammar(&"x".repeat(200_000), "limit 131072");
    grammar(
        &format!("start: {}\"a\"{}", "(".repeat(20_000), ")".repeat(20_000)),
        "",
    );
}

#[test]
fn choices() {
    check(GrammarSource::Choice(Vec::new()), "at least one");
    check(
        GrammarSource::Choice(vec![String::new()]),
        "none may be empty",
    );
    let many = (0..1001).map(|i| i.to_string()).collect();
    check(GrammarSource::Choice(many), "limit 1000");
    check(
        GrammarSource::Choice(vec!["x".repeat(70_000)]),
        "limit 65536",
    );
    let many: Vec<String> = (0..1000).map(|i| format!("choice number {i}")).collect();
    assert!(accepts(&GrammarSource::Choice(many), "choice number 731"));
}
