//! How far one text is in its grammar.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use llguidance::TokenParser;
use llguidance::api::StopReason;

use super::compile::reason;
use super::vocabulary::Vocabulary;
use crate::Result;
use crate::error::TextError;
use crate::limits::MATCHER_BYTES;

/// Where a rule ends in nothing.
const NO_TOKEN: &str = "no token of this model fits what must come next";

/// What may come next in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextTokens {
    /// These ids, end tokens among them where the text may end (bit `id % 32` of word `id / 32`); at least one.
    Ids(Box<[u32]>),
    /// Nothing: the text is complete.
    End,
}

/// One text under its grammar.
pub struct Matcher {
    pub(super) parser: TokenParser,
    pub(super) vocabulary: Arc<Vocabulary>,
    pub(super) kind: &'static str,
    /// Whether end tokens are allowed where the text may end.
    pub(super) ends: bool,
}

impl Matcher {
    /// What may come after the tokens taken in so far.
    ///
    /// # Errors
    /// [`TextError::Grammar`] when the grammar is too complex to go on with, or no token of the vocabulary fits; nothing more
    /// can be asked then.
    pub fn next_tokens(&mut self) -> Result<NextTokens> {
        if self.is_complete() {
            return Ok(NextTokens::End);
        }
        let mask = self.guarded(TokenParser::compute_mask)?;
        let may_end = mask.is_allowed(self.vocabulary.end);
        let text = self.vocabulary.text.iter().zip(mask.as_slice());
        let mut ids: Vec<u32> = text.map(|(text, allowed)| text & allowed).collect();
        match (ids.iter().any(|word| *word != 0), may_end) {
            (false, true) => return Ok(NextTokens::End),
            (false, false) => return Err(self.failed(NO_TOKEN)),
            (true, _) => {}
        }
        if may_end && self.ends {
            for &id in &self.vocabulary.end_ids {
                let word = id as usize / 32;
                if word >= ids.len() {
                    ids.resize(word + 1, 0);
                }
                ids[word] |= 1 << (id % 32);
            }
        }
        Ok(NextTokens::Ids(ids.into()))
    }

    /// Takes in a token that was allowed; an end token is none.
    ///
    /// # Errors
    /// [`TextError::Grammar`] when it was not allowed, or the grammar is too complex to go on with.
    pub fn accept(&mut self, token: u32) -> Result<()> {
        if self.is_complete() {
            return Err(self.failed("nothing may follow"));
        }
        let undone = self.guarded(|parser| parser.consume_token(token))?;
        self.guarded(TokenParser::check_stop)?;
        match undone {
            0 => Ok(()),
            _ => Err(self.failed("a token would have to be taken back")),
        }
    }

    /// Whether nothing may follow, as far as is known without making the next mask.
    pub fn is_complete(&self) -> bool {
        matches!(
            self.parser.stop_reason(),
            StopReason::NoExtension | StopReason::EndOfSentence
        )
    }

    /// Asks the parser; a panic of it is an error, and so are automata that grew too large.
    fn guarded<T, E: Display>(
        &mut self,
        ask: impl FnOnce(&mut TokenParser) -> std::result::Result<T, E>,
    ) -> Result<T> {
        let parser = &mut self.parser;
        let answer = match catch_unwind(AssertUnwindSafe(|| ask(parser))) {
            Ok(answer) => answer.map_err(|error| match self.parser.stop_reason() {
                StopReason::NoExtensionBias => self.failed(NO_TOKEN),
                _ => self.failed(&error.to_string()),
            })?,
            Err(_) => return Err(self.failed("its parser failed")),
        };
        match self.parser.parser.lexer_stats().num_bytes {
            bytes if bytes > MATCHER_BYTES => Err(self.failed("its automata grow too large")),
            _ => Ok(answer),
        }
    }

    fn failed(&self, error: &str) -> TextError {
        let way_out = match error {
            NO_TOKEN => "allow something else there",
            _ => "simplify it",
        };
        TextError::Grammar {
            kind: self.kind,
            reason: format!(
                "it cannot be followed any further: {}; {way_out}",
                reason(error)
            ),
        }
    }
}
