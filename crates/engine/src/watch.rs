//! Who looks at the engine, and what the loop keeps for them.
//!
//! As long as nobody looks, the loop pays one relaxed read a turn and one branch a token. While somebody does, it notes
//! each step and makes a view every [`PERIOD`]; readers take the newest without a lock.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::engine::Engine;
use crate::handle::{Handle, Message, RequestId};
use crate::plan::{PlannedSequence, StepPlan};
use crate::sequence::Sequence;
use crate::view::{
    BlockMap, ENTRIES_MAX, EngineView, Phase, RunningView, STEPS_MAX, StepEntry, StepView,
    TokenTime, WAITING_MAX, WaitingView,
};

/// Time between two views: a map of 16,384 blocks costs some 20 µs, and nobody sees more than 20 pictures a second.
const PERIOD: Duration = Duration::from_millis(50);

/// Somebody who looks; dropping it ends that.
pub struct Watch {
    handle: Handle,
}

impl Handle {
    /// Begins to look, unless `most` look already.
    pub fn watch(&self, most: usize) -> Option<Watch> {
        let watchers = &self.shared.watchers;
        let more = |now: usize| (now < most).then_some(now + 1);
        watchers
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()?;
        self.turn_once();
        Some(Watch {
            handle: self.clone(),
        })
    }

    /// Wakes an idle loop, which would not notice who looks.
    fn turn_once(&self) {
        // A loop that has ended shows nothing.
        let _ = self.inbox.send(Message::Look);
    }
}

impl Watch {
    /// The newest view; `None` until the turn under way has ended.
    pub fn view(&self) -> Option<Arc<EngineView>> {
        self.handle.shared.view.load_full()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.handle.shared.watchers.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.handle.turn_once();
        }
    }
}

/// What the scheduler notes of a step for who looks.
#[derive(Debug, Default)]
pub(crate) struct StepLog {
    /// Tokens of the step; a sequence gets at most one.
    pub tokens: Vec<(RequestId, TokenTime)>,
    /// Who gave up which slot.
    pub preempted: Vec<(u64, u32)>,
}

/// What the loop keeps while somebody looks.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    steps: VecDeque<Arc<StepView>>,
    /// When the last view was made.
    shown_at: Option<Duration>,
}

impl Engine {
    /// Whether anybody looks; begins or ends to keep what they see.
    pub(crate) fn looked_at(&mut self) -> bool {
        let is_looked_at = self.shared.watchers.load(Ordering::Relaxed) > 0;
        if is_looked_at {
            self.scheduler.log.get_or_insert_default();
            self.recorder.get_or_insert_default();
        } else if self.recorder.take().is_some() {
            self.scheduler.log = None;
            self.shared.view.store(None);
        }
        is_looked_at
    }

    /// Makes the engine visible to who looks; after the numbers of the turn are published.
    pub(crate) fn publish_view(&mut self) {
        if !self.looked_at() {
            return;
        }
        let now = self.published.turn_at;
        let is_due = |shown: Duration| now.saturating_sub(shown) >= PERIOD;
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        let is_idle = self.sequences.is_empty();
        if recorder.shown_at.is_none_or(is_due) || is_idle {
            // What begins after a rest is seen at once.
            recorder.shown_at = (!is_idle).then_some(now);
            let steps = recorder.steps.iter().cloned().collect();
            self.shared.view.store(Some(Arc::new(self.view(steps))));
        }
    }

    fn view(&self, steps: Vec<Arc<StepView>>) -> EngineView {
        let now = self.published.turn_at;
        let running = self.sequences.running.iter().take(ENTRIES_MAX);
        let waiting = self.sequences.waiting.iter().take(WAITING_MAX);
        EngineView {
            at: now,
            steps,
            running: running.map(running_view).collect(),
            waiting: waiting.map(|s| waiting_view(s, now)).collect(),
            groups: self.block_maps(),
            slots: self.scheduler.limits.sequences,
            stats: Arc::clone(&self.published.stats),
        }
    }

    fn block_maps(&self) -> Vec<BlockMap> {
        let groups = self.scheduler.groups.iter().enumerate();
        let map = |(index, group): (usize, &ucuz_tensor::cache::PagedGroup)| {
            let tables = self.sequences.running.iter();
            let tables = tables.map(|s| (slot(s), s.tables[index].as_slice()));
            BlockMap::new(self.scheduler.pool.marks(index, tables), group.window)
        };
        groups.map(map).collect()
    }

    /// What a step that has ended was, before its sequences move on; `None` when nobody looks.
    pub(crate) fn step_view(&self, plan: &StepPlan) -> Option<StepView> {
        self.recorder.as_ref()?;
        let entries = plan.entries.iter().filter_map(|entry| {
            let index = self.sequences.find_running(entry.seniority)?;
            Some(step_entry(&self.sequences.running[index], entry))
        });
        Some(StepView {
            step: plan.step,
            at: self.scheduler.now,
            took: self.last_step,
            rows: plan.rows(),
            budget: self.scheduler.last_budget,
            running: 0,
            waiting: 0,
            preempted: Vec::new(),
            entries: entries.take(ENTRIES_MAX).collect(),
        })
    }

    /// Completes a step's view once its sequences have moved on, and keeps it.
    pub(crate) fn keep_step(&mut self, step: Option<StepView>) {
        let (Some(mut step), Some(recorder)) = (step, &mut self.recorder) else {
            return;
        };
        let log = self.scheduler.log.as_mut().map(std::mem::take);
        let log = log.unwrap_or_default();
        for entry in &mut step.entries {
            let mut tokens = log.tokens.iter();
            let token = tokens.find(|(request, _)| request.0 == entry.request);
            entry.token = token.map(|&(_, time)| time);
        }
        step.preempted = log.preempted;
        step.preempted.truncate(ENTRIES_MAX);
        step.running = self.sequences.running.len();
        step.waiting = self.sequences.waiting.len();
        if recorder.steps.len() == STEPS_MAX {
            recorder.steps.pop_front();
        }
        recorder.steps.push_back(Arc::new(step));
    }
}

/// The slot of a running sequence, which has one.
fn slot(sequence: &Sequence) -> u32 {
    sequence.slot.map_or(0, |slot| slot.0)
}

fn step_entry(sequence: &Sequence, entry: &PlannedSequence) -> StepEntry {
    let is_new = entry.end() == sequence.tokens.len() && entry.start >= sequence.prompt_len();
    StepEntry {
        request: sequence.id.0,
        slot: entry.slot.0,
        start: entry.start,
        rows: entry.rows,
        phase: match is_new && entry.rows == 1 {
            true => Phase::Decode,
            false => Phase::Prefill,
        },
        token: None,
    }
}

fn running_view(sequence: &Sequence) -> RunningView {
    RunningView {
        request: sequence.id.0,
        slot: slot(sequence),
        prompt: sequence.prompt_len(),
        known: sequence.tokens.len(),
        computed: sequence.progress.computed,
        cached: sequence.usage.cached_tokens as usize,
        preemptions: sequence.usage.preemptions,
    }
}

fn waiting_view(sequence: &Sequence, now: Duration) -> WaitingView {
    WaitingView {
        request: sequence.id.0,
        tokens: sequence.progress.known,
        waited: now.saturating_sub(sequence.submitted_at),
        preemptions: sequence.usage.preemptions,
    }
}
