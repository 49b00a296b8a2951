//! One answer: started, printed as it comes, counted.

use std::io::{self, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, bail};
use ucuz_llm::{
    Closed, Event, EventSink, FinishReason, Finished, GenerateRequest, Generation, Input, Llm,
    LlmError, Output, SamplingOptions,
};

use super::Args;
use super::interrupt::Interrupt;

/// How long Ctrl-C may go unnoticed while no token comes.
const INTERRUPT_POLL: Duration = Duration::from_millis(50);

/// Events of one request, for a plain thread.
struct Sink(mpsc::SyncSender<Event>);

impl EventSink for Sink {
    fn send(&mut self, event: Event) -> Result<(), Closed> {
        self.0.try_send(event).map_err(|_| Closed)
    }

    fn is_closed(&self) -> bool {
        false
    }
}

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The model was done.
    Complete,
    /// As many tokens as it could have.
    Length,
    /// Ctrl-C.
    Interrupted,
}

/// An answer under way. Dropping it closes its request.
pub struct Answer {
    generation: Generation,
    events: mpsc::Receiver<Event>,
    started: Instant,
    stats: bool,
}

impl Answer {
    /// Checks the request and hands it to the engine.
    ///
    /// # Errors
    /// [`LlmError`]: a prompt that does not fit, a template that refuses the messages, an engine that died.
    pub fn start(args: &Args, llm: &Llm, input: Input) -> Result<Self, LlmError> {
        let request = GenerateRequest {
            sampling: SamplingOptions {
                temperature: args.temperature,
                top_k: args.top_k,
                top_p: args.top_p,
                seed: args.seed,
                ..SamplingOptions::default()
            },
            max_tokens: args.max_tokens,
            ..GenerateRequest::new(input)
        };
        let now = SystemTime::now();
        let entropy = now
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |d| d.as_nanos() as u64);
        let started = Instant::now();
        let prepared = llm.prepare(&request, entropy, now)?;
        let (sender, events) = mpsc::sync_channel(prepared.max_tokens as usize + 4);
        let generation = llm.start(&prepared, 0, Box::new(Sink(sender)))?;
        Ok(Self {
            generation,
            events,
            started,
            stats: args.stats,
        })
    }

    /// Prints the answer as it comes, until its end or until `interrupt` stops it; returns what was printed.
    ///
    /// # Errors
    /// The engine failed, or stdout is gone.
    pub fn print(mut self, interrupt: &Interrupt) -> Result<(String, End)> {
        let (mut text, mut first) = (String::new(), None);
        let mut stdout = io::stdout().lock();
        while !interrupt.is_stopped() {
            let event = match self.events.recv_timeout(INTERRUPT_POLL) {
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => {
                    bail!("the engine ended before the answer did")
                }
            };
            let (delta, finished) = match self.generation.push(event) {
                Output::Delta(delta) => (delta, None),
                Output::Finished(delta, finished) => (delta, Some(finished)),
                Output::Failed { text, .. } => bail!("{text}"),
                Output::Nothing | Output::Prompt(_) | Output::Pooled(_) => continue,
            };
            first.get_or_insert_with(|| self.started.elapsed());
            stdout.write_all(delta.text.as_bytes())?;
            stdout.flush()?;
            text.push_str(&delta.text);
            if let Some(finished) = finished {
                if self.stats {
                    let total = self.started.elapsed();
                    note!("\n{}", stats(&finished, first.unwrap_or(total), total));
                }
                let end = match finished.reason {
                    FinishReason::Length => End::Length,
                    FinishReason::Stop | FinishReason::Closed => End::Complete,
                };
                return Ok((text, end));
            }
        }
        Ok((text, End::Interrupted))
    }
}

/// Speed and counts in words.
fn stats(finished: &Finished, first: Duration, total: Duration) -> String {
    let usage = &finished.usage;
    let decode_s = total.saturating_sub(first).as_secs_f64().max(1e-9);
    let decoded = usage.completion_tokens.saturating_sub(1);
    let ended = match finished.reason {
        FinishReason::Stop => "the model ended it",
        FinishReason::Length => "ended by the limit of tokens",
        FinishReason::Closed => "stopped",
    };
    format!(
        "{} prompt tokens, first token after {:.0} ms (prefill {:.0} tokens/s); {} tokens, decode {:.1} tokens/s; {ended}",
        usage.prompt_tokens,
        first.as_secs_f64() * 1e3,
        f64::from(usage.prompt_tokens) / first.as_secs_f64().max(1e-9),
        usage.completion_tokens,
        f64::from(decoded) / decode_s,
    )
}

#[cfg(test)]
mod tests {
    use ucuz_llm::Usage;

    use super::*;

    #[test]
    fn stats_are_words_and_units() {
        let finished = Finished {
            reason: FinishReason::Length,
            stop: None,
            usage: Usage {
                prompt_tokens: 20,
                completion_tokens: 11,
                ..Usage::default()
            },
        };
        assert_eq!(
            stats(
                &finished,
                Duration::from_millis(100),
                Duration::from_millis(600)
            ),
            "20 prompt tokens, first token after 100 ms (prefill 200 tokens/s); 11 tokens, decode 20.0 tokens/s; ended by \
             the limit of tokens"
        );
    }
}
