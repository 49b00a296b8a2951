//! What became of each request, and what that is in the mean.

use serde::Serialize;

/// A request as it comes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request {
    /// When, in seconds (or steps).
    pub arrival: f64,
    /// Tokens that it gets.
    pub tokens: u32,
}

/// Who shares a step with whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// A batch is formed from what waits and runs until its longest member has ended; members that ended are computed on,
    /// as padding.
    StaticPadded,
    /// The same, but members that ended leave the computation; their slots stay empty until the batch has ended.
    StaticLeaving,
    /// A slot that becomes free is given away in the next step.
    Continuous,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::StaticPadded, Self::StaticLeaving, Self::Continuous];

    /// Name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::StaticPadded => "static, padded",
            Self::StaticLeaving => "static, leaving",
            Self::Continuous => "continuous",
        }
    }
}

/// When a request counts as answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// When it is handed back: with its batch under a static policy.
    Batch,
    /// When its own last token is there.
    LastToken,
    /// When its first token is there.
    FirstToken,
}

/// One request's life.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Served {
    /// When it came.
    pub arrival_s: f64,
    /// When its first step began.
    pub started_s: f64,
    /// When its first token was there.
    pub first_token_s: f64,
    /// When its own last token was there.
    pub last_token_s: f64,
    /// When its slot was free again and, under a static policy, its batch handed back.
    pub released_s: f64,
    /// The slot it had.
    pub slot: usize,
    /// Tokens it got.
    pub tokens: u32,
}

impl Served {
    fn heard(&self, heard: Heard) -> f64 {
        match heard {
            Heard::Batch => self.released_s,
            Heard::LastToken => self.last_token_s,
            Heard::FirstToken => self.first_token_s,
        }
    }
}

/// All requests of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// In the order of arrival.
    pub served: Vec<Served>,
    /// Steps that were computed.
    pub steps: u64,
}

impl Outcome {
    /// From the first arrival to the last release.
    pub fn makespan_s(&self) -> f64 {
        let first = self.served.iter().map(|served| served.arrival_s);
        let last = self.served.iter().map(|served| served.released_s);
        last.fold(0.0, f64::max) - first.fold(f64::INFINITY, f64::min)
    }

    /// Tokens that somebody wanted, a second.
    pub fn tokens_per_s(&self) -> f64 {
        let tokens: u64 = self.served.iter().map(|s| u64::from(s.tokens)).sum();
        tokens as f64 / self.makespan_s()
    }

    /// Requests a second.
    pub fn requests_per_s(&self) -> f64 {
        self.served.len() as f64 / self.makespan_s()
    }

    /// Mean time from arrival to what counts as the answer.
    pub fn latency_s(&self, heard: Heard) -> f64 {
        let waits = self.served.iter().map(|s| s.heard(heard) - s.arrival_s);
        waits.sum::<f64>() / self.served.len() as f64
    }
}
