//! The body of Anthropic's `/v1/messages` and `/v1/messages/count_tokens`.
//!
//! Source: Anthropic API reference, "Messages", version 2023-06-01.

use ucuz_llm::{
    GenerateRequest, Input, LIMITS, Message, SamplingOptions, Tool, ToolChoice, ToolOffer,
};

use super::blocks;
use super::common::{self, Standing};
use super::optional::{Spare, settle};
use super::tools::{self, Choice};
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
    let without_effect = turns(&mut fields, &mut messages)?;
    let mut generate = GenerateRequest::new(Input::Chat(messages));
    generate.tools = offer(&mut fields)?;
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
    let mut ignored = settle(fields, &SPARE)?;
    ignored.extend(without_effect);
    ignored.sort_unstable();
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
        Some(value) => Ok(vec![Message::new("system", &blocks::text(&name, value)?)]),
    }
}

/// The turns, and what of them has no effect.
fn turns(fields: &mut Fields, messages: &mut Vec<Message>) -> Result<Vec<&'static str>, ApiError> {
    let items = match fields.take("messages") {
        Some(Json::Array(items)) if !items.is_empty() => items,
        Some(Json::Array(_)) | None => {
            return Err(ApiError::invalid(
                "messages",
                "messages is empty or missing; give at least one",
            ));
        }
        Some(other) => return Err(fields.wrong("messages", &other, "a list of messages")),
    };
    let mut has_errors = false;
    for (index, item) in items.into_iter().enumerate() {
        has_errors |= blocks::turn(index, item, messages)?;
    }
    Ok(if has_errors {
        vec![blocks::IS_ERROR]
    } else {
        Vec::new()
    })
}

/// Takes the fields about tools.
fn offer(fields: &mut Fields) -> Result<Option<ToolOffer>, ApiError> {
    let tools = tools::list(fields, tool)?;
    let Some(value) = fields.take("tool_choice") else {
        return tools::settle(tools, Choice::Of(ToolChoice::Auto), true);
    };
    let mut choice = Fields::nested("tool_choice".to_owned(), value)?;
    let is_single = choice.bool("disable_parallel_tool_use")?.unwrap_or(false);
    let chosen = match choice.string("type")?.as_deref() {
        Some("auto") => Choice::Of(ToolChoice::Auto),
        Some("any") => Choice::Of(ToolChoice::Required),
        Some("none") => Choice::None,
        Some("tool") => Choice::Of(ToolChoice::Named(tools::name(&mut choice)?)),
        other => {
            let given = Clip(other.unwrap_or("missing"));
            let message = format!(
                "tool_choice.type is {given}, it must be \"auto\", \"any\", \"none\" or \"tool\""
            );
            return Err(ApiError::invalid("tool_choice.type", message));
        }
    };
    choice.finish()?;
    tools::settle(tools, chosen, !is_single)
}

/// A tool of the client's own; those that a server would run are not here.
fn tool(place: &str, value: Json) -> Result<Tool, ApiError> {
    let mut fields = Fields::nested(place.to_owned(), value)?;
    let name = fields.full_name("type");
    match fields.string("type")?.as_deref() {
        None | Some("custom") => {}
        Some(other) => {
            let message = format!("{name} is {}, only \"custom\" is supported", Clip(other));
            return Err(ApiError::invalid(name, message));
        }
    }
    fields.take("cache_control");
    tools::function(fields, "input_schema")
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
