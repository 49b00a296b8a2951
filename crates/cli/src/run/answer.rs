//! One answer: started, written as it comes, counted.

use std::io::{self, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, bail};
use ucuz_llm::{
    AnswerEvent, AnswerParser, Closed, Event, EventSink, FinishReason, Finished, Generation, Input,
    Llm, LlmError, Output, ToolEvent, Usage,
};

use super::conversation::End;
use super::interrupt::Interrupt;
use super::screen::{Look, Painter};
use super::settings::Settings;

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

/// What was said.
#[derive(Debug)]
pub struct Said {
    /// The answer, as far as it got.
    pub text: String,
    /// The thoughts before it.
    pub thoughts: String,
    /// How it ended.
    pub end: End,
    /// What it took; absent when it was interrupted.
    pub taken: Option<Taken>,
}

/// What an answer took.
#[derive(Debug)]
pub struct Taken {
    /// Tokens.
    pub usage: Usage,
    /// Seed of the sampling noise.
    pub seed: u64,
    /// To the first token.
    pub first: Duration,
    /// To the end.
    pub total: Duration,
    end: End,
}

/// An answer under way. Dropping it closes its request.
pub struct Answer {
    generation: Generation,
    parser: AnswerParser,
    events: mpsc::Receiver<Event>,
    started: Instant,
    first: Option<Duration>,
    seed: u64,
}

impl Answer {
    /// Checks the request and hands it to the engine.
    ///
    /// # Errors
    /// [`LlmError`]: a prompt that does not fit, a template that refuses the messages, an engine that died.
    pub fn start(llm: &Llm, settings: &Settings, input: Input) -> Result<Self, LlmError> {
        let now = SystemTime::now();
        let entropy = now
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |d| d.as_nanos() as u64);
        let started = Instant::now();
        let prepared = llm.prepare(&settings.request(input), entropy, now)?;
        let (sender, events) = mpsc::sync_channel(prepared.max_tokens as usize + 4);
        let generation = llm.start(&prepared, 0, Box::new(Sink(sender)))?;
        Ok(Self {
            generation,
            parser: prepared.parser(),
            events,
            started,
            first: None,
            seed: prepared.params.seed,
        })
    }

    /// Writes the answer to stdout as it comes, until its end or until `interrupt` stops it.
    ///
    /// # Errors
    /// The engine failed, or stdout is gone.
    pub fn write(mut self, interrupt: &Interrupt, look: Look) -> Result<Said> {
        let mut painter = Painter::new(look);
        let mut said = Said {
            text: String::new(),
            thoughts: String::new(),
            end: End::Interrupted,
            taken: None,
        };
        while !interrupt.is_stopped() && said.taken.is_none() {
            let (text, finished) = match self.next()? {
                Some(Output::Delta(delta)) => (delta.text, None),
                Some(Output::Finished(delta, finished)) => (delta.text, Some(finished)),
                Some(Output::Failed { text, .. }) => bail!("{text}"),
                _ => continue,
            };
            self.first.get_or_insert_with(|| self.started.elapsed());
            let mut events = self.parser.push(&text);
            if let Some(finished) = finished {
                events.extend(self.parser.finish());
                let taken = self.taken(finished);
                said.end = taken.end;
                said.taken = Some(taken);
            }
            write_now(&said.take(events, &mut painter))?;
        }
        if said.taken.is_none() {
            let held = self.parser.finish();
            write_now(&said.take(held, &mut painter))?;
        }
        write_now(&painter.finish())?;
        Ok(said)
    }

    /// The next output; `None` when there was none for a while.
    fn next(&mut self) -> Result<Option<Output>> {
        match self.events.recv_timeout(INTERRUPT_POLL) {
            Ok(event) => Ok(Some(self.generation.push(event))),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                bail!("the engine ended before the answer did")
            }
        }
    }

    fn taken(&self, finished: Finished) -> Taken {
        let total = self.started.elapsed();
        Taken {
            usage: finished.usage,
            seed: self.seed,
            first: self.first.unwrap_or(total),
            total,
            end: match finished.reason {
                FinishReason::Length => End::Length,
                FinishReason::Stop | FinishReason::Closed => End::Stop,
            },
        }
    }
}

impl Said {
    /// Adds more of the answer; returns what is to be written of it.
    fn take(&mut self, events: Vec<AnswerEvent>, painter: &mut Painter) -> String {
        let mut shown = String::new();
        for event in events {
            match event {
                AnswerEvent::Reasoning(text) => {
                    shown.push_str(&painter.thoughts(&text));
                    self.thoughts.push_str(&text);
                }
                AnswerEvent::Answer(ToolEvent::Text(text)) => {
                    shown.push_str(&painter.answer(&text));
                    self.text.push_str(&text);
                }
                // No tools are offered, so no call is looked for.
                AnswerEvent::Answer(_) => {}
            }
        }
        shown
    }
}

/// Writes to stdout at once.
fn write_now(text: &str) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

impl Taken {
    /// Speed and counts in words.
    pub fn in_words(&self) -> String {
        let usage = &self.usage;
        let decode_s = self
            .total
            .saturating_sub(self.first)
            .as_secs_f64()
            .max(1e-9);
        let decoded = usage.completion_tokens.saturating_sub(1);
        let ended = match self.end {
            End::Stop => "the model ended it",
            End::Length => "ended by the limit of tokens",
            End::Interrupted => "stopped",
        };
        format!(
            "{} prompt tokens, first token after {:.0} ms (prefill {:.0} tokens/s); {} tokens, decode {:.1} tokens/s; {ended}",
            usage.prompt_tokens,
            self.first.as_secs_f64() * 1e3,
            f64::from(usage.prompt_tokens) / self.first.as_secs_f64().max(1e-9),
            usage.completion_tokens,
            f64::from(decoded) / decode_s,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stats_are_words_and_units() {
        let taken = Taken {
            usage: Usage {
                prompt_tokens: 20,
                completion_tokens: 11,
                ..Usage::default()
            },
            seed: 0,
            first: Duration::from_millis(100),
            total: Duration::from_millis(600),
            end: End::Length,
        };
        assert_eq!(
            taken.in_words(),
            "20 prompt tokens, first token after 100 ms (prefill 200 tokens/s); 11 tokens, decode 20.0 tokens/s; ended by \
             the limit of tokens"
        );
    }

    #[test]
    fn thoughts_and_answer_are_kept_apart() {
        let mut said = Said {
            text: String::new(),
            thoughts: String::new(),
            end: End::Stop,
            taken: None,
        };
        let events = vec![
            AnswerEvent::Reasoning("hm".to_owned()),
            AnswerEvent::Answer(ToolEvent::Text("Yes.".to_owned())),
        ];
        let shown = said.take(events, &mut Painter::new(Look::Exact));
        assert_eq!(
            (shown.as_str(), said.text.as_str(), said.thoughts.as_str()),
            ("Yes.", "Yes.", "hm")
        );
    }
}
