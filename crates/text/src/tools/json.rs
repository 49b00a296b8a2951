//! A JSON text checked character by character, as it comes.
//!
//! It keeps a stack of open lists and objects and nothing else: the caller keeps the text, and learns from the marks where
//! keys and values begin and end. Why not `serde_json`: it wants the whole text.
//! Source: RFC 8259.

use crate::limits::MAX_VALUE_DEPTH;

/// What a character meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// Nothing that a caller cares about: white space, the inside of a string, a comma.
    Inside,
    /// The quote before a key.
    KeyOpen,
    /// The quote after a key.
    KeyClose,
    /// The quote before a string value.
    StringOpen,
    /// The quote after a string value.
    StringClose,
    /// `{` or `[`; the depth counts it already.
    Open,
    /// `}` or `]`; the depth no longer counts it.
    Close,
    /// The first character of a number, `true`, `false` or `null`.
    Scalar,
}

/// Where in the text the scan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    CommaOrEnd,
    Text { is_key: bool },
    Escape { is_key: bool },
    Hex { is_key: bool, left: u8 },
    Number(Number),
    Word(&'static str),
    Done,
}

/// How far a number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    Exponent,
    Sign,
    Power,
}

/// One JSON value under way.
#[derive(Debug, Clone)]
pub(super) struct JsonScan {
    state: State,
    /// Open containers, `true` for an object.
    open: Vec<bool>,
}

impl JsonScan {
    /// A scan before the first character.
    pub(super) fn new() -> JsonScan {
        JsonScan {
            state: State::Value,
            open: Vec::new(),
        }
    }

    /// Open lists and objects.
    pub(super) fn depth(&self) -> usize {
        self.open.len()
    }

    /// Whether the value is whole. A number at the top never is: only what follows ends it.
    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Takes a character; `None` when the text is no JSON with it. After that the scan is over.
    pub(super) fn push(&mut self, letter: char) -> Option<Mark> {
        match self.state {
            State::Text { is_key } => self.text(letter, is_key),
            State::Escape { is_key } => {
                self.state = match letter {
                    'u' => State::Hex { is_key, left: 4 },
                    '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' => State::Text { is_key },
                    _ => return None,
                };
                Some(Mark::Inside)
            }
            State::Hex { is_key, left } => {
                self.state = match (letter.is_ascii_hexdigit(), left) {
                    (false, _) => return None,
                    (true, 1) => State::Text { is_key },
                    (true, _) => State::Hex {
                        is_key,
                        left: left - 1,
                    },
                };
                Some(Mark::Inside)
            }
            State::Number(number) => match number.next(letter) {
                Some(number) => {
                    self.state = State::Number(number);
                    Some(Mark::Inside)
                }
                None if number.is_whole() => {
                    self.end_value();
                    self.between(letter)
                }
                None => None,
            },
            State::Word(rest) => {
                let rest = rest.strip_prefix(letter)?;
                if rest.is_empty() {
                    self.end_value();
                } else {
                    self.state = State::Word(rest);
                }
                Some(Mark::Inside)
            }
            _ => self.between(letter),
        }
    }

    fn text(&mut self, letter: char, is_key: bool) -> Option<Mark> {
        match letter {
            '"' if is_key => {
                self.state = State::Colon;
                Some(Mark::KeyClose)
            }
            '"' => {
                self.end_value();
                Some(Mark::StringClose)
            }
            '\\' => {
                self.state = State::Escape { is_key };
                Some(Mark::Inside)
            }
            '\0'..='\x1f' => None,
            _ => Some(Mark::Inside),
        }
    }

    /// A character outside of strings, numbers and words.
    fn between(&mut self, letter: char) -> Option<Mark> {
        if matches!(letter, ' ' | '\n' | '\r' | '\t') && self.state != State::Done {
            return Some(Mark::Inside);
        }
        match (self.state, letter) {
            (State::Key | State::KeyOrEnd, '"') => {
                self.state = State::Text { is_key: true };
                Some(Mark::KeyOpen)
            }
            (State::Colon, ':') => {
                self.state = State::Value;
                Some(Mark::Inside)
            }
            (State::CommaOrEnd, ',') => {
                let in_object = self.open.last() == Some(&true);
                self.state = if in_object { State::Key } else { State::Value };
                Some(Mark::Inside)
            }
            (State::KeyOrEnd, '}') | (State::ValueOrEnd, ']') => self.close(),
            (State::CommaOrEnd, '}' | ']') => {
                let in_object = self.open.last() == Some(&true);
                (in_object == (letter == '}')).then(|| self.close())?
            }
            (State::Value | State::ValueOrEnd, _) => self.begin_value(letter),
            _ => None,
        }
    }

    fn begin_value(&mut self, letter: char) -> Option<Mark> {
        let (state, mark) = match letter {
            '{' | '[' => {
                if self.open.len() == MAX_VALUE_DEPTH {
                    return None;
                }
                let is_object = letter == '{';
                self.open.push(is_object);
                let state = if is_object {
                    State::KeyOrEnd
                } else {
                    State::ValueOrEnd
                };
                (state, Mark::Open)
            }
            '"' => (State::Text { is_key: false }, Mark::StringOpen),
            '-' => (State::Number(Number::Minus), Mark::Scalar),
            '0' => (State::Number(Number::Zero), Mark::Scalar),
            '1'..='9' => (State::Number(Number::Whole), Mark::Scalar),
            't' => (State::Word("rue"), Mark::Scalar),
            'f' => (State::Word("alse"), Mark::Scalar),
            'n' => (State::Word("ull"), Mark::Scalar),
            _ => return None,
        };
        self.state = state;
        Some(mark)
    }

    fn close(&mut self) -> Option<Mark> {
        self.open.pop();
        self.end_value();
        Some(Mark::Close)
    }

    fn end_value(&mut self) {
        self.state = if self.open.is_empty() {
            State::Done
        } else {
            State::CommaOrEnd
        };
    }
}

impl Number {
    /// Whether a number may end here.
    fn is_whole(self) -> bool {
        matches!(
            self,
            Number::Zero | Number::Whole | Number::Fraction | Number::Power
        )
    }

    fn next(self, letter: char) -> Option<Number> {
        match (self, letter) {
            (Number::Minus, '0') => Some(Number::Zero),
            (Number::Minus, '1'..='9') | (Number::Whole, '0'..='9') => Some(Number::Whole),
            (Number::Zero | Number::Whole, '.') => Some(Number::Point),
            (Number::Point | Number::Fraction, '0'..='9') => Some(Number::Fraction),
            (Number::Zero | Number::Whole | Number::Fraction, 'e' | 'E') => Some(Number::Exponent),
            (Number::Exponent, '+' | '-') => Some(Number::Sign),
            (Number::Exponent | Number::Sign | Number::Power, '0'..='9') => Some(Number::Power),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Whether an object or list of exactly this text is JSON to the scan.
    fn accepts(text: &str) -> bool {
        let mut scan = JsonScan::new();
        text.chars().all(|letter| scan.push(letter).is_some()) && scan.is_done()
    }

    #[test]
    fn texts_are_json_or_not() {
        for (text, is_json) in [
            (r#"{}"#, true),
            (
                r#"{ "a" : [ 1 , -0.5e+3, true,false ,null, "\u00e9\n" ] }"#,
                true,
            ),
            (r#"[[],{"":{}}]"#, true),
            (r#"{"a":1,}"#, false),
            (r#"{"a" 1}"#, false),
            (r#"[1}"#, false),
            (r#"{"a":01}"#, false),
            (r#"{"a":1.}"#, false),
            (r#"{"a":-}"#, false),
            (r#"{"a":tru}"#, false),
            (r#"{"a":"\x"}"#, false),
            (r#"{"a":"\u12g4"}"#, false),
            ("{\"a\":\"\n\"}", false),
            (r#"{'a':1}"#, false),
            (r#"{} "#, false),
        ] {
            assert_eq!(accepts(text), is_json, "{text}");
        }
        let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(accepts(&deep(MAX_VALUE_DEPTH)));
        assert!(!accepts(&deep(MAX_VALUE_DEPTH + 1)));
    }

    proptest! {
        /// serde_json is the oracle; it alone refuses halves of surrogate pairs and huge exponents.
        #[test]
        fn the_scan_agrees_with_serde_json(text in r#"[\[{]([\[\]{}:,"0-9eE.+\-a\\ nt]|true|null|"a"|\\n|\\u00e9){0,12}[\]}]"#) {
            let whole = serde_json::from_str::<serde_json::Value>(&text);
            if let Err(error) = &whole && error.to_string().contains("out of range") {
                return Ok(());
            }
            prop_assert_eq!(accepts(&text), whole.is_ok(), "{}", text);
        }
    }
}
