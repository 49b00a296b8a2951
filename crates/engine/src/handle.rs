//! The engine's door: what every other thread holds.
//!
//! Submitting and closing are messages; the engine thread answers through the request's [`EventSink`].

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use ucuz_tensor::CacheSpec;
use ucuz_tensor::backend::Limits;

use crate::clock::Clock;
use crate::door::{Door, Refusals, Shut};
use crate::error::SubmitError;
use crate::event::EventSink;
use crate::forecast::{Load, Newcomer};
use crate::histogram::Latencies;
use crate::memory::sequence_blocks;
use crate::request::Request;
use crate::sequence::Sequence;
use crate::stats::Stats;
use crate::view::EngineView;

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
    /// Since the last turn of the loop.
    pub last_step_age: Duration,
    /// Longest that the loop may take for the step it is in: three times what that step should take and what steps took
    /// of late.
    pub step_bound: Duration,
    /// Whether there is work to do.
    pub is_busy: bool,
}

impl Health {
    /// Whether new requests are taken.
    pub fn is_alive(&self) -> bool {
        self.life == Life::Serving
    }

    /// Whether the loop has work to do and does not move on.
    pub fn is_stalled(&self) -> bool {
        let is_at_work = matches!(self.life, Life::Serving | Life::Draining) && self.is_busy;
        is_at_work && self.last_step_age > self.step_bound
    }
}

/// What travels to the engine thread.
pub(crate) enum Message {
    Submit(Box<Sequence>),
    Close(RequestId, CloseReason),
    Drain,
    Shutdown,
    /// Somebody began to look, or the last one ceased to.
    Look,
}

/// What the engine thread publishes.
#[derive(Debug, Clone)]
pub(crate) struct Published {
    pub stats: Arc<Stats>,
    pub life: Life,
    pub turn_at: Duration,
    /// See [`Health::step_bound`].
    pub step_bound: Duration,
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
    /// Prompt tokens that may be inside at once.
    pub tokens_max: usize,
    /// First tokens are promised within this time, unless a request asks for another.
    pub first_token_within: Option<Duration>,
    /// What is inside: taken by `submit`, given back by the engine thread.
    pub door: Arc<Door>,
    /// How long requests and tokens took.
    pub latencies: Arc<Latencies>,
    pub is_draining: AtomicBool,
    pub next_id: AtomicU64,
    /// Replaced by the engine thread twice a turn, read by handles; neither waits for the other.
    pub published: ArcSwap<Published>,
    /// Who looks at [`Shared::view`].
    pub watchers: AtomicUsize,
    /// Replaced by the engine thread while there are watchers, else empty.
    pub view: ArcSwapOption<EngineView>,
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
        self.check_deadline(&request)?;
        let tokens = request.prompt.len();
        self.enter(tokens)?;
        let id = RequestId(self.shared.next_id.fetch_add(1, Ordering::Relaxed));
        request.stop_ids.sort_unstable();
        request.stop_ids.dedup();
        let groups = self.shared.blocks.len();
        let sequence = Sequence::new(id, request, sink, groups, self.shared.clock.now());
        match self.inbox.send(Message::Submit(Box::new(sequence))) {
            Ok(()) => Ok(id),
            Err(_) => Err(self.gone(tokens)),
        }
    }

    /// Whether `requests` more would find a place now; [`Handle::submit`] has the last word. A refusal is counted.
    ///
    /// # Errors
    /// [`SubmitError::Full`], [`SubmitError::Draining`], [`SubmitError::Dead`].
    pub fn check_room(&self, requests: usize) -> Result<(), SubmitError> {
        self.check_life()?;
        let door = &self.shared.door;
        match door.refuse_when_full(requests, self.shared.places) {
            Some(waiting) => Err(SubmitError::Full {
                waiting,
                retry_after_s: self.retry_after_s(),
            }),
            None => Ok(()),
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
        let published = self.shared.published.load();
        let is_draining = self.shared.is_draining.load(Ordering::Acquire);
        let life = match &published.life {
            Life::Serving if is_draining => Life::Draining,
            life => life.clone(),
        };
        // An idle loop that does not take what lies in its inbox stands still too.
        let inbox_since = self.shared.door.inbox_since();
        let busy_since = match inbox_since {
            Some(since) if !published.is_busy => since.max(published.turn_at),
            _ => published.turn_at,
        };
        Health {
            life,
            last_step_age: now.saturating_sub(busy_since),
            step_bound: published.step_bound,
            is_busy: published.is_busy || inbox_since.is_some(),
        }
    }

    /// The engine at the end of its last turn.
    pub fn stats(&self) -> Arc<Stats> {
        Arc::clone(&self.shared.published.load().stats)
    }

    /// Requests refused so far for want of room or time.
    pub fn refusals(&self) -> Refusals {
        self.shared.door.refusals()
    }

    /// How long requests and tokens took; written as it is read.
    pub fn latencies(&self) -> &Latencies {
        &self.shared.latencies
    }

    /// Seconds after which the work that is inside now should be done, 1 to 3600.
    fn retry_after_s(&self) -> u32 {
        self.load().retry_after_s()
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

    /// Whether the engine thread has ended.
    pub fn has_ended(&self) -> bool {
        let thread = lock(&self.shared.thread);
        thread.as_ref().is_none_or(JoinHandle::is_finished)
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
        if matches!(self.shared.published.load().life, Life::Dead(_)) {
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

    /// A first token that cannot be there in time is refused while the client can still go elsewhere.
    fn check_deadline(&self, request: &Request) -> Result<(), SubmitError> {
        let asked = request.class.first_token_within;
        let Some(within) = asked.or(self.shared.first_token_within) else {
            return Ok(());
        };
        let load = self.load();
        let expected_s = load.first_token_s(self.newcomer(request));
        if expected_s <= within.as_secs_f64() {
            return Ok(());
        }
        self.shared.door.refuse_late();
        Err(SubmitError::Late {
            expected_ms: (expected_s * 1e3) as u64,
            within_ms: within.as_millis() as u64,
            retry_after_s: load.retry_after_s(),
        })
    }

    fn newcomer(&self, request: &Request) -> Newcomer {
        let stats = self.stats();
        let own = stats.tenant(request.class.tenant);
        let others = stats.tenants.len() - usize::from(own.is_some());
        let own = own.unwrap_or_default();
        let most = stats.tenants.iter().map(|tenant| tenant.running).max();
        let (inbox, _) = self.shared.door.inbox();
        Newcomer {
            prompt: request.prompt.len(),
            // Those whom the engine has not seen may be of the same tenant.
            own_waiting: own.waiting + inbox,
            tenants: others + 1,
            takes_slot: own.waiting + inbox == 0 && own.running + 1 < most.unwrap_or(0),
        }
    }

    /// What is inside, with what the engine thread has not seen yet.
    fn load(&self) -> Load {
        let (requests, tokens) = self.shared.door.inbox();
        self.stats().load.with_inbox(requests, tokens)
    }

    fn enter(&self, prompt: usize) -> Result<(), SubmitError> {
        let shared = &self.shared;
        let room = (shared.places, shared.tokens_max);
        let entered = shared.door.enter(prompt, room, shared.clock.now());
        entered.map_err(|shut| match shut {
            Shut::Requests(waiting) => SubmitError::Full {
                waiting,
                retry_after_s: self.retry_after_s(),
            },
            Shut::Tokens(inside) => SubmitError::FullOfTokens {
                prompt,
                inside,
                limit: shared.tokens_max,
                retry_after_s: self.retry_after_s(),
            },
        })
    }

    fn gone(&self, tokens: usize) -> SubmitError {
        self.shared.door.seen(tokens);
        self.shared.door.leave(tokens);
        match self.check_life() {
            Err(SubmitError::Draining) => SubmitError::Draining,
            _ => SubmitError::Dead,
        }
    }
}
