//! Constrained choices: which ids may come next, made beside the step. Token ids only; what a rule means is its maker's.
//!
//! Each constrained sequence has a [`TokenMask`], which lives on one thread of [`MaskWorkers`] and nowhere else. When a
//! token is committed the sequence sends it there and gets a new [`NextMask`]; the thread takes the token in and makes the
//! next set of ids while the engine thread runs the next step, whose sampler waits for it only when it comes to the row:
//!
//! ```text
//! engine   commit t(k-1) ─┬─ plan, embed, layers, head of step k ─── sample row ─ commit t(k)
//! masks                   └─ accept t(k-1), mask for k ─────────────────┘
//! ```
//!
//! A mask depends on the sequence's own tokens alone, so neither the batch nor a preemption changes it. What goes wrong
//! with it (an error, a panic, a lost thread) ends its sequence; no token is ever chosen without its mask.

use std::collections::HashMap;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};

use ucuz_tensor::sampling::RowMask;

use crate::publish::panic_text;

/// Stack of a thread that makes masks, bytes: rules nest as deep as their makers allow. Touched as far as it is used.
const STACK_BYTES: usize = 64 << 20;

/// A rule for what a request's tokens may be.
pub trait Constraint: Debug + Send + Sync {
    /// The state of one sequence before its first token; called on a thread for masks.
    fn start(&self) -> Box<dyn TokenMask>;
}

/// How far one sequence is in its rule.
pub trait TokenMask: Send {
    /// What may come after the tokens taken in so far.
    ///
    /// # Errors
    /// The rule cannot be followed any further.
    fn next(&mut self) -> Result<Allowed, MaskError>;

    /// Takes in the token that was chosen.
    ///
    /// # Errors
    /// As [`TokenMask::next`].
    fn accept(&mut self, token: u32) -> Result<(), MaskError>;
}

/// What may come next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allowed {
    /// These ids, end tokens among them where the text may end (bit `id % 32` of word `id / 32`); at least one.
    Ids(Box<[u32]>),
    /// Nothing: the text is complete.
    End,
}

/// Why a mask could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct MaskError {
    /// A sentence for people.
    pub why: String,
}

/// How a mask came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// There are ids to choose from.
    Choose,
    /// The text is complete.
    End,
    /// The rule leads nowhere; why.
    Broken(String),
    /// Following the rule failed, whatever the rule is; why.
    Fault(String),
}

/// The mask of one position, once it is made.
#[derive(Debug, Default)]
pub(crate) struct NextMask {
    /// Set before `row`.
    verdict: OnceLock<Verdict>,
    row: RowMask,
}

/// The duty to set a [`NextMask`]; dropped without, it sets a fault, so that nobody waits for ever.
struct Promise(Arc<NextMask>);

impl Promise {
    fn keep(self, outcome: Result<Allowed, Verdict>) {
        let (verdict, bits) = match outcome {
            Ok(Allowed::Ids(bits)) => (Verdict::Choose, bits),
            Ok(Allowed::End) => (Verdict::End, Box::default()),
            Err(verdict) => (verdict, Box::default()),
        };
        let _ = self.0.verdict.set(verdict);
        self.0.row.set(bits);
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        let lost = || Verdict::Fault("the thread that follows its constraint is gone".to_owned());
        self.0.verdict.get_or_init(lost);
        self.0.row.set([]);
    }
}

enum Job {
    Open(u64, Arc<dyn Constraint>, Promise),
    Accept(u64, u32, Promise),
    Close(u64),
}

/// A sequence's end of its constraint.
#[derive(Debug)]
pub(crate) struct Masking {
    id: u64,
    jobs: Sender<Job>,
    next: Arc<NextMask>,
}

impl Masking {
    /// Tells the token that was chosen; the mask after it is on its way.
    pub(crate) fn accept(&mut self, token: u32) {
        self.next = Arc::default();
        let promise = Promise(Arc::clone(&self.next));
        // A job that nobody takes is dropped, and with it its promise.
        let _ = self.jobs.send(Job::Accept(self.id, token, promise));
    }

    /// The mask of the next position, for the sampler to wait for.
    pub(crate) fn row(&self) -> &RowMask {
        &self.next.row
    }

    /// How the mask of the next position came out; `None` while it is being made.
    pub(crate) fn verdict(&self) -> Option<&Verdict> {
        self.next.verdict.get()
    }
}

impl Drop for Masking {
    fn drop(&mut self) {
        let _ = self.jobs.send(Job::Close(self.id));
    }
}

/// The threads that make masks; started with the first constrained request.
#[derive(Debug)]
pub(crate) struct MaskWorkers {
    threads: usize,
    senders: Vec<Sender<Job>>,
    next_id: u64,
}

impl MaskWorkers {
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            threads: threads.max(1),
            senders: Vec::new(),
            next_id: 0,
        }
    }

    /// Starts following `constraint`; the mask of the first position is on its way.
    pub(crate) fn open(&mut self, constraint: Arc<dyn Constraint>) -> Masking {
        let id = self.next_id;
        self.next_id += 1;
        let jobs = self.sender(id);
        let next: Arc<NextMask> = Arc::default();
        let _ = jobs.send(Job::Open(id, constraint, Promise(Arc::clone(&next))));
        Masking { id, jobs, next }
    }

    /// Way to the thread of sequence `id`; one that leads nowhere when the system gives no thread, and breaks its promises.
    fn sender(&mut self, id: u64) -> Sender<Job> {
        let index = (id % self.threads as u64) as usize;
        while self.senders.len() <= index {
            let (sender, inbox) = channel();
            let thread = std::thread::Builder::new()
                .name(format!("ucuz-masks-{}", self.senders.len()))
                .stack_size(STACK_BYTES);
            if let Err(error) = thread.spawn(move || work(inbox)) {
                tracing::error!(%error, "no thread for masks of constrained requests");
                return sender;
            }
            self.senders.push(sender);
        }
        self.senders[index].clone()
    }
}

/// Makes masks until the engine and all its sequences are gone.
fn work(inbox: Receiver<Job>) {
    let mut masks: HashMap<u64, Box<dyn TokenMask>> = HashMap::new();
    for job in inbox {
        match job {
            Job::Open(id, constraint, promise) => {
                let made = unwound(|| {
                    let mut mask = constraint.start();
                    let allowed = mask.next()?;
                    Ok((mask, allowed))
                });
                promise.keep(made.map(|(mask, allowed)| {
                    masks.insert(id, mask);
                    allowed
                }));
            }
            Job::Accept(id, token, promise) => {
                // Without an entry it failed before, and its sequence is about to end.
                let Some(mask) = masks.get_mut(&id) else {
                    continue;
                };
                let made = unwound(|| {
                    mask.accept(token)?;
                    mask.next()
                });
                if made.is_err() {
                    masks.remove(&id);
                }
                promise.keep(made);
            }
            Job::Close(id) => {
                masks.remove(&id);
            }
        }
    }
}

fn unwound<T>(make: impl FnOnce() -> Result<T, MaskError>) -> Result<T, Verdict> {
    match catch_unwind(AssertUnwindSafe(make)) {
        Ok(Ok(made)) => Ok(made),
        Ok(Err(error)) => Err(Verdict::Broken(error.to_string())),
        Err(panic) => Err(Verdict::Fault(format!(
            "following its constraint failed: {}; please report it",
            panic_text(panic.as_ref())
        ))),
    }
}
