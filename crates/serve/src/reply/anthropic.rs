//! Answers of Anthropic's `/v1/messages`, whole and streamed, and its form of errors.
//!
//! Source: Anthropic API reference, "Messages", "Streaming messages", "Errors", version 2023-06-01.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json as object};
use ucuz_llm::{FinishReason, Finished, Output, Usage};

use super::blocks::{Block, BlockEvent, Blocks};
use super::{failed, finish_reason, json};
use crate::error::ApiError;
use crate::samples::Samples;
use crate::sse::{Chunks, Frames};

/// An error in Anthropic's form.
#[derive(Debug)]
pub(crate) struct AnthropicError(pub ApiError);

impl From<ApiError> for AnthropicError {
    fn from(error: ApiError) -> Self {
        Self(error)
    }
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    r#type: &'static str,
    error: ErrorFields<'a>,
}

#[derive(Serialize)]
struct ErrorFields<'a> {
    r#type: &'static str,
    message: &'a str,
}

fn error_body(error: &ApiError) -> ErrorBody<'_> {
    let kind = match error.status() {
        401 => "authentication_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 => "overloaded_error",
        500..=599 => "api_error",
        _ => "invalid_request_error",
    };
    ErrorBody {
        r#type: "error",
        error: ErrorFields {
            r#type: kind,
            message: error.message(),
        },
    }
}

impl IntoResponse for AnthropicError {
    fn into_response(self) -> Response {
        let body = serde_json::to_string(&error_body(&self.0)).unwrap_or_default();
        // Status and headers, as of any error.
        let (mut parts, _) = self.0.into_response().into_parts();
        parts.headers.remove(header::CONTENT_LENGTH);
        (parts.status, parts.headers, body).into_response()
    }
}

/// What an answer states of itself.
#[derive(Debug, Clone)]
pub(crate) struct MessageHead {
    pub id: String,
    pub model: String,
    pub prompt_tokens: usize,
}

#[derive(Serialize)]
struct MessageBody<'a> {
    id: &'a str,
    r#type: &'static str,
    role: &'static str,
    model: &'a str,
    content: Vec<ContentBlock<'a>>,
    stop_reason: Option<&'static str>,
    stop_sequence: Option<&'a str>,
    usage: Counts,
}

#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentBlock<'a> {
    Text {
        text: &'a str,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: Value,
    },
}

impl<'a> ContentBlock<'a> {
    /// A whole block. Arguments that were cut are no object: then there are none.
    fn whole(block: &'a Block) -> Self {
        match block {
            Block::Text(text) => Self::Text { text },
            Block::Call {
                id,
                name,
                arguments,
            } => Self::ToolUse {
                id,
                name,
                input: serde_json::from_str(arguments).unwrap_or_else(|_| object!({})),
            },
        }
    }

    /// A block that begins.
    fn empty(block: &'a Block) -> Self {
        match block {
            Block::Text(_) => Self::Text { text: "" },
            Block::Call { id, name, .. } => Self::ToolUse {
                id,
                name,
                input: object!({}),
            },
        }
    }
}

/// Token counts; `input_tokens` are those that were not found in the prefix cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct Counts {
    input_tokens: u64,
    cache_creation_input_tokens: u64,
    cache_read_input_tokens: u64,
    output_tokens: u64,
}

impl Counts {
    fn at_start(prompt_tokens: usize) -> Self {
        Self {
            input_tokens: prompt_tokens as u64,
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: 0,
            output_tokens: 0,
        }
    }

    fn of(usage: &Usage) -> Self {
        Self {
            input_tokens: u64::from(usage.prompt_tokens.saturating_sub(usage.cached_tokens)),
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: u64::from(usage.cached_tokens),
            output_tokens: u64::from(usage.completion_tokens),
        }
    }
}

/// Anthropic's word for an end.
///
/// # Errors
/// 503 when the request was closed from inside.
fn stop_reason(finished: &Finished, blocks: &Blocks) -> Result<&'static str, ApiError> {
    finish_reason(finished.reason)?;
    Ok(match (finished.reason, &finished.stop) {
        (FinishReason::Length, _) => "max_tokens",
        (_, Some(_)) => "stop_sequence",
        _ if blocks.has_called() => "tool_use",
        _ => "end_turn",
    })
}

/// Waits for the answer.
///
/// # Errors
/// That of a request that fails.
pub(crate) async fn whole(
    head: &MessageHead,
    samples: Samples,
    mut blocks: Blocks,
) -> Result<Response, ApiError> {
    let finished = blocks.complete(samples).await?;
    let content = blocks.blocks().iter().map(ContentBlock::whole);
    Ok(json(&MessageBody {
        id: &head.id,
        r#type: "message",
        role: "assistant",
        model: &head.model,
        content: content.collect(),
        stop_reason: Some(stop_reason(&finished, &blocks)?),
        stop_sequence: finished.stop.as_deref(),
        usage: Counts::of(&finished.usage),
    }))
}

#[derive(Serialize)]
struct MessageStart<'a> {
    r#type: &'static str,
    message: MessageBody<'a>,
}

#[derive(Serialize)]
struct BlockStart<'a> {
    r#type: &'static str,
    index: usize,
    content_block: ContentBlock<'a>,
}

#[derive(Serialize)]
struct BlockDelta<'a> {
    r#type: &'static str,
    index: usize,
    delta: Delta<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Delta<'a> {
    TextDelta { text: &'a str },
    InputJsonDelta { partial_json: &'a str },
}

#[derive(Serialize)]
struct BlockStop {
    r#type: &'static str,
    index: usize,
}

#[derive(Serialize)]
struct MessageDelta<'a> {
    r#type: &'static str,
    delta: StopDelta<'a>,
    usage: Counts,
}

#[derive(Serialize)]
struct StopDelta<'a> {
    stop_reason: &'static str,
    stop_sequence: Option<&'a str>,
}

#[derive(Serialize)]
struct Bare {
    r#type: &'static str,
}

/// Writes an answer event by event.
pub(crate) struct MessageChunks {
    pub head: MessageHead,
    pub blocks: Blocks,
}

impl MessageChunks {
    /// Tells what happened to the blocks.
    fn tell(&self, events: Vec<BlockEvent>, frames: &mut Frames) {
        let blocks = self.blocks.blocks();
        for event in events {
            match event {
                BlockEvent::Open(index) => {
                    let r#type = "content_block_start";
                    let content_block = ContentBlock::empty(&blocks[index]);
                    frames.push_named(
                        r#type,
                        &BlockStart {
                            r#type,
                            index,
                            content_block,
                        },
                    );
                }
                BlockEvent::More(index, text) => {
                    let delta = match &blocks[index] {
                        Block::Text(_) => Delta::TextDelta { text: &text },
                        Block::Call { .. } => Delta::InputJsonDelta {
                            partial_json: &text,
                        },
                    };
                    let r#type = "content_block_delta";
                    frames.push_named(
                        r#type,
                        &BlockDelta {
                            r#type,
                            index,
                            delta,
                        },
                    );
                }
                BlockEvent::Close(index) => {
                    let r#type = "content_block_stop";
                    frames.push_named(r#type, &BlockStop { r#type, index });
                }
            }
        }
    }
}

impl Chunks for MessageChunks {
    fn open(&mut self, frames: &mut Frames) {
        let message = MessageBody {
            id: &self.head.id,
            r#type: "message",
            role: "assistant",
            model: &self.head.model,
            content: Vec::new(),
            stop_reason: None,
            stop_sequence: None,
            usage: Counts::at_start(self.head.prompt_tokens),
        };
        let r#type = "message_start";
        frames.push_named(r#type, &MessageStart { r#type, message });
        frames.push_named("ping", &Bare { r#type: "ping" });
    }

    fn output(&mut self, _: usize, output: Output, frames: &mut Frames) -> Result<(), ApiError> {
        match output {
            Output::Nothing | Output::Prompt(_) | Output::Pooled(_) => {}
            Output::Delta(delta) => {
                let events = self.blocks.push(&delta);
                self.tell(events, frames);
            }
            Output::Finished(delta, finished) => {
                let events = self.blocks.finish(&delta);
                let stop_reason = stop_reason(&finished, &self.blocks)?;
                self.tell(events, frames);
                let r#type = "message_delta";
                let delta = StopDelta {
                    stop_reason,
                    stop_sequence: finished.stop.as_deref(),
                };
                let usage = Counts::of(&finished.usage);
                frames.push_named(
                    r#type,
                    &MessageDelta {
                        r#type,
                        delta,
                        usage,
                    },
                );
            }
            Output::Failed { kind, text } => return Err(failed(kind, &text)),
        }
        Ok(())
    }

    fn close(&mut self, frames: &mut Frames) {
        let r#type = "message_stop";
        frames.push_named(r#type, &Bare { r#type });
    }

    fn fail(&mut self, error: &ApiError, frames: &mut Frames) {
        frames.push_named("error", &error_body(error));
    }
}
