//! Why a request is refused or fails.

/// Why [`crate::Handle::submit`] refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// As many requests run and wait as may.
    #[error(
        "{waiting} requests are already running or waiting, which is the limit; retry in {retry_after_s} s"
    )]
    Full {
        /// Requests inside.
        waiting: usize,
        /// Estimate from the backlog, at least 1, seconds.
        retry_after_s: u32,
    },
    /// As many prompt tokens are inside as may.
    #[error(
        "prompt has {prompt} tokens, {inside} are already running or waiting and the limit is {limit}; retry in {retry_after_s} s"
    )]
    FullOfTokens {
        /// Tokens of the prompt.
        prompt: usize,
        /// Prompt tokens inside.
        inside: usize,
        /// Most that may be inside.
        limit: usize,
        /// Estimate from the backlog, at least 1, seconds.
        retry_after_s: u32,
    },
    /// The first token would come too late.
    #[error(
        "the first token is expected in {expected_ms} ms, the request wants it within {within_ms} ms; retry in {retry_after_s} s"
    )]
    Late {
        /// Forecast, ms.
        expected_ms: u64,
        /// What the request or the server asks for, ms.
        within_ms: u64,
        /// Estimate from the backlog, at least 1, seconds.
        retry_after_s: u32,
    },
    /// The longest possible result does not fit the context.
    #[error(
        "prompt has {prompt} tokens and max_tokens is {max_tokens}: together more than the context of {limit}; shorten the prompt, lower max_tokens or raise --context"
    )]
    TooLong {
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens asked for.
        max_tokens: usize,
        /// Longest sequence served.
        limit: usize,
    },
    /// The longest possible result does not fit the whole KV pool.
    #[error(
        "the request may need {needs} KV blocks of 32 tokens and the pool has {has}; raise --kv-memory or lower max_tokens"
    )]
    LargerThanPool {
        /// Blocks of the tightest group that the request may need at once.
        needs: usize,
        /// Blocks of that group.
        has: usize,
    },
    /// The engine ends and takes nothing new.
    #[error("the server is shutting down; send the request to another one")]
    Draining,
    /// The engine died.
    #[error("the engine stopped after a fault; restart the server")]
    Dead,
    /// A field breaks a rule.
    #[error("{field} is {value}, but must be {rule}")]
    Invalid {
        /// Which field.
        field: &'static str,
        /// What it held.
        value: String,
        /// What it must hold.
        rule: String,
    },
}

/// What broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// This request's logits; other requests go on.
    Row,
    /// This request's constraint cannot be followed any further, which is the request's own fault; others go on.
    Constraint,
    /// A step failed twice with this request in it.
    Step,
    /// The device; the engine is dead.
    Device,
    /// A bug; the engine is dead.
    Engine,
}
