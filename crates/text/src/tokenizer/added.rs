//! Finding added tokens (control and user-defined) in text, before any other rule.
//!
//! Leftmost, then longest, without overlap: as Hugging Face's added vocabulary does.

use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::Result;
use crate::error::TextError;

/// A token matched by its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AddedToken {
    pub(super) id: u32,
    pub(super) text: String,
    /// Swallows white space before it.
    pub(super) left_strip: bool,
    /// Swallows white space after it.
    pub(super) right_strip: bool,
    /// Matches only between non-word characters.
    pub(super) single_word: bool,
}

impl AddedToken {
    pub(super) fn new(id: u32, text: &str) -> AddedToken {
        let text = text.to_owned();
        AddedToken {
            id,
            text,
            left_strip: false,
            right_strip: false,
            single_word: false,
        }
    }
}

/// A token found in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) range: Range<usize>,
    pub(super) id: u32,
}

/// A set of added tokens, ready to search for.
#[derive(Debug, Clone, Default)]
pub(super) struct AddedTokens {
    automaton: Option<AhoCorasick>,
    tokens: Vec<AddedToken>,
}

impl AddedTokens {
    /// Tokens with empty text are left out: they would match everywhere.
    pub(super) fn new(mut tokens: Vec<AddedToken>) -> Result<AddedTokens> {
        tokens.retain(|token| !token.text.is_empty());
        if tokens.is_empty() {
            return Ok(AddedTokens::default());
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(tokens.iter().map(|token| &token.text))
            .map_err(|error| TextError::vocabulary(format!("added tokens: {error}")))?;
        Ok(AddedTokens {
            automaton: Some(automaton),
            tokens,
        })
    }

    /// The tokens searched for.
    pub(super) fn tokens(&self) -> &[AddedToken] {
        &self.tokens
    }

    /// Calls `each` for every token that lies wholly within `range` of `text`, in order.
    pub(super) fn find(&self, text: &str, range: Range<usize>, mut each: impl FnMut(Found)) {
        let Some(automaton) = &self.automaton else {
            return;
        };
        let mut floor = range.start;
        for hit in automaton.find_iter(&text.as_bytes()[range.clone()]) {
            let token = &self.tokens[hit.pattern().as_usize()];
            let mut span = range.start + hit.start()..range.start + hit.end();
            if span.start < floor || (token.single_word && !is_word(text, &span)) {
                continue;
            }
            if token.left_strip {
                span.start = floor + text[floor..span.start].trim_end().len();
            }
            if token.right_strip {
                let rest = &text[span.end..];
                span.end += rest.len() - rest.trim_start().len();
            }
            floor = span.end;
            each(Found {
                range: span,
                id: token.id,
            });
        }
    }
}

fn is_word(text: &str, span: &Range<usize>) -> bool {
    let word = |letter: char| letter.is_alphanumeric() || letter == '_';
    !text[..span.start].chars().next_back().is_some_and(word)
        && !text[span.end..].chars().next().is_some_and(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tokens: Vec<AddedToken>, text: &str, expected: &[(&str, u32)]) {
        let set = AddedTokens::new(tokens).unwrap();
        let mut found = Vec::new();
        set.find(text, 0..text.len(), |hit| {
            found.push((&text[hit.range], hit.id))
        });
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn the_longest_of_the_leftmost_is_found() {
        let tokens = || {
            vec![
                AddedToken::new(1, "  "),
                AddedToken::new(2, "   "),
                AddedToken::new(3, ""),
            ]
        };
        check(tokens(), "a     b", &[("   ", 2), ("  ", 1)]);
        check(tokens(), "a b", &[]);
    }

    #[test]
    fn stripping_tokens_take_their_white_space() {
        let token = AddedToken {
            left_strip: true,
            right_strip: true,
            ..AddedToken::new(1, "<m>")
        };
        check(vec![token], "a  <m> \n<m>b", &[("  <m> \n", 1), ("<m>", 1)]);
    }

    #[test]
    fn single_words_need_borders() {
        let token = AddedToken {
            single_word: true,
            ..AddedToken::new(1, "cat")
        };
        check(vec![token], "concat cat, cat", &[("cat", 1), ("cat", 1)]);
    }

    #[test]
    fn nothing_outside_the_range_is_found() {
        let set = AddedTokens::new(vec![AddedToken::new(1, "<s>")]).unwrap();
        let mut found = Vec::new();
        set.find("<s><s>", 1..6, |hit| found.push(hit.range.start));
        assert_eq!(found, [3]);
    }
}
