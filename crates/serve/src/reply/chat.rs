//! Answers of `/v1/chat/completions`.

use axum::response::Response;
use serde::Serialize;
use ucuz_llm::{Delta, Output};

use super::chunk::ChunkWriter;
use super::explain::Explanation;
use super::logprobs::{ChatLogprobs, ChatToken, prompt_entries};
use super::pieces::{CallPiece, Message, Piece, Reader, Reading};
use super::usage::{UsageBody, UsageSum};
use super::{Head, PromptIds, failed, finish_reason, json};
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
    prompt_token_ids: Option<PromptIds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<&'a [Explanation]>,
}

#[derive(Serialize)]
struct Choice {
    index: usize,
    message: Message,
    logprobs: Option<ChatLogprobs>,
    finish_reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_ids: Option<Vec<u32>>,
}

/// Waits for all samples and makes the whole answer.
///
/// # Errors
/// That of the first sample that fails.
pub(crate) async fn whole(
    head: &Head,
    mut samples: Samples,
    (logprobs, reading): (Option<u32>, Reading),
    delivery: Delivery,
) -> Result<Response, ApiError> {
    let empty = |index| empty(index, logprobs, delivery);
    let mut choices: Vec<Choice> = (0..samples.len()).map(empty).collect();
    let mut readers: Vec<Reader> = (0..samples.len()).map(|i| reading.choice(i)).collect();
    let mut usage = UsageSum::default();
    let mut prompt = None;
    while let Some((index, output)) = samples.next().await {
        match output {
            Output::Nothing | Output::Pooled(_) => {}
            Output::Prompt(scores) => prompt = prompt.or(Some(scores)),
            Output::Delta(delta) => choices[index].append(delta, &mut readers[index]),
            Output::Finished(delta, finished) => {
                let (choice, reader) = (&mut choices[index], &mut readers[index]);
                choice.append(delta, reader);
                choice.message.append(reader.finish());
                choice.message.close();
                choice.finish_reason = reader.finish_reason(finish_reason(finished.reason)?);
                usage.add(index, &finished.usage, index == 0);
                usage.think(reader.thought_tokens());
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
        prompt_token_ids: delivery.token_ids.then(|| reading.prompt_ids()),
        explanation: usage.explanations(delivery.explain),
    }))
}

fn empty(index: usize, logprobs: Option<u32>, delivery: Delivery) -> Choice {
    let logprobs = logprobs.map(|_| ChatLogprobs::default());
    Choice {
        index,
        message: Message::new(),
        logprobs,
        finish_reason: "",
        token_ids: delivery.token_ids.then(Vec::new),
    }
}

impl Choice {
    fn append(&mut self, delta: Delta, reader: &mut Reader) {
        self.message.append(reader.push(&delta));
        if let Some(ids) = &mut self.token_ids {
            ids.extend(delta.tokens);
        }
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
    #[serde(flatten)]
    beside: Beside,
    finish_reason: Option<&'static str>,
}

/// What goes with the first piece of a delta.
#[derive(Default, Serialize)]
struct Beside {
    logprobs: Option<ChatLogprobs>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_ids: Option<Vec<u32>>,
}

#[derive(Default, Serialize)]
struct ChunkDelta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tool_calls: &'a [CallPiece],
}

impl<'a> ChunkDelta<'a> {
    fn of(piece: &'a Piece) -> Self {
        let mut delta = Self::default();
        match piece {
            Piece::Reasoning(text) => delta.reasoning_content = Some(text),
            Piece::Content(text) => delta.content = Some(text),
            Piece::Call(call) => delta.tool_calls = std::slice::from_ref(call),
        }
        delta
    }
}

/// Writes a chat answer chunk by chunk.
pub(crate) struct ChatChunks {
    chunks: ChunkWriter,
    readers: Vec<Reader>,
    has_logprobs: bool,
    /// Where ids are told.
    prompt_ids: Option<PromptIds>,
}

impl ChatChunks {
    pub(crate) fn new(
        head: Head,
        choices: usize,
        (logprobs, reading): (Option<u32>, Reading),
        delivery: Delivery,
    ) -> Self {
        Self {
            chunks: ChunkWriter::new(head, delivery),
            readers: (0..choices).map(|index| reading.choice(index)).collect(),
            has_logprobs: logprobs.is_some(),
            prompt_ids: delivery.token_ids.then(|| reading.prompt_ids()),
        }
    }

    /// A chunk for each piece that a delta brings; none for one that holds nothing to show. Log-probabilities and ids go
    /// with the first.
    fn delta(&mut self, index: usize, delta: Delta, frames: &mut Frames) {
        let mut pieces = self.readers[index].push(&delta);
        let tells_tokens = self.has_logprobs || self.prompt_ids.is_some();
        if pieces.is_empty() && tells_tokens && !delta.tokens.is_empty() {
            pieces.push(Piece::Content(String::new()));
        }
        let beside = Beside {
            logprobs: self
                .has_logprobs
                .then(|| ChatLogprobs::from(delta.logprobs)),
            token_ids: self.prompt_ids.is_some().then_some(delta.tokens),
        };
        self.write(index, &pieces, beside, frames);
    }

    fn write(&self, index: usize, pieces: &[Piece], mut beside: Beside, frames: &mut Frames) {
        for piece in pieces {
            let choice = ChunkChoice {
                index,
                delta: ChunkDelta::of(piece),
                beside: std::mem::take(&mut beside),
                finish_reason: None,
            };
            self.chunks.push(choice, frames);
        }
    }
}

impl Chunks for ChatChunks {
    fn open(&mut self, frames: &mut Frames) {
        for index in 0..self.readers.len() {
            let delta = ChunkDelta {
                role: Some("assistant"),
                content: Some(""),
                ..ChunkDelta::default()
            };
            let choice = ChunkChoice {
                index,
                delta,
                beside: Beside::default(),
                finish_reason: None,
            };
            let prompt = self.prompt_ids.as_ref();
            self.chunks.push_first(choice, prompt, frames);
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
                let rest = self.readers[index].finish();
                self.write(index, &rest, Beside::default(), frames);
                let reason = finish_reason(finished.reason)?;
                let finish_reason = Some(self.readers[index].finish_reason(reason));
                self.chunks.count(index, &finished.usage, index == 0);
                self.chunks.think(self.readers[index].thought_tokens());
                let delta = ChunkDelta::default();
                self.chunks.push(
                    ChunkChoice {
                        index,
                        delta,
                        beside: Beside::default(),
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
