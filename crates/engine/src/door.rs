//! Who may come in: places and tokens, counted by those who submit and by the engine thread.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

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
    /// When the oldest of them came at the latest, ns on the engine's clock.
    inbox_since_ns: AtomicU64,
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
    pub(crate) fn enter(
        &self,
        tokens: usize,
        (places, room): (usize, usize),
        now: Duration,
    ) -> Result<(), Shut> {
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
        if self.inbox_requests.fetch_add(1, Ordering::AcqRel) == 0 {
            // 584 years fit.
            let ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
            self.inbox_since_ns.store(ns, Ordering::Release);
        }
        self.inbox_tokens.fetch_add(tokens, Ordering::AcqRel);
        Ok(())
    }

    /// The requests inside when `more` do not fit in `places`, which counts as a refusal.
    pub(crate) fn refuse_when_full(&self, more: usize, places: usize) -> Option<usize> {
        let inside = self.requests.load(Ordering::Acquire);
        (inside.saturating_add(more) > places).then(|| {
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

    /// Since when there are such; `None` while there are none.
    pub(crate) fn inbox_since(&self) -> Option<Duration> {
        let has_some = self.inbox_requests.load(Ordering::Acquire) > 0;
        let since = self.inbox_since_ns.load(Ordering::Acquire);
        has_some.then(|| Duration::from_nanos(since))
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

    const NOW: Duration = Duration::from_secs(7);

    #[test]
    fn places_and_tokens_are_given_back_and_nobody_is_too_large_alone() {
        let door = Door::default();
        assert_eq!(door.enter(100, (2, 50), NOW), Ok(()));
        assert_eq!(door.enter(1, (2, 50), NOW), Err(Shut::Tokens(100)));
        door.seen(100);
        door.leave(100);
        assert_eq!(door.enter(20, (2, 50), NOW), Ok(()));
        assert_eq!(door.enter(30, (2, 50), NOW), Ok(()));
        assert_eq!(door.enter(1, (2, 50), NOW), Err(Shut::Requests(2)));
        assert_eq!((door.inbox(), door.inbox_since()), ((2, 50), Some(NOW)));
        let refusals = door.refusals();
        assert_eq!((refusals.full, refusals.tokens, refusals.late), (1, 1, 0));
    }
}
