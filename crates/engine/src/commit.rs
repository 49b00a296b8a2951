//! What happens with a step's results, and how requests end.

use std::time::Duration;

use ucuz_tensor::cache::{BLOCK_TOKENS, NO_BLOCK};
use ucuz_tensor::sampling::{RowFault, Sampled, SampledRow};

use crate::blocks::Published;

use crate::constraint::{Masking, Verdict};
use crate::error::FailureKind;
use crate::event::{Closed, Event, FinishReason, TokenEvent, TokenScore};
use crate::handle::{CloseReason, RequestId};
use crate::plan::{PlannedSequence, StepPlan};
use crate::request::Pooling;
use crate::scheduler::Scheduler;
use crate::sequence::Sequence;
use crate::sequences::Sequences;
use crate::tenants::GENERATED_WEIGHT;
use crate::view::TokenTime;

/// Weight of one more request in the mean of generated tokens.
const MEAN_WEIGHT: f64 = 0.1;

/// How a request ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    Finished(FinishReason),
    Closed(CloseReason),
    Failed(FailureKind, String),
}

impl Scheduler {
    /// Takes in a new sequence.
    pub(crate) fn accept(&mut self, sequences: &mut Sequences, mut sequence: Sequence) {
        self.totals.requests += 1;
        self.totals.prompt_tokens += u64::from(sequence.usage.prompt_tokens);
        let has_nothing_to_score = sequence.prompt_len() == 1;
        if has_nothing_to_score && sequence.request.prompt_logprobs.is_some() {
            sequence.progress.read_until = 0;
            if sequence.sink.send(Event::PromptScored(Vec::new())).is_err() {
                return self.end(sequence, End::Closed(CloseReason::Disconnected));
            }
        }
        match sequence.progress.known {
            0 => self.end(sequence, End::Finished(FinishReason::Length)),
            _ => sequences.accept(sequence),
        }
    }

    /// Hands a finished step's results to its sequences.
    pub(crate) fn commit(&mut self, sequences: &mut Sequences, plan: &StepPlan, sampled: Sampled) {
        let reads: usize = plan.entries.iter().map(|entry| entry.reads().len()).sum();
        assert_eq!(
            sampled.rows.len(),
            reads,
            "one result for each row that is read"
        );
        self.pool.retired(plan.step);
        self.totals.steps += 1;
        self.totals.computed_rows += plan.rows() as u64;
        let mut results = sampled.rows.into_iter();
        for entry in &plan.entries {
            let results: Vec<_> = results.by_ref().take(entry.reads().len()).collect();
            let current = sequences.find_running(entry.seniority);
            let current = current.filter(|&index| sequences.running[index].epoch == entry.epoch);
            if let Some(index) = current {
                let sequence = &mut sequences.running[index];
                let before = sequence.output_len();
                let end = self.settle(sequence, entry, results);
                let served = served_prompt(sequence, entry)
                    + GENERATED_WEIGHT * (sequence.output_len() - before) as u64;
                let tenant = sequence.tenant();
                sequences.tenants.charge(tenant, served);
                if let Some(end) = end {
                    let sequence = sequences.take_running(index);
                    self.end(sequence, end);
                }
            }
        }
    }

    /// Takes one sequence's results; says when it is over.
    fn settle(
        &mut self,
        sequence: &mut Sequence,
        entry: &PlannedSequence,
        results: Vec<Result<SampledRow, RowFault>>,
    ) -> Option<End> {
        assert_eq!(
            sequence.progress.computed, entry.start,
            "steps end in order"
        );
        sequence.progress.computed = entry.end();
        sequence.progress.check();
        if results.iter().all(Result::is_ok) {
            self.publish(sequence);
        }
        for (position, result) in entry.reads().zip(results) {
            let row = match result {
                Ok(row) => row,
                Err(fault) => return Some(fault_end(sequence, fault)),
            };
            sequence.progress.read_until = position + 1;
            sequence.has_failed_once = false;
            let end = match sequence.request.pool {
                Some(pooling) => take_hidden(sequence, (position, pooling), &row.hidden),
                None if sequence.is_score(position) => take_score(sequence, position, row),
                None => self.take_token(sequence, row),
            };
            match end {
                Ok(None) => {}
                Ok(Some(reason)) => return Some(End::Finished(reason)),
                Err(Closed) => return Some(End::Closed(CloseReason::Disconnected)),
            }
        }
        None
    }

    /// Makes the blocks visible that the sequence has completely computed.
    fn publish(&mut self, sequence: &mut Sequence) {
        if self.hasher.is_none() {
            return;
        }
        self.name(sequence);
        let whole = sequence.progress.computed / BLOCK_TOKENS;
        for block in sequence.progress.published / BLOCK_TOKENS..whole {
            if sequence.is_name_taken {
                return;
            }
            self.publish_block(sequence, block);
        }
        sequence.progress.check();
    }

    fn publish_block(&mut self, sequence: &mut Sequence, block: usize) {
        let content = self.prefix(sequence, block + 1).content(block);
        for (group, table) in sequence.tables.iter_mut().enumerate() {
            let own = table[block];
            if own == NO_BLOCK {
                continue;
            }
            match self.pool.publish(group, own, &content) {
                Published::Visible => {}
                // Somebody else was as fast: the same bits, so one block serves both.
                Published::Equal(other) => {
                    self.pool.retain(group, other);
                    table[block] = other;
                    self.pool.release(group, own);
                }
                Published::Taken => sequence.is_name_taken = true,
            }
        }
        if !sequence.is_name_taken {
            sequence.progress.published = (block + 1) * BLOCK_TOKENS;
        }
    }

    fn take_token(
        &mut self,
        sequence: &mut Sequence,
        row: SampledRow,
    ) -> Result<Option<FinishReason>, Closed> {
        if sequence.request.stop_ids.binary_search(&row.token).is_ok() {
            return Ok(Some(FinishReason::Stop));
        }
        sequence.push(row.token);
        self.totals.generated_tokens += 1;
        self.time_token(sequence);
        sequence.sink.send(Event::Token(TokenEvent {
            id: row.token,
            logprob: row.logprob,
            top: row.top,
        }))?;
        let is_full = sequence.output_len() >= sequence.request.max_tokens as usize;
        if let Some(masking) = sequence.masking.as_mut().filter(|_| !is_full) {
            masking.accept(row.token);
        }
        Ok(is_full.then_some(FinishReason::Length))
    }

    fn time_token(&mut self, sequence: &mut Sequence) {
        let time = match sequence.last_token_at {
            None => {
                let waited = self.now.saturating_sub(sequence.submitted_at);
                sequence.usage.first_token_ms = waited.as_millis() as u64;
                self.latencies.first_token.observe(waited);
                TokenTime::First(waited)
            }
            Some(last) => {
                let between = self.now.saturating_sub(last);
                self.latencies.between_tokens.observe(between);
                TokenTime::Next(between)
            }
        };
        sequence.last_token_at = Some(self.now);
        if let Some(log) = &mut self.log {
            log.tokens.push((sequence.id, time));
        }
    }

    /// A step failed: its sequences start again once, and end when that fails too.
    pub(crate) fn fail_step(&mut self, sequences: &mut Sequences, plan: &StepPlan, why: &str) {
        self.pool.retired(plan.step);
        self.totals.step_errors += 1;
        for entry in &plan.entries {
            let Some(index) = sequences.find_running(entry.seniority) else {
                continue;
            };
            if sequences.running[index].epoch != entry.epoch {
                continue;
            }
            if std::mem::replace(&mut sequences.running[index].has_failed_once, true) {
                let sequence = sequences.take_running(index);
                let text = format!("a step failed twice with this request in it: {why}");
                self.end(sequence, End::Failed(FailureKind::Step, text));
            } else {
                self.requeue(sequences, index);
            }
        }
    }

    /// Ends a request from outside, if it is still there.
    pub(crate) fn close(&mut self, sequences: &mut Sequences, id: RequestId, reason: CloseReason) {
        if let Some(seniority) = sequences.find(id) {
            self.close_one(sequences, seniority, reason);
        }
    }

    /// Ends the requests whose receiver is gone.
    pub(crate) fn drop_closed(&mut self, sequences: &mut Sequences) {
        for seniority in sequences.closed() {
            self.close_one(sequences, seniority, CloseReason::Disconnected);
        }
    }

    /// Ends the requests whose constraint allows no further token, where that is known already: they need no more step.
    pub(crate) fn end_decided(&mut self, sequences: &mut Sequences) {
        let all = sequences.running.iter().chain(&sequences.waiting);
        let decided = all.filter_map(|sequence| {
            let verdict = sequence.masking.as_ref().and_then(Masking::verdict)?;
            let end = end_of(verdict).filter(|_| sequence.chooses_next())?;
            Some((sequence.seniority, end))
        });
        for (seniority, end) in decided.collect::<Vec<_>>() {
            self.end_one(sequences, seniority, end);
        }
    }

    /// Cancels everything.
    pub(crate) fn cancel_all(&mut self, sequences: &mut Sequences) {
        for seniority in sequences.all() {
            self.close_one(sequences, seniority, CloseReason::Cancelled);
        }
    }

    fn close_one(&mut self, sequences: &mut Sequences, seniority: u64, reason: CloseReason) {
        self.end_one(sequences, seniority, End::Closed(reason));
    }

    fn end_one(&mut self, sequences: &mut Sequences, seniority: u64, end: End) {
        let running = sequences.find_running(seniority);
        let sequence = match running {
            Some(index) => Some(sequences.take_running(index)),
            None => sequences.take_waiting(seniority),
        };
        if let Some(sequence) = sequence {
            self.end(sequence, end);
        }
    }

    /// Takes everything back from a sequence and gives its place away; its receiver is told at the end of the turn.
    fn end(&mut self, mut sequence: Sequence, end: End) {
        self.strip(&mut sequence);
        self.door.leave(sequence.prompt_len());
        let is_whole = matches!(
            end,
            End::Finished(_) | End::Closed(CloseReason::StopString { .. })
        );
        if is_whole && sequence.output_len() > 0 {
            self.learn_length(sequence.output_len());
        }
        sequence.usage.total_ms = self.ms_since(sequence.submitted_at);
        if sequence.output_len() > 0 {
            let whole = self.now.saturating_sub(sequence.submitted_at);
            self.latencies.whole.observe(whole);
        }
        if let End::Closed(CloseReason::StopString { accepted_tokens }) = end {
            let usage = &mut sequence.usage;
            usage.completion_tokens = usage.completion_tokens.min(accepted_tokens);
        }
        *self.count_of(&end) += 1;
        let usage = sequence.usage;
        let event = match end {
            End::Finished(reason) => Event::Done { reason, usage },
            End::Closed(_) => Event::Done {
                reason: FinishReason::Closed,
                usage,
            },
            End::Failed(kind @ FailureKind::Constraint, text) => {
                tracing::debug!(request = sequence.id.0, text, "a constraint led nowhere");
                Event::Failed { kind, text }
            }
            End::Failed(kind, text) => {
                tracing::warn!(request = sequence.id.0, ?kind, text, "request failed");
                Event::Failed { kind, text }
            }
        };
        tracing::debug!(request = sequence.id.0, ?usage, "request ended");
        self.endings.push_back((sequence.sink, event));
    }

    /// Takes the length of an answer into the mean.
    fn learn_length(&mut self, generated: usize) {
        let is_first = self.mean_completion == 0.0;
        let weight = if is_first { 1.0 } else { MEAN_WEIGHT };
        self.mean_completion += weight * (generated as f64 - self.mean_completion);
    }

    /// Sends last events. After the numbers are published: who sees the end of a request sees its blocks free.
    pub(crate) fn deliver_endings(&mut self) {
        while let Some((mut sink, event)) = self.endings.pop_front() {
            // A receiver that is gone has nothing to be told.
            let _ = sink.send(event);
        }
    }

    fn count_of(&mut self, end: &End) -> &mut u64 {
        let totals = &mut self.totals;
        match end {
            End::Finished(FinishReason::Stop) => &mut totals.stopped,
            End::Finished(FinishReason::Length) => &mut totals.length,
            End::Closed(CloseReason::StopString { .. }) => &mut totals.stop_string,
            End::Closed(CloseReason::Disconnected) => &mut totals.disconnected,
            End::Closed(CloseReason::Cancelled) | End::Finished(FinishReason::Closed) => {
                &mut totals.cancelled
            }
            End::Failed(FailureKind::Constraint, _) => &mut totals.unfollowable,
            End::Failed(..) => &mut totals.failed,
        }
    }

    fn ms_since(&self, start: Duration) -> u64 {
        self.now.saturating_sub(start).as_millis() as u64
    }
}

/// Prompt tokens that this entry computed and no earlier one.
fn served_prompt(sequence: &mut Sequence, entry: &PlannedSequence) -> u64 {
    let first = entry.start.max(sequence.served);
    sequence.served = entry.end().max(sequence.served);
    entry.end().min(sequence.prompt_len()).saturating_sub(first) as u64
}

/// Adds a token's last norm; after that of the last token, the vector is whole.
fn take_hidden(
    sequence: &mut Sequence,
    (position, pooling): (usize, Pooling),
    hidden: &[f32],
) -> Result<Option<FinishReason>, Closed> {
    sequence.pooled.resize(hidden.len(), 0.0);
    for (sum, &value) in sequence.pooled.iter_mut().zip(hidden) {
        *sum += f64::from(value);
    }
    if position + 1 < sequence.prompt_len() {
        return Ok(None);
    }
    let count = match pooling {
        Pooling::Mean => sequence.prompt_len(),
        Pooling::Last => 1,
    };
    let sums = std::mem::take(&mut sequence.pooled);
    let vector = sums.iter().map(|sum| (sum / count as f64) as f32);
    sequence.sink.send(Event::Pooled(vector.collect()))?;
    Ok(Some(FinishReason::Length))
}

/// What a mask's outcome means for its sequence; `None` when it goes on.
fn end_of(verdict: &Verdict) -> Option<End> {
    match verdict {
        Verdict::Choose => None,
        Verdict::End => Some(End::Finished(FinishReason::Stop)),
        Verdict::Broken(why) => Some(End::Failed(FailureKind::Constraint, why.clone())),
        Verdict::Fault(why) => Some(End::Failed(FailureKind::Row, why.clone())),
    }
}

/// How a sequence ends whose row has no result.
fn fault_end(sequence: &Sequence, fault: RowFault) -> End {
    let masking = sequence.masking.as_ref();
    let Some(masking) = masking.filter(|_| fault == RowFault::EmptyMask) else {
        return End::Failed(FailureKind::Row, fault.to_string());
    };
    let end = masking.verdict().and_then(end_of);
    end.unwrap_or_else(|| End::Failed(FailureKind::Constraint, fault.to_string()))
}

fn take_score(
    sequence: &mut Sequence,
    position: usize,
    row: SampledRow,
) -> Result<Option<FinishReason>, Closed> {
    sequence.scores.push(TokenScore {
        id: row.token,
        logprob: row.logprob.unwrap_or(f32::NAN),
        top: row.top,
    });
    if position + 2 < sequence.prompt_len() {
        return Ok(None);
    }
    let scores = std::mem::take(&mut sequence.scores);
    assert_eq!(
        scores.len() + 1,
        sequence.prompt_len(),
        "each prompt token is scored once"
    );
    sequence.sink.send(Event::PromptScored(scores))?;
    Ok((sequence.request.max_tokens == 0).then_some(FinishReason::Length))
}
