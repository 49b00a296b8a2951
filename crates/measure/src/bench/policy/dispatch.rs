//! Which requests are handed to an engine at a given time. The engine itself batches continuously: a static policy is what
//! it gets to see.

use super::outcome::{Policy, Request};

/// One request to hand over now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// Which.
    pub request: usize,
    /// Tokens to ask for: its own, or under [`Policy::StaticPadded`] those of the longest in its batch.
    pub max_tokens: u32,
}

/// Hands requests over as a policy says.
///
/// - [`Policy::Continuous`]: when they arrive.
/// - Static: up to `slots` of those that have arrived, and only when everyone before them has ended.
#[derive(Debug)]
pub struct Dispatcher<'a> {
    policy: Policy,
    requests: &'a [Request],
    slots: usize,
    next: usize,
    inside: usize,
}

impl<'a> Dispatcher<'a> {
    /// A dispatcher of `requests`, ascending by arrival.
    pub fn new(policy: Policy, requests: &'a [Request], slots: usize) -> Self {
        Self {
            policy,
            requests,
            slots,
            next: 0,
            inside: 0,
        }
    }

    /// What to hand over at `now`, a time as in [`Request::arrival`].
    pub fn due(&mut self, now: f64) -> Vec<Order> {
        let waiting = &self.requests[self.next..];
        let arrived = waiting.partition_point(|request| request.arrival <= now);
        let count = match self.policy {
            Policy::Continuous => arrived,
            _ if self.inside > 0 => 0,
            _ => arrived.min(self.slots),
        };
        let batch = &waiting[..count];
        let longest = batch.iter().map(|request| request.tokens).max();
        let orders = batch.iter().enumerate().map(|(index, request)| Order {
            request: self.next + index,
            max_tokens: match self.policy {
                Policy::StaticPadded => longest.unwrap_or(request.tokens),
                _ => request.tokens,
            },
        });
        let orders = orders.collect();
        self.next += count;
        self.inside += count;
        orders
    }

    /// One of those handed over has got all that it asked for.
    ///
    /// # Panics
    /// When nobody was inside.
    pub fn ended(&mut self) {
        assert!(self.inside > 0, "who ends was handed over");
        self.inside -= 1;
    }

    /// When somebody may be handed over without an end before it; `None` when first somebody must end or come no more.
    pub fn next_arrival(&self) -> Option<f64> {
        let is_open = self.inside == 0 || self.policy == Policy::Continuous;
        let next = self.requests.get(self.next).filter(|_| is_open);
        next.map(|request| request.arrival)
    }

    /// Whether everyone was handed over and has ended.
    pub fn is_done(&self) -> bool {
        self.next == self.requests.len() && self.inside == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests() -> Vec<Request> {
        let request = |(arrival, tokens)| Request { arrival, tokens };
        [(0.0, 5), (0.0, 2), (0.0, 9), (4.0, 1)].map(request).into()
    }

    fn orders(dispatcher: &mut Dispatcher<'_>, now: f64) -> Vec<(usize, u32)> {
        let due = dispatcher.due(now);
        due.iter().map(|o| (o.request, o.max_tokens)).collect()
    }

    #[test]
    fn a_batch_waits_for_the_one_before_and_padding_asks_for_the_longest() {
        let requests = requests();
        for (policy, first) in [
            (Policy::StaticPadded, [(0, 5), (1, 5)]),
            (Policy::StaticLeaving, [(0, 5), (1, 2)]),
        ] {
            let mut dispatcher = Dispatcher::new(policy, &requests, 2);
            assert_eq!(orders(&mut dispatcher, 0.0), first);
            assert_eq!(dispatcher.next_arrival(), None);
            dispatcher.ended();
            assert_eq!(orders(&mut dispatcher, 9.0), []);
            dispatcher.ended();
            assert_eq!(dispatcher.next_arrival(), Some(0.0));
            let longest = if policy == Policy::StaticPadded { 9 } else { 1 };
            assert_eq!(orders(&mut dispatcher, 9.0), [(2, 9), (3, longest)]);
            dispatcher.ended();
            dispatcher.ended();
            assert!(dispatcher.is_done());
        }
    }

    #[test]
    fn continuous_hands_over_who_has_come() {
        let requests = requests();
        let mut dispatcher = Dispatcher::new(Policy::Continuous, &requests, 2);
        assert_eq!(orders(&mut dispatcher, 0.0), [(0, 5), (1, 2), (2, 9)]);
        assert_eq!(dispatcher.next_arrival(), Some(4.0));
        assert_eq!(orders(&mut dispatcher, 3.9), []);
        assert_eq!(orders(&mut dispatcher, 4.0), [(3, 1)]);
        assert!(!dispatcher.is_done());
    }
}
