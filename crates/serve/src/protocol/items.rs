//! The items of a responses request: messages, calls that earlier answers made, and what came of them.

use ucuz_llm::{Content, Message};

use super::calls::{add_call, call_id, called};
use crate::clip::Clip;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::json::Json;

/// The conversation that items tell. A call belongs to the answer before it.
pub(super) fn messages(items: Vec<Json>) -> Result<Vec<Message>, ApiError> {
    let mut messages = Vec::with_capacity(items.len());
    for (index, value) in items.into_iter().enumerate() {
        let mut fields = Fields::nested(format!("input[{index}]"), value)?;
        let name = fields.full_name("type");
        match fields.string("type")?.as_deref() {
            None | Some("message") => messages.push(message(&mut fields)?),
            Some("function_call") => {
                let id = call_id(&mut fields, "call_id")?;
                let function = needed(&mut fields, "name")?;
                let arguments = fields.string("arguments")?.unwrap_or_default();
                add_call(&mut messages, called(&id, &function, &arguments), "input")?;
            }
            Some("function_call_output") => messages.push(result(&mut fields)?),
            Some(other) => {
                let message = format!(
                    "{name} is {}, it must be \"message\", \"function_call\" or \"function_call_output\"",
                    Clip(other)
                );
                return Err(ApiError::invalid(name, message));
            }
        }
        // An answer sent back carries both.
        fields.take("id");
        fields.take("status");
        fields.finish()?;
    }
    Ok(messages)
}

fn message(fields: &mut Fields) -> Result<Message, ApiError> {
    let name = fields.full_name("role");
    let role = match fields.string("role")?.as_deref() {
        Some("user") => "user",
        Some("assistant") => "assistant",
        Some("system" | "developer") => "system",
        other => {
            let given = Clip(other.unwrap_or("missing"));
            let message = format!(
                "{name} is {given}, it must be \"system\", \"developer\", \"user\" or \"assistant\""
            );
            return Err(ApiError::invalid(name, message));
        }
    };
    Ok(Message::new(role, &text(fields, "content")?))
}

fn result(fields: &mut Fields) -> Result<Message, ApiError> {
    let id = call_id(fields, "call_id")?;
    Ok(Message {
        role: "tool".to_owned(),
        content: Some(Content::Text(text(fields, "output")?)),
        tool_call_id: Some(id),
        ..Message::default()
    })
}

fn needed(fields: &mut Fields, field: &str) -> Result<String, ApiError> {
    let name = fields.full_name(field);
    let missing = || ApiError::invalid(name.clone(), format!("{name} is missing"));
    fields.string(field)?.ok_or_else(missing)
}

/// Text, or parts of text.
fn text(fields: &mut Fields, field: &str) -> Result<String, ApiError> {
    let name = fields.full_name(field);
    match fields.take(field) {
        Some(Json::String(text)) => Ok(text),
        Some(Json::Array(parts)) if !parts.is_empty() => {
            let parts = parts.into_iter().enumerate();
            let texts = parts.map(|(part, value)| text_part(&format!("{name}[{part}]"), value));
            Ok(texts.collect::<Result<Vec<_>, _>>()?.join(" "))
        }
        Some(other) => Err(fields.wrong(field, &other, "a string or a list of parts")),
        None => {
            let message = format!("{name} is missing; give text");
            Err(ApiError::invalid(name, message))
        }
    }
}

fn text_part(name: &str, part: Json) -> Result<String, ApiError> {
    let mut fields = Fields::nested(name.to_owned(), part)?;
    let kind = fields.string("type")?;
    if !matches!(kind.as_deref(), Some("input_text" | "output_text")) {
        let given = Clip(kind.as_deref().unwrap_or("missing"));
        let message = format!(
            "{name}.type is {given}, only \"input_text\" and \"output_text\" are supported"
        );
        return Err(ApiError::invalid(format!("{name}.type"), message));
    }
    fields.take("annotations");
    fields.take("logprobs");
    let text = needed(&mut fields, "text")?;
    fields.finish()?;
    Ok(text)
}
