//! What leaves the engine, and the door it leaves through.

use crate::error::FailureKind;

/// The receiver is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the receiver of this request's events is gone")]
pub struct Closed;

/// Where one request's events go; called on the engine thread.
///
/// The last event is `Done` or `Failed`, then the sink is dropped. A sink dropped without either means that the engine
/// ended before it took the request over.
pub trait EventSink: Send {
    /// Hands over one event and never waits: capacity for `max_tokens + 2` events is the receiver's business.
    ///
    /// # Errors
    /// [`Closed`] when nobody listens any more; the engine then ends the request.
    fn send(&mut self, event: Event) -> Result<(), Closed>;

    /// Whether nobody listens any more; asked once a step, for waiting requests too.
    fn is_closed(&self) -> bool;
}

/// One message about one request.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Log-probabilities of every prompt token after the first; once, before the first token, if asked for.
    PromptScored(Vec<TokenScore>),
    /// The prompt as one vector, `[hidden]`, if that was asked for; nothing but the end follows.
    Pooled(Vec<f32>),
    /// The next token.
    Token(TokenEvent),
    /// The request ended as it should.
    Done {
        /// Why it ended.
        reason: FinishReason,
        /// What it took.
        usage: Usage,
    },
    /// The request ended by a fault.
    Failed {
        /// What broke.
        kind: FailureKind,
        /// A sentence for people.
        text: String,
    },
}

/// A sampled token.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenEvent {
    /// Its id.
    pub id: u32,
    /// Natural log-probability under the raw logits, if asked for.
    pub logprob: Option<f32>,
    /// The likeliest ids and their log-probabilities, likeliest first, if asked for.
    pub top: Vec<(u32, f32)>,
}

/// A prompt token's log-probability given the tokens before it.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenScore {
    /// Its id.
    pub id: u32,
    /// Natural log-probability under the raw logits.
    pub logprob: f32,
    /// The likeliest ids in its place, likeliest first, as many as asked for.
    pub top: Vec<(u32, f32)>,
}

/// Why a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FinishReason {
    /// A stop id was sampled, which is neither sent nor counted; or the constraint allows nothing after what was sent.
    Stop,
    /// `max_tokens` were sampled (at once, when none were asked for).
    Length,
    /// [`crate::Handle::close`] was called, or the sink was closed.
    Closed,
}

/// What a request took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Prompt tokens found in the prefix cache when the request was first admitted.
    pub cached_tokens: u32,
    /// Tokens sent; after [`crate::CloseReason::StopString`] the tokens accepted.
    pub completion_tokens: u32,
    /// How often the request gave up its blocks and was recomputed.
    pub preemptions: u32,
    /// From submit to first running, ms.
    pub queue_ms: u64,
    /// From submit to the first token, ms; 0 when there was none.
    pub first_token_ms: u64,
    /// From submit to the end, ms.
    pub total_ms: u64,
}
