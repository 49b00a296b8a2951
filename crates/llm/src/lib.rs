//! Floor 4: text in, text out. One facade over tokenizer, template, model and engine.
//!
//! A request is [prepared](Llm::prepare) (encoded, defaults resolved, every rule checked), then [started](Llm::start) once a
//! sample; the caller feeds the engine's events to the [`Generation`], on its own thread or task, and gets text back.
//!
//! Deliberately not here: HTTP, JSON of any API, async. `serve`, `cli` and `measure` use this crate.

mod error;
mod generation;
mod info;
mod llm;
mod load;
mod output;
mod prepare;
mod request;
pub mod score;
mod tokenizer;

pub use error::{LlmError, LlmResult};
pub use generation::Generation;
pub use info::ModelInfo;
pub use llm::{Llm, LlmParts};
pub use load::{LOGIT_ROWS, LlmOptions, Loading, fingerprint, limits, workspace_bytes};
pub use output::{Delta, Finished, Output, TokenLogprob};
pub use prepare::{LIMITS, Prepared, RequestLimits};
pub use request::{GenerateRequest, Input, SamplingOptions};
pub use ucuz_engine::{
    Clock, Closed, Event, EventSink, FailureKind, FinishReason, Handle, Health, Life, Stats,
    SystemClock, Usage, plan_blocks, sequence_blocks,
};
pub use ucuz_text::{Content, Message};
