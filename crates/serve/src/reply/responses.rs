//! Answers of OpenAI's `/v1/responses`, whole and streamed.
//!
//! Source: OpenAI API reference, "Responses" and "Streaming events".

use std::collections::BTreeMap;

use axum::response::Response;
use serde::Serialize;
use ucuz_llm::{FinishReason, Output, Usage};

use super::pieces::{TextReader, whole_text};
use super::{failed, finish_reason, json};
use crate::error::ApiError;
use crate::samples::Samples;
use crate::sse::{Chunks, Frames};

/// What an answer states of itself, whatever it says.
#[derive(Debug, Clone)]
pub(crate) struct ResponseHead {
    pub id: String,
    /// Id of the message in it.
    pub item: String,
    /// Seconds since 1970.
    pub created: u64,
    pub model: String,
    pub instructions: Option<String>,
    pub max_output_tokens: Option<u32>,
    pub temperature: f32,
    pub top_p: f32,
    /// Of the text, when it is not plain.
    pub format: Option<serde_json::Value>,
    pub metadata: Vec<(String, String)>,
}

#[derive(Serialize)]
struct Body<'a> {
    id: &'a str,
    object: &'static str,
    created_at: u64,
    status: &'static str,
    error: Option<()>,
    incomplete_details: Option<Incomplete>,
    instructions: Option<&'a str>,
    max_output_tokens: Option<u32>,
    model: &'a str,
    output: &'a [Item<'a>],
    parallel_tool_calls: bool,
    previous_response_id: Option<()>,
    store: bool,
    temperature: f32,
    text: TextOptions<'a>,
    tool_choice: &'static str,
    tools: [(); 0],
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
    Given(&'a serde_json::Value),
}

#[derive(Clone, Copy, Serialize)]
struct Item<'a> {
    r#type: &'static str,
    id: &'a str,
    status: &'static str,
    role: &'static str,
    content: &'a [Part<'a>],
}

#[derive(Clone, Copy, Serialize)]
struct Part<'a> {
    r#type: &'static str,
    text: &'a str,
    annotations: [(); 0],
    logprobs: [(); 0],
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
    fn of(usage: &Usage) -> Self {
        let (input_tokens, output_tokens) = (usage.prompt_tokens, usage.completion_tokens);
        Self {
            input_tokens,
            input_tokens_details: InputDetails {
                cached_tokens: usage.cached_tokens,
            },
            output_tokens,
            output_tokens_details: OutputDetails {
                reasoning_tokens: 0,
            },
            total_tokens: input_tokens.saturating_add(output_tokens),
        }
    }
}

fn part(text: &str) -> Part<'_> {
    Part {
        r#type: "output_text",
        text,
        annotations: [],
        logprobs: [],
    }
}

/// How far an answer is.
#[derive(Clone, Copy)]
struct State<'a> {
    status: &'static str,
    output: &'a [Item<'a>],
    usage: Option<&'a Usage>,
}

impl ResponseHead {
    fn body<'a>(&'a self, state: State<'a>) -> Body<'a> {
        let metadata = self.metadata.iter();
        Body {
            id: &self.id,
            object: "response",
            created_at: self.created,
            status: state.status,
            error: None,
            incomplete_details: (state.status == INCOMPLETE).then_some(Incomplete {
                reason: "max_output_tokens",
            }),
            instructions: self.instructions.as_deref(),
            max_output_tokens: self.max_output_tokens,
            model: &self.model,
            output: state.output,
            parallel_tool_calls: true,
            previous_response_id: None,
            store: false,
            temperature: self.temperature,
            text: TextOptions {
                format: match &self.format {
                    Some(format) => TextFormat::Given(format),
                    None => TextFormat::Plain { r#type: "text" },
                },
            },
            tool_choice: "auto",
            tools: [],
            top_p: self.top_p,
            truncation: "disabled",
            usage: state.usage.map(Counts::of),
            metadata: metadata
                .map(|(key, value)| (key.as_str(), value.as_str()))
                .collect(),
        }
    }

    fn item<'a>(&'a self, status: &'static str, content: &'a [Part<'a>]) -> Item<'a> {
        Item {
            r#type: "message",
            id: &self.item,
            status,
            role: "assistant",
            content,
        }
    }
}

const IN_PROGRESS: &str = "in_progress";
const COMPLETED: &str = "completed";
const INCOMPLETE: &str = "incomplete";

/// The word for an end.
///
/// # Errors
/// 503 when the request was closed from inside.
fn status(reason: FinishReason) -> Result<&'static str, ApiError> {
    finish_reason(reason)?;
    Ok(match reason {
        FinishReason::Length => INCOMPLETE,
        _ => COMPLETED,
    })
}

/// Waits for the answer.
///
/// # Errors
/// That of a request that fails.
pub(crate) async fn whole(
    head: &ResponseHead,
    samples: Samples,
    reader: TextReader,
) -> Result<Response, ApiError> {
    let (text, finished) = whole_text(samples, reader).await?;
    let status = status(finished.reason)?;
    let content = [part(&text)];
    Ok(json(&head.body(State {
        status,
        output: &[head.item(status, &content)],
        usage: Some(&finished.usage),
    })))
}

#[derive(Serialize)]
struct ResponseEvent<'a> {
    r#type: &'static str,
    sequence_number: u64,
    response: Body<'a>,
}

#[derive(Serialize)]
struct ItemEvent<'a> {
    r#type: &'static str,
    sequence_number: u64,
    output_index: usize,
    item: Item<'a>,
}

#[derive(Serialize)]
struct PartEvent<'a> {
    r#type: &'static str,
    sequence_number: u64,
    item_id: &'a str,
    output_index: usize,
    content_index: usize,
    part: Part<'a>,
}

#[derive(Serialize)]
struct TextEvent<'a> {
    r#type: &'static str,
    sequence_number: u64,
    item_id: &'a str,
    output_index: usize,
    content_index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    logprobs: [(); 0],
}

#[derive(Serialize)]
struct ErrorEvent<'a> {
    r#type: &'static str,
    sequence_number: u64,
    code: Option<&'static str>,
    message: &'a str,
    param: Option<&'a str>,
}

/// Writes an answer event by event.
pub(crate) struct ResponseEvents {
    head: ResponseHead,
    reader: TextReader,
    /// All of it, which the last events tell once more.
    text: String,
    events: u64,
}

impl ResponseEvents {
    pub(crate) fn new(head: ResponseHead, reader: TextReader) -> Self {
        Self {
            head,
            reader,
            text: String::new(),
            events: 0,
        }
    }

    fn number(&mut self) -> u64 {
        self.events += 1;
        self.events - 1
    }

    fn response(&mut self, r#type: &'static str, state: State<'_>, frames: &mut Frames) {
        let sequence_number = self.number();
        let response = self.head.body(state);
        frames.push_named(
            r#type,
            &ResponseEvent {
                r#type,
                sequence_number,
                response,
            },
        );
    }

    fn item(&mut self, r#type: &'static str, status: &'static str, frames: &mut Frames) {
        let sequence_number = self.number();
        let whole = [part(&self.text)];
        let content = if status == IN_PROGRESS {
            &[][..]
        } else {
            &whole[..]
        };
        let item = self.head.item(status, content);
        frames.push_named(
            r#type,
            &ItemEvent {
                r#type,
                sequence_number,
                output_index: 0,
                item,
            },
        );
    }

    fn part(&mut self, r#type: &'static str, frames: &mut Frames) {
        let event = PartEvent {
            r#type,
            sequence_number: self.number(),
            item_id: &self.head.item,
            output_index: 0,
            content_index: 0,
            part: part(&self.text),
        };
        frames.push_named(r#type, &event);
    }

    fn text(&mut self, delta: Option<&str>, frames: &mut Frames) {
        let r#type = match delta {
            Some(_) => "response.output_text.delta",
            None => "response.output_text.done",
        };
        let event = TextEvent {
            r#type,
            sequence_number: self.number(),
            item_id: &self.head.item,
            output_index: 0,
            content_index: 0,
            delta,
            text: delta.is_none().then_some(self.text.as_str()),
            logprobs: [],
        };
        frames.push_named(r#type, &event);
    }

    fn append(&mut self, text: &str, frames: &mut Frames) {
        if !text.is_empty() {
            self.text.push_str(text);
            self.text(Some(text), frames);
        }
    }

    fn finish(&mut self, status: &'static str, usage: &Usage, frames: &mut Frames) {
        self.text(None, frames);
        self.part("response.content_part.done", frames);
        self.item("response.output_item.done", status, frames);
        let r#type = match status {
            INCOMPLETE => "response.incomplete",
            _ => "response.completed",
        };
        let sequence_number = self.number();
        let content = [part(&self.text)];
        let output = [self.head.item(status, &content)];
        let response = self.head.body(State {
            status,
            output: &output,
            usage: Some(usage),
        });
        frames.push_named(
            r#type,
            &ResponseEvent {
                r#type,
                sequence_number,
                response,
            },
        );
    }
}

impl Chunks for ResponseEvents {
    fn open(&mut self, frames: &mut Frames) {
        let state = State {
            status: IN_PROGRESS,
            output: &[],
            usage: None,
        };
        self.response("response.created", state, frames);
        self.response("response.in_progress", state, frames);
        self.item("response.output_item.added", IN_PROGRESS, frames);
        self.part("response.content_part.added", frames);
    }

    fn output(&mut self, _: usize, output: Output, frames: &mut Frames) -> Result<(), ApiError> {
        match output {
            Output::Nothing | Output::Prompt(_) | Output::Pooled(_) => {}
            Output::Delta(delta) => {
                let text = self.reader.push(&delta.text);
                self.append(&text, frames);
            }
            Output::Finished(delta, finished) => {
                let text = self.reader.finish(&delta.text);
                self.append(&text, frames);
                self.finish(status(finished.reason)?, &finished.usage, frames);
            }
            Output::Failed { kind, text } => return Err(failed(kind, &text)),
        }
        Ok(())
    }

    fn close(&mut self, _: &mut Frames) {}

    fn fail(&mut self, error: &ApiError, frames: &mut Frames) {
        let event = ErrorEvent {
            r#type: "error",
            sequence_number: self.number(),
            code: error.code(),
            message: error.message(),
            param: error.param(),
        };
        frames.push_named("error", &event);
    }
}
