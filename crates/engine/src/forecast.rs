//! When the work inside will be done, and when a newcomer can expect its first token: pure arithmetic.
//!
//! From what is inside (rows to compute, tokens expected to be generated) and the prices of steps ([`StepCost`]). Requests
//! generate together, as many as there are slots; whatever must be computed beside that comes on top. A tenant's newcomer
//! waits for those before it in the order of fairness, not for everybody.

use crate::cost::{StepCost, StepShape};

/// What is inside and what it costs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Load {
    /// Prices of steps.
    pub cost: StepCost,
    /// Requests of the usual size that can run at once, by slots and by KV blocks.
    pub slots: usize,
    /// Requests that run.
    pub running: usize,
    /// Running requests with all but their newest token computed.
    pub generating: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// Known tokens of running requests to be computed.
    pub running_rows: usize,
    /// The same of waiting requests, as far as they are not expected in the prefix cache.
    pub waiting_rows: usize,
    /// Tokens that all requests inside are expected to generate yet.
    pub to_generate: f64,
    /// Tokens that one request is expected to generate; 0 while unknown.
    pub mean_generated: f64,
    /// Mean of keys that a generated token sees.
    pub mean_context: f64,
    /// Share of prompt tokens found in the prefix cache.
    pub cached_share: f64,
    /// Rows of the next step.
    pub budget: usize,
}

/// Where a newcomer stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Newcomer {
    /// Tokens of its prompt.
    pub prompt: usize,
    /// Requests of its tenant that wait.
    pub own_waiting: usize,
    /// Tenants with requests inside, its own among them.
    pub tenants: usize,
    /// Whether it would get the slot of a tenant that runs more.
    pub takes_slot: bool,
}

impl Load {
    /// Adds requests that the engine has not seen yet: `requests` with `tokens` prompt tokens together.
    pub(crate) fn with_inbox(mut self, requests: usize, tokens: usize) -> Self {
        self.waiting += requests;
        self.waiting_rows += self.uncached(tokens);
        self.to_generate += self.mean_generated * requests as f64;
        self
    }

    /// Seconds until all that is inside has ended, when nothing more comes.
    pub fn backlog_s(&self) -> f64 {
        let inside = self.running + self.waiting;
        let together = self.slots.min(inside).max(1) as f64;
        let steps = self.to_generate / together;
        self.prefill_s(self.running_rows + self.waiting_rows) + steps * self.decode_step_s(together)
    }

    /// [`Load::backlog_s`] in whole seconds, from 1 to 3600.
    pub fn retry_after_s(&self) -> u32 {
        self.backlog_s().ceil().clamp(1.0, 3600.0) as u32
    }

    /// Seconds from now to the first token of `newcomer`.
    pub(crate) fn first_token_s(&self, newcomer: Newcomer) -> f64 {
        let own = self.uncached(newcomer.prompt).max(1);
        // Its last token sees all others, its first none.
        let looks_back = own as f64 * newcomer.prompt as f64 / 2.0 * self.cost.attended_s;
        looks_back + self.wait_s(newcomer, own)
    }

    /// Its wait for others and for its own `own` rows, their attention left out.
    fn wait_s(&self, newcomer: Newcomer, own: usize) -> f64 {
        let fair = newcomer.own_waiting * newcomer.tenants.max(1);
        let ahead = self.waiting.min(fair);
        let free = self.slots.saturating_sub(self.running);
        let rows_each = self.waiting_rows as f64 / self.waiting.max(1) as f64;
        if newcomer.takes_slot || ahead < free {
            let rows = self.running_rows as f64 + rows_each * ahead as f64;
            return self.mixed_prefill_s(rows as usize + own);
        }
        // Slots become free one by one, as the backlog is worked off.
        let inside = (self.running + self.waiting).max(1) as f64;
        let ends = (ahead + 1).saturating_sub(free) as f64;
        self.backlog_s() * ends / inside + self.mixed_prefill_s(own)
    }

    fn uncached(&self, tokens: usize) -> usize {
        (tokens as f64 * (1.0 - self.cached_share)).ceil() as usize
    }

    /// Seconds of a step in which `sequences` requests generate one token each.
    fn decode_step_s(&self, sequences: f64) -> f64 {
        let cost = &self.cost;
        let each = cost.row_s + cost.read_s + cost.attended_s * self.mean_context;
        cost.step_s + sequences * each
    }

    /// Seconds that `rows` more rows add to steps that are run anyway.
    fn prefill_s(&self, rows: usize) -> f64 {
        rows as f64 * (self.cost.row_s + self.cost.attended_s * self.mean_context)
    }

    /// Seconds until `rows` rows are computed beside those who generate.
    fn mixed_prefill_s(&self, rows: usize) -> f64 {
        let chunk = self.budget.saturating_sub(self.generating).max(1);
        let steps = rows.div_ceil(chunk) as f64;
        self.prefill_s(rows) + steps * self.decode_step_s(self.generating as f64)
    }
}

impl StepCost {
    /// Most rows of a step that begins with `first` and should take at most `seconds`, when the others stand at `position`.
    pub(crate) fn rows_within(&self, seconds: f64, first: StepShape, position: usize) -> usize {
        let spare_s = seconds - self.seconds(first);
        let row_s = self.row_s + self.attended_s * position as f64;
        // Saturates: unknown prices allow any number.
        let more = if row_s > 0.0 {
            spare_s / row_s
        } else {
            f64::MAX
        };
        first.rows.saturating_add(more as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step of 8 ms, 0.5 ms a row, 1.5 ms more when it is read.
    fn load() -> Load {
        Load {
            cost: StepCost {
                step_s: 8e-3,
                row_s: 5e-4,
                read_s: 1.5e-3,
                attended_s: 0.0,
            },
            slots: 8,
            mean_generated: 100.0,
            budget: 256,
            ..Load::default()
        }
    }

    fn close(left: f64, right: f64) {
        assert!((left / right - 1.0).abs() < 1e-9, "{left} {right}");
    }

    #[test]
    fn an_idle_engine_needs_the_prompt_and_one_step() {
        let newcomer = Newcomer {
            prompt: 256,
            tenants: 1,
            ..Newcomer::default()
        };
        close(load().first_token_s(newcomer), 0.128 + 0.008);
        assert_eq!(load().retry_after_s(), 1);
    }

    #[test]
    fn a_backlog_is_what_is_computed_and_what_is_generated_together() {
        let load = Load {
            running: 8,
            generating: 8,
            waiting: 24,
            waiting_rows: 24 * 200,
            to_generate: 3200.0,
            ..load()
        };
        // 4,800 rows of 0.5 ms, 400 steps of 8 + 8 · 2 ms.
        close(load.backlog_s(), 2.4 + 9.6);
        assert_eq!(load.retry_after_s(), 12);
        assert_eq!(load.with_inbox(24, 4800).retry_after_s(), 12 + 10);
    }

    #[test]
    fn who_waits_alone_waits_for_its_fair_share_only() {
        let load = Load {
            running: 8,
            generating: 8,
            waiting: 92,
            waiting_rows: 92 * 100,
            to_generate: 10_000.0,
            ..load()
        };
        let of = |own_waiting, takes_slot| {
            load.first_token_s(Newcomer {
                prompt: 100,
                own_waiting,
                tenants: 2,
                takes_slot,
            })
        };
        assert!(of(92, false) > 0.9 * load.backlog_s());
        assert!(of(0, false) < 0.05 * load.backlog_s());
        assert!(of(0, true) < 0.2, "{}", of(0, true));
    }

    #[test]
    fn rows_that_look_back_far_fill_a_step_sooner() {
        let cost = StepCost {
            attended_s: 1e-7,
            ..load().cost
        };
        let first = StepShape {
            rows: 4,
            reads: 4,
            attended: 0,
        };
        // 200 ms less 8 + 4 · 2 ms, at 0.5 ms a row and 0.1 ms more for each 1,000 tokens before it.
        for (position, rows) in [(0, 4 + 368), (1_000, 4 + 306), (10_000, 4 + 122)] {
            assert_eq!(cost.rows_within(0.2, first, position), rows);
        }
    }

    #[test]
    fn a_full_prefix_cache_shortens_the_wait() {
        let newcomer = Newcomer {
            prompt: 2000,
            tenants: 1,
            ..Newcomer::default()
        };
        let warm = Load {
            cached_share: 0.9,
            ..load()
        };
        assert!(warm.first_token_s(newcomer) < 0.2 * load().first_token_s(newcomer));
    }
}
