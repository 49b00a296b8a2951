//! Answers of OpenAI's `/v1/responses`: what they state of themselves, and a whole one.
//!
//! Source: OpenAI API reference, "Responses".

use std::collections::BTreeMap;

use axum::response::Response;
use serde::Serialize;
use serde_json::Value;
use ucuz_llm::{FinishReason, Usage};

use super::blocks::{Block, Blocks};
use super::{finish_reason, json};
use crate::error::ApiError;
use crate::protocol::ToolsTold;
use crate::samples::Samples;

/// What an answer states of itself, whatever it says.
#[derive(Debug, Clone)]
pub(crate) struct ResponseHead {
    pub id: String,
    /// What the ids of its items have in common.
    pub unique: String,
    /// Seconds since 1970.
    pub created: u64,
    pub model: String,
    pub instructions: Option<String>,
    pub max_output_tokens: Option<u32>,
    pub temperature: f32,
    pub top_p: f32,
    /// Of the text, when it is not plain.
    pub format: Option<Value>,
    pub tools: ToolsTold,
    pub metadata: Vec<(String, String)>,
}

#[derive(Serialize)]
pub(super) struct Body<'a> {
    id: &'a str,
    object: &'static str,
    created_at: u64,
    status: &'static str,
    error: Option<()>,
    incomplete_details: Option<Incomplete>,
    instructions: Option<&'a str>,
    max_output_tokens: Option<u32>,
    model: &'a str,
    output: Vec<Item<'a>>,
    parallel_tool_calls: bool,
    previous_response_id: Option<()>,
    store: bool,
    temperature: f32,
    text: TextOptions<'a>,
    tool_choice: &'a Value,
    tools: &'a [Value],
    top_p: f32,
    truncation: &'static str,
    usage: Option<Counts>,
    metadata: BTreeMap<&'a str, &'a str>,
}

#[derive(Serialize)]
struct Incomplete {
    reason: &'static str,
}

#[derive(Serialize)]
struct TextOptions<'a> {
    format: TextFormat<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum TextFormat<'a> {
    Plain { r#type: &'static str },
    Given(&'a Value),
}

/// A block of the answer, as OpenAI writes it.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Item<'a> {
    Message {
        id: String,
        status: &'static str,
        role: &'static str,
        content: Vec<Part<'a>>,
    },
    FunctionCall {
        id: String,
        status: &'static str,
        call_id: &'a str,
        name: &'a str,
        arguments: &'a str,
    },
}

#[derive(Serialize)]
pub(super) struct Part<'a> {
    r#type: &'static str,
    text: &'a str,
    annotations: [(); 0],
    logprobs: [(); 0],
}

impl<'a> Part<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            r#type: "output_text",
            text,
            annotations: [],
            logprobs: [],
        }
    }
}

#[derive(Serialize)]
struct Counts {
    input_tokens: u32,
    input_tokens_details: InputDetails,
    output_tokens: u32,
    output_tokens_details: OutputDetails,
    total_tokens: u32,
}

#[derive(Serialize)]
struct InputDetails {
    cached_tokens: u32,
}

#[derive(Serialize)]
struct OutputDetails {
    reasoning_tokens: u32,
}

impl Counts {
    fn of(usage: &Usage, reasoning_tokens: u32) -> Self {
        let (input_tokens, output_tokens) = (usage.prompt_tokens, usage.completion_tokens);
        Self {
            input_tokens,
            input_tokens_details: InputDetails {
                cached_tokens: usage.cached_tokens,
            },
            output_tokens,
            output_tokens_details: OutputDetails {
                // A token that was on its way when the answer ended is in neither number.
                reasoning_tokens: reasoning_tokens.min(output_tokens),
            },
            total_tokens: input_tokens.saturating_add(output_tokens),
        }
    }
}

pub(super) const IN_PROGRESS: &str = "in_progress";
const COMPLETED: &str = "completed";
pub(super) const INCOMPLETE: &str = "incomplete";

impl ResponseHead {
    /// The answer so far; `usage` once it has ended, with `status`.
    pub(super) fn body<'a>(
        &'a self,
        status: &'static str,
        blocks: &'a Blocks,
        usage: Option<&Usage>,
    ) -> Body<'a> {
        let metadata = self.metadata.iter();
        let last = blocks.blocks().len().saturating_sub(1);
        let items = blocks.blocks().iter().enumerate();
        let items = items.map(|(index, block)| {
            let status = if index == last { status } else { COMPLETED };
            self.item(index, block, status)
        });
        Body {
            id: &self.id,
            object: "response",
            created_at: self.created,
            status,
            error: None,
            incomplete_details: (status == INCOMPLETE).then_some(Incomplete {
                reason: "max_output_tokens",
            }),
            instructions: self.instructions.as_deref(),
            max_output_tokens: self.max_output_tokens,
            model: &self.model,
            output: items.collect(),
            parallel_tool_calls: self.tools.parallel,
            previous_response_id: None,
            store: false,
            temperature: self.temperature,
            text: TextOptions {
                format: match &self.format {
                    Some(format) => TextFormat::Given(format),
                    None => TextFormat::Plain { r#type: "text" },
                },
            },
            tool_choice: &self.tools.choice,
            tools: &self.tools.tools,
            top_p: self.top_p,
            truncation: "disabled",
            usage: usage.map(|usage| Counts::of(usage, blocks.thought_tokens())),
            metadata: metadata
                .map(|(key, value)| (key.as_str(), value.as_str()))
                .collect(),
        }
    }

    /// The block at a place of the answer; one under way has no parts or arguments yet.
    pub(super) fn item<'a>(
        &self,
        index: usize,
        block: &'a Block,
        status: &'static str,
    ) -> Item<'a> {
        let id = self.item_id(index, block);
        match block {
            Block::Text(text) => Item::Message {
                id,
                status,
                role: "assistant",
                content: match status {
                    IN_PROGRESS => Vec::new(),
                    _ => vec![Part::new(text)],
                },
            },
            Block::Call {
                id: call_id,
                name,
                arguments,
            } => Item::FunctionCall {
                id,
                status,
                call_id,
                name,
                arguments: match status {
                    IN_PROGRESS => "",
                    _ => arguments,
                },
            },
        }
    }

    pub(super) fn item_id(&self, index: usize, block: &Block) -> String {
        let kind = match block {
            Block::Text(_) => "msg",
            Block::Call { .. } => "fc",
        };
        format!("{kind}_{}{index:02x}", self.unique)
    }
}

/// The word for an end.
///
/// # Errors
/// 503 when the request was closed from inside.
pub(super) fn status(reason: FinishReason) -> Result<&'static str, ApiError> {
    finish_reason(reason)?;
    Ok(match reason {
        FinishReason::Length => INCOMPLETE,
        _ => COMPLETED,
    })
}

/// The word for the state of an item that is whole, in an answer that may go on.
pub(super) const DONE: &str = COMPLETED;

/// Waits for the answer.
///
/// # Errors
/// That of a request that fails.
pub(crate) async fn whole(
    head: &ResponseHead,
    samples: Samples,
    mut blocks: Blocks,
) -> Result<Response, ApiError> {
    let finished = blocks.complete(samples).await?;
    let status = status(finished.reason)?;
    Ok(json(&head.body(status, &blocks, Some(&finished.usage))))
}
