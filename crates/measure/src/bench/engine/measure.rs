//! The three measurements.

use std::time::Duration;

use anyhow::Result;

use super::{BatchStep, Bench, Decode, Prefill, STEPS};
use crate::bench::ids::ids;
use crate::bench::session::{Feed, Session};
use crate::bench::work::Span;
use crate::bench::{Measured, ascending};
use crate::{Host, repeat};

impl Bench<'_> {
    /// Time to the first token, by prompt length.
    pub(super) fn prefill(&mut self, host: &mut dyn Host) -> Result<Vec<Prefill>> {
        let lengths = ascending(self.options.prompt_lengths.clone());
        let Some(longest) = lengths.last() else {
            return Ok(Vec::new());
        };
        let prompt = ids(0, *longest, self.vocab);
        let tokens: usize = lengths.iter().sum();
        let runs = self.options.repetitions + 1;
        host.begin("prefill", (tokens * runs) as u64);
        self.session.share(1);
        let points = lengths.iter().map(|&length| {
            let feed = Feed {
                sequence: 0,
                ids: &prompt[..length],
                start: 0,
            };
            let session = &mut self.session;
            let seconds = repeat(host, self.options.repetitions, &mut |host| {
                let started = host.now();
                session.prefill(feed)?;
                let took = host.now() - started;
                host.advance(length as u64);
                Ok(took)
            })?;
            let work = self.counter.prefill(feed.span(), self.step_rows);
            let roofline = self.roofline.as_ref();
            Ok(Prefill {
                prompt_tokens: length,
                measured: Measured::new(seconds, length, work, roofline),
            })
        });
        let points = points.collect();
        host.end();
        points
    }

    /// Time of a step of one sequence, by context.
    pub(super) fn decode(&mut self, host: &mut dyn Host) -> Result<Vec<Decode>> {
        let contexts = ascending(self.options.contexts.clone());
        let Some(longest) = contexts.last() else {
            return Ok(Vec::new());
        };
        let text = ids(0, *longest, self.vocab);
        host.begin("decode", contexts.len() as u64);
        self.session.share(1);
        let mut cached = 0;
        let mut points = Vec::with_capacity(contexts.len());
        for context in contexts {
            // What lies before the step's own token; a longer context goes on where the last one ended.
            if cached + 1 < context {
                let ids = &text[..context - 1];
                let start = cached;
                self.session.prefill(Feed {
                    sequence: 0,
                    ids,
                    start,
                })?;
                cached = context - 1;
            }
            let feed = Feed {
                sequence: 0,
                ids: &text[..context],
                start: context - 1,
            };
            let measured = self.step(&[feed], host)?;
            points.push(Decode { context, measured });
            host.advance(1);
        }
        host.end();
        Ok(points)
    }

    /// Time of a step of several sequences, by their number.
    pub(super) fn batch(&mut self, host: &mut dyn Host) -> Result<Vec<BatchStep>> {
        let batches = ascending(self.options.batches.clone());
        let Some(&largest) = batches.last() else {
            return Ok(Vec::new());
        };
        let context = self.options.batch_context;
        let texts: Vec<Vec<u32>> = (0..largest)
            .map(|sequence| ids(1 + sequence as u64, context, self.vocab))
            .collect();
        host.begin("batches", (largest + batches.len()) as u64);
        self.session.share(largest);
        for (sequence, text) in texts.iter().enumerate() {
            if context > 1 {
                let ids = &text[..context - 1];
                let start = 0;
                self.session.prefill(Feed {
                    sequence,
                    ids,
                    start,
                })?;
            }
            host.advance(1);
        }
        let mut points = Vec::with_capacity(batches.len());
        for batch in batches {
            let texts = texts[..batch].iter().enumerate();
            let feeds: Vec<Feed<'_>> = texts
                .map(|(sequence, ids)| Feed {
                    sequence,
                    ids,
                    start: context - 1,
                })
                .collect();
            let measured = self.step(&feeds, host)?;
            points.push(BatchStep { batch, measured });
            host.advance(1);
        }
        host.end();
        Ok(points)
    }

    /// Times one step again and again: the cache holds the same tokens before and after it.
    fn step(&mut self, feeds: &[Feed<'_>], host: &mut dyn Host) -> Result<Measured> {
        let session = &mut self.session;
        let seconds = repeat(host, self.options.repetitions, &mut |host| {
            steps(session, feeds, host)
        })?;
        let spans: Vec<Span> = feeds.iter().map(Feed::span).collect();
        let work = self.counter.step(&spans, feeds.len());
        let roofline = self.roofline.as_ref();
        Ok(Measured::new(seconds, feeds.len(), work, roofline))
    }
}

/// The mean of a few steps in a row.
fn steps(session: &mut Session, feeds: &[Feed<'_>], host: &mut dyn Host) -> Result<Duration> {
    let started = host.now();
    for _ in 0..STEPS {
        session.next(feeds)?;
    }
    Ok((host.now() - started) / STEPS as u32)
}
