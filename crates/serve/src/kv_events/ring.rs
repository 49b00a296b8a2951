//! The newest batches of an endpoint, numbered: what is replayed, and the one buffer of all its subscribers.

use std::collections::VecDeque;

use bytes::Bytes;

/// How much a ring keeps.
#[derive(Debug, Clone, Copy)]
pub(super) struct RingLimits {
    pub batches: usize,
    /// Bytes of all payloads.
    pub bytes: usize,
}

impl RingLimits {
    /// As many batches as vLLM keeps, unless they are large.
    pub(super) const STANDARD: Self = Self {
        batches: 10_000,
        bytes: 64 << 20,
    };
}

/// Batches in the order of their numbers, without a gap.
#[derive(Debug)]
pub(super) struct Ring {
    payloads: VecDeque<Bytes>,
    /// Number of the oldest.
    first: u64,
    bytes: usize,
    limits: RingLimits,
}

/// A piece of a ring.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Number of the first; later than what was asked for if that is gone.
    pub first: u64,
    pub payloads: Vec<Bytes>,
}

impl Ring {
    pub(super) fn new(limits: RingLimits) -> Self {
        Self {
            payloads: VecDeque::new(),
            first: 0,
            bytes: 0,
            limits,
        }
    }

    /// Keeps a batch, at the cost of the oldest ones.
    pub(super) fn push(&mut self, payload: Bytes) {
        self.bytes += payload.len();
        self.payloads.push_back(payload);
        while self.payloads.len() > self.limits.batches
            || (self.bytes > self.limits.bytes && self.payloads.len() > 1)
        {
            let oldest = self.payloads.pop_front().unwrap_or_default();
            self.bytes -= oldest.len();
            self.first += 1;
        }
    }

    /// Number of the batch to come.
    pub(super) fn end(&self) -> u64 {
        self.first + self.payloads.len() as u64
    }

    /// Batches from number `from` on, or the oldest: about `bytes` of them, at least one if there is one.
    pub(super) fn chunk(&self, from: u64, bytes: usize) -> Chunk {
        let first = from.max(self.first);
        let skipped = usize::try_from(first - self.first).unwrap_or(usize::MAX);
        let mut left = bytes;
        let mut payloads = Vec::new();
        for payload in self.payloads.iter().skip(skipped) {
            payloads.push(payload.clone());
            if payload.len() >= left {
                break;
            }
            left -= payload.len();
        }
        Chunk { first, payloads }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(chunk: &Chunk) -> (u64, Vec<u8>) {
        (chunk.first, chunk.payloads.iter().map(|p| p[0]).collect())
    }

    #[test]
    fn the_newest_stay_within_both_limits() {
        let limits = RingLimits {
            batches: 4,
            bytes: 100,
        };
        let mut ring = Ring::new(limits);
        assert_eq!(numbers(&ring.chunk(0, 1000)), (0, vec![]));
        for batch in 0..6 {
            ring.push(vec![batch; 10].into());
        }
        assert_eq!((ring.first, ring.end(), ring.bytes), (2, 6, 40));
        for (from, bytes, expected) in [
            (0, 1000, (2, vec![2, 3, 4, 5])),
            (3, 1000, (3, vec![3, 4, 5])),
            (3, 11, (3, vec![3, 4])),
            (3, 0, (3, vec![3])),
            (6, 1000, (6, vec![])),
            (u64::MAX, 1000, (u64::MAX, vec![])),
        ] {
            assert_eq!(numbers(&ring.chunk(from, bytes)), expected, "{from}");
        }
        ring.push(vec![6; 90].into());
        assert_eq!(numbers(&ring.chunk(0, 1000)), (5, vec![5, 6]));
        ring.push(vec![7; 900].into());
        assert_eq!(numbers(&ring.chunk(0, 1000)), (7, vec![7]));
    }
}
