//! Hermes' form: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, a pair of marks for each call.
//!
//! Qwen2.5 and Qwen3 write it; SmolLM2 puts a list of calls between the marks. It is also the form in which models whose
//! template knows no tools are asked.

use super::machine::{Form, Frame, Machine};
use super::{Facts, Family, Offer, Token, grammar};

/// The family.
pub static HERMES: Family = Family {
    name: "hermes",
    fits,
    parser: |offered| Box::new(Machine::new(FORM, offered)),
    grammar: write,
    marks: &["<tool_call>", "</tool_call>"],
};

const FORM: Form = Form {
    frames: &[Frame {
        open: "<tool_call>",
        close: "</tool_call>",
    }],
    bare: false,
    list: true,
    named: false,
    separator: None,
    foreign: None,
    is_ambiguous: false,
};

/// The template of a later model has the same marks around parameters in XML.
fn fits(facts: &Facts<'_>) -> bool {
    facts.template.contains("<tool_call>") && !facts.template.contains("<function=")
}

fn write(offer: &Offer<'_>, token: Token<'_>) -> String {
    let call = grammar::Call {
        trigger: Some("<tool_call>"),
        open: r#""\n""#,
        body: grammar::object(offer, "arguments"),
        close: [r#""\n""#, &grammar::mark("</tool_call>", token)].join(" "),
        between: Some(r#""\n""#),
    };
    grammar::write(offer, &call, token)
}
