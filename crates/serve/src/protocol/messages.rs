//! `messages` of a chat request.

use ucuz_llm::{Content, Message};

use super::calls;
use crate::clip::{Clip, shown};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::json::Json;

/// Takes `messages`.
pub(super) fn messages(fields: &mut Fields) -> Result<Vec<Message>, ApiError> {
    match fields.take("messages") {
        Some(value) => of(value),
        None => Err(ApiError::invalid(
            "messages",
            "messages is missing; give at least one",
        )),
    }
}

/// Reads what `messages` holds.
pub(super) fn of(value: Json) -> Result<Vec<Message>, ApiError> {
    match value {
        Json::Array(items) if items.is_empty() => Err(ApiError::invalid(
            "messages",
            "messages is empty; give at least one",
        )),
        Json::Array(items) => items
            .into_iter()
            .enumerate()
            .map(|(index, item)| message(index, item))
            .collect(),
        other => {
            let shown = shown(&other);
            let message = format!("messages is {shown}, it must be a list of messages");
            Err(ApiError::invalid("messages", message))
        }
    }
}

fn message(index: usize, value: Json) -> Result<Message, ApiError> {
    let mut fields = Fields::nested(format!("messages[{index}]"), value)?;
    let role = role(&mut fields)?;
    let mut message = Message {
        role: role.to_owned(),
        ..Message::default()
    };
    if role == "assistant" {
        take_answer_extras(&mut fields)?;
        message.tool_calls = calls::calls(&mut fields)?;
        message.reasoning_content = fields.string("reasoning_content")?;
    }
    if role == "tool" {
        message.tool_call_id = Some(calls::call_id(&mut fields, "tool_call_id")?);
    }
    let content = content(&mut fields, message.tool_calls.is_some())?;
    message.content = content.map(Content::Text);
    message.name = fields.string("name")?;
    fields.finish()?;
    Ok(message)
}

fn role(fields: &mut Fields) -> Result<&'static str, ApiError> {
    let name = fields.full_name("role");
    match fields.string("role")?.as_deref() {
        Some("user") => Ok("user"),
        Some("assistant") => Ok("assistant"),
        Some("tool") => Ok("tool"),
        // OpenAI's newer name for the same thing; templates know the old one.
        Some("system" | "developer") => Ok("system"),
        Some(other) => {
            let message = format!(
                "{name} is {}, it must be \"system\", \"developer\", \"user\", \"assistant\" or \"tool\"",
                Clip(other)
            );
            Err(ApiError::invalid(name, message))
        }
        None => {
            let message = format!("{name} is missing");
            Err(ApiError::invalid(name, message))
        }
    }
}

/// Text, or text parts joined by a space as Hugging Face does. A message that calls tools may have none.
fn content(fields: &mut Fields, has_calls: bool) -> Result<Option<String>, ApiError> {
    let name = fields.full_name("content");
    match fields.take("content") {
        None if has_calls => Ok(None),
        Some(Json::String(text)) => Ok(Some(text)),
        Some(Json::Array(parts)) if !parts.is_empty() => {
            let parts = parts.into_iter().enumerate();
            let texts = parts.map(|(index, part)| text_part(&format!("{name}[{index}]"), part));
            Ok(Some(texts.collect::<Result<Vec<_>, _>>()?.join(" ")))
        }
        Some(other) => Err(fields.wrong("content", &other, "a string or a list of text parts")),
        None => {
            let message = format!("{name} is missing; give text");
            Err(ApiError::invalid(name, message))
        }
    }
}

fn text_part(name: &str, part: Json) -> Result<String, ApiError> {
    let mut fields = Fields::nested(name.to_owned(), part)?;
    match fields.string("type")?.as_deref() {
        Some("text") => {}
        Some(other) => {
            let message = format!("{name}.type is {}, only \"text\" is supported", Clip(other));
            return Err(ApiError::invalid(format!("{name}.type"), message));
        }
        None => {
            return Err(ApiError::invalid(
                name.to_owned(),
                format!("{name} has no type"),
            ));
        }
    }
    let Some(text) = fields.string("text")? else {
        return Err(ApiError::invalid(
            name.to_owned(),
            format!("{name} has no text"),
        ));
    };
    fields.finish()?;
    Ok(text)
}

/// An answer sent back as a message carries fields that are empty in whatever this server answered.
fn take_answer_extras(fields: &mut Fields) -> Result<(), ApiError> {
    for name in ["annotations", "function_call", "audio", "refusal"] {
        match fields.take(name) {
            None => {}
            Some(Json::Array(items)) if items.is_empty() => {}
            Some(other) => {
                let name = fields.full_name(name);
                let message = format!("{name} is {}, it is not supported", shown(&other));
                return Err(
                    ApiError::bad_request("unsupported_parameter", message).with_param(name)
                );
            }
        }
    }
    Ok(())
}
