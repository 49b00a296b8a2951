//! From the engine's events to text: detokenizing, stop strings, log-probabilities.
//!
//! Runs on the caller's thread or task, beside the step. Dropping a [`Generation`] that has not ended closes its request.

use std::collections::VecDeque;
use std::sync::Arc;

use ucuz_engine::{CloseReason, Event, FinishReason, Handle, RequestId, TokenEvent, Usage};
use ucuz_text::{Detokenizer, StopMatcher, StopStep, Tokenizer};

use crate::output::{Delta, Finished, Output, TokenLogprob};

/// A token whose text may still be held back.
struct Held {
    id: u32,
    /// Bytes of answer text before this token's own.
    start: usize,
    logprob: Option<TokenLogprob>,
}

/// One answer under way.
pub struct Generation {
    handle: Handle,
    id: RequestId,
    tokenizer: Arc<Tokenizer>,
    detokenizer: Detokenizer,
    stops: StopMatcher,
    stop_strings: Vec<String>,
    prompt_tokens: u32,
    /// Stop strings are not looked for in this many tokens.
    min_tokens: u32,
    held: VecDeque<Held>,
    produced_bytes: usize,
    released_bytes: usize,
    tokens_seen: u32,
    stop: Option<String>,
    ended: bool,
}

/// What a [`Generation`] is made of.
pub(crate) struct GenerationParts {
    pub handle: Handle,
    pub id: RequestId,
    pub tokenizer: Arc<Tokenizer>,
    pub detokenizer: Detokenizer,
    pub stops: StopMatcher,
    pub stop_strings: Vec<String>,
    pub prompt_tokens: u32,
    pub min_tokens: u32,
}

impl Generation {
    pub(crate) fn new(parts: GenerationParts) -> Self {
        let GenerationParts {
            handle,
            id,
            tokenizer,
            detokenizer,
            stops,
            stop_strings,
            prompt_tokens,
            min_tokens,
        } = parts;
        Self {
            handle,
            id,
            tokenizer,
            detokenizer,
            stops,
            stop_strings,
            prompt_tokens,
            min_tokens,
            held: VecDeque::new(),
            produced_bytes: 0,
            released_bytes: 0,
            tokens_seen: 0,
            stop: None,
            ended: false,
        }
    }

    /// The engine's number of this request.
    pub fn id(&self) -> RequestId {
        self.id
    }

    /// Takes the next event of the engine.
    pub fn push(&mut self, event: Event) -> Output {
        if self.ended {
            return Output::Nothing;
        }
        match event {
            Event::PromptScored(scores) => Output::Prompt(
                scores
                    .iter()
                    .map(|score| self.logprob(score.id, score.logprob, &score.top))
                    .collect(),
            ),
            Event::Pooled(vector) => Output::Pooled(vector),
            Event::Token(token) => self.token(&token),
            Event::Done { reason, usage } => self.done(reason, usage),
            // The answer was whole before whatever failed.
            Event::Failed { .. } if self.stop.is_some() => {
                let usage = Usage {
                    prompt_tokens: self.prompt_tokens,
                    completion_tokens: self.tokens_seen,
                    ..Usage::default()
                };
                self.done(FinishReason::Stop, usage)
            }
            Event::Failed { kind, text } => {
                self.ended = true;
                Output::Failed { kind, text }
            }
        }
    }

    fn done(&mut self, reason: FinishReason, mut usage: Usage) -> Output {
        self.ended = true;
        let mut delta = Delta::default();
        if self.stop.is_none() {
            delta = self.finish();
        }
        let stop = self.stop.take();
        let reason = if stop.is_some() {
            // The engine may have gone on before it heard of the stop string.
            usage.completion_tokens = usage.completion_tokens.min(self.tokens_seen);
            FinishReason::Stop
        } else {
            reason
        };
        Output::Finished(
            delta,
            Finished {
                reason,
                stop,
                usage,
            },
        )
    }

    fn token(&mut self, token: &TokenEvent) -> Output {
        if self.stop.is_some() {
            // Already stopped; the engine has been told and this token was on its way.
            return Output::Nothing;
        }
        self.tokens_seen += 1;
        let logprob = token
            .logprob
            .map(|logprob| self.logprob(token.id, logprob, &token.top));
        self.held.push_back(Held {
            id: token.id,
            start: self.produced_bytes,
            logprob,
        });
        let text = self.detokenizer.push(token.id);
        self.produced_bytes += text.len();
        let step = if self.tokens_seen <= self.min_tokens {
            StopStep {
                text,
                stopped: None,
            }
        } else {
            self.stops.push(&text)
        };
        if let Some(stop) = step.stopped {
            self.stop = self.stop_strings.get(stop).cloned();
            self.handle.close(
                self.id,
                CloseReason::StopString {
                    accepted_tokens: self.tokens_seen,
                },
            );
        }
        let delta = self.release(step.text);
        if delta == Delta::default() {
            Output::Nothing
        } else {
            Output::Delta(delta)
        }
    }

    /// The text held back by the detokenizer and the stop matcher, once nothing more comes.
    fn finish(&mut self) -> Delta {
        let tail = self.detokenizer.finish();
        self.produced_bytes += tail.len();
        let step = self.stops.push(&tail);
        let mut text = step.text;
        match step.stopped {
            Some(stop) => self.stop = self.stop_strings.get(stop).cloned(),
            None => text.push_str(&self.stops.finish()),
        }
        let mut delta = self.release(text);
        if self.stop.is_none() {
            let rest: Vec<Held> = self.held.drain(..).collect();
            delta.extend(rest);
        }
        delta
    }

    /// Wraps released text with the tokens that begin in it (or are empty and stand before its end).
    fn release(&mut self, text: String) -> Delta {
        self.released_bytes += text.len();
        let mut delta = Delta {
            text,
            ..Delta::default()
        };
        let all = self.released_bytes == self.produced_bytes;
        let mut ready = Vec::new();
        while let Some(held) = self
            .held
            .pop_front_if(|held| all || held.start < self.released_bytes)
        {
            ready.push(held);
        }
        delta.extend(ready);
        delta
    }

    fn logprob(&self, id: u32, logprob: f32, top: &[(u32, f32)]) -> TokenLogprob {
        let bytes = |id: u32| self.tokenizer.token_bytes(id).unwrap_or_default().to_vec();
        let top = top
            .iter()
            .map(|(id, logprob)| (*id, bytes(*id), *logprob))
            .collect();
        TokenLogprob {
            id,
            bytes: bytes(id),
            logprob,
            top,
        }
    }
}

impl Delta {
    fn extend(&mut self, held: Vec<Held>) {
        for token in held {
            self.tokens.push(token.id);
            self.logprobs.extend(token.logprob);
        }
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        if !self.ended {
            self.handle.close(self.id, CloseReason::Disconnected);
        }
    }
}
