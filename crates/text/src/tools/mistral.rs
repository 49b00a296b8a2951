//! Mistral's two forms: `[TOOL_CALLS][{"name": ..., "arguments": {...}}, ...]`, and newer
//! `[TOOL_CALLS]name[ARGS]{...}` for each call, with an id in between (`[CALL_ID]id`) or not.

use super::machine::{Form, Frame, Machine};
use super::{Facts, Family, Offer, Token, grammar};

/// The family.
pub static MISTRAL: Family = Family {
    name: "mistral",
    fits,
    parser: |offered| Box::new(Machine::new(FORM, offered)),
    grammar: write,
    marks: &["[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"],
};

const FORM: Form = Form {
    frames: &[Frame {
        open: "[TOOL_CALLS]",
        close: "",
    }],
    bare: false,
    list: true,
    named: true,
    separator: None,
    foreign: None,
    is_ambiguous: false,
};

fn fits(facts: &Facts<'_>) -> bool {
    facts.template.contains("[TOOL_CALLS]")
}

fn write(offer: &Offer<'_>, token: Token<'_>) -> String {
    let arguments = grammar::mark("[ARGS]", token);
    let (body, between) = if offer.template.contains("[ARGS]") {
        (grammar::named(offer, &arguments), Some(""))
    } else {
        (grammar::list(offer, "arguments"), None)
    };
    let call = grammar::Call {
        trigger: Some("[TOOL_CALLS]"),
        open: "",
        body,
        close: String::new(),
        between,
    };
    grammar::write(offer, &call, token)
}
