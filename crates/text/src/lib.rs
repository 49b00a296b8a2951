//! Text: bytes to token ids and back, chat templates, stop strings.
//!
//! Here: [`Tokenizer`] (from `tokenizer.json` or rebuilt from GGUF metadata), [`Detokenizer`]
//! (ids to text, streamed), [`StopMatcher`] (stop strings across token borders), [`ChatTemplate`]
//! (messages to a prompt whose special tokens cannot be forged by a message), [`GrammarCompiler`]
//! (which tokens may come next so that a text follows a schema or grammar), [`AnswerParser`]
//! (an answer told apart: [`ReasoningParser`] for thoughts, [`tools`] for calls).
//! Not here: tensors, files, sockets, clocks. Bytes and ids come in, bytes and ids go out; time is
//! passed in. Every reader takes foreign bytes and answers with a [`TextError`], never a panic.
//! Called by `llm`; depends on no other crate of the workspace.

mod answer;
mod detokenizer;
mod error;
mod grammar;
pub mod limits;
mod reasoning;
mod stop;
mod template;
mod tokenizer;
pub mod tools;

pub use answer::{AnswerEvent, AnswerForm, AnswerParser};
pub use detokenizer::{DecodeOptions, Detokenizer, LeadingSpace, SpecialText};
pub use error::TextError;
pub use grammar::{Grammar, GrammarCompiler, GrammarSource, Matcher, NextTokens};
pub use reasoning::{ReasoningParser, THINK_CLOSE, THINK_OPEN, Thought, opens_thoughts};
pub use stop::{StopMatcher, StopStep};
pub use template::{
    ChatTemplate, Content, Message, RenderOptions, Rendered, TemplateTokens, encode_chat,
};
pub use tokenizer::{Special, SpecialIds, TokenKind, Tokenizer, TokenizerConfig, VocabSpec};

/// Result of this crate.
pub type Result<T> = std::result::Result<T, TextError>;
