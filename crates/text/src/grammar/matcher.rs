//! How far one text is in its grammar.

use std::sync::Arc;

use super::compile::reason;
use super::vocabulary::Vocabulary;
use crate::Result;
use crate::error::TextError;

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
    pub(super) state: llguidance::Matcher,
    pub(super) vocabulary: Arc<Vocabulary>,
    pub(super) kind: &'static str,
    /// Whether end tokens are allowed where the text may end.
    pub(super) ends: bool,
}

impl Matcher {
    /// What may come after the tokens taken in so far.
    ///
    /// # Errors
    /// [`TextError::Grammar`] when the grammar is too complex to go on with, or no token of the vocabulary fits.
    pub fn next_tokens(&mut self) -> Result<NextTokens> {
        if self.is_complete() {
            return Ok(NextTokens::End);
        }
        let mask = self.state.compute_mask();
        let mask = mask.map_err(|error| self.failed(&error.to_string()))?;
        let may_end = mask.is_allowed(self.vocabulary.end);
        let text = self.vocabulary.text.iter().zip(mask.as_slice());
        let mut ids: Vec<u32> = text.map(|(text, allowed)| text & allowed).collect();
        match (ids.iter().any(|word| *word != 0), may_end) {
            (false, true) => return Ok(NextTokens::End),
            (false, false) => return Err(self.failed("no token of the vocabulary fits")),
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
        let taken = self.state.consume_token(token);
        taken.map_err(|error| self.failed(&error.to_string()))
    }

    /// Whether nothing may follow, as far as is known without making the next mask.
    pub fn is_complete(&self) -> bool {
        self.state.is_stopped() && !self.state.is_error()
    }

    fn failed(&self, error: &str) -> TextError {
        TextError::Grammar {
            kind: self.kind,
            reason: format!(
                "it cannot be followed any further: {}; simplify it",
                reason(error)
            ),
        }
    }
}
