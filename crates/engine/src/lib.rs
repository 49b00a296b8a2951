//! Floor 3: many requests, one model, one thread. Token ids in, token ids out.
//!
//! Here: the [`Handle`] that everyone else holds, the scheduler (chunked prefill, mixed batches and preemption from one set
//! of numbers, [`Progress`]), the KV [`BlockPool`], the loop ([`Engine`]), the memory plan and, with the feature
//! `test-support`, a simulated runner. Deliberately not here: text, JSON, async, files, model mathematics.
//!
//! The engine thread owns sequences, blocks and runner; other threads reach it through the handle's inbox and are answered
//! through their own [`EventSink`]. Above this floor only `llm` and `serve` speak to it.

mod admit;
mod blocks;
mod cache_event;
mod clock;
mod commit;
mod constraint;
mod cost;
mod door;
mod engine;
mod error;
mod event;
mod forecast;
mod handle;
mod histogram;
mod memory;
mod model_runner;
mod plan;
mod prefix;
mod publish;
mod request;
mod runner;
mod scheduler;
mod sequence;
mod sequences;
#[cfg(any(test, feature = "test-support"))]
pub mod sim;
mod start;
mod stats;
mod tenants;
#[cfg(test)]
mod tests;
mod view;
mod warm;
mod watch;

pub use blocks::BlockPool;
pub use cache_event::{CacheEvent, CacheListener};
pub use clock::{Clock, SystemClock};
pub use constraint::{Allowed, Constraint, MaskError, TokenMask};
pub use cost::{StepCost, StepShape};
pub use door::Refusals;
pub use engine::{Engine, Turn};
pub use error::{FailureKind, SubmitError};
pub use event::{Closed, Event, EventSink, FinishReason, TokenEvent, TokenScore, Usage};
pub use forecast::Load;
pub use handle::{CloseReason, Handle, Health, Life, RequestId};
pub use histogram::{Histogram, HistogramValue, Latencies};
pub use memory::{MemoryTooSmall, longest_sequence, plan_blocks, sequence_blocks};
pub use plan::{PlannedSequence, StepPlan};

pub use prefix::{BlockHash, BlockTokens, CacheScope};
pub use publish::panic_text;
pub use request::{LOGPROBS_MAX, Pooling, Request, RequestClass};
pub use runner::Runner;
pub use sequence::Progress;
pub use start::EngineConfig;
pub use stats::{GroupStats, Stats, TenantStats, Totals};
pub use tenants::TenantId;
pub use view::{
    BlockCounts, BlockMap, BlockMark, CELLS_MAX, ENTRIES_MAX, EngineView, Phase, RunningView,
    STEPS_MAX, StepEntry, StepView, TokenTime, WAITING_MAX, WaitingView,
};
pub use watch::Watch;
