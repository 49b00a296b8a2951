//! The turns of an Anthropic conversation: blocks of text, calls that earlier answers made, and what came of them.

use ucuz_llm::{Content, Message};

use super::calls::{add_call, call_id, called};
use crate::clip::{Clip, shown};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::json::Json;

/// What has no effect in what was read.
pub(super) const IS_ERROR: &str = "messages[].content[].is_error";

/// Reads a turn, which can be several messages: each result of a call is one of its own.
///
/// Returns whether a result was marked as an error, of which no template knows.
pub(super) fn turn(
    index: usize,
    value: Json,
    messages: &mut Vec<Message>,
) -> Result<bool, ApiError> {
    let mut fields = Fields::nested(format!("messages[{index}]"), value)?;
    let name = fields.full_name("role");
    let role = match fields.string("role")?.as_deref() {
        Some("user") => "user",
        Some("assistant") => "assistant",
        other => {
            let given = Clip(other.unwrap_or("missing"));
            let message = format!("{name} is {given}, it must be \"user\" or \"assistant\"");
            return Err(ApiError::invalid(name, message));
        }
    };
    let name = fields.full_name("content");
    let Some(content) = fields.take("content") else {
        let message = format!("{name} is missing; give text");
        return Err(ApiError::invalid(name, message));
    };
    fields.finish()?;
    let blocks = match content {
        Json::Array(blocks) if !blocks.is_empty() => blocks,
        other => {
            messages.push(Message::new(role, &text(&name, other)?));
            return Ok(false);
        }
    };
    let mut turn = Turn {
        role,
        messages: Vec::new(),
        has_errors: false,
    };
    for (index, block) in blocks.into_iter().enumerate() {
        turn.block(Fields::nested(format!("{name}[{index}]"), block)?)?;
    }
    messages.append(&mut turn.messages);
    Ok(turn.has_errors)
}

/// A turn under way.
struct Turn {
    role: &'static str,
    messages: Vec<Message>,
    has_errors: bool,
}

impl Turn {
    fn block(&mut self, mut fields: Fields) -> Result<(), ApiError> {
        let name = fields.full_name("type");
        // Prefixes are found without marks.
        fields.take("cache_control");
        match (self.role, fields.string("type")?.as_deref()) {
            (_, Some("text")) => self.say(&text_of(fields)?),
            ("assistant", Some("tool_use")) => self.call(fields)?,
            ("user", Some("tool_result")) => self.result(fields)?,
            (role, other) => {
                let given = Clip(other.unwrap_or("missing"));
                let second = match role {
                    "user" => "tool_result",
                    _ => "tool_use",
                };
                let message =
                    format!("{name} is {given}, only \"text\" and \"{second}\" are supported here");
                return Err(ApiError::invalid(name, message));
            }
        }
        Ok(())
    }

    /// Adds text, on a line of its own where there was some.
    fn say(&mut self, text: &str) {
        match self.messages.last_mut() {
            Some(last) if last.role == self.role && last.tool_calls.is_none() => {
                if let Some(Content::Text(before)) = &mut last.content {
                    before.push('\n');
                    before.push_str(text);
                }
            }
            _ => self.messages.push(Message::new(self.role, text)),
        }
    }

    fn call(&mut self, mut fields: Fields) -> Result<(), ApiError> {
        let id = call_id(&mut fields, "id")?;
        let place = fields.full_name("name");
        let Some(name) = fields.string("name")? else {
            let message = format!("{place} is missing");
            return Err(ApiError::invalid(place, message));
        };
        let arguments = match fields.take("input") {
            Some(input @ Json::Object(_)) => input.to_text(),
            other => {
                let given = other.unwrap_or(Json::Null);
                return Err(fields.wrong("input", &given, "an object"));
            }
        };
        fields.finish()?;
        add_call(
            &mut self.messages,
            called(&id, &name, &arguments),
            "messages",
        )
    }

    fn result(&mut self, mut fields: Fields) -> Result<(), ApiError> {
        let id = call_id(&mut fields, "tool_use_id")?;
        let name = fields.full_name("content");
        let content = match fields.take("content") {
            Some(content) => text(&name, content)?,
            None => String::new(),
        };
        self.has_errors |= fields.bool("is_error")? == Some(true);
        fields.finish()?;
        self.messages.push(Message {
            role: "tool".to_owned(),
            content: Some(Content::Text(content)),
            tool_call_id: Some(id),
            ..Message::default()
        });
        Ok(())
    }
}

/// Text, or blocks of text one after the other.
pub(super) fn text(name: &str, value: Json) -> Result<String, ApiError> {
    match value {
        Json::String(text) => Ok(text),
        Json::Array(blocks) if !blocks.is_empty() => {
            let blocks = blocks.into_iter().enumerate();
            let texts = blocks.map(|(index, block)| text_block(&format!("{name}[{index}]"), block));
            Ok(texts.collect::<Result<Vec<_>, _>>()?.join("\n"))
        }
        other => {
            let shown = shown(&other);
            let message = format!("{name} is {shown}, it must be a string or a list of blocks");
            Err(ApiError::invalid(name.to_owned(), message))
        }
    }
}

fn text_block(name: &str, block: Json) -> Result<String, ApiError> {
    let mut fields = Fields::nested(name.to_owned(), block)?;
    let kind = fields.string("type")?;
    if kind.as_deref() != Some("text") {
        let given = Clip(kind.as_deref().unwrap_or("missing"));
        let message = format!("{name}.type is {given}, only \"text\" is supported");
        return Err(ApiError::invalid(format!("{name}.type"), message));
    }
    fields.take("cache_control");
    text_of(fields)
}

/// The text of a block whose type is known.
fn text_of(mut fields: Fields) -> Result<String, ApiError> {
    fields.take("citations");
    let name = fields.full_name("text");
    let Some(text) = fields.string("text")? else {
        let message = format!("{name} is missing");
        return Err(ApiError::invalid(name, message));
    };
    fields.finish()?;
    Ok(text)
}
