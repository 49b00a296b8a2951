//! The form of Llama 3: the whole answer is `{"name": ..., "parameters": {...}}`, after `<|python_tag|>` or without it;
//! several calls are separated by `;`.
//!
//! Without the mark an answer may be an object for other reasons, so it counts as a call only when it names a tool that was
//! offered.

use super::machine::{Form, Frame, Machine};
use super::{Facts, Family, Offer, Token, grammar};

/// The family.
pub static LLAMA3: Family = Family {
    name: "llama3",
    fits,
    parser: |offered| Box::new(Machine::new(FORM, offered)),
    grammar: write,
    marks: &["<|python_tag|>"],
};

const FORM: Form = Form {
    frames: &[Frame {
        open: "<|python_tag|>",
        close: "",
    }],
    bare: true,
    list: false,
    named: false,
    separator: Some(';'),
    foreign: None,
    is_ambiguous: false,
};

fn fits(facts: &Facts<'_>) -> bool {
    let has_object = facts.template.contains("\"parameters\"");
    facts.template.contains("<|python_tag|>")
        || has_object && facts.template.contains("<|start_header_id|>")
}

fn write(offer: &Offer<'_>, token: Token<'_>) -> String {
    let call = grammar::Call {
        trigger: None,
        open: "",
        body: grammar::object(offer, "parameters"),
        close: String::new(),
        between: Some(r#"";""#),
    };
    grammar::write(offer, &call, token)
}
