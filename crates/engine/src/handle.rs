//! The engine's door: what every other thread holds.
//!
//! Submitting and closing are messages; the engine thread answers through the request's [`EventSink`].

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ucuz_tensor::CacheSpec;
use ucuz_tensor::backend::Limits;

use crate::clock::Clock;
use crate::error::SubmitError;
use crate::event::EventSink;
use crate::memory::sequence_blocks;
use crate::request::Request;
use crate::sequence::Sequence;
use crate::stats::Stats;

/// Names a request for as long as the process lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// Why a request is closed from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// A stop string was found; tokens after the first `accepted_tokens` are not in the usage.
    StopString {
        /// Tokens that count.
        accepted_tokens: u32,
    },
    /// Somebody asked for it.
    Cancelled,
    /// The client went away.
    Disconnected,
}

/// State of the engine thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Life {
    /// It takes requests.
    Serving,
    /// It finishes what it has.
    Draining,
    /// It ended as asked.
    Stopped,
    /// It ended by a fault, told here.
    Dead(String),
}

/// Answer to "are you well?".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// State of the engine thread.
    pub life: Life,
    /// Since the last turn of the loop; long and with work to do means stuck.
    pub last_step_age: Duration,
    /// Whether there is work to do.
    pub is_busy: bool,
}

impl Health {
    /// Whether new requests are taken.
    pub fn is_alive(&self) -> bool {
        self.life == Life::Serving
    }
}

/// What travels to the engine thread.
pub(crate) enum Message {
    Submit(Box<Sequence>),
    Close(RequestId, CloseReason),
    Drain,
    Shutdown,
}

/// What the engine thread publishes.
#[derive(Debug)]
pub(crate) struct Published {
    pub stats: Stats,
    pub life: Life,
    pub turn_at: Duration,
    pub is_busy: bool,
}

/// Held by the engine thread and all handles.
pub(crate) struct Shared {
    pub clock: Arc<dyn Clock>,
    pub limits: Limits,
    pub cache: CacheSpec,
    pub blocks: Vec<usize>,
    /// Requests that may be inside at once.
    pub places: usize,
    /// Requests inside: taken by `submit`, given back by the engine thread.
    pub inside: Arc<AtomicUsize>,
    pub is_draining: AtomicBool,
    pub next_id: AtomicU64,
    /// Written by the engine thread once a turn, read by handles; nobody holds it across a call.
    pub published: Mutex<Published>,
    /// Taken by the first `join`.
    pub thread: Mutex<Option<JoinHandle<()>>>,
}

/// Locks; a poisoned lock still holds whole values, since every writer stores them in one piece.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The engine, as seen from any other thread. When the last handle is dropped, the engine finishes its work and ends.
#[derive(Clone)]
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) inbox: Sender<Message>,
}

impl Handle {
    /// Hands a request over; never waits.
    ///
    /// # Errors
    /// [`SubmitError`]; nothing was taken, and `sink` is dropped.
    pub fn submit(
        &self,
        mut request: Request,
        sink: Box<dyn EventSink>,
    ) -> Result<RequestId, SubmitError> {
        self.check_life()?;
        request.check(&self.shared.limits)?;
        self.check_size(&request)?;
        self.take_place()?;
        let id = RequestId(self.shared.next_id.fetch_add(1, Ordering::Relaxed));
        request.stop_ids.sort_unstable();
        request.stop_ids.dedup();
        let groups = self.shared.blocks.len();
        let sequence = Sequence::new(id, request, sink, groups, self.shared.clock.now());
        match self.inbox.send(Message::Submit(Box::new(sequence))) {
            Ok(()) => Ok(id),
            Err(_) => Err(self.gone()),
        }
    }

    /// Ends a request; nothing happens when it has ended already.
    ///
    /// The sink gets `Done` with [`crate::FinishReason::Closed`], unless it is closed or the request ended first.
    pub fn close(&self, id: RequestId, reason: CloseReason) {
        // A dead engine has ended the request already.
        let _ = self.inbox.send(Message::Close(id, reason));
    }

    /// State of the engine thread.
    pub fn health(&self) -> Health {
        let now = self.shared.clock.now();
        let published = lock(&self.shared.published);
        let is_draining = self.shared.is_draining.load(Ordering::Acquire);
        let life = match &published.life {
            Life::Serving if is_draining => Life::Draining,
            life => life.clone(),
        };
        Health {
            life,
            last_step_age: now.saturating_sub(published.turn_at),
            is_busy: published.is_busy,
        }
    }

    /// The engine at the end of its last turn.
    pub fn stats(&self) -> Stats {
        lock(&self.shared.published).stats.clone()
    }

    /// Sizes of the runner.
    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// Takes nothing new; what is inside runs to its end, then the engine thread ends.
    pub fn drain(&self) {
        self.shared.is_draining.store(true, Ordering::Release);
        let _ = self.inbox.send(Message::Drain);
    }

    /// Takes nothing new and cancels what is inside.
    pub fn shutdown(&self) {
        self.shared.is_draining.store(true, Ordering::Release);
        let _ = self.inbox.send(Message::Shutdown);
    }

    /// Waits until the engine thread has ended; call [`Handle::drain`] or [`Handle::shutdown`] first.
    pub fn join(&self) {
        let thread = lock(&self.shared.thread).take();
        if let Some(thread) = thread {
            // The thread catches its panics and publishes them as `Life::Dead`.
            let _ = thread.join();
        }
    }

    fn check_life(&self) -> Result<(), SubmitError> {
        if matches!(lock(&self.shared.published).life, Life::Dead(_)) {
            return Err(SubmitError::Dead);
        }
        match self.shared.is_draining.load(Ordering::Acquire) {
            true => Err(SubmitError::Draining),
            false => Ok(()),
        }
    }

    /// The oldest request must always fit alone: that is what rules out livelock.
    fn check_size(&self, request: &Request) -> Result<(), SubmitError> {
        let shared = &self.shared;
        let tokens = request.prompt.len() + (request.max_tokens as usize).saturating_sub(1);
        for (group, &has) in shared.cache.groups.iter().zip(&shared.blocks) {
            let needs = sequence_blocks(group, tokens, shared.limits.step_rows);
            if needs > has {
                return Err(SubmitError::LargerThanPool { needs, has });
            }
        }
        Ok(())
    }

    fn take_place(&self) -> Result<(), SubmitError> {
        let places = self.shared.places;
        let take = |inside: usize| (inside < places).then_some(inside + 1);
        match self
            .shared
            .inside
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take)
        {
            Ok(_) => Ok(()),
            Err(waiting) => Err(SubmitError::Full {
                waiting,
                retry_after_s: self.stats().retry_after_s(),
            }),
        }
    }

    fn gone(&self) -> SubmitError {
        self.shared.inside.fetch_sub(1, Ordering::AcqRel);
        match self.check_life() {
            Err(SubmitError::Draining) => SubmitError::Draining,
            _ => SubmitError::Dead,
        }
    }
}
