//! One call written as a JSON object, `{"name": ..., "arguments": {...}}`, read as it comes.

use std::ops::Range;

use super::json::{JsonScan, Mark};
use crate::limits::MAX_TOOL_NAME_BYTES;

/// Keys that hold the arguments.
const ARGUMENTS: [&str; 2] = ["arguments", "parameters"];

/// What a character brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing to tell yet.
    More,
    /// The name is known and the arguments begin with this character.
    Begin {
        /// The tool's name.
        name: String,
    },
    /// The character belongs to the arguments.
    Arguments,
    /// The object is whole. What was not told yet: the call itself, when it was not begun, and its arguments.
    End {
        /// The name and where in the object the arguments stand (`None`: it has none).
        rest: Option<(String, Option<Range<usize>>)>,
    },
    /// This is no call.
    Bad,
}

/// What the value at the top of the object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Name,
    Arguments,
    Other,
}

/// An object under way. The caller keeps its text and hands it in, up to and with the new character.
#[derive(Debug, Clone)]
pub(super) struct CallScan {
    scan: JsonScan,
    slot: Slot,
    /// Where the string that matters begins: a key or the name.
    start: usize,
    name: Option<String>,
    /// Where the arguments stand once they are whole; their beginning before that.
    arguments: Option<Range<usize>>,
    arguments_start: Option<usize>,
    has_begun: bool,
    /// A call without arguments is one, too.
    may_lack_arguments: bool,
}

impl CallScan {
    /// A scan before the `{`.
    pub(super) fn new(may_lack_arguments: bool) -> CallScan {
        CallScan {
            scan: JsonScan::new(),
            slot: Slot::Other,
            start: 0,
            name: None,
            arguments: None,
            arguments_start: None,
            has_begun: false,
            may_lack_arguments,
        }
    }

    /// Whether [`Step::Begin`] was told.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Takes the last character of `text`, which begins with the object's `{`. After [`Step::Begin`] offsets are no longer
    /// needed, and the caller may hand in what it likes that ends with the character.
    pub(super) fn push(&mut self, text: &str, letter: char) -> Step {
        let at = text.len().saturating_sub(letter.len_utf8());
        let was_in_arguments = self.is_in_arguments();
        let Some(mark) = self.scan.push(letter) else {
            return Step::Bad;
        };
        let step = match (mark, self.scan.depth()) {
            (Mark::KeyOpen, 1) => {
                self.start = at;
                Step::More
            }
            (Mark::KeyClose, 1) => self.key(text),
            (Mark::StringOpen, 1) => match self.slot {
                Slot::Arguments => Step::Bad,
                Slot::Name => {
                    self.start = at;
                    Step::More
                }
                Slot::Other => Step::More,
            },
            (Mark::StringClose, 1) if self.slot == Slot::Name => self.named(text),
            (Mark::Scalar, 1) if self.slot != Slot::Other => Step::Bad,
            (Mark::Open, 2) => self.open(letter, at),
            (Mark::Close, 1) if was_in_arguments => {
                self.arguments = self.arguments_start.map(|start| start..text.len());
                self.slot = Slot::Other;
                Step::Arguments
            }
            (Mark::Close, 0) => self.end(),
            _ if was_in_arguments => Step::Arguments,
            _ => Step::More,
        };
        match step {
            // Before the beginning the arguments are only kept.
            Step::Arguments if !self.has_begun => Step::More,
            step => step,
        }
    }

    fn is_in_arguments(&self) -> bool {
        self.slot == Slot::Arguments && self.scan.depth() >= 2
    }

    fn key(&mut self, text: &str) -> Step {
        // After the beginning nothing of the object matters any more.
        self.slot = Slot::Other;
        if self.has_begun {
            return Step::More;
        }
        match text.get(self.start..).map(serde_json::from_str::<String>) {
            Some(Ok(key)) if key == "name" && self.name.is_none() => self.slot = Slot::Name,
            Some(Ok(key)) if ARGUMENTS.contains(&key.as_str()) && self.arguments.is_none() => {
                self.slot = Slot::Arguments;
            }
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return Step::Bad,
        }
        Step::More
    }

    fn named(&mut self, text: &str) -> Step {
        self.slot = Slot::Other;
        match text.get(self.start..).map(serde_json::from_str::<String>) {
            Some(Ok(name)) if !name.is_empty() && name.len() <= MAX_TOOL_NAME_BYTES => {
                self.name = Some(name);
                Step::More
            }
            _ => Step::Bad,
        }
    }

    fn open(&mut self, letter: char, at: usize) -> Step {
        match (self.slot, letter, &self.name) {
            (Slot::Other, ..) => Step::More,
            (Slot::Arguments, '{', None) => {
                self.arguments_start = Some(at);
                Step::More
            }
            (Slot::Arguments, '{', Some(name)) => {
                let name = name.clone();
                self.has_begun = true;
                Step::Begin { name }
            }
            _ => Step::Bad,
        }
    }

    fn end(&mut self) -> Step {
        if self.has_begun {
            return Step::End { rest: None };
        }
        match (self.name.take(), self.arguments.take()) {
            (Some(name), Some(arguments)) => Step::End {
                rest: Some((name, Some(arguments))),
            },
            (Some(name), None) if self.may_lack_arguments => Step::End {
                rest: Some((name, None)),
            },
            _ => Step::Bad,
        }
    }
}
