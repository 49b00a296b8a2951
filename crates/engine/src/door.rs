//! Who may come in: places and tokens, counted by those who submit and by the engine thread.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Counts of what is inside, and of what was refused. Shared by handles and the engine thread.
#[derive(Debug, Default)]
pub(crate) struct Door {
    /// Requests inside: submitted and not ended.
    requests: AtomicUsize,
    /// Their prompt tokens.
    tokens: AtomicUsize,
    /// Requests submitted and not yet seen by the engine thread.
    inbox_requests: AtomicUsize,
    /// Their prompt tokens.
    inbox_tokens: AtomicUsize,
    /// Refused because all places were taken.
    refused_full: AtomicU64,
    /// Refused because their prompt did not fit beside the others.
    refused_tokens: AtomicU64,
    /// Refused because their first token would have come too late.
    refused_late: AtomicU64,
}

/// How many requests were refused for want of room or time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Refusals {
    /// All places were taken.
    pub full: u64,
    /// The prompt did not fit beside the others'.
    pub tokens: u64,
    /// The first token would have come too late.
    pub late: u64,
}

/// Why the door stays shut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shut {
    /// Requests inside.
    Requests(usize),
    /// Prompt tokens inside.
    Tokens(usize),
}

impl Door {
    /// Takes a place for a prompt of `tokens`, within `places` requests and `room` tokens. A request alone always fits.
    pub(crate) fn enter(&self, tokens: usize, places: usize, room: usize) -> Result<(), Shut> {
        let take = |inside: usize| (inside < places).then_some(inside + 1);
        if let Err(inside) = update(&self.requests, take) {
            self.refused_full.fetch_add(1, Ordering::Relaxed);
            return Err(Shut::Requests(inside));
        }
        let add = |inside: usize| {
            let sum = inside.saturating_add(tokens);
            (sum <= room || inside == 0).then_some(sum)
        };
        if let Err(inside) = update(&self.tokens, add) {
            self.requests.fetch_sub(1, Ordering::AcqRel);
            self.refused_tokens.fetch_add(1, Ordering::Relaxed);
            return Err(Shut::Tokens(inside));
        }
        self.inbox_requests.fetch_add(1, Ordering::AcqRel);
        self.inbox_tokens.fetch_add(tokens, Ordering::AcqRel);
        Ok(())
    }

    /// The requests inside when none of `places` is left; counts as a refusal.
    pub(crate) fn is_full(&self, places: usize) -> Option<usize> {
        let inside = self.requests.load(Ordering::Acquire);
        (inside >= places).then(|| {
            self.refused_full.fetch_add(1, Ordering::Relaxed);
            inside
        })
    }

    /// The engine thread has seen a request.
    pub(crate) fn seen(&self, tokens: usize) {
        self.inbox_requests.fetch_sub(1, Ordering::AcqRel);
        self.inbox_tokens.fetch_sub(tokens, Ordering::AcqRel);
    }

    /// A request has ended.
    pub(crate) fn leave(&self, tokens: usize) {
        self.requests.fetch_sub(1, Ordering::AcqRel);
        self.tokens.fetch_sub(tokens, Ordering::AcqRel);
    }

    /// A request was refused for its deadline.
    pub(crate) fn refuse_late(&self) {
        self.refused_late.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests and prompt tokens that the engine thread has not seen.
    pub(crate) fn inbox(&self) -> (usize, usize) {
        let requests = self.inbox_requests.load(Ordering::Acquire);
        (requests, self.inbox_tokens.load(Ordering::Acquire))
    }

    pub(crate) fn refusals(&self) -> Refusals {
        Refusals {
            full: self.refused_full.load(Ordering::Relaxed),
            tokens: self.refused_tokens.load(Ordering::Relaxed),
            late: self.refused_late.load(Ordering::Relaxed),
        }
    }
}

fn update(count: &AtomicUsize, change: impl FnMut(usize) -> Option<usize>) -> Result<usize, usize> {
    count.fetch_update(Ordering::AcqRel, Ordering::Acquire, change)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_tokens_are_given_back_and_nobody_is_too_large_alone() {
        let door = Door::default();
        assert_eq!(door.enter(100, 2, 50), Ok(()));
        assert_eq!(door.enter(1, 2, 50), Err(Shut::Tokens(100)));
        door.seen(100);
        door.leave(100);
        assert_eq!(door.enter(20, 2, 50), Ok(()));
        assert_eq!(door.enter(30, 2, 50), Ok(()));
        assert_eq!(door.enter(1, 2, 50), Err(Shut::Requests(2)));
        assert_eq!(door.inbox(), (2, 50));
        let refusals = door.refusals();
        assert_eq!((refusals.full, refusals.tokens, refusals.late), (1, 1, 0));
    }
}
