//! Tools: what a client offers, and the calls in what a model answers.
//!
//! Models write calls in the form they were trained on. A [`Family`] is one such form: a parser that finds calls in text as it
//! comes, and a grammar for decoding that is held to the tools' schemas. [`choose`] picks the family from the model's chat
//! template and architecture. Not here: running tools, ids of calls, any API's JSON.
//!
//! To add a family: a file here, a line in [`FAMILIES`].

mod call;
mod gemma;
mod grammar;
mod hermes;
mod ids;
mod json;
mod llama3;
mod machine;
mod mistral;
mod preamble;
#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::Value;

use crate::Result;
use crate::error::TextError;
use crate::grammar::{GrammarSource, schema};

pub use self::gemma::GEMMA;
pub use self::hermes::HERMES;
pub use self::ids::with_fitting_ids;
pub use self::llama3::LLAMA3;
pub use self::mistral::MISTRAL;
pub use self::preamble::describe;

/// Every family, in the order in which they are asked whether a template is theirs.
pub static FAMILIES: [&Family; 4] = [&MISTRAL, &GEMMA, &HERMES, &LLAMA3];

/// A function that a model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// JSON schema of its arguments, an object's; `None`: it takes none.
    pub parameters: Option<Value>,
    /// Its calls must keep to the schema.
    pub strict: bool,
    /// The whole description in OpenAI's form, as templates want it.
    pub description: Value,
}

/// Whether and what a model is to call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// It decides.
    #[default]
    Auto,
    /// It calls at least one tool.
    Required,
    /// It calls this one.
    Named(String),
}

/// The tools of one request.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOffer {
    /// At least one; names differ.
    pub tools: Vec<Tool>,
    /// What the model is to do with them.
    pub choice: ToolChoice,
    /// Whether one answer may hold several calls.
    pub parallel: bool,
}

impl ToolOffer {
    /// The names, for a parser.
    pub fn names(&self) -> Vec<String> {
        self.tools.iter().map(|tool| tool.name.clone()).collect()
    }

    /// The tools that the choice leaves.
    fn choosable(&self) -> impl Iterator<Item = &Tool> {
        self.tools.iter().filter(|tool| match &self.choice {
            ToolChoice::Named(name) => tool.name == *name,
            ToolChoice::Auto | ToolChoice::Required => true,
        })
    }
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolEvent {
    /// Text outside of calls.
    Text(String),
    /// A call begins; the model has named the tool.
    CallBegin {
        /// Which call of the answer.
        index: usize,
        /// The tool.
        name: String,
    },
    /// More of the JSON text of a call's arguments, as the model wrote it.
    Arguments {
        /// Which call.
        index: usize,
        /// The text.
        delta: String,
    },
    /// A call has ended: its arguments are a whole object, or the model broke off.
    CallEnd {
        /// Which call.
        index: usize,
    },
}

/// Finds calls in text as it comes; the events, joined, do not depend on how the text is cut.
pub trait ToolParser: fmt::Debug + Send {
    /// Takes more text and appends what is decided by it.
    fn push(&mut self, text: &str, events: &mut Vec<ToolEvent>);

    /// Ends the text: what was held back is decided.
    fn finish(&mut self, events: &mut Vec<ToolEvent>);
}

/// What of a model a family is chosen by.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Source of its chat template.
    pub template: &'a str,
    /// Whether the template reads the variable `tools`.
    pub reads_tools: bool,
    /// Its architecture.
    pub architecture: &'a str,
}

/// Id of a control token with this text, where the vocabulary has one; a grammar must name such tokens by their ids.
pub type Token<'a> = &'a dyn Fn(&str) -> Option<u32>;

/// What a grammar is written for.
#[derive(Debug, Clone, Copy)]
pub struct Offer<'a> {
    /// The tools and the choice among them.
    pub tools: &'a ToolOffer,
    /// Source of the chat template.
    pub template: &'a str,
    /// The model may think before it answers.
    pub thoughts: Thoughts,
}

/// Whether an answer begins with thoughts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Thoughts {
    /// It has none.
    #[default]
    None,
    /// It may open them.
    Possible,
    /// The prompt has opened them.
    Open,
}

/// A way in which models write calls.
pub struct Family {
    /// Its name, for a flag.
    pub name: &'static str,
    fits: fn(&Facts<'_>) -> bool,
    parser: fn(Vec<String>) -> Box<dyn ToolParser>,
    grammar: fn(&Offer<'_>, Token<'_>) -> String,
    /// What stands around calls; where these are control tokens they must be shown to the parser.
    pub marks: &'static [&'static str],
}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Family {
    /// A parser at the start of an answer to a request that offered tools of these names.
    pub fn parser(&self, offered: Vec<String>) -> Box<dyn ToolParser> {
        (self.parser)(offered)
    }

    /// The family of that name.
    pub fn named(name: &str) -> Option<&'static Family> {
        FAMILIES.into_iter().find(|family| family.name == name)
    }
}

/// The family of a model; `None` when its template has a form of its own that is not known here.
///
/// A template that knows no tools is asked in Hermes' form, see [`describe`].
pub fn choose(facts: &Facts<'_>) -> Option<&'static Family> {
    if !facts.reads_tools {
        return Some(&HERMES);
    }
    FAMILIES.into_iter().find(|family| (family.fits)(facts))
}

/// What answers to this offer must follow, so that they keep to the choice and calls to the schemas.
///
/// Marks are written as text, also where a model has control tokens for them: only text is ever allowed by a mask.
///
/// # Errors
/// [`TextError::Grammar`] for a schema that cannot be enforced, with the tool and the place in it.
pub fn enforced(family: &Family, offer: &Offer<'_>) -> Result<GrammarSource> {
    let mut tools = offer.tools.clone();
    for tool in &mut tools.tools {
        let schema = tool.parameters.take().map(schema::checked).transpose();
        tool.parameters = schema.map_err(|why| TextError::Grammar {
            kind: "tools",
            reason: format!("parameters of {}: {why}", tool.name),
        })?;
    }
    let checked = Offer {
        tools: &tools,
        ..*offer
    };
    Ok(GrammarSource::Calls(constraint(family, &checked, &|_| {
        None
    })))
}

/// A grammar, in llguidance's dialect of Lark, that answers to this offer keep.
///
/// With [`ToolChoice::Required`] and [`ToolChoice::Named`] the answer is calls and nothing else. With [`ToolChoice::Auto`] text
/// is free until the form's mark appears, and from there on the call is held to the schemas.
fn constraint(family: &Family, offer: &Offer<'_>, token: Token<'_>) -> String {
    (family.grammar)(offer, token)
}
