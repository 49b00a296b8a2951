//! The body of OpenAI's `/v1/responses`.
//!
//! Nothing is stored: an answer cannot be continued by its id, the client sends what was said before.
//! Source: OpenAI API reference, "Responses".

use serde_json::{Value, json};
use ucuz_llm::{
    ConstraintSpec, GenerateRequest, GrammarSource, Input, Message, SamplingOptions, Tool,
    ToolChoice,
};

use super::common::{self, Standing};
use super::constraint::inner_schema;
use super::items;
use super::neutral::Neutral;
use super::optional::{Spare, settle, unsupported_value};
use super::tools::{self, Choice, Form};
use crate::clip::{Clip, shown};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::json::{self, Json};

/// A responses request whose types and names are right.
#[derive(Debug, Clone)]
pub struct ResponsesRequest {
    /// The model asked for; absent means the one served.
    pub model: Option<String>,
    /// What to generate.
    pub generate: GenerateRequest,
    /// As Server-Sent Events.
    pub stream: bool,
    /// How it stands among others.
    pub standing: Standing,
    /// The system prompt of this turn, told back in the answer.
    pub instructions: Option<String>,
    /// `text.format`, told back in the answer; absent for plain text.
    pub format: Option<Value>,
    /// Of its tools, told back in the answer.
    pub tools: ToolsTold,
    /// The client's own notes, told back in the answer.
    pub metadata: Vec<(String, String)>,
    /// Fields that were given and have no effect.
    pub ignored: Vec<&'static str>,
}

/// What a request said about tools.
#[derive(Debug, Clone)]
pub struct ToolsTold {
    /// Each tool.
    pub tools: Vec<Value>,
    /// The choice among them.
    pub choice: Value,
    /// Whether there may be several calls.
    pub parallel: bool,
}

impl ToolsTold {
    fn new(tools: &[Tool], choice: &Choice, parallel: bool) -> Self {
        let tool = |tool: &Tool| {
            let function = &tool.description["function"];
            json!({
                "type": "function",
                "name": tool.name,
                "description": function.get("description"),
                "parameters": function["parameters"],
                "strict": tool.strict,
            })
        };
        Self {
            tools: tools.iter().map(tool).collect(),
            choice: match choice {
                Choice::None => json!("none"),
                Choice::Of(ToolChoice::Auto) => json!("auto"),
                Choice::Of(ToolChoice::Required) => json!("required"),
                Choice::Of(ToolChoice::Named(name)) => json!({"type": "function", "name": name}),
            },
            parallel,
        }
    }
}

/// What is taken without an effect, and what would have one.
pub(crate) const SPARE: Spare = Spare {
    harmless: &[
        "store",
        "user",
        "service_tier",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "parallel_tool_calls",
        "max_tool_calls",
        "stream_options",
    ],
    unsupported: &[
        ("background", Neutral::Switch(false)),
        ("truncation", Neutral::Words(&["disabled"])),
        ("include", Neutral::Empty),
        ("reasoning", Neutral::Empty),
        ("previous_response_id", Neutral::Never),
        ("conversation", Neutral::Never),
        ("prompt", Neutral::Never),
        ("top_logprobs", Neutral::Number(0.0)),
    ],
};

const TEXT_FORMAT: &str = "text.format";

/// Most entries of `metadata`, and most bytes of a key and of a value.
pub(crate) const METADATA_MAX: (usize, usize, usize) = (16, 64, 512);

/// Reads a responses request.
///
/// # Errors
/// 400 naming the field, the rule and the value; never panics, whatever the bytes.
pub fn parse_responses(body: &[u8]) -> Result<ResponsesRequest, ApiError> {
    let mut fields = Fields::of_body(json::parse(body)?)?;
    let model = fields.string("model")?;
    let stream = fields.bool("stream")?.unwrap_or(false);
    let standing = common::standing(&mut fields)?;
    let instructions = fields.string("instructions")?;
    let mut messages: Vec<Message> = Vec::new();
    messages.extend(
        instructions
            .as_deref()
            .map(|text| Message::new("system", text)),
    );
    messages.extend(input(&mut fields)?);
    let mut generate = GenerateRequest::new(Input::Chat(messages));
    generate.max_tokens = fields.u32("max_output_tokens")?;
    generate.sampling = SamplingOptions {
        temperature: fields.f32("temperature")?,
        top_p: fields.f32("top_p")?,
        seed: fields.seed("seed")?,
        ..SamplingOptions::default()
    };
    let offered = tools::tools(&mut fields, Form::Flat)?;
    let choice = tools::choice(&mut fields, Form::Flat)?;
    let parallel = tools::parallel(&mut fields, &offered)?;
    let tools = ToolsTold::new(&offered, &choice, parallel);
    generate.tools = tools::settle(offered, choice, parallel)?;
    let format = text_format(&mut fields)?;
    let source = constraint_of(&format)?;
    generate.constraint = source.map(|source| ConstraintSpec {
        source,
        param: TEXT_FORMAT,
    });
    let metadata = metadata(&mut fields)?;
    let ignored = settle(fields, &SPARE)?;
    Ok(ResponsesRequest {
        model,
        generate,
        stream,
        standing,
        instructions,
        format: format.map(Value::from),
        tools,
        metadata,
        ignored,
    })
}

/// A text, or the items of a conversation.
fn input(fields: &mut Fields) -> Result<Vec<Message>, ApiError> {
    match fields.take("input") {
        Some(Json::String(text)) => Ok(vec![Message::new("user", &text)]),
        Some(Json::Array(items)) if !items.is_empty() => items::messages(items),
        Some(Json::Array(_)) | None => Err(ApiError::invalid(
            "input",
            "input is empty or missing; give text or at least one item",
        )),
        Some(other) => Err(fields.wrong("input", &other, "a string or a list of items")),
    }
}

/// Takes `text`, which holds a format; none for plain text.
fn text_format(fields: &mut Fields) -> Result<Option<Json>, ApiError> {
    let Some(value) = fields.take("text") else {
        return Ok(None);
    };
    let mut text = Fields::nested("text".to_owned(), value)?;
    let format = text.take("format");
    text.finish()?;
    Ok(format.filter(|format| {
        !matches!(format, Json::Object(entries) if matches!(entries.as_slice(), [(key, Json::String(kind))] if key == "type" && kind == "text"))
    }))
}

/// What a format other than plain text asks of the answer.
fn constraint_of(format: &Option<Json>) -> Result<Option<GrammarSource>, ApiError> {
    let Some(format) = format else {
        return Ok(None);
    };
    let mut fields = Fields::nested(TEXT_FORMAT.to_owned(), format.clone())?;
    match fields.string("type")?.as_deref() {
        Some("json_object") => {
            fields.finish()?;
            Ok(Some(GrammarSource::JsonObject))
        }
        Some("json_schema") => Ok(Some(inner_schema(fields)?)),
        _ => Err(unsupported_value(TEXT_FORMAT)),
    }
}

fn metadata(fields: &mut Fields) -> Result<Vec<(String, String)>, ApiError> {
    const EXPECTED: &str = "an object of short strings";
    let (most, key_bytes, value_bytes) = METADATA_MAX;
    let entries = match fields.take("metadata") {
        None => return Ok(Vec::new()),
        Some(Json::Object(entries)) => entries,
        Some(other) => return Err(fields.wrong("metadata", &other, EXPECTED)),
    };
    if entries.len() > most {
        return Err(fields.too_many("metadata", entries.len(), most));
    }
    let entries = entries.into_iter().map(|(key, value)| match value {
        Json::String(value) if key.len() <= key_bytes && value.len() <= value_bytes => {
            Ok((key, value))
        }
        other => {
            let message = format!(
                "metadata[{}] is {}; keys have at most {key_bytes} bytes and values are strings of at most {value_bytes}",
                Clip(&key),
                shown(&other)
            );
            Err(ApiError::invalid("metadata", message))
        }
    });
    entries.collect()
}
