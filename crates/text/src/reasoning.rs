//! Thoughts in an answer: what stands between `<think>` and `</think>` at its beginning.
//!
//! The rules. Thoughts begin with `<think>` before any text, or were opened by the template at the end of the prompt; they end
//! with the first `</think>`, or with the answer. White space around the marks belongs to neither side. The state depends on
//! the characters alone, so pieces of any size give the same two texts; what is held back is a part of a mark or a run of white
//! space of at most [`MAX_HELD_SPACE_BYTES`].

use crate::limits::MAX_HELD_SPACE_BYTES;

/// The mark before thoughts.
pub const THINK_OPEN: &str = "<think>";
/// The mark after them.
pub const THINK_CLOSE: &str = "</think>";

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Thought {
    /// Thoughts.
    Reasoning(String),
    /// What is said.
    Content(String),
}

/// Whether a prompt with this text ends within thoughts.
pub fn opens_thoughts(prompt: &str) -> bool {
    prompt.trim_end().ends_with(THINK_OPEN)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing but white space so far.
    Start,
    /// Behind the mark, before the first thought.
    Opened,
    Thinking,
    /// Behind the closing mark, before the first word.
    Closed,
    Saying,
}

/// Follows one answer.
#[derive(Debug, Clone)]
pub struct ReasoningParser {
    state: State,
    pending: String,
}

impl ReasoningParser {
    /// A parser at the start of an answer; `is_open`: the prompt has opened the thoughts.
    pub fn new(is_open: bool) -> ReasoningParser {
        ReasoningParser {
            state: if is_open { State::Opened } else { State::Start },
            pending: String::new(),
        }
    }

    /// Whether the text so far ends within thoughts.
    pub fn is_thinking(&self) -> bool {
        matches!(self.state, State::Opened | State::Thinking)
    }

    /// Takes more text and appends what is decided by it.
    pub fn push(&mut self, text: &str, pieces: &mut Vec<Thought>) {
        let mut rest = text;
        while let Some(letter) = rest.chars().next() {
            if self.state == State::Saying {
                self.pending.push_str(rest);
                return self.release(pieces);
            }
            self.pending.push(letter);
            self.decide(pieces);
            rest = &rest[letter.len_utf8()..];
        }
    }

    /// Ends the text: what was held back is part of it.
    pub fn finish(&mut self, pieces: &mut Vec<Thought>) {
        let is_space = self.pending.trim_start().is_empty();
        if is_space && matches!(self.state, State::Opened | State::Closed) {
            self.pending.clear();
        }
        self.release(pieces);
    }

    /// Decides as much of `pending` as can be.
    fn decide(&mut self, pieces: &mut Vec<Thought>) {
        loop {
            let trimmed = self.pending.trim_start();
            let space_bytes = self.pending.len() - trimmed.len();
            let Some(first) = trimmed.chars().next() else {
                match self.state {
                    State::Opened | State::Closed => self.pending.clear(),
                    _ if space_bytes > MAX_HELD_SPACE_BYTES => {
                        if self.state == State::Start {
                            self.state = State::Saying;
                        }
                        self.release(pieces);
                    }
                    _ => {}
                }
                return;
            };
            match self.state {
                State::Start if trimmed == THINK_OPEN => {
                    self.pending.clear();
                    self.state = State::Opened;
                    return;
                }
                State::Start if THINK_OPEN.starts_with(trimmed) => return,
                State::Start | State::Closed | State::Saying => {
                    self.state = State::Saying;
                    return self.release(pieces);
                }
                State::Opened | State::Thinking => {
                    if trimmed == THINK_CLOSE {
                        self.pending.clear();
                        self.state = State::Closed;
                        return;
                    }
                    if THINK_CLOSE.starts_with(trimmed) {
                        return;
                    }
                    self.state = State::Thinking;
                    let rest = self.pending.split_off(space_bytes + first.len_utf8());
                    self.release(pieces);
                    self.pending = rest;
                }
            }
        }
    }

    fn release(&mut self, pieces: &mut Vec<Thought>) {
        let text = std::mem::take(&mut self.pending);
        match (self.is_thinking(), pieces.last_mut()) {
            _ if text.is_empty() => {}
            (true, Some(Thought::Reasoning(before))) => before.push_str(&text),
            (false, Some(Thought::Content(before))) => before.push_str(&text),
            (true, _) => pieces.push(Thought::Reasoning(text)),
            (false, _) => pieces.push(Thought::Content(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reasoning and content of an answer that comes in these pieces.
    fn split<'t>(is_open: bool, parts: impl IntoIterator<Item = &'t str>) -> (String, String) {
        let mut parser = ReasoningParser::new(is_open);
        let mut pieces = Vec::new();
        for part in parts {
            parser.push(part, &mut pieces);
            assert!(parser.pending.len() <= MAX_HELD_SPACE_BYTES + THINK_CLOSE.len());
        }
        parser.finish(&mut pieces);
        let (mut reasoning, mut content) = (String::new(), String::new());
        for piece in pieces {
            match piece {
                Thought::Reasoning(text) => reasoning.push_str(&text),
                Thought::Content(text) => content.push_str(&text),
            }
        }
        (reasoning, content)
    }

    #[test]
    fn thoughts_and_words_are_told_apart() {
        for (is_open, text, reasoning, content) in [
            (
                false,
                "<think>\na < b\n</think>\n\nYes.\n",
                "a < b",
                "Yes.\n",
            ),
            (true, "\nwell</think>Yes.", "well", "Yes."),
            (true, "never closed </thin", "never closed </thin", ""),
            (true, "x  ", "x  ", ""),
            (
                false,
                "Yes. <think>no</think>",
                "",
                "Yes. <think>no</think>",
            ),
            (false, "  <thin", "", "  <thin"),
            (false, "<think></think>Yes", "", "Yes"),
            (
                false,
                "<think>a</think><think>b</think>",
                "a",
                "<think>b</think>",
            ),
            (true, "<</think>é", "<", "é"),
            (true, "</think>", "", ""),
            (false, "", "", ""),
        ] {
            assert_eq!(
                split(is_open, [text]),
                (reasoning.to_owned(), content.to_owned()),
                "{text:?}"
            );
        }
        assert!(opens_thoughts("<|im_start|>assistant\n<think>\n"));
        assert!(!opens_thoughts("<think>\n\n</think>\n\n"));
    }

    #[test]
    fn long_white_space_is_not_kept_back() {
        let space = " ".repeat(2 * MAX_HELD_SPACE_BYTES);
        let (reasoning, content) = split(true, [format!("a{space}b</think>{space}c").as_str()]);
        assert_eq!(reasoning, format!("a{space}b"));
        assert_eq!(content, "c");
        assert_eq!(split(false, [space.as_str()]).1, space);
    }

    proptest! {
        #[test]
        fn pieces_of_any_size_give_the_same(
            is_open: bool,
            parts in prop::collection::vec("(<think>|</think>|</|<|th|ink>|é|\u{1f642}| |\n|a){0,3}", 0..8),
        ) {
            let whole = parts.concat();
            let letters: Vec<String> = whole.chars().map(String::from).collect();
            let expected = split(is_open, [whole.as_str()]);
            prop_assert_eq!(&split(is_open, parts.iter().map(String::as_str)), &expected);
            prop_assert_eq!(&split(is_open, letters.iter().map(String::as_str)), &expected);
        }
    }
}
