//! The one error type of the crate: what rule was broken, by which value, and the way out.

use thiserror::Error;

/// Why a tokenizer, template or text was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TextError {
    /// The vocabulary names a tokenizer algorithm that is not implemented.
    #[error("tokenizer model {found:?} is not supported; known: {known}")]
    UnknownModel {
        /// The name in the file.
        found: String,
        /// The names that work, separated by commas.
        known: String,
    },
    /// The vocabulary names a pre-tokenizer that is not implemented, or names none.
    #[error(
        "pre-tokenizer {found:?} is not supported; known: {known}. A guess would give wrong token \
         ids; convert the model again or use its tokenizer.json"
    )]
    UnknownPreTokenizer {
        /// The name in the file, or "(none)".
        found: String,
        /// The names that work, separated by commas.
        known: String,
    },
    /// A part of a `tokenizer.json` is of a type that is not implemented.
    #[error("tokenizer.json: {part} {found} is not supported; known: {known}")]
    UnsupportedPart {
        /// Which part: normalizer, pre_tokenizer, model, ...
        part: &'static str,
        /// Its type or value in the file.
        found: String,
        /// What works instead.
        known: &'static str,
    },
    /// The vocabulary contradicts itself.
    #[error("tokenizer vocabulary: {rule}")]
    BadVocabulary {
        /// The rule and the value that broke it.
        rule: String,
    },
    /// A file is not the JSON it should be.
    #[error("{file} is damaged or of another format: {reason}")]
    BadJson {
        /// File kind.
        file: &'static str,
        /// What the parser saw, with line and column.
        reason: String,
    },
    /// Something is over its limit (see [`crate::limits`]).
    #[error("{what} is {found}, limit {limit}")]
    TooLarge {
        /// What was measured, with its unit.
        what: &'static str,
        /// The value given.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// The vocabulary has no token, byte token or unknown token for a piece of text.
    #[error(
        "the vocabulary has no token for {piece:?} and no unknown token; the tokenizer of this \
         model is incomplete"
    )]
    Unencodable {
        /// The piece, invalid bytes replaced.
        piece: String,
    },
    /// The model brings no chat template and none was asked for by name.
    #[error(
        "the model has no chat template; name a built-in one ({known}) or use plain completions"
    )]
    NoTemplate {
        /// The built-in names.
        known: &'static str,
    },
    /// A built-in template was asked for by a name that does not exist.
    #[error("built-in chat template {found:?} does not exist; known: {known}")]
    UnknownBuiltin {
        /// The name asked for.
        found: String,
        /// The built-in names.
        known: &'static str,
    },
    /// The chat template cannot be compiled.
    #[error("chat template, line {line}: {reason}")]
    TemplateSyntax {
        /// Line in the template, from 1; 0 if not known.
        line: usize,
        /// The construct and what is wrong with it.
        reason: String,
    },
    /// The chat template failed on these messages, or uses something that does not exist here.
    #[error("chat template, line {line}: {reason}")]
    TemplateRender {
        /// Line in the template, from 1; 0 if not known.
        line: usize,
        /// The construct and what is wrong with it.
        reason: String,
    },
    /// The chat template refused the messages by `raise_exception`; the text is the template's.
    #[error("the model's chat template refuses these messages: {message}")]
    TemplateRaised {
        /// The template's own text.
        message: String,
    },
    /// The chat template composed a special token from pieces, so its origin is not known.
    #[error(
        "the chat template composes the special token {token:?} from pieces, so it cannot be told \
         from a forged one; write the token as one literal in the template"
    )]
    AssembledSpecial {
        /// The token's text.
        token: String,
    },
    /// A grammar, schema, expression or list of choices that cannot be read, enforced or followed.
    #[error("{kind}: {reason}")]
    Grammar {
        /// What it is.
        kind: &'static str,
        /// What is wrong with it, and where.
        reason: String,
    },
    /// As many grammars are compiled as may be at once.
    #[error("too many schemas and grammars are being compiled; retry in 1 s")]
    Busy,
    /// A message, tool or template argument breaks a rule.
    #[error("{what}: {rule}")]
    BadRequest {
        /// Which value.
        what: String,
        /// The rule and the value that broke it.
        rule: String,
    },
}

impl TextError {
    pub(crate) fn vocabulary(rule: impl Into<String>) -> TextError {
        TextError::BadVocabulary { rule: rule.into() }
    }

    pub(crate) fn grammar(
        source: &crate::grammar::GrammarSource,
        reason: impl Into<String>,
    ) -> TextError {
        TextError::Grammar {
            kind: source.kind(),
            reason: reason.into(),
        }
    }

    pub(crate) fn request(what: impl Into<String>, rule: impl Into<String>) -> TextError {
        TextError::BadRequest {
            what: what.into(),
            rule: rule.into(),
        }
    }
}

/// Refuses `found` above `limit`.
pub(crate) fn check_limit(what: &'static str, found: usize, limit: usize) -> crate::Result<()> {
    if found > limit {
        Err(TextError::TooLarge { what, found, limit })
    } else {
        Ok(())
    }
}
