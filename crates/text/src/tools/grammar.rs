//! Grammars of calls in llguidance's dialect of Lark.
//!
//! Source: llguidance, docs/syntax.md (`%json`, `lazy`, tokens as `<[id]>`). The families say what stands around a call; here
//! the parts are put together.

use serde_json::{Value, json};

use crate::grammar::schema::with_options;

use super::{Offer, Thoughts, Token, Tool, ToolChoice};

/// One call, as parts of a rule.
pub(super) struct Call {
    /// The mark before it, whose appearance makes free text a call; `None`: an answer that begins with `{` is one.
    pub(super) trigger: Option<&'static str>,
    /// What stands between the mark and the call.
    pub(super) open: &'static str,
    /// The rule of the call itself.
    pub(super) body: String,
    /// What stands behind it.
    pub(super) close: String,
    /// What stands between it and another; `None`: one body holds all calls.
    pub(super) between: Option<&'static str>,
}

/// A mark: the control token where it is one, else its text.
pub(super) fn mark(text: &str, token: Token<'_>) -> String {
    match token(text) {
        Some(id) => format!("<[{id}]>"),
        None => self::text(text),
    }
}

/// One object with the tool's name and its arguments under `key`.
///
/// Each tool's schema is a document of its own: references inside it begin at its root.
pub(super) fn object(offer: &Offer<'_>, key: &str) -> String {
    let calls = offer.tools.choosable().map(|tool| {
        let name = Value::String(tool.name.clone());
        let head = text(&format!("{{\"name\": {name}, \"{key}\": "));
        format!("{head} {} {}", arguments(tool), text("}"))
    });
    calls.collect::<Vec<_>>().join(" | ")
}

/// A list of such objects.
pub(super) fn list(offer: &Offer<'_>, key: &str) -> String {
    let more = if is_parallel(offer) {
        r#" (", " item)*"#
    } else {
        ""
    };
    format!("\"[\" item{more} \"]\"\nitem: {}", object(offer, key))
}

/// A name, `mark`, and the arguments alone.
pub(super) fn named(offer: &Offer<'_>, mark: &str) -> String {
    let calls = offer.tools.choosable().map(|tool| {
        let name = text(&tool.name);
        format!("{name} {mark} {}", arguments(tool))
    });
    calls.collect::<Vec<_>>().join(" | ")
}

/// The arguments of a call, which are an object whatever the schema says.
fn arguments(tool: &Tool) -> String {
    let schema = match &tool.parameters {
        Some(Value::Object(schema)) => {
            let mut schema = schema.clone();
            schema.insert("type".to_owned(), Value::String("object".to_owned()));
            Value::Object(schema)
        }
        _ => json!({ "type": "object", "properties": {}, "additionalProperties": false }),
    };
    format!("%json {}", with_options(schema))
}

/// A literal text.
fn text(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

/// Whether there may be several calls.
fn is_parallel(offer: &Offer<'_>) -> bool {
    offer.tools.parallel && !matches!(offer.tools.choice, ToolChoice::Named(_))
}

/// The whole grammar.
pub(super) fn write(offer: &Offer<'_>, call: &Call, token: Token<'_>) -> String {
    let mut rules = match offer.tools.choice {
        ToolChoice::Auto => free(offer, call, token),
        ToolChoice::Required | ToolChoice::Named(_) => {
            let open = call.trigger.map_or(String::new(), |text| mark(text, token));
            vec![
                rule("start", &[thoughts(offer.thoughts), &calls(offer, call)]),
                rule("call", &[&open, call.open, "body", &call.close]),
            ]
        }
    };
    rules.push(rule("body", &[&call.body]));
    let open = mark("<think>", token);
    rules.push(rule("thoughts", &[&open, "end_of_thoughts"]));
    let close = mark("</think>", token);
    let name = match token("</think>") {
        Some(_) => "end_of_thoughts",
        None => "end_of_thoughts[lazy]",
    };
    rules.push(rule(name, &["TEXT", &close]));
    rules.push("TEXT: /(.|\\n)*/".to_owned());
    // Bounded: a model that does not know on may write blanks for ever.
    rules.push("SPACE: /\\s{0,16}/".to_owned());
    rules.join("\n") + "\n"
}

/// Text, in which calls may appear.
fn free(offer: &Offer<'_>, call: &Call, token: Token<'_>) -> Vec<String> {
    let Some(trigger) = call.trigger else {
        return unmarked(offer, call);
    };
    // A control token is never part of text, so thoughts between such marks are not, either.
    let before = match offer.thoughts {
        Thoughts::Possible if token("<think>").is_none() => "",
        other => thoughts(other),
    };
    let (close, open) = (&call.close, mark(trigger, token));
    let is_token = token(trigger).is_some();
    let answer = match (is_token, is_parallel(offer)) {
        (true, true) => "TEXT call*",
        (true, false) => "TEXT call?",
        (false, true) => "call* TEXT",
        (false, false) => "( call SPACE | TEXT )",
    };
    let start = rule("start", &[before, answer]);
    if is_token {
        let call = rule("call", &[&open, call.open, "body", close, "SPACE"]);
        return vec![start, call];
    }
    // As little text as possible: the first mark is the beginning of a call.
    let head = rule("head[lazy]", &["TEXT", &open]);
    vec![
        start,
        rule("call", &["head", call.open, "body", close]),
        head,
    ]
}

/// Without a mark the first letter decides: a brace begins a call, and thoughts begin with their own mark.
fn unmarked(offer: &Offer<'_>, call: &Call) -> Vec<String> {
    let other = match offer.thoughts {
        Thoughts::Possible => "OTHER: /[^{<\\s](.|\\n)*/",
        Thoughts::None | Thoughts::Open => "OTHER: /[^{\\s](.|\\n)*/",
    };
    let answer = format!("( {} | OTHER )", calls(offer, call));
    vec![
        rule("start", &[thoughts(offer.thoughts), "SPACE", &answer]),
        rule("call", &[call.open, "body", &call.close]),
        other.to_owned(),
    ]
}

/// One call or several.
fn calls(offer: &Offer<'_>, call: &Call) -> String {
    match call.between {
        Some("") if is_parallel(offer) => "call+".to_owned(),
        Some(between) if is_parallel(offer) => format!("call ({between} call)*"),
        _ => "call".to_owned(),
    }
}

/// What comes before the answer.
fn thoughts(thoughts: Thoughts) -> &'static str {
    match thoughts {
        Thoughts::None => "",
        Thoughts::Possible => "(thoughts SPACE)?",
        Thoughts::Open => "end_of_thoughts SPACE",
    }
}

/// A rule of those of its parts that are not empty.
fn rule(name: &str, parts: &[&str]) -> String {
    let parts = parts.iter().filter(|part| !part.is_empty());
    let body: Vec<&str> = parts.copied().collect();
    format!("{name}: {}", body.join(" "))
}
