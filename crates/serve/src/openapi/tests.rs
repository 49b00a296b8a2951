//! The tables against the parsers: the same fields, at every depth.

use std::collections::BTreeSet;

use serde_json::Value;

use super::bodies;
use super::schema::{Kind, Others, Shape};
use super::{Keys, document};
use crate::error::ApiError;
use crate::fields::taken;
use crate::protocol::{
    MessagesPurpose, parse_chat, parse_completion, parse_detokenize, parse_embeddings,
    parse_messages, parse_responses, parse_tokenize,
};
use crate::routes::ROUTES;

/// The places of all fields of a shape, as the parsers name them.
fn listed(shape: &Shape, place: &str, found: &mut BTreeSet<String>) {
    for field in shape.fields() {
        let name = format!("{place}{}", field.name);
        inside(field.kind, &name, found);
        found.insert(name);
    }
}

fn inside(kind: Kind, place: &str, found: &mut BTreeSet<String>) {
    match kind {
        Kind::Object(shape) => listed(shape, &format!("{place}."), found),
        Kind::List(kind, ..) => inside(*kind, &format!("{place}[]"), found),
        Kind::Any(kinds) => kinds.iter().for_each(|kind| inside(*kind, place, found)),
        _ => {}
    }
}

/// The bodies together reach every object that the parser can take.
fn check<T>(shape: &Shape, parse: impl Fn(&[u8]) -> Result<T, ApiError>, bodies: &[&str]) {
    taken::names();
    for body in bodies {
        if let Err(error) = parse(body.as_bytes()) {
            panic!("{}: {body}: {error:?}", shape.name);
        }
    }
    let mut expected = BTreeSet::new();
    listed(shape, "", &mut expected);
    assert_eq!(taken::names(), expected, "{}", shape.name);
}

const STRUCTURED: &str = r#""structured_outputs":{"regex":"a"}"#;

#[test]
fn chats_take_the_fields_of_their_table() {
    let message = r#""messages":[{"role":"user","content":[{"type":"text","text":"a"}]},
        {"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f"}}]},
        {"role":"tool","tool_call_id":"c","content":"x"}]"#;
    let tools = r#""tools":[{"type":"function","function":{"name":"f"}}],
        "tool_choice":{"type":"function","function":{"name":"f"}}"#;
    let format = r#""response_format":{"type":"json_schema","json_schema":{"schema":{}}}"#;
    let stream = r#""stream":true,"stream_options":{}"#;
    let plain = format!("{{{message},{tools},{stream},{format}}}");
    let structured = format!("{{{message},{STRUCTURED}}}");
    check(&bodies::CHAT, parse_chat, &[&plain, &structured]);
}

#[test]
fn completions_take_the_fields_of_their_table() {
    let format = r#""response_format":{"type":"json_schema","json_schema":{"schema":{}}}"#;
    let plain = format!(r#"{{"prompt":"a","stream":true,"stream_options":{{}},{format}}}"#);
    let structured = format!(r#"{{"prompt":"a",{STRUCTURED}}}"#);
    check(
        &bodies::COMPLETION,
        parse_completion,
        &[&plain, &structured],
    );
}

#[test]
fn responses_take_the_fields_of_their_table() {
    let body = r#"{"input":[{"role":"user","content":[{"type":"input_text","text":"a"}]},
        {"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
        {"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"a"}]}],
        "tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"function","name":"f"},
        "text":{"format":{"type":"json_schema","schema":{}}}}"#;
    check(&bodies::RESPONSES, parse_responses, &[body]);
}

#[test]
fn messages_take_the_fields_of_their_tables() {
    let body = r#"{"max_tokens":1,"thinking":{"type":"disabled"},"system":[{"type":"text","text":"a"}],
        "tools":[{"name":"f"}],"tool_choice":{"type":"tool","name":"f"},
        "messages":[{"role":"user","content":[{"type":"text","text":"a"}]},
        {"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"a"}]}]}]}"#;
    let answer = |body: &[u8]| parse_messages(body, MessagesPurpose::Answer);
    check(&bodies::MESSAGES, answer, &[body]);
    let count = |body: &[u8]| parse_messages(body, MessagesPurpose::Count);
    check(&bodies::COUNT, count, &[body]);
}

#[test]
fn the_other_endpoints_take_the_fields_of_their_tables() {
    check(&bodies::EMBEDDINGS, parse_embeddings, &[r#"{"input":"a"}"#]);
    let chat = r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},
        {"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f"}}]},
        {"role":"tool","tool_call_id":"c","content":"x"}],
        "tools":[{"type":"function","function":{"name":"f"}}]}"#;
    check(&bodies::TOKENIZE, parse_tokenize, &[chat]);
    check(&bodies::DETOKENIZE, parse_detokenize, &["{}"]);
}

/// Every reference in `value`.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                match value {
                    Value::String(name) if key == "$ref" => found.extend([name.clone()]),
                    _ => references(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[test]
fn every_reference_leads_to_a_component_and_every_component_is_used() {
    let document = document(Keys::Needed);
    let mut used = BTreeSet::new();
    references(&document, &mut used);
    let names = document["components"]["schemas"]
        .as_object()
        .unwrap()
        .keys();
    let there: BTreeSet<_> = names
        .map(|name| format!("#/components/schemas/{name}"))
        .collect();
    assert_eq!(used, there);
}

/// All fields of all bodies, each with its shape's name.
fn all_shapes() -> Vec<&'static Shape> {
    let routes = ROUTES.iter();
    let mut shapes: Vec<&Shape> = routes.filter_map(|route| route.operation.body).collect();
    let mut next = 0;
    while let Some(shape) = shapes.get(next) {
        shapes.extend(shape.fields().flat_map(|field| field.kind.shapes()));
        next += 1;
    }
    shapes
}

#[test]
fn a_component_s_name_is_one_shape_and_every_field_is_told() {
    let components = document(Keys::Needed)["components"]["schemas"].take();
    let shapes = all_shapes();
    assert!(shapes.len() > 30, "{}", shapes.len());
    for shape in shapes {
        let mut bodies = ROUTES.iter().filter_map(|route| route.operation.body);
        let others = match bodies.any(|body| body.name == shape.name) {
            true => Others::Refused,
            false => Others::NullOnly,
        };
        assert_eq!(
            components[shape.name],
            shape.schema(others),
            "{}",
            shape.name
        );
        let mut names = BTreeSet::new();
        for field in shape.fields() {
            assert!(
                names.insert(field.name),
                "{} twice in {}",
                field.name,
                shape.name
            );
            assert!(
                field.about.ends_with('.'),
                "{}: {}",
                field.name,
                field.about
            );
            let is_json = |text| serde_json::from_str::<Value>(text).is_ok();
            assert!(field.default.is_none_or(is_json), "{}", field.name);
        }
    }
}

#[test]
fn every_status_says_what_it_means() {
    let document = document(Keys::Optional);
    for (path, item) in document["paths"].as_object().unwrap() {
        for operation in item.as_object().unwrap().values() {
            for (status, response) in operation["responses"].as_object().unwrap() {
                assert_ne!(response["description"], "", "{path} {status}");
            }
        }
    }
}
