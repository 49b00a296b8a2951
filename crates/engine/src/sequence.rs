//! One request while it lives: its tokens, how far they are computed, its block tables, its sink.

use std::time::Duration;

use ucuz_tensor::SeqSlot;
use ucuz_tensor::cache::{BLOCK_TOKENS, NO_BLOCK};
use ucuz_tensor::sampling::TokenCount;

use crate::constraint::Masking;
use crate::event::{EventSink, TokenScore, Usage};
use crate::handle::RequestId;
use crate::prefix::BlockHash;
use crate::request::{Pooling, Request};
use crate::tenants::TenantId;

/// How far a sequence is. No prefill phase, no decode phase: only these numbers, all counts of tokens.
///
/// ```text
/// 0 ..... published ..... computed ..... scheduled ..... known + draft
///           in the index     in the cache    in a step        ids are there
/// ```
/// `draft` stays 0 while there is no drafter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Tokens whose ids are known and that will be computed.
    pub known: usize,
    /// Proposed tokens after them.
    pub draft: usize,
    /// Tokens that are in the cache or in a step in flight.
    pub scheduled: usize,
    /// Tokens whose keys and values are in the cache.
    pub computed: usize,
    /// Tokens that other sequences may reuse.
    pub published: usize,
    /// Positions below this have given their result (a score or a token), or have none to give.
    pub read_until: usize,
}

impl Progress {
    /// Tokens to be scheduled.
    pub fn pending(&self) -> usize {
        self.known + self.draft - self.scheduled
    }

    /// Asserts `published <= computed <= scheduled <= known + draft`.
    ///
    /// # Panics
    /// When it does not hold.
    pub fn check(&self) {
        let ordered = self.published <= self.computed
            && self.computed <= self.scheduled
            && self.scheduled <= self.known + self.draft;
        assert!(ordered, "{self:?}");
    }
}

/// A request inside the engine.
pub(crate) struct Sequence {
    pub id: RequestId,
    pub request: Request,
    /// Prompt, then output.
    pub tokens: Vec<u32>,
    pub progress: Progress,
    /// Order of arrival at the engine thread; the oldest has precedence.
    pub seniority: u64,
    /// Raised whenever blocks are given up: results of older epochs are void.
    pub epoch: u32,
    /// One block table a group.
    pub tables: Vec<Vec<u32>>,
    /// Leading entries of each table that fell behind the window.
    pub behind: Vec<usize>,
    /// Names of the whole blocks of `tokens`, as far as they were needed.
    pub chain: Vec<BlockHash>,
    /// Whether another content has the name of one of its blocks: the rest stays invisible.
    pub is_name_taken: bool,
    pub slot: Option<SeqSlot>,
    /// Occurrences of ids, ascending; empty when no penalty is on.
    pub counts: Vec<TokenCount>,
    /// Its constraint, from when it first runs; follows every token of the output once, whatever is recomputed.
    pub masking: Option<Masking>,
    /// Scores of prompt tokens so far; emptied when sent.
    pub scores: Vec<TokenScore>,
    /// Sums of the last norms so far, `[hidden]`; empty when nothing is pooled.
    pub pooled: Vec<f64>,
    pub usage: Usage,
    /// Leading tokens that the tenant was charged for.
    pub served: usize,
    /// Whether the step it was in failed since its last result.
    pub has_failed_once: bool,
    pub submitted_at: Duration,
    pub admitted_at: Option<Duration>,
    pub last_token_at: Option<Duration>,
    pub sink: Box<dyn EventSink>,
}

impl Sequence {
    pub(crate) fn new(
        id: RequestId,
        mut request: Request,
        sink: Box<dyn EventSink>,
        groups: usize,
        now: Duration,
    ) -> Self {
        let tokens = std::mem::take(&mut request.prompt);
        let scores_prompt = request.prompt_logprobs.is_some();
        // The last prompt token is computed only to choose a token after it, or for its own sake.
        let is_last_idle = request.max_tokens == 0 && request.pool.is_none();
        let known = tokens.len() - usize::from(is_last_idle);
        let reads_all = scores_prompt || request.pool == Some(Pooling::Mean);
        let progress = Progress {
            known,
            read_until: if reads_all { 0 } else { tokens.len() - 1 },
            ..Progress::default()
        };
        let usage = Usage {
            prompt_tokens: tokens.len() as u32,
            ..Usage::default()
        };
        let counts = if has_penalties(&request) {
            count(&tokens)
        } else {
            Vec::new()
        };
        Self {
            id,
            request,
            tokens,
            progress,
            seniority: 0,
            epoch: 0,
            tables: vec![Vec::new(); groups],
            behind: vec![0; groups],
            chain: Vec::new(),
            is_name_taken: false,
            slot: None,
            counts,
            masking: None,
            scores: Vec::new(),
            pooled: Vec::new(),
            usage,
            served: 0,
            has_failed_once: false,
            submitted_at: now,
            admitted_at: None,
            last_token_at: None,
            sink,
        }
    }

    /// Who asked.
    pub(crate) fn tenant(&self) -> TenantId {
        self.request.class.tenant
    }

    /// Tokens of the prompt.
    pub(crate) fn prompt_len(&self) -> usize {
        self.usage.prompt_tokens as usize
    }

    /// Tokens sampled.
    pub(crate) fn output_len(&self) -> usize {
        self.tokens.len() - self.prompt_len()
    }

    /// Whether its next result is a choice of the token after all it has.
    pub(crate) fn chooses_next(&self) -> bool {
        self.progress.read_until + 1 == self.tokens.len()
    }

    /// Whether the row at `position` scores the prompt token after it (else it chooses one).
    pub(crate) fn is_score(&self, position: usize) -> bool {
        position + 1 < self.prompt_len()
    }

    /// Appends a sampled token.
    pub(crate) fn push(&mut self, token: u32) {
        self.tokens.push(token);
        self.progress.known += 1;
        self.usage.completion_tokens += 1;
        if !has_penalties(&self.request) {
            return;
        }
        match self.counts.binary_search_by_key(&token, |count| count.id) {
            Ok(index) => self.counts[index].output += 1,
            Err(index) => {
                let count = TokenCount {
                    id: token,
                    prompt: 0,
                    output: 1,
                };
                self.counts.insert(index, count);
            }
        }
    }

    /// Tokens that it should generate yet, when one request generates `mean` (0 while unknown).
    pub(crate) fn expected_tokens(&self, mean: f64) -> f64 {
        let most = f64::from(self.request.max_tokens);
        let done = self.output_len() as f64;
        let expected = if mean > 0.0 { most.min(mean) } else { most };
        match done < expected {
            true => expected - done,
            // Longer than most: once more what most take.
            false => (most - done).min(mean.max(1.0)),
        }
    }

    /// Positions that need not be computed when their keys and values are there. A result that is still wanted is computed,
    /// so the last known token always is.
    pub(crate) fn reusable(&self) -> usize {
        let wanted = self.progress.read_until;
        assert!(
            wanted < self.progress.known,
            "a living sequence wants something"
        );
        wanted
    }

    /// Starts with the first `blocks` whole blocks in the cache.
    pub(crate) fn resume_at(&mut self, blocks: usize, tables: Vec<Vec<u32>>) {
        assert_eq!(self.progress.scheduled, 0, "it starts anew");
        assert!(
            blocks * BLOCK_TOKENS <= self.reusable(),
            "something is computed"
        );
        let missing = |table: &Vec<u32>| table.iter().take_while(|&&b| b == NO_BLOCK).count();
        self.behind = tables.iter().map(missing).collect();
        self.tables = tables;
        let tokens = blocks * BLOCK_TOKENS;
        self.progress.scheduled = tokens;
        self.progress.computed = tokens;
        self.progress.published = tokens;
    }

    /// Entries that `group`'s table lacks for `tokens` tokens.
    pub(crate) fn missing_blocks(&self, group: usize, tokens: usize) -> usize {
        tokens
            .div_ceil(BLOCK_TOKENS)
            .saturating_sub(self.tables[group].len())
    }

    /// Takes the blocks out of `group`'s table that no query at `position` or later sees.
    pub(crate) fn pass_window(&mut self, group: usize, window: usize, position: usize) -> Vec<u32> {
        let first_seen = (position + 1).saturating_sub(window);
        let end = (first_seen / BLOCK_TOKENS).min(self.tables[group].len());
        let passed = &mut self.tables[group][self.behind[group].min(end)..end];
        self.behind[group] = self.behind[group].max(end);
        passed
            .iter_mut()
            .map(|block| std::mem::replace(block, NO_BLOCK))
            .collect()
    }

    /// Empties all tables and goes back to the start; what was read stays read.
    pub(crate) fn restart(&mut self) -> Vec<Vec<u32>> {
        self.epoch += 1;
        self.progress.draft = 0;
        self.progress.scheduled = 0;
        self.progress.computed = 0;
        self.progress.published = 0;
        self.behind.fill(0);
        let empty = vec![Vec::new(); self.tables.len()];
        self.is_name_taken = false;
        let mut tables = std::mem::replace(&mut self.tables, empty);
        for table in &mut tables {
            table.retain(|&block| block != NO_BLOCK);
        }
        tables
    }
}

fn has_penalties(request: &Request) -> bool {
    let params = &request.params;
    params.repetition_penalty != 1.0
        || params.presence_penalty != 0.0
        || params.frequency_penalty != 0.0
}

fn count(prompt: &[u32]) -> Vec<TokenCount> {
    let mut ids = prompt.to_vec();
    ids.sort_unstable();
    ids.chunk_by(|a, b| a == b)
        .map(|run| TokenCount {
            id: run[0],
            prompt: run.len() as u32,
            output: 0,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Closed, Event, RequestClass};
    use ucuz_tensor::sampling::SamplingParams;

    struct Nowhere;

    impl EventSink for Nowhere {
        fn send(&mut self, _: Event) -> Result<(), Closed> {
            Ok(())
        }

        fn is_closed(&self) -> bool {
            false
        }
    }

    fn sequence(presence_penalty: f32) -> Sequence {
        let request = Request {
            prompt: vec![5, 3, 5, 9],
            params: SamplingParams {
                presence_penalty,
                ..SamplingParams::greedy()
            },
            sample: 0,
            max_tokens: 100,
            min_tokens: 0,
            stop_ids: Vec::new(),
            constraint: None,
            logprobs: None,
            prompt_logprobs: None,
            pool: None,
            class: RequestClass::default(),
        };
        Sequence::new(RequestId(1), request, Box::new(Nowhere), 2, Duration::ZERO)
    }

    #[test]
    fn counts_are_kept_ascending_and_only_for_penalties() {
        let mut plain = sequence(0.0);
        let mut penalized = sequence(0.5);
        for token in [9, 4, 4, 5, 4, 0] {
            plain.push(token);
            penalized.push(token);
        }
        assert!(plain.counts.is_empty());
        let counts: Vec<_> = penalized
            .counts
            .iter()
            .map(|c| (c.id, c.prompt, c.output))
            .collect();
        assert_eq!(
            counts,
            [(0, 0, 1), (3, 1, 0), (4, 0, 3), (5, 2, 1), (9, 1, 1)]
        );
        assert_eq!(penalized.usage.completion_tokens, 6);
    }

    #[test]
    fn blocks_leave_when_no_later_query_sees_them() {
        // A query at p sees p - 39 ..= p: block 0 (positions 0 to 31) is last seen from 70.
        for (position, expected) in [(0, 0), (70, 0), (71, 1), (102, 1), (103, 2)] {
            let mut sequence = sequence(0.0);
            sequence.tables[1] = (0..8).collect();
            assert_eq!(
                sequence.pass_window(1, 40, position).len(),
                expected,
                "{position}"
            );
            assert!(sequence.pass_window(1, 40, position).is_empty());
            assert_eq!(sequence.restart()[1].len(), 8 - expected);
        }
    }
}
