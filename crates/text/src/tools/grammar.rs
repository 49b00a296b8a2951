//! Grammars of calls in llguidance's dialect of Lark.
//!
//! Source: llguidance, docs/syntax.md (`%json`, `lazy`, tokens as `<[id]>`). The families say what stands around a call; here
//! the parts are put together.

use serde_json::{Value, json};

use crate::grammar::schema::with_options;

use super::{Offer, Thoughts, Token, ToolChoice};

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
        None => Value::String(text.to_owned()).to_string(),
    }
}

/// `%json` of one object with the tool's name and its arguments under `key`.
pub(super) fn object(offer: &Offer<'_>, key: &str) -> String {
    let schema = json!({ "anyOf": objects(offer, key, "#/anyOf") });
    format!("%json {}", with_options(schema))
}

/// `%json` of a list of such objects.
pub(super) fn list(offer: &Offer<'_>, key: &str) -> String {
    let mut schema = json!({
        "type": "array",
        "items": { "anyOf": objects(offer, key, "#/items/anyOf") },
        "minItems": 1,
    });
    if !is_parallel(offer) {
        schema["maxItems"] = json!(1);
    }
    format!("%json {}", with_options(schema))
}

/// A name, `mark`, and the arguments alone.
pub(super) fn named(offer: &Offer<'_>, mark: &str) -> String {
    let calls = offer.tools.choosable().map(|tool| {
        let name = Value::String(tool.name.clone());
        let schema = with_options(parameters(&tool.parameters));
        format!("{name} {mark} %json {schema}")
    });
    calls.collect::<Vec<_>>().join(" | ")
}

/// Objects of one call each, which will stand at `place` in the whole schema.
fn objects(offer: &Offer<'_>, key: &str, place: &str) -> Vec<Value> {
    let call = |(index, tool): (usize, &super::Tool)| {
        let mut arguments = parameters(&tool.parameters);
        move_references(&mut arguments, &format!("{place}/{index}/properties/{key}"));
        json!({
            "type": "object",
            "properties": { "name": { "const": tool.name }, key: arguments },
            "required": ["name", key],
            "additionalProperties": false,
        })
    };
    offer.tools.choosable().enumerate().map(call).collect()
}

/// Lets references into a schema find their place when the schema itself stands at `place`.
fn move_references(schema: &mut Value, place: &str) {
    match schema {
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| move_references(item, place)),
        Value::Object(entries) => {
            for (key, value) in entries {
                match value {
                    Value::String(target) if key == "$ref" => {
                        *target = format!("{place}{}", target.trim_start_matches('#'));
                    }
                    // Constants are data.
                    _ if key == "const" || key == "enum" => {}
                    _ => move_references(value, place),
                }
            }
        }
        _ => {}
    }
}

/// The schema of the arguments, which are an object whatever it says.
fn parameters(schema: &Option<Value>) -> Value {
    let mut schema = match schema {
        Some(Value::Object(schema)) => schema.clone(),
        _ => return json!({ "type": "object", "properties": {}, "additionalProperties": false }),
    };
    schema.insert("type".to_owned(), Value::String("object".to_owned()));
    Value::Object(schema)
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
    let is_free = offer.tools.choice == ToolChoice::Auto;
    match offer.thoughts {
        Thoughts::Possible if !is_free => {
            rules.push(rule(
                "thoughts",
                &[&mark("<think>", token), "end_of_thoughts"],
            ));
            rules.push(end_of_thoughts(token));
        }
        Thoughts::Open => rules.push(end_of_thoughts(token)),
        Thoughts::Possible | Thoughts::None => {}
    }
    rules.push("TEXT: /(.|\\n)*/".to_owned());
    rules.push("SPACE: /[ \\n]*/".to_owned());
    rules.join("\n") + "\n"
}

/// Text, in which calls may appear.
fn free(offer: &Offer<'_>, call: &Call, token: Token<'_>) -> Vec<String> {
    // Thoughts that are only possible are text like other text.
    let before = match offer.thoughts {
        Thoughts::Open => "end_of_thoughts SPACE",
        Thoughts::Possible | Thoughts::None => "",
    };
    let Some(trigger) = call.trigger else {
        return vec![
            rule("start", &[before, "(", &calls(offer, call), "| OTHER )"]),
            rule("call", &[call.open, "body", &call.close]),
            "OTHER: /[^{](.|\\n)*/".to_owned(),
        ];
    };
    let repeat = if is_parallel(offer) && call.between.is_some() {
        "*"
    } else {
        "?"
    };
    let close = &call.close;
    match token(trigger) {
        Some(_) => vec![
            rule("start", &[before, "TEXT", &format!("call{repeat}")]),
            rule(
                "call",
                &[&mark(trigger, token), call.open, "body", close, "SPACE"],
            ),
        ],
        None => vec![
            rule("start", &[before, &format!("call{repeat}"), "TEXT"]),
            rule("call", &["head", call.open, "body", close]),
            // As little as possible: the first mark is the beginning of a call.
            rule("head[lazy]", &["TEXT", &mark(trigger, token)]),
        ],
    }
}

/// One call or several.
fn calls(offer: &Offer<'_>, call: &Call) -> String {
    match call.between {
        Some("") if is_parallel(offer) => "call+".to_owned(),
        Some(between) if is_parallel(offer) => format!("call ({between} call)*"),
        _ => "call".to_owned(),
    }
}

/// What comes before calls that must come.
fn thoughts(thoughts: Thoughts) -> &'static str {
    match thoughts {
        Thoughts::None => "",
        Thoughts::Possible => "(thoughts SPACE)?",
        Thoughts::Open => "end_of_thoughts SPACE",
    }
}

fn end_of_thoughts(token: Token<'_>) -> String {
    let end = mark("</think>", token);
    match token("</think>") {
        Some(_) => rule("end_of_thoughts", &["TEXT", &end]),
        None => rule("end_of_thoughts[lazy]", &["TEXT", &end]),
    }
}

/// A rule of those of its parts that are not empty.
fn rule(name: &str, parts: &[&str]) -> String {
    let parts = parts.iter().filter(|part| !part.is_empty());
    let body: Vec<&str> = parts.copied().collect();
    format!("{name}: {}", body.join(" "))
}
