//! From the engine's thread to the publisher: takes every batch at once, and forgets none of what it says.
//!
//! When it is full its oldest batches are folded into their net effect, so that whoever takes it can still tell what can
//! be found. The lock is held for one push or one take of what is there, never across work.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use ucuz_llm::{BlockHash, CacheEvent, CacheListener};

use super::mirror::Block;

/// How much waits for the publisher.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueueLimits {
    /// Batches: one a turn of the engine.
    pub batches: usize,
    /// Events of all batches; one takes about 250 bytes.
    pub events: usize,
}

impl QueueLimits {
    /// Hours of a busy engine, or 50 MB.
    pub(super) const STANDARD: Self = Self {
        batches: 100_000,
        events: 200_000,
    };
}

/// What batches do together.
#[derive(Debug, Default)]
pub(super) struct Net {
    /// Blocks that went; they may be in `stored` again.
    pub removed: HashSet<BlockHash>,
    /// Blocks that came and are still there.
    pub stored: HashMap<BlockHash, Block>,
}

impl Net {
    /// Adds what a later batch does.
    pub(super) fn fold(&mut self, batch: Vec<CacheEvent>) {
        for event in batch {
            match event {
                CacheEvent::Removed { hash } => {
                    if self.stored.remove(&hash).is_none() {
                        self.removed.insert(hash);
                    }
                }
                CacheEvent::Stored {
                    hash,
                    parent,
                    scope,
                    tokens,
                } => {
                    let block = Block {
                        parent,
                        scope,
                        tokens,
                    };
                    self.stored.insert(hash, block);
                }
            }
        }
    }
}

/// What was waiting.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Batches that are lost, but for `net`.
    pub num_lost: u64,
    /// What they did together; it happened before `batches`.
    pub net: Net,
    /// The others, oldest first.
    pub batches: VecDeque<Vec<CacheEvent>>,
}

#[derive(Debug, Default)]
struct State {
    waiting: Taken,
    num_events: usize,
}

/// Batches that wait for the publisher.
#[derive(Debug)]
pub(super) struct Queue {
    /// Held by the engine's thread and by the publisher.
    state: Mutex<State>,
    filled: Notify,
    limits: QueueLimits,
}

impl Queue {
    pub(super) fn new(limits: QueueLimits) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            filled: Notify::new(),
            limits,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, batch: Vec<CacheEvent>) {
        let mut state = self.lock();
        state.num_events += batch.len();
        state.waiting.batches.push_back(batch);
        while state.waiting.batches.len() > self.limits.batches
            || state.num_events > self.limits.events
        {
            let Some(oldest) = state.waiting.batches.pop_front() else {
                break;
            };
            state.num_events -= oldest.len();
            state.waiting.num_lost += 1;
            state.waiting.net.fold(oldest);
        }
        drop(state);
        self.filled.notify_one();
    }

    /// All that waits, if anything does.
    pub(super) fn try_take(&self) -> Option<Taken> {
        let mut state = self.lock();
        let State { waiting, .. } = std::mem::take(&mut *state);
        (waiting.num_lost > 0 || !waiting.batches.is_empty()).then_some(waiting)
    }

    /// All that waits, once something does.
    pub(super) async fn take(&self) -> Taken {
        loop {
            if let Some(taken) = self.try_take() {
                return taken;
            }
            self.filled.notified().await;
        }
    }
}

/// The engine's end of the queue.
pub(super) struct Listener(pub Arc<Queue>);

impl CacheListener for Listener {
    fn changed(&mut self, events: Vec<CacheEvent>) {
        self.0.push(events);
    }
}
