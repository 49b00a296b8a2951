//! What is asked for: how long each answer gets.

use anyhow::{Result, ensure};
use serde::Serialize;

/// Output lengths of 64 requests as they come in practice: half of them below 18 tokens, one of 231.
pub const LENGTHS: [u32; 64] = [
    13, 9, 45, 6, 12, 6, 80, 69, 5, 18, 9, 8, 16, 15, 15, 8, 33, 12, 91, 9, 40, 25, 10, 23, 64, 67,
    18, 14, 40, 32, 13, 34, 28, 18, 19, 38, 13, 80, 21, 10, 231, 46, 4, 21, 15, 40, 4, 58, 7, 10,
    15, 27, 17, 16, 74, 17, 7, 11, 6, 40, 43, 47, 21, 11,
];

/// Most requests of a workload.
pub const REQUESTS_MAX: usize = 100_000;

/// Requests in the order in which they arrive; each has a prompt of the same size and an answer of its own length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Tokens of each answer.
    pub lengths: Vec<u32>,
    /// Tokens of each prompt.
    pub prompt_tokens: usize,
}

/// A workload in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WorkloadFacts {
    /// Requests.
    pub requests: usize,
    /// Tokens of all answers.
    pub tokens: u64,
    /// Half of the answers are at most this long.
    pub median: f64,
    /// Tokens of the longest answer.
    pub longest: u32,
    /// Tokens of each prompt.
    pub prompt_tokens: usize,
}

impl Workload {
    /// A workload within its limits.
    ///
    /// # Errors
    /// No requests or too many, an empty prompt or answer.
    pub fn new(lengths: Vec<u32>, prompt_tokens: usize) -> Result<Self> {
        let requests = lengths.len();
        ensure!(
            (1..=REQUESTS_MAX).contains(&requests),
            "there are {requests} output lengths; give 1 to {REQUESTS_MAX}"
        );
        ensure!(
            lengths.iter().all(|length| *length > 0),
            "an output length is 0; each must be at least 1 token"
        );
        ensure!(
            prompt_tokens > 0,
            "prompts have 0 tokens; give at least 1 with --prompt-tokens"
        );
        Ok(Self {
            lengths,
            prompt_tokens,
        })
    }

    /// Tokens of all answers.
    pub fn tokens(&self) -> u64 {
        self.lengths.iter().map(|length| u64::from(*length)).sum()
    }

    /// Tokens of the longest sequence, prompt and answer.
    pub fn longest(&self) -> usize {
        let longest = self.lengths.iter().max().copied().unwrap_or(0);
        self.prompt_tokens + longest as usize
    }

    /// Tokens in a sequence's cache when it computes an answer's token, in the mean over all of them.
    pub fn mean_context(&self) -> usize {
        let squares = self.lengths.iter().map(|&length| u64::from(length).pow(2));
        self.prompt_tokens + (squares.sum::<u64>() / (2 * self.tokens().max(1))) as usize
    }

    /// The workload in numbers.
    pub fn facts(&self) -> WorkloadFacts {
        let mut sorted = self.lengths.clone();
        sorted.sort_unstable();
        let half = sorted.len() / 2;
        let middle = match sorted.len() % 2 {
            0 => (f64::from(sorted[half - 1]) + f64::from(sorted[half])) / 2.0,
            _ => f64::from(sorted[half]),
        };
        WorkloadFacts {
            requests: sorted.len(),
            tokens: self.tokens(),
            median: middle,
            longest: sorted[sorted.len() - 1],
            prompt_tokens: self.prompt_tokens,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_skewed_as_it_says() {
        let workload = Workload::new(LENGTHS.to_vec(), 16).unwrap();
        let facts = workload.facts();
        assert_eq!(
            (facts.requests, facts.tokens, facts.longest),
            (64, 1874, 231)
        );
        assert_eq!(facts.median, 17.5);
        assert_eq!(workload.longest(), 247);
        // The long answers have most of the tokens: the mean token stands further behind than the mean answer is long.
        assert_eq!(workload.mean_context(), 16 + 33);
    }

    #[test]
    fn empty_workloads_are_refused() {
        for (lengths, prompt, told) in [
            (vec![], 1, "0 output lengths"),
            (vec![3, 0], 1, "output length is 0"),
            (vec![3], 0, "prompts have 0 tokens"),
        ] {
            let error = Workload::new(lengths, prompt).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }
}
