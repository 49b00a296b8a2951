//! Gemma's forms. Which one a model writes depends on its template, so all are read:
//!
//! - a fence ```` ```tool_code ```` around Python calls with keyword arguments, `name(key="text")`, which Gemma 3 writes when
//!   its prompt describes functions in Python;
//! - `{"name": ..., "parameters": {...}}`, bare, or in such a fence or one of `json`, when its prompt asks for JSON;
//! - `<start_function_call>call:name{key:<escape>text<escape>}<end_function_call>` (FunctionGemma), and the same with
//!   `<|tool_call>`, `<tool_call|>` and `<|"|>` (Gemma 4).
//!
//! Arguments that are not JSON already are written as JSON once the frame has ended; they come in one piece.

use std::fmt::Write as _;

use serde_json::Value;

use super::machine::{Form, Frame, Machine};
use super::{Facts, Family, Offer, Token, grammar};
use crate::limits::MAX_VALUE_DEPTH;

/// The family.
pub static GEMMA: Family = Family {
    name: "gemma",
    fits,
    parser: |offered| Box::new(Machine::new(FORM, offered)),
    grammar: write,
    marks: &[
        "<start_function_call>",
        "<end_function_call>",
        "<escape>",
        "<|tool_call>",
        "<tool_call|>",
        "<|\"|>",
    ],
};

const FORM: Form = Form {
    frames: &[
        Frame {
            open: "```tool_code",
            close: "```",
        },
        Frame {
            open: "```json",
            close: "```",
        },
        Frame {
            open: "<start_function_call>",
            close: "<end_function_call>",
        },
        Frame {
            open: "<|tool_call>",
            close: "<tool_call|>",
        },
    ],
    bare: true,
    list: false,
    named: false,
    separator: None,
    foreign: Some(read),
    is_ambiguous: true,
};

/// What stands around a text in the notation of the control tokens.
const QUOTES: [&str; 2] = ["<escape>", "<|\"|>"];

fn fits(facts: &Facts<'_>) -> bool {
    let marks = ["tool_code", "<start_function_call>", "<|tool_call>"];
    marks.iter().any(|mark| facts.template.contains(mark))
        || facts.architecture.starts_with("gemma") && !facts.template.contains("<tool_call>")
}

/// JSON in a fence is the one form that a grammar can hold to a schema.
fn write(offer: &Offer<'_>, token: Token<'_>) -> String {
    let call = grammar::Call {
        trigger: Some("```tool_code"),
        open: r#""\n""#,
        body: grammar::object(offer, "parameters"),
        close: r#""\n```""#.to_owned(),
        between: Some(r#""\n""#),
    };
    grammar::write(offer, &call, token)
}

/// The calls in a frame; `None` when it holds anything else.
fn read(body: &str) -> Option<Vec<(String, String)>> {
    let mut reader = Reader {
        rest: body,
        depth: 0,
        notation: Notation::Python,
    };
    if let Some(rest) = body.strip_prefix("call:") {
        reader.rest = rest;
        reader.notation = Notation::Marks;
        let name = reader.name()?;
        let arguments = reader.value()?;
        reader.space();
        let is_whole = reader.rest.is_empty() && arguments.starts_with('{');
        return is_whole.then(|| vec![(name, arguments)]);
    }
    let (opener, closer) = if reader.take("[") {
        (true, "]")
    } else if reader.take("print(") {
        (true, ")")
    } else {
        (false, "")
    };
    let mut calls = Vec::new();
    loop {
        reader.space();
        let name = reader.name()?;
        calls.push((name, reader.arguments()?));
        reader.space();
        if reader.rest.is_empty() && !opener {
            return Some(calls);
        }
        if opener && reader.take(closer) {
            reader.space();
            return reader.rest.is_empty().then_some(calls);
        }
        // Calls on lines of their own need nothing in between.
        if !reader.take(",") && !reader.take(";") && opener {
            return None;
        }
    }
}

/// How values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notation {
    /// `{"key": 'text', ...}`, `True`.
    Python,
    /// `{key:<escape>text<escape>, ...}`, `true`.
    Marks,
}

/// Reads values and writes them as JSON.
struct Reader<'t> {
    rest: &'t str,
    depth: usize,
    notation: Notation,
}

impl<'t> Reader<'t> {
    fn take(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Letters, digits, `_`, and what else tools may be called.
    fn name(&mut self) -> Option<String> {
        let is_other = |letter: char| !(letter.is_alphanumeric() || "_-.".contains(letter));
        let bytes = self.rest.find(is_other).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        (!name.is_empty()).then(|| name.to_owned())
    }

    /// `(key=value, ...)` as an object.
    fn arguments(&mut self) -> Option<String> {
        self.space();
        self.take("(").then_some(())?;
        let mut entries = Vec::new();
        loop {
            self.space();
            if self.take(")") {
                return Some(object(&entries));
            }
            let key = self.name()?;
            self.space();
            self.take("=").then_some(())?;
            entries.push((key, self.value()?));
            self.space();
            if !self.take(",") && !self.rest.starts_with(')') {
                return None;
            }
        }
    }

    /// A value as JSON.
    fn value(&mut self) -> Option<String> {
        self.space();
        if let Some(text) = self.text() {
            return text.map(|text| Value::String(text).to_string());
        }
        if self.depth == MAX_VALUE_DEPTH {
            return None;
        }
        self.depth += 1;
        let value = if self.take("{") {
            self.object()
        } else if self.take("[") {
            self.list()
        } else {
            self.word()
        };
        self.depth -= 1;
        value
    }

    fn object(&mut self) -> Option<String> {
        let mut entries = Vec::new();
        loop {
            self.space();
            if self.take("}") {
                return Some(object(&entries));
            }
            let key = match self.text() {
                Some(key) => key?,
                None if self.notation == Notation::Marks => self.name()?,
                None => return None,
            };
            self.space();
            self.take(":").then_some(())?;
            entries.push((key, self.value()?));
            self.space();
            if !self.take(",") && !self.rest.starts_with('}') {
                return None;
            }
        }
    }

    fn list(&mut self) -> Option<String> {
        let mut items = Vec::new();
        loop {
            self.space();
            if self.take("]") {
                return Some(format!("[{}]", items.join(",")));
            }
            items.push(self.value()?);
            self.space();
            if !self.take(",") && !self.rest.starts_with(']') {
                return None;
            }
        }
    }

    /// A number or a word.
    fn word(&mut self) -> Option<String> {
        let is_other = |letter: char| !(letter.is_ascii_alphanumeric() || "+-.".contains(letter));
        let bytes = self.rest.find(is_other).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        match (self.notation, word) {
            (Notation::Python, "True") => Some("true".to_owned()),
            (Notation::Python, "False") => Some("false".to_owned()),
            (Notation::Python, "None") => Some("null".to_owned()),
            (Notation::Marks, "true" | "false" | "null") => Some(word.to_owned()),
            _ => {
                let number = serde_json::from_str::<serde_json::Number>(word);
                number.is_ok().then(|| word.to_owned())
            }
        }
    }

    /// A quoted text; the outer `None`: there is none, the inner one: it is damaged.
    fn text(&mut self) -> Option<Option<String>> {
        if self.notation == Notation::Marks {
            let quote = QUOTES.iter().find(|quote| self.rest.starts_with(**quote))?;
            let (text, rest) = match self.rest[quote.len()..].split_once(quote) {
                Some(parts) => parts,
                None => return Some(None),
            };
            self.rest = rest;
            return Some(Some(text.to_owned()));
        }
        let quote = self
            .rest
            .chars()
            .next()
            .filter(|c| matches!(c, '"' | '\''))?;
        self.rest = &self.rest[1..];
        Some(self.python_text(quote))
    }

    /// The rest of a Python string up to its quote.
    fn python_text(&mut self, quote: char) -> Option<String> {
        let mut text = String::new();
        let mut letters = self.rest.chars();
        loop {
            match letters.next()? {
                letter if letter == quote => break,
                '\n' => return None,
                '\\' => match letters.next()? {
                    '\n' => {}
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    'r' => text.push('\r'),
                    letter @ ('\\' | '\'' | '"') => text.push(letter),
                    'u' => {
                        let hex = letters.as_str().get(..4)?;
                        text.push(char::from_u32(u32::from_str_radix(hex, 16).ok()?)?);
                        letters = letters.as_str()[4..].chars();
                    }
                    // Python keeps the backslash of what it does not know.
                    letter => text.extend(['\\', letter]),
                },
                letter => text.push(letter),
            }
        }
        self.rest = letters.as_str();
        Some(text)
    }
}

/// An object of values that are JSON already.
fn object(entries: &[(String, String)]) -> String {
    let mut text = String::from("{");
    for (index, (key, value)) in entries.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let key = Value::String(key.clone());
        // Writing to memory does not fail.
        let _ = write!(text, "{comma}{key}:{value}");
    }
    text.push('}');
    text
}
