//! Answers of `/v1/chat/completions`.

use axum::response::Response;
use serde::Serialize;
use ucuz_llm::{Delta, Output};

use super::chunk::ChunkWriter;
use super::explain::Explanation;
use super::logprobs::{ChatLogprobs, ChatToken, prompt_entries};
use super::usage::{UsageBody, UsageSum};
use super::{Head, failed, finish_reason, json};
use crate::error::ApiError;
use crate::protocol::Delivery;
use crate::samples::Samples;
use crate::sse::{Chunks, Frames};

/// `object` of a whole answer.
pub(crate) const WHOLE: &str = "chat.completion";
/// `object` of a chunk.
pub(crate) const CHUNK: &str = "chat.completion.chunk";

#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    head: &'a Head,
    choices: &'a [Choice],
    usage: UsageBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_logprobs: Option<Vec<Option<ChatToken>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<&'a [Explanation]>,
}

#[derive(Serialize)]
struct Choice {
    index: usize,
    message: Message,
    logprobs: Option<ChatLogprobs>,
    finish_reason: &'static str,
}

#[derive(Default, Serialize)]
struct Message {
    role: &'static str,
    content: String,
    refusal: Option<()>,
}

/// Waits for all samples and makes the whole answer.
///
/// # Errors
/// That of the first sample that fails.
pub(crate) async fn whole(
    head: &Head,
    mut samples: Samples,
    logprobs: Option<u32>,
    explain: bool,
) -> Result<Response, ApiError> {
    let mut choices: Vec<Choice> = (0..samples.len()).map(|i| empty(i, logprobs)).collect();
    let mut usage = UsageSum::default();
    let mut prompt = None;
    while let Some((index, output)) = samples.next().await {
        match output {
            Output::Nothing | Output::Pooled(_) => {}
            Output::Prompt(scores) => prompt = prompt.or(Some(scores)),
            Output::Delta(delta) => choices[index].append(delta),
            Output::Finished(delta, finished) => {
                choices[index].append(delta);
                choices[index].finish_reason = finish_reason(finished.reason)?;
                usage.add(index, &finished.usage, index == 0);
            }
            Output::Failed { kind, text } => return Err(failed(kind, &text)),
        }
    }
    let prompt_logprobs = prompt.map(prompt_entries);
    Ok(json(&Answer {
        head,
        choices: &choices,
        usage: usage.body(),
        prompt_logprobs,
        explanation: usage.explanations(explain),
    }))
}

fn empty(index: usize, logprobs: Option<u32>) -> Choice {
    let message = Message {
        role: "assistant",
        ..Message::default()
    };
    let logprobs = logprobs.map(|_| ChatLogprobs::default());
    Choice {
        index,
        message,
        logprobs,
        finish_reason: "",
    }
}

impl Choice {
    fn append(&mut self, delta: Delta) {
        self.message.content.push_str(&delta.text);
        if let Some(logprobs) = &mut self.logprobs {
            logprobs
                .content
                .extend(ChatLogprobs::from(delta.logprobs).content);
        }
    }
}

#[derive(Serialize)]
struct ChunkChoice<'a> {
    index: usize,
    delta: ChunkDelta<'a>,
    logprobs: Option<ChatLogprobs>,
    finish_reason: Option<&'static str>,
}

#[derive(Default, Serialize)]
struct ChunkDelta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
}

/// Writes a chat answer chunk by chunk.
pub(crate) struct ChatChunks {
    chunks: ChunkWriter,
    choices: usize,
    has_logprobs: bool,
}

impl ChatChunks {
    pub(crate) fn new(
        head: Head,
        choices: usize,
        logprobs: Option<u32>,
        delivery: Delivery,
    ) -> Self {
        Self {
            chunks: ChunkWriter::new(head, delivery),
            choices,
            has_logprobs: logprobs.is_some(),
        }
    }

    /// A chunk of text; none for a delta that holds nothing to show.
    fn delta(&self, index: usize, delta: Delta, frames: &mut Frames) {
        if delta.text.is_empty() && delta.logprobs.is_empty() {
            return;
        }
        let logprobs = self
            .has_logprobs
            .then(|| ChatLogprobs::from(delta.logprobs));
        let delta = ChunkDelta {
            role: None,
            content: Some(&delta.text),
        };
        self.chunks.push(
            ChunkChoice {
                index,
                delta,
                logprobs,
                finish_reason: None,
            },
            frames,
        );
    }
}

impl Chunks for ChatChunks {
    fn open(&mut self, frames: &mut Frames) {
        for index in 0..self.choices {
            let delta = ChunkDelta {
                role: Some("assistant"),
                content: Some(""),
            };
            let choice = ChunkChoice {
                index,
                delta,
                logprobs: None,
                finish_reason: None,
            };
            self.chunks.push(choice, frames);
        }
    }

    fn output(
        &mut self,
        index: usize,
        output: Output,
        frames: &mut Frames,
    ) -> Result<(), ApiError> {
        match output {
            Output::Nothing | Output::Prompt(_) | Output::Pooled(_) => {}
            Output::Delta(delta) => self.delta(index, delta, frames),
            Output::Finished(delta, finished) => {
                self.delta(index, delta, frames);
                let finish_reason = Some(finish_reason(finished.reason)?);
                self.chunks.count(index, &finished.usage, index == 0);
                let delta = ChunkDelta::default();
                self.chunks.push(
                    ChunkChoice {
                        index,
                        delta,
                        logprobs: None,
                        finish_reason,
                    },
                    frames,
                );
            }
            Output::Failed { kind, text } => return Err(failed(kind, &text)),
        }
        Ok(())
    }

    fn close(&mut self, frames: &mut Frames) {
        self.chunks.close(frames);
    }
}
