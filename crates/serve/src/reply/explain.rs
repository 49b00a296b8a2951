//! What became of a request inside, for who asks with `"explain": true`.

use serde::Serialize;
use ucuz_llm::Usage;

/// One choice's way through the engine. Times in ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Explanation {
    /// Which choice.
    index: usize,
    /// From arrival to a slot.
    queue_ms: u64,
    /// From arrival to the first token.
    first_token_ms: u64,
    /// From arrival to the end.
    total_ms: u64,
    prompt_tokens: u32,
    /// Prompt tokens found in the prefix cache.
    cached_tokens: u32,
    completion_tokens: u32,
    /// How often it gave up its blocks for others.
    preemptions: u32,
}

impl Explanation {
    pub(super) fn new(index: usize, usage: &Usage) -> Self {
        Self {
            index,
            queue_ms: usage.queue_ms,
            first_token_ms: usage.first_token_ms,
            total_ms: usage.total_ms,
            prompt_tokens: usage.prompt_tokens,
            cached_tokens: usage.cached_tokens,
            completion_tokens: usage.completion_tokens,
            preemptions: usage.preemptions,
        }
    }
}
