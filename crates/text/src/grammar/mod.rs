//! Structured output: which tokens may come next so that the text follows a JSON schema, a regular expression, a grammar
//! or a list of choices.
//!
//! Here: [`GrammarCompiler`] (one a model, built from its [`Tokenizer`](crate::Tokenizer)), [`Grammar`] (one compiled
//! source, shared by those who follow it), [`Matcher`] (how far one text is). The automata are the crate `llguidance`'s;
//! ours is what it is not asked: limits, strictness, the cache. Not here: sampling, threads that make masks, requests.
//!
//! Rules:
//! - Nothing is enforced by half. What `llguidance` would take for a comment (an unknown keyword, its own options inside of
//!   a schema) is refused by name in `schema.rs`, and a warning of its compiler is an error.
//! - JSON comes out on one line, with at most one space after a comma or colon, so no model can fill its answer with blanks.
//! - What no tokens of the model can write is refused where a rule has it letter by letter (`literals.rs`); a list of
//!   choices loses none of its entries.
//! - Only tokens that stand for text are ever allowed, and the model's end tokens where the text may end.
//! - Compiling happens on a thread with a large stack ([`COMPILE_STACK_BYTES`](crate::limits::COMPILE_STACK_BYTES)), at most
//!   two at a time, within two seconds and the fuel of [`fuel`](vocabulary::fuel): `llguidance` recurses on foreign input.

mod cache;
mod compile;
mod gbnf;
mod literals;
mod matcher;
pub(crate) mod schema;
mod spelling;
mod vocabulary;

pub use compile::{Grammar, GrammarCompiler};
pub use matcher::{Matcher, NextTokens};

/// What a text must follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrammarSource {
    /// Any JSON object.
    JsonObject,
    /// A JSON value valid by this schema, as JSON text; properties come in the order of the schema.
    JsonSchema(String),
    /// The whole text matches this regular expression (Rust's syntax, no anchors inside, no look-around).
    Regex(String),
    /// A grammar: Lark as `llguidance` reads it, or GBNF, which is recognised by its `::=`.
    Grammar(String),
    /// One of these texts.
    Choice(Vec<String>),
    /// Tool calls, as [`crate::tools::enforced`] writes them; never a client's own text.
    Calls(String),
}

impl GrammarSource {
    /// Its kind, as messages name it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::JsonObject => "JSON object",
            Self::JsonSchema(_) => "JSON schema",
            Self::Regex(_) => "regular expression",
            Self::Grammar(_) => "grammar",
            Self::Choice(_) => "list of choices",
            Self::Calls(_) => "tools",
        }
    }

    /// Bytes of its text.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::JsonObject => 0,
            Self::JsonSchema(text)
            | Self::Regex(text)
            | Self::Grammar(text)
            | Self::Calls(text) => text.len(),
            Self::Choice(choices) => choices.iter().map(String::len).sum(),
        }
    }
}
