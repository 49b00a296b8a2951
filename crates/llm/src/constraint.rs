//! From what a caller wants an answer to look like to what the engine asks for each token.

use std::sync::Arc;

use ucuz_engine::{Allowed, Constraint, MaskError, TokenMask};
use ucuz_text::{Grammar, GrammarSource, Matcher, NextTokens, TextError};

/// What an answer must look like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConstraintSpec {
    /// The rule.
    pub source: GrammarSource,
    /// Field of the request that holds it, as errors name it.
    pub param: &'static str,
}

/// A grammar as the engine follows it.
#[derive(Debug)]
pub(crate) struct Constrained {
    pub grammar: Arc<Grammar>,
    /// Whether end tokens are allowed where the text may end; else it ends only where nothing can follow.
    pub ends: bool,
}

struct Following(Matcher);

impl Constraint for Constrained {
    fn start(&self) -> Box<dyn TokenMask> {
        Box::new(Following(self.grammar.matcher(self.ends)))
    }
}

impl TokenMask for Following {
    fn next(&mut self) -> Result<Allowed, MaskError> {
        Ok(match self.0.next_tokens().map_err(mask_error)? {
            NextTokens::Ids(bits) => Allowed::Ids(bits),
            NextTokens::End => Allowed::End,
        })
    }

    fn accept(&mut self, token: u32) -> Result<(), MaskError> {
        self.0.accept(token).map_err(mask_error)
    }
}

fn mask_error(error: TextError) -> MaskError {
    MaskError {
        why: error.to_string(),
    }
}
