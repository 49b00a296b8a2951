//! Constrained sequences: masks beside the step, whatever else happens.

use super::*;
use crate::sim::SimFault;

/// Id that ends a text in these tests.
const END: u32 = 96;

/// What a test's rule allows after these tokens; `Err` breaks, and a panic panics.
type Rule = fn(&[u32]) -> Result<Allowed, MaskError>;

#[derive(Debug)]
struct Ruled(Rule);

struct Follower {
    rule: Rule,
    tokens: Vec<u32>,
}

impl Constraint for Ruled {
    fn start(&self) -> Box<dyn TokenMask> {
        Box::new(Follower {
            rule: self.0,
            tokens: Vec::new(),
        })
    }
}

impl TokenMask for Follower {
    fn next(&mut self) -> Result<Allowed, MaskError> {
        (self.rule)(&self.tokens)
    }

    fn accept(&mut self, token: u32) -> Result<(), MaskError> {
        // What was accepted was allowed: a token taken in twice, or left out, is found here.
        match (self.rule)(&self.tokens) {
            Ok(Allowed::Ids(bits)) if bits[token as usize / 32] >> (token % 32) & 1 == 1 => {}
            other => panic!("{token} after {:?}, where {other:?}", self.tokens),
        }
        self.tokens.push(token);
        Ok(())
    }
}

fn ids(ids: impl IntoIterator<Item = u32>) -> Allowed {
    let mut bits = vec![0u32; 4];
    ids.into_iter()
        .for_each(|id| bits[id as usize / 32] |= 1 << (id % 32));
    Allowed::Ids(bits.into())
}

/// Ids 10 to 19 and 20 to 29 in turn.
fn alternating(tokens: &[u32]) -> Result<Allowed, MaskError> {
    let first = if tokens.len().is_multiple_of(2) {
        10
    } else {
        20
    };
    Ok(ids(first..first + 10))
}

/// Five even ids, then nothing.
fn five_even(tokens: &[u32]) -> Result<Allowed, MaskError> {
    Ok(match tokens.len() {
        5 => Allowed::End,
        _ => ids((0..40).step_by(2)),
    })
}

/// Ids below 10, or the end after three.
fn three_or_more(tokens: &[u32]) -> Result<Allowed, MaskError> {
    let end = (tokens.len() >= 3).then_some(END);
    Ok(ids((0..10).chain(end)))
}

fn breaking(tokens: &[u32]) -> Result<Allowed, MaskError> {
    match tokens.len() {
        4 => Err(MaskError {
            why: "out of fuel".to_owned(),
        }),
        _ => Ok(ids(0..50)),
    }
}

fn panicking(tokens: &[u32]) -> Result<Allowed, MaskError> {
    assert!(tokens.len() < 4, "it was told to panic");
    Ok(ids(0..50))
}

fn empty(tokens: &[u32]) -> Result<Allowed, MaskError> {
    Ok(ids(0..if tokens.len() < 4 { 50 } else { 0 }))
}

fn constrained(rule: Rule, request: Request) -> Request {
    Request {
        constraint: Some(Arc::new(Ruled(rule))),
        ..request
    }
}

fn bench() -> Bench {
    Bench::new(SimOptions::new(64, 4, 256, 32), 8, 1)
}

fn run(request: Request) -> Receiver {
    let mut bench = bench();
    let (_, receiver) = bench.submit(request);
    bench.run();
    receiver
}

fn failure_text(receiver: &Receiver) -> String {
    match receiver.events().last() {
        Some(Event::Failed { text, .. }) => text.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_token_is_one_that_its_mask_allows() {
    for request in [request(1, 20, 30), busy_request(2, 20, 30)] {
        let receiver = run(constrained(alternating, request));
        let tokens = receiver.tokens();
        assert_eq!(tokens.len(), 30);
        for (index, token) in tokens.iter().enumerate() {
            assert_eq!(*token / 10, 1 + index as u32 % 2, "{tokens:?}");
        }
        assert_eq!(receiver.done().unwrap().0, FinishReason::Length);
    }
}

#[test]
fn a_complete_text_ends_its_sequence() {
    for min_tokens in [0, 20] {
        let receiver = run(Request {
            min_tokens,
            stop_ids: vec![END],
            ..constrained(five_even, request(3, 20, 30))
        });
        assert_eq!(receiver.tokens().len(), 5);
        let (reason, usage) = receiver.done().unwrap();
        assert_eq!((reason, usage.completion_tokens), (FinishReason::Stop, 5));
    }
}

#[test]
fn the_end_is_chosen_only_where_it_is_allowed() {
    let ending = |min_tokens| {
        let biased = SamplingParams {
            logit_bias: vec![(END, 100.0)],
            ..SamplingParams::greedy()
        };
        let request = Request {
            params: biased,
            stop_ids: vec![END],
            min_tokens,
            ..request(4, 20, 30)
        };
        let receiver = run(constrained(three_or_more, request));
        assert_eq!(receiver.done().unwrap().0, FinishReason::Stop);
        receiver.tokens().len()
    };
    assert_eq!(ending(0), 3);
    assert_eq!(ending(7), 7);
}

#[test]
fn a_constraint_that_breaks_ends_only_its_request() {
    let rules: [(Rule, FailureKind, &str); 3] = [
        (breaking, FailureKind::Constraint, "out of fuel"),
        (panicking, FailureKind::Row, "it was told to panic"),
        (empty, FailureKind::Constraint, "no token is allowed"),
    ];
    for (rule, kind, text) in rules {
        let mut bench = bench();
        let plain: Vec<_> = (0..2).map(|seed| request(seed, 20, 20)).collect();
        let receivers: Vec<_> = plain.iter().map(|r| bench.submit(r.clone()).1).collect();
        let (_, broken) = bench.submit(constrained(rule, request(9, 20, 20)));
        bench.run();
        assert_eq!(broken.tokens().len(), 4, "never a token without a mask");
        assert_eq!(broken.failure(), Some(kind));
        let totals = bench.handle.stats().totals;
        let is_own_fault = u64::from(kind == FailureKind::Constraint);
        assert_eq!(totals.unfollowable, is_own_fault);
        assert_eq!(totals.failed, 1 - is_own_fault);
        let found = failure_text(&broken);
        assert!(found.contains(text), "{found}");
        for (receiver, request) in receivers.iter().zip(&plain) {
            assert_eq!(results(receiver), solo(request, &[None]));
        }
    }
}

#[test]
fn the_batch_preemption_and_failed_steps_change_no_constrained_token() {
    for blocks in [8, 40] {
        let mut bench = Bench::new(SimOptions::new(24, 4, 256, blocks), 16, 1);
        let requests: Vec<_> = (0..10)
            .map(|seed| {
                let request = busy_request(seed, 30 + seed as usize, 100);
                match seed % 3 {
                    0 => request,
                    1 => constrained(alternating, request),
                    _ => constrained(three_or_more, request),
                }
            })
            .collect();
        let receivers: Vec<_> = requests.iter().map(|r| bench.submit(r.clone()).1).collect();
        for fault in [SimFault::Launch, SimFault::Wait] {
            bench.turns(15);
            bench.control.inject(Some(fault));
        }
        bench.run();
        let preemptions = bench.handle.stats().totals.preemptions;
        assert!(
            blocks > 8 || preemptions > 0,
            "the pool is too small for all"
        );
        for (receiver, request) in receivers.iter().zip(&requests) {
            assert_eq!(results(receiver), solo(request, &[None]));
        }
    }
}

#[test]
fn samples_of_one_request_follow_their_own_state() {
    let mut bench = bench();
    let one = constrained(five_even, busy_request(5, 33, 30));
    let requests: Vec<_> = (0..4)
        .map(|sample| Request {
            sample,
            ..one.clone()
        })
        .collect();
    let receivers: Vec<_> = requests.iter().map(|r| bench.submit(r.clone()).1).collect();
    bench.run();
    for (receiver, request) in receivers.iter().zip(&requests) {
        assert_eq!(receiver.tokens().len(), 5);
        assert_eq!(results(receiver), solo(request, &[None]));
    }
    let first = receivers[0].tokens();
    assert!(receivers.iter().any(|r| r.tokens() != first));
}
