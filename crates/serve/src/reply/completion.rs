//! Answers of `/v1/completions`.

use axum::response::Response;
use serde::Serialize;
use ucuz_llm::{Delta, Output, TokenLogprob};

use super::chunk::ChunkWriter;
use super::explain::Explanation;
use super::logprobs::{ChatToken, ListLogprobs, prompt_entries};
use super::usage::{UsageBody, UsageSum};
use super::{Head, PromptIds, failed, finish_reason, json};
use crate::error::ApiError;
use crate::protocol::Delivery;
use crate::samples::Samples;
use crate::sse::{Chunks, Frames};

/// `object` of a whole answer and of a chunk.
pub(crate) const OBJECT: &str = "text_completion";

/// The prompt as an answer repeats it.
#[derive(Debug, Clone)]
pub(crate) struct Echo {
    pub text: String,
    /// Text of the first token, which has no log-probability to carry it.
    pub first_token: String,
}

/// How one choice is written.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    /// Likeliest ids beside each token; `None` leaves log-probabilities out.
    pub logprobs: Option<u32>,
    /// What the answer begins with.
    pub echo: Option<Echo>,
    /// Characters written before the next token.
    pub offset: usize,
    /// Whether this choice counts its prompt in the usage.
    pub is_first_sample: bool,
    /// The prompt's ids, where ids are told.
    pub prompt_ids: Option<PromptIds>,
}

/// Text with the log-probabilities and ids of its tokens.
#[derive(Debug, Default)]
struct Piece {
    text: String,
    logprobs: Option<ListLogprobs>,
    token_ids: Option<Vec<u32>>,
}

impl Writer {
    /// The echoed prompt, where it does not wait for its log-probabilities.
    fn open(&mut self) -> Option<Piece> {
        if self.logprobs.is_some() {
            return None;
        }
        let echo = self.echo.take()?;
        Some(Piece {
            text: echo.text,
            ..Piece::default()
        })
    }

    /// The echoed prompt with its log-probabilities.
    fn prompt(&mut self, scores: Vec<TokenLogprob>) -> Option<Piece> {
        let top = self.logprobs?;
        let echo = self.echo.take()?;
        let mut list = ListLogprobs::default();
        // A token that was put before the text, such as BOS, takes no room in it.
        let has_room = echo.text.starts_with(&echo.first_token);
        let room = if has_room {
            echo.first_token.chars().count()
        } else {
            0
        };
        list.push_first(echo.first_token, room, &mut self.offset);
        for score in scores {
            list.push(score, top, &mut self.offset);
        }
        Some(Piece {
            text: echo.text,
            logprobs: Some(list),
            token_ids: None,
        })
    }

    /// More of the answer.
    fn piece(&mut self, delta: Delta) -> Piece {
        let logprobs = self.logprobs.map(|top| {
            let mut list = ListLogprobs::default();
            for token in delta.logprobs {
                list.push(token, top, &mut self.offset);
            }
            list
        });
        Piece {
            text: delta.text,
            logprobs,
            token_ids: self.prompt_ids.is_some().then_some(delta.tokens),
        }
    }
}

#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    head: &'a Head,
    choices: &'a [Choice],
    usage: UsageBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<&'a [Explanation]>,
}

#[derive(Serialize)]
struct Choice {
    index: usize,
    text: String,
    logprobs: Option<ListLogprobs>,
    finish_reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_logprobs: Option<Vec<Option<ChatToken>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_ids: Option<Vec<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_token_ids: Option<PromptIds>,
}

impl Choice {
    fn empty(index: usize, writer: &Writer) -> Self {
        let logprobs = writer.logprobs.map(|_| ListLogprobs::default());
        Self {
            index,
            text: String::new(),
            logprobs,
            finish_reason: "",
            prompt_logprobs: None,
            token_ids: writer.prompt_ids.as_ref().map(|_| Vec::new()),
            prompt_token_ids: writer.prompt_ids.clone(),
        }
    }

    fn append(&mut self, piece: Piece) {
        self.text.push_str(&piece.text);
        if let (Some(list), Some(later)) = (&mut self.logprobs, piece.logprobs) {
            list.extend(later);
        }
        if let (Some(ids), Some(later)) = (&mut self.token_ids, piece.token_ids) {
            ids.extend(later);
        }
    }
}

/// What a whole answer has beside its text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extras {
    /// The prompt's scores, in each choice.
    pub prompt_logprobs: bool,
    /// What became of the request inside.
    pub explain: bool,
}

/// Waits for all samples and makes the whole answer.
///
/// # Errors
/// That of the first sample that fails.
pub(crate) async fn whole(
    head: &Head,
    mut samples: Samples,
    mut writers: Vec<Writer>,
    extras: Extras,
) -> Result<Response, ApiError> {
    let indexed = writers.iter().enumerate();
    let mut choices: Vec<Choice> = indexed
        .map(|(i, writer)| Choice::empty(i, writer))
        .collect();
    let mut usage = UsageSum::default();
    for (choice, writer) in choices.iter_mut().zip(&mut writers) {
        choice.append(writer.open().unwrap_or_default());
    }
    while let Some((index, output)) = samples.next().await {
        let (choice, writer) = (&mut choices[index], &mut writers[index]);
        match output {
            Output::Nothing | Output::Pooled(_) => {}
            Output::Prompt(scores) => {
                if extras.prompt_logprobs {
                    let entries = prompt_entries(scores.clone());
                    choice.prompt_logprobs = Some(entries);
                }
                choice.append(writer.prompt(scores).unwrap_or_default());
            }
            Output::Delta(delta) => choice.append(writer.piece(delta)),
            Output::Finished(delta, finished) => {
                choice.append(writer.piece(delta));
                choice.finish_reason = finish_reason(finished.reason)?;
                usage.add(index, &finished.usage, writer.is_first_sample);
            }
            Output::Failed { kind, text } => return Err(failed(kind, &text)),
        }
    }
    Ok(json(&Answer {
        head,
        choices: &choices,
        usage: usage.body(),
        explanation: usage.explanations(extras.explain),
    }))
}

#[derive(Serialize)]
struct ChunkChoice {
    index: usize,
    text: String,
    logprobs: Option<ListLogprobs>,
    finish_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_ids: Option<Vec<u32>>,
    /// In the first chunk of a choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_token_ids: Option<PromptIds>,
}

/// Writes a completion chunk by chunk.
pub(crate) struct CompletionChunks {
    chunks: ChunkWriter,
    writers: Vec<Writer>,
    /// Of each choice, until its first chunk.
    untold: Vec<Option<PromptIds>>,
}

impl CompletionChunks {
    pub(crate) fn new(head: Head, writers: Vec<Writer>, delivery: Delivery) -> Self {
        Self {
            chunks: ChunkWriter::new(head, delivery),
            untold: writers.iter().map(|w| w.prompt_ids.clone()).collect(),
            writers,
        }
    }

    /// A chunk of text; none for a piece that holds nothing.
    fn piece(&mut self, index: usize, piece: Piece, frames: &mut Frames) {
        let has_logprobs = piece.logprobs.as_ref().is_some_and(|list| !list.is_empty());
        let has_ids = piece.token_ids.as_ref().is_some_and(|ids| !ids.is_empty());
        if !piece.text.is_empty() || has_logprobs || has_ids {
            self.chunk(index, piece, None, frames);
        }
    }

    fn chunk(
        &mut self,
        index: usize,
        piece: Piece,
        finish_reason: Option<&'static str>,
        frames: &mut Frames,
    ) {
        let choice = ChunkChoice {
            index,
            text: piece.text,
            logprobs: piece.logprobs,
            finish_reason,
            token_ids: piece.token_ids,
            prompt_token_ids: self.untold[index].take(),
        };
        self.chunks.push(choice, frames);
    }
}

impl Chunks for CompletionChunks {
    fn open(&mut self, frames: &mut Frames) {
        for index in 0..self.writers.len() {
            if let Some(piece) = self.writers[index].open() {
                self.piece(index, piece, frames);
            }
        }
    }

    fn output(
        &mut self,
        index: usize,
        output: Output,
        frames: &mut Frames,
    ) -> Result<(), ApiError> {
        let writer = &mut self.writers[index];
        match output {
            Output::Nothing | Output::Pooled(_) => {}
            Output::Prompt(scores) => {
                let piece = writer.prompt(scores).unwrap_or_default();
                self.piece(index, piece, frames);
            }
            Output::Delta(delta) => {
                let piece = writer.piece(delta);
                self.piece(index, piece, frames);
            }
            Output::Finished(delta, finished) => {
                let piece = writer.piece(delta);
                self.chunks
                    .count(index, &finished.usage, writer.is_first_sample);
                self.piece(index, piece, frames);
                let reason = finish_reason(finished.reason)?;
                self.chunk(index, Piece::default(), Some(reason), frames);
            }
            Output::Failed { kind, text } => return Err(failed(kind, &text)),
        }
        Ok(())
    }

    fn close(&mut self, frames: &mut Frames) {
        self.chunks.close(frames);
    }
}
