//! Floor 4: text in, text out. One facade over tokenizer, template, model and engine.
//!
//! A request is [prepared](Llm::prepare) (encoded, defaults resolved, every rule checked), then [started](Llm::start) once a
//! sample; the caller feeds the engine's events to the [`Generation`], on its own thread or task, and gets text back.
//!
//! Deliberately not here: HTTP, JSON of any API, async. `serve`, `cli` and `measure` use this crate.

mod chat;
mod constraint;
mod error;
mod generation;
mod info;
mod llm;
mod load;
mod output;
mod plan;
mod prepare;
mod request;
mod scope;
pub mod score;
mod tokenizer;

pub use constraint::ConstraintSpec;
pub use error::{LlmError, LlmResult};
pub use generation::Generation;
pub use info::ModelInfo;
pub use llm::{Llm, LlmParts, TokenizerFacts};
pub use load::{
    LOGIT_ROWS, LlmOptions, Loading, PROMPT_TOKENS_MAX, Scheduling, fingerprint, limits,
    workspace_bytes,
};
pub use output::{Delta, Finished, Output, TokenLogprob};
pub use plan::MemoryPlan;
pub use prepare::{LIMITS, Prepared, RequestLimits};
pub use request::{GenerateRequest, Input, SamplingOptions};
pub use scope::{SALT_BYTES_MAX, cache_scope};
pub use ucuz_engine::{
    BlockHash, BlockMap, BlockMark, CacheEvent, CacheListener, CacheScope, Clock, Closed,
    EngineView, Event, EventSink, FailureKind, FinishReason, Handle, Health, Histogram,
    HistogramValue, Latencies, Life, Phase, Pooling, Refusals, RequestClass, RunningView, Stats,
    StepEntry, StepView, SystemClock, TenantId, TokenTime, Usage, WaitingView, Watch, panic_text,
    plan_blocks, sequence_blocks,
};
pub use ucuz_tensor::cache::BLOCK_TOKENS;
pub use ucuz_text::tools::{Tool, ToolChoice, ToolEvent, ToolOffer};
pub use ucuz_text::{AnswerEvent, AnswerForm, AnswerParser, Content, GrammarSource, Message};
