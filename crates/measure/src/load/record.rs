//! What is kept of each request.

use std::io::{self, Write};

use serde::Serialize;

/// How a request ended; exactly one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A whole answer with a finish reason.
    Ok,
    /// Status 429 or 503: the server says it is full or not ready.
    Refused,
    /// Another status than 200.
    HttpError,
    /// The server reports an error within the stream, or sends an event that is no completion chunk.
    ErrorEvent,
    /// The connection or the stream ended without a finish reason.
    CutOff,
    /// The client's time limit.
    Timeout,
    /// The client hung up on purpose.
    Disconnected,
    /// No connection.
    Unreachable,
}

impl Outcome {
    /// All, in the order of reports.
    pub const ALL: [Self; 8] = [
        Self::Ok,
        Self::Refused,
        Self::HttpError,
        Self::ErrorEvent,
        Self::CutOff,
        Self::Timeout,
        Self::Disconnected,
        Self::Unreachable,
    ];

    /// The name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Refused => "refused",
            Self::HttpError => "http_error",
            Self::ErrorEvent => "error_event",
            Self::CutOff => "cut_off",
            Self::Timeout => "timeout",
            Self::Disconnected => "disconnected",
            Self::Unreachable => "unreachable",
        }
    }

    /// Whether something went wrong that nobody asked for: neither an answer, nor a refusal, nor a hang-up on purpose.
    pub fn is_failure(self) -> bool {
        !matches!(self, Self::Ok | Self::Refused | Self::Disconnected)
    }
}

/// Where a client hangs up on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// No headers of the answer yet.
    BeforeHeaders,
    /// Headers, but no text yet.
    Prefill,
    /// Some of the answer.
    Decode,
}

/// When things happened, in seconds since the start of the run, on a clock that never goes back.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Times {
    /// When the request was due. In a closed loop that is when it was sent.
    pub intended_s: f64,
    /// When the client began to connect and send.
    pub sent_s: f64,
    /// When there was a connection.
    pub connected_s: Option<f64>,
    /// When the headers of the answer were there.
    pub headers_s: Option<f64>,
    /// The first event with text.
    pub first_s: Option<f64>,
    /// The last event with text.
    pub last_s: Option<f64>,
    /// When it was over.
    pub end_s: f64,
    /// Each event with text, the first and the last included.
    pub events_s: Vec<f64>,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Record {
    /// Its number in the schedule, from 0.
    pub index: u64,
    /// Number of the tenant whose key it carried.
    pub class: usize,
    /// How it ended.
    pub outcome: Outcome,
    /// Status of the answer.
    pub status: Option<u16>,
    /// The header `Retry-After`, as it was sent.
    pub retry_after: Option<String>,
    /// Why the answer ended.
    pub finish_reason: Option<String>,
    /// What went wrong, in words.
    pub detail: Option<String>,
    /// Where the client hung up on purpose.
    pub hung_up: Option<Stage>,
    /// Tokens of the prompt that was made.
    pub asked_prompt_tokens: usize,
    /// Tokens that were asked for.
    pub asked_output_tokens: usize,
    /// Tokens of the prompt by the server's count.
    pub prompt_tokens: Option<u64>,
    /// Those of them that came out of a cache, where the server tells.
    pub cached_tokens: Option<u64>,
    /// Tokens of the answer by the server's count; without it, count events.
    pub output_tokens: Option<u64>,
    /// When.
    #[serde(flatten)]
    pub times: Times,
}

impl Record {
    /// Time to the first text, from when the request was due.
    pub fn ttft_s(&self) -> Option<f64> {
        Some(self.times.first_s? - self.times.intended_s)
    }

    /// The whole time, from when the request was due.
    pub fn e2e_s(&self) -> f64 {
        self.times.end_s - self.times.intended_s
    }

    /// Time per token after the first; `None` with fewer than two.
    pub fn tpot_s(&self) -> Option<f64> {
        let span = self.times.last_s? - self.times.first_s?;
        let tokens = self.tokens();
        (tokens > 1).then(|| span / (tokens - 1) as f64)
    }

    /// Tokens of the answer: the server's count, else events with text.
    pub fn tokens(&self) -> u64 {
        let events = self.times.events_s.len() as u64;
        self.output_tokens.unwrap_or(events)
    }

    /// How late the client was.
    pub fn client_delay_s(&self) -> f64 {
        self.times.sent_s - self.times.intended_s
    }

    /// Seconds of `Retry-After`; `None` without the header, or where it is a date.
    pub fn retry_after_s(&self) -> Option<u64> {
        self.retry_after.as_ref()?.trim().parse().ok()
    }
}

/// Writes records as JSON, one a line, in the order given.
///
/// # Errors
/// Of writing.
pub fn write_records(out: &mut dyn Write, records: &[Record]) -> io::Result<()> {
    for record in records {
        serde_json::to_writer(&mut *out, record)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}
