//! What a rule asks for letter by letter, checked against what the model's tokens can write.
//!
//! Refused: choices, values and keys of a JSON schema, and literals of expressions and grammars with a character that no
//! tokens write, in whatever alternative; classes of which no member can be written. Not known here, and found only when a
//! text comes there: tokens that do not fit together, and repetitions of classes that end in nothing.

use regex_syntax::ast::{self, Ast};
use regex_syntax::hir::translate::Translator;
use regex_syntax::hir::{self, Class, Hir, HirKind};
use serde_json::Value;

use super::spelling::Spelling;

type Checked = Result<(), String>;

/// Letters that JSON texts write with a backslash.
const ESCAPED: [char; 5] = ['\n', '\r', '\t', '\u{8}', '\u{c}'];

/// Checks a JSON schema; one that was read strictly before, which bounds its depth.
pub(super) fn schema(schema: &Value, spelling: &Spelling) -> Checked {
    let Value::Object(keywords) = schema else {
        return Ok(());
    };
    for (keyword, value) in keywords {
        match keyword.as_str() {
            "const" | "enum" | "required" => json(value, spelling)?,
            "pattern" => expression(value.as_str().unwrap_or_default(), Blanks::Count, spelling)?,
            "properties" | "patternProperties" | "$defs" | "definitions" => {
                named(keyword, value, spelling)?;
            }
            "items"
            | "additionalItems"
            | "additionalProperties"
            | "prefixItems"
            | "anyOf"
            | "oneOf"
            | "allOf" => match value {
                Value::Array(schemas) => schemas.iter().try_for_each(|s| self::schema(s, spelling)),
                one => self::schema(one, spelling),
            }?,
            _ => {}
        }
    }
    Ok(())
}

/// Checks schemas under names, and the names where they are keys of an object.
fn named(keyword: &str, schemas: &Value, spelling: &Spelling) -> Checked {
    for (name, value) in schemas.as_object().into_iter().flatten() {
        match keyword {
            "properties" => text(name, spelling)?,
            "patternProperties" => expression(name, Blanks::Count, spelling)?,
            _ => {}
        }
        schema(value, spelling)?;
    }
    Ok(())
}

/// Checks all texts of a value.
fn json(value: &Value, spelling: &Spelling) -> Checked {
    match value {
        Value::String(string) => text(string, spelling),
        Value::Array(items) => items.iter().try_for_each(|item| json(item, spelling)),
        Value::Object(entries) => entries.iter().try_for_each(|(key, item)| {
            text(key, spelling)?;
            json(item, spelling)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// Checks a text as JSON writes it.
fn text(text: &str, spelling: &Spelling) -> Checked {
    match text.contains(ESCAPED) {
        true => spelling.check(&text.replace(ESCAPED, "\\")),
        false => spelling.check(text),
    }
}

/// What blanks in an expression are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blanks {
    /// Letters as any other.
    Count,
    /// Left out, as is what follows a `#`.
    Skip,
}

/// Checks an expression; one that cannot be read is left to the compiler to refuse.
pub(super) fn expression(pattern: &str, blanks: Blanks, spelling: &Spelling) -> Checked {
    let mut parser = ast::parse::ParserBuilder::new();
    parser.ignore_whitespace(blanks == Blanks::Skip);
    let Ok(ast) = parser.build().parse(pattern) else {
        return Ok(());
    };
    // Not in the translated form, which makes one class of letters that are alternatives.
    ast::visit(&ast, Letters(spelling))?;
    match Translator::new().translate(pattern, &ast) {
        Ok(hir) => hir::visit(&hir, Classes { pattern, spelling }),
        Err(_) => Ok(()),
    }
}

/// Letters that stand for themselves, outside of classes.
struct Letters<'a>(&'a Spelling);

impl ast::Visitor for Letters<'_> {
    type Output = ();
    type Err = String;

    fn finish(self) -> Checked {
        Ok(())
    }

    fn visit_pre(&mut self, ast: &Ast) -> Checked {
        match ast {
            Ast::Literal(literal) => self.0.check(literal.c.encode_utf8(&mut [0; 4])),
            _ => Ok(()),
        }
    }
}

/// Classes of characters.
struct Classes<'a> {
    pattern: &'a str,
    spelling: &'a Spelling,
}

impl hir::Visitor for Classes<'_> {
    type Output = ();
    type Err = String;

    fn finish(self) -> Checked {
        Ok(())
    }

    fn visit_pre(&mut self, hir: &Hir) -> Checked {
        match hir.kind() {
            HirKind::Class(Class::Unicode(class)) if !self.spelling.writes_one_of(class) => {
                let first = class.ranges()[0].start();
                let why = self.spelling.check(first.encode_utf8(&mut [0; 4]));
                why.map_err(|why| {
                    let end = self.pattern.floor_char_boundary(60);
                    format!(
                        "a class of {:?} has only characters that no token of this model spells, such as {why}",
                        &self.pattern[..end]
                    )
                })
            }
            // A class of one character is a literal here.
            HirKind::Literal(literal) => match std::str::from_utf8(&literal.0) {
                Ok(text) => self.spelling.check(text),
                Err(_) => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

/// Checks a grammar in Lark: its literals, expressions and JSON schemas.
pub(super) fn lark(grammar: &str, spelling: &Spelling) -> Checked {
    let mut rest = grammar;
    let mut ends_range = false;
    while let Some(letter) = rest.chars().next() {
        let was_range = std::mem::replace(&mut ends_range, rest.starts_with(".."));
        rest = match letter {
            '#' => &rest[rest.find('\n').unwrap_or(rest.len())..],
            '/' if rest.starts_with("//") => &rest[rest.find('\n').unwrap_or(rest.len())..],
            '/' => {
                let (pattern, after) = delimited(rest, '/');
                let flags = after.len() - after.trim_start_matches(|c| "imslux".contains(c)).len();
                let blanks = match after[..flags].contains('x') {
                    true => Blanks::Skip,
                    false => Blanks::Count,
                };
                expression(pattern, blanks, spelling)?;
                &after[flags..]
            }
            '"' => {
                let (literal, after) = delimited(rest, '"');
                // The ends of a range need not be written.
                if !was_range && !after.trim_start().starts_with("..") {
                    spelling.check(&unescaped(literal))?;
                }
                after
            }
            '<' => token(rest),
            '%' => document(rest, spelling)?,
            ' ' | '.' => {
                ends_range |= was_range;
                &rest[1..]
            }
            other => &rest[other.len_utf8()..],
        };
    }
    Ok(())
}

/// What stands between a mark and the next one that no backslash stands before, and what follows.
fn delimited(rest: &str, mark: char) -> (&str, &str) {
    let inner = &rest[1..];
    let mut is_escaped = false;
    for (place, letter) in inner.char_indices() {
        match letter {
            '\\' => is_escaped = !is_escaped,
            _ if letter == mark && !is_escaped => return (&inner[..place], &inner[place + 1..]),
            _ => is_escaped = false,
        }
    }
    (inner, "")
}

/// A literal's text; where an escape is not JSON's, the literal as it is written.
fn unescaped(literal: &str) -> String {
    let json = format!("\"{}\"", literal.replace("\\x", "\\u00"));
    serde_json::from_str(&json).unwrap_or_else(|_| literal.to_owned())
}

/// Skips a control token's name.
fn token(rest: &str) -> &str {
    let end = rest[1..].find(|c: char| c.is_whitespace() || "<>".contains(c));
    match end.map(|end| &rest[end + 1..]) {
        Some(after) if after.starts_with('>') => &after[1..],
        _ => &rest[1..],
    }
}

/// Skips a JSON document behind its keyword, checking the schemas among them.
fn document<'a>(rest: &'a str, spelling: &Spelling) -> Result<&'a str, String> {
    let keywords = ["%json", "%regex", "%llguidance"];
    let Some(keyword) = keywords.iter().find(|word| rest.starts_with(**word)) else {
        return Ok(&rest[1..]);
    };
    let after = &rest[keyword.len()..];
    let mut documents = serde_json::Deserializer::from_str(after).into_iter::<Value>();
    let Some(Ok(document)) = documents.next() else {
        return Ok(after);
    };
    if *keyword == "%json" {
        schema(&document, spelling)?;
    }
    Ok(&after[documents.byte_offset()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has all bytes but 0x04 and 0xf2.
    fn spelling() -> Spelling {
        let bytes = (0..=255).filter(|byte| ![0x04, 0xf2].contains(byte));
        let words: Vec<_> = bytes.map(|byte| vec![byte]).collect();
        Spelling::new(&words)
    }

    fn is_refused(checked: Checked) -> bool {
        if let Err(why) = &checked {
            assert!(why.contains("no token of this model spells"), "{why}");
            assert!(why.contains("0xf2") || why.contains("0x04"), "{why}");
        }
        checked.is_err()
    }

    #[test]
    fn expressions() {
        let cases = [
            ("a\u{a5878}", true),
            (r"a|\x{a5878}", true),
            (r"(a|b\x04)*", true),
            (r"[\x{80000}-\x{bffff}]", true),
            (r"a[\x04]", true),
            (r"[a\x{a5878}]", false),
            (r"[^a]", false),
            (r".\w\S(?i:k)", false),
            ("a(", false),
            ("\u{d7ff}\u{10ffff}", false),
        ];
        for (pattern, expected) in cases {
            let checked = expression(pattern, Blanks::Count, &spelling());
            assert_eq!(is_refused(checked), expected, "{pattern:?}");
        }
        let spaced = "a # \u{a5878}\n b";
        assert!(is_refused(expression(spaced, Blanks::Count, &spelling())));
        assert!(!is_refused(expression(spaced, Blanks::Skip, &spelling())));
    }

    #[test]
    fn schemas() {
        let cases = [
            (r#"{"const": "\uda56\udc78"}"#, true),
            (r#"{"enum": [1, {"a": ["\u0004"]}]}"#, true),
            (r#"{"enum": [{"\u0004": 1}]}"#, true),
            (r#"{"properties": {"\uda56\udc78": {}}}"#, true),
            (r#"{"required": ["\uda56\udc78"]}"#, true),
            (r#"{"items": {"pattern": "a\\x{a5878}"}}"#, true),
            (r#"{"patternProperties": {"\\x04": {}}}"#, true),
            (
                r#"{"anyOf": [{"type": "null"}, {"const": "\u0004"}]}"#,
                true,
            ),
            (
                r#"{"$defs": {"a": {"prefixItems": [{"const": "\u0004"}]}}}"#,
                true,
            ),
            (
                r#"{"title": "\u0004", "$defs": {"\u0004": {"const": "\n"}}}"#,
                false,
            ),
            (r#"{"const": "\t\u0005"}"#, false),
            ("true", false),
        ];
        for (text, expected) in cases {
            let value = serde_json::from_str(text).unwrap();
            let checked = schema(&value, &spelling());
            assert_eq!(is_refused(checked), expected, "{text}");
        }
    }

    #[test]
    fn grammars() {
        let cases = [
            ("start: \"a\u{a5878}\"", true),
            (r#"start: "a" | "\x04""#, true),
            (r#"start: "\u0004"i"#, true),
            (r"start: /a\x{a5878}/", true),
            (r"start: /a\/\x04/s", true),
            ("start: %json {\"const\": \"\\u0004\"} \"a\"", true),
            ("start: %json {\"const\": \"\\\"\"} \"\u{a5878}\"", true),
            ("start[stop=\"\u{a5878}\"]: /a/", true),
            ("start: \"a\" # \"\u{a5878}\"\n// \"\u{a5878}\"", false),
            ("start: <[12]> </a\"b> \"a\"", false),
            ("start: \"\u{7ffff}\" .. \"\u{a5878}\" \"a\"", false),
            ("start: /a b # \u{a5878}/x", false),
            (r#"start: "\\" "\"" "a"#, false),
        ];
        for (text, expected) in cases {
            assert_eq!(is_refused(lark(text, &spelling())), expected, "{text:?}");
        }
    }
}
