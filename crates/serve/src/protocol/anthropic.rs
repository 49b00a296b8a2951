//! The body of Anthropic's `/v1/messages` and `/v1/messages/count_tokens`.
//!
//! Source: Anthropic API reference, "Messages", version 2023-06-01.

use ucuz_llm::{GenerateRequest, Input, LIMITS, Message, SamplingOptions};

use super::common::{self, Standing};
use super::optional::{Spare, settle};
use crate::clip::Clip;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::json::{self, Json};

/// A messages request whose types and names are right.
#[derive(Debug, Clone)]
pub struct MessagesRequest {
    /// The model asked for; absent means the one served.
    pub model: Option<String>,
    /// What to generate.
    pub generate: GenerateRequest,
    /// As Server-Sent Events.
    pub stream: bool,
    /// How it stands among others.
    pub standing: Standing,
    /// Fields that were given and have no effect.
    pub ignored: Vec<&'static str>,
}

/// What is taken without an effect.
pub(crate) const SPARE: Spare = Spare {
    harmless: &["metadata", "service_tier", "inference_geo"],
    unsupported: &[],
};

/// What a body is sent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessagesPurpose {
    /// An answer; `max_tokens` is needed.
    Answer,
    /// The number of prompt tokens.
    Count,
}

/// Reads a messages request.
///
/// # Errors
/// 400 naming the field, the rule and the value; never panics, whatever the bytes.
pub fn parse_messages(body: &[u8], purpose: MessagesPurpose) -> Result<MessagesRequest, ApiError> {
    let mut fields = Fields::of_body(json::parse(body)?)?;
    let model = fields.string("model")?;
    let stream = fields.bool("stream")?.unwrap_or(false);
    let standing = common::standing(&mut fields)?;
    let mut messages = system(&mut fields)?;
    messages.extend(turns(&mut fields)?);
    let mut generate = GenerateRequest::new(Input::Chat(messages));
    generate.max_tokens = fields.u32("max_tokens")?;
    if purpose == MessagesPurpose::Answer && generate.max_tokens.is_none() {
        let message = "max_tokens is missing; give the most tokens that the answer may have";
        return Err(ApiError::invalid("max_tokens", message));
    }
    generate.stop = stop_sequences(&mut fields)?;
    generate.sampling = SamplingOptions {
        temperature: fields.f32("temperature")?,
        top_k: fields.u32_or_minus_one("top_k", Some(0))?,
        top_p: fields.f32("top_p")?,
        seed: fields.seed("seed")?,
        ..SamplingOptions::default()
    };
    refuse_thinking(&mut fields)?;
    let ignored = settle(fields, &SPARE)?;
    Ok(MessagesRequest {
        model,
        generate,
        stream,
        standing,
        ignored,
    })
}

/// The system prompt, which stands beside the turns.
fn system(fields: &mut Fields) -> Result<Vec<Message>, ApiError> {
    let name = fields.full_name("system");
    match fields.take("system") {
        None => Ok(Vec::new()),
        Some(value) => Ok(vec![Message::new("system", &text(&name, value)?)]),
    }
}

fn turns(fields: &mut Fields) -> Result<Vec<Message>, ApiError> {
    match fields.take("messages") {
        Some(Json::Array(items)) if !items.is_empty() => {
            items.into_iter().enumerate().map(turn).collect()
        }
        Some(Json::Array(_)) | None => Err(ApiError::invalid(
            "messages",
            "messages is empty or missing; give at least one",
        )),
        Some(other) => Err(fields.wrong("messages", &other, "a list of messages")),
    }
}

fn turn((index, value): (usize, Json)) -> Result<Message, ApiError> {
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
    let content = text(&name, content)?;
    fields.finish()?;
    Ok(Message::new(role, &content))
}

/// Text, or blocks of text one after the other.
fn text(name: &str, value: Json) -> Result<String, ApiError> {
    match value {
        Json::String(text) => Ok(text),
        Json::Array(blocks) if !blocks.is_empty() => {
            let blocks = blocks.into_iter().enumerate();
            let texts = blocks.map(|(index, block)| text_block(&format!("{name}[{index}]"), block));
            Ok(texts.collect::<Result<Vec<_>, _>>()?.join("\n"))
        }
        other => {
            let shown = crate::clip::shown(&other);
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
    // Prefixes are found without marks.
    fields.take("cache_control");
    fields.take("citations");
    let Some(text) = fields.string("text")? else {
        let message = format!("{name}.text is missing");
        return Err(ApiError::invalid(format!("{name}.text"), message));
    };
    fields.finish()?;
    Ok(text)
}

fn stop_sequences(fields: &mut Fields) -> Result<Vec<String>, ApiError> {
    const EXPECTED: &str = "a list of strings";
    let items = match fields.take("stop_sequences") {
        None => return Ok(Vec::new()),
        Some(Json::Array(items)) => items,
        Some(other) => return Err(fields.wrong("stop_sequences", &other, EXPECTED)),
    };
    if items.len() > LIMITS.stop_strings {
        return Err(fields.too_many("stop_sequences", items.len(), LIMITS.stop_strings));
    }
    let strings = items.into_iter().map(|item| match item {
        Json::String(text) => Ok(text),
        other => Err(fields.wrong("stop_sequences", &other, EXPECTED)),
    });
    strings.collect()
}

/// Thinking is what the model does by its template; a budget for it cannot be kept.
fn refuse_thinking(fields: &mut Fields) -> Result<(), ApiError> {
    let Some(value) = fields.take("thinking") else {
        return Ok(());
    };
    let mut thinking = Fields::nested("thinking".to_owned(), value)?;
    match thinking.string("type")?.as_deref() {
        Some("disabled") => thinking.finish(),
        _ => Err(ApiError::bad_request(
            "unsupported_parameter",
            "thinking with this value is not supported; only {\"type\": \"disabled\"} is",
        )
        .with_param("thinking")),
    }
}
