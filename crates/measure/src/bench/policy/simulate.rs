//! The policies as plain arithmetic: no model, no clock.
//!
//! A step gives every running request one token; the first one comes with the prompt. So a request of `L` tokens takes `L`
//! steps. Whoever has arrived when a step begins can be in it. Requests are taken in order of arrival.

use super::cost::StepCost;
use super::outcome::{Outcome, Policy, Request, Served};

/// A request that holds a slot.
struct Stay {
    request: usize,
    produced: u32,
    served: Served,
}

impl Stay {
    fn has_ended(&self) -> bool {
        self.produced >= self.served.tokens
    }
}

struct Simulation<'a> {
    policy: Policy,
    requests: &'a [Request],
    /// First request that holds no slot yet.
    next: usize,
    slots: Vec<Option<Stay>>,
    now: f64,
    served: Vec<Option<Served>>,
    steps: u64,
}

/// Serves `requests` (ascending by arrival, each at least one token long) with `slots` slots under `policy`.
///
/// # Panics
/// When requests are not in order, or there is no slot.
pub fn simulate(policy: Policy, requests: &[Request], slots: usize, cost: &StepCost) -> Outcome {
    assert!(slots > 0, "somebody must be able to run");
    let in_order = requests.is_sorted_by(|a, b| a.arrival <= b.arrival);
    assert!(in_order, "requests come in the order of their arrival");
    let mut simulation = Simulation {
        policy,
        requests,
        next: 0,
        slots: (0..slots).map(|_| None).collect(),
        now: 0.0,
        served: vec![None; requests.len()],
        steps: 0,
    };
    while simulation.admit() {
        simulation.step(cost);
        simulation.release();
    }
    let served: Vec<Served> = simulation.served.into_iter().flatten().collect();
    assert_eq!(served.len(), requests.len(), "each request ends once");
    Outcome {
        served,
        steps: simulation.steps,
    }
}

impl Simulation<'_> {
    /// Fills slots; moves on to the next arrival when nobody is there. Whether somebody runs.
    fn admit(&mut self) -> bool {
        let is_empty = self.slots.iter().all(Option::is_none);
        if is_empty {
            match self.requests.get(self.next) {
                Some(request) => self.now = self.now.max(request.arrival),
                None => return false,
            }
        }
        if is_empty || self.policy == Policy::Continuous {
            for slot in 0..self.slots.len() {
                self.fill(slot);
            }
        }
        true
    }

    /// Gives a free slot to the next request that has arrived.
    fn fill(&mut self, slot: usize) {
        let Some(request) = self.requests.get(self.next) else {
            return;
        };
        if self.slots[slot].is_some() || request.arrival > self.now {
            return;
        }
        self.slots[slot] = Some(Stay {
            request: self.next,
            produced: 0,
            served: Served {
                arrival_s: request.arrival,
                started_s: self.now,
                first_token_s: self.now,
                last_token_s: self.now,
                released_s: self.now,
                slot,
                tokens: request.tokens,
            },
        });
        self.next += 1;
    }

    fn step(&mut self, cost: &StepCost) {
        let is_padded = self.policy == Policy::StaticPadded;
        let stays = self.slots.iter().flatten();
        let computed = stays.filter(|stay| is_padded || !stay.has_ended());
        let (starting, decoding): (Vec<&Stay>, Vec<&Stay>) =
            computed.partition(|stay| stay.produced == 0);
        self.now += cost.seconds(decoding.len(), starting.len());
        self.steps += 1;
        for stay in self.slots.iter_mut().flatten() {
            stay.produced += 1;
            if stay.produced == 1 {
                stay.served.first_token_s = self.now;
            }
            if stay.produced == stay.served.tokens {
                stay.served.last_token_s = self.now;
            }
        }
    }

    /// Takes slots from those who are through: each by itself, or a batch as one.
    fn release(&mut self) {
        let is_over = self.slots.iter().flatten().all(Stay::has_ended);
        for slot in &mut self.slots {
            let leaves = |stay: &mut Stay| match self.policy {
                Policy::Continuous => stay.has_ended(),
                Policy::StaticPadded | Policy::StaticLeaving => is_over,
            };
            if let Some(mut stay) = slot.take_if(leaves) {
                stay.served.released_s = self.now;
                self.served[stay.request] = Some(stay.served);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::arrivals::Arrivals;
    use super::super::outcome::Heard;
    use super::super::workload::LENGTHS;
    use super::*;

    fn requests(of: &[(f64, u32)]) -> Vec<Request> {
        let request = |&(arrival, tokens)| Request { arrival, tokens };
        of.iter().map(request).collect()
    }

    fn at_once(lengths: &[u32]) -> Vec<Request> {
        let lengths = lengths.iter();
        requests(&lengths.map(|&length| (0.0, length)).collect::<Vec<_>>())
    }

    const STEP: StepCost = StepCost::Constant(1.0);

    /// (first token, last token, released) of each.
    fn times(outcome: &Outcome) -> Vec<(f64, f64, f64)> {
        let times = |s: &Served| (s.first_token_s, s.last_token_s, s.released_s);
        outcome.served.iter().map(times).collect()
    }

    #[test]
    fn a_batch_runs_until_its_longest_member_has_ended() {
        // Slots of 2: [3, 1], then [2, 4].
        for policy in [Policy::StaticPadded, Policy::StaticLeaving] {
            let outcome = simulate(policy, &at_once(&[3, 1, 2, 4]), 2, &STEP);
            let expected = [
                (1.0, 3.0, 3.0),
                (1.0, 1.0, 3.0),
                (4.0, 5.0, 7.0),
                (4.0, 7.0, 7.0),
            ];
            assert_eq!(times(&outcome), expected, "{policy:?}");
            assert_eq!((outcome.steps, outcome.makespan_s()), (7, 7.0));
            assert_eq!(outcome.latency_s(Heard::Batch), 20.0 / 4.0);
            assert_eq!(outcome.latency_s(Heard::LastToken), 16.0 / 4.0);
        }
    }

    #[test]
    fn a_freed_slot_is_filled_in_the_next_step() {
        // Slot 0: 3 then 4; slot 1: 1 then 2.
        let outcome = simulate(Policy::Continuous, &at_once(&[3, 1, 2, 4]), 2, &STEP);
        let expected = [
            (1.0, 3.0, 3.0),
            (1.0, 1.0, 1.0),
            (2.0, 3.0, 3.0),
            (4.0, 7.0, 7.0),
        ];
        assert_eq!(times(&outcome), expected);
        let slots: Vec<usize> = outcome.served.iter().map(|s| s.slot).collect();
        assert_eq!(slots, [0, 1, 1, 0]);
    }

    #[test]
    fn who_comes_during_a_batch_waits_for_its_end_and_idle_time_is_skipped() {
        let requests = requests(&[(0.0, 3), (0.5, 1), (10.0, 2)]);
        let fixed = simulate(Policy::StaticLeaving, &requests, 2, &STEP);
        assert_eq!(
            times(&fixed),
            [(1.0, 3.0, 3.0), (4.0, 4.0, 4.0), (11.0, 12.0, 12.0)]
        );
        let continuous = simulate(Policy::Continuous, &requests, 2, &STEP);
        assert_eq!(times(&continuous)[1], (2.0, 2.0, 2.0));
        assert_eq!(continuous.steps, 5);
    }

    #[test]
    fn padding_is_paid_for_and_empty_slots_are_not() {
        let cost = StepCost::Affine {
            fixed: 1.0,
            each: 10.0,
        };
        let requests = at_once(&[3, 1]);
        let padded = simulate(Policy::StaticPadded, &requests, 2, &cost);
        assert_eq!(padded.makespan_s(), 3.0 * 21.0);
        let leaving = simulate(Policy::StaticLeaving, &requests, 2, &cost);
        assert_eq!(leaving.makespan_s(), 21.0 + 2.0 * 11.0);
    }

    #[test]
    fn the_plain_simulation_of_the_default_workload() {
        let requests = at_once(&LENGTHS);
        let fixed = simulate(Policy::StaticPadded, &requests, 8, &STEP);
        let continuous = simulate(Policy::Continuous, &requests, 8, &STEP);
        assert_eq!(
            (fixed.makespan_s(), continuous.makespan_s()),
            (688.0, 350.0)
        );
        let ratio = |heard| fixed.latency_s(heard) / continuous.latency_s(heard);
        assert!((ratio(Heard::Batch) - 3.131).abs() < 1e-3);
        assert!((ratio(Heard::LastToken) - 2.633).abs() < 1e-3);
    }

    /// Every request ends once, in order of its own times; no slot holds two at once; the work is the sum of lengths.
    #[test]
    fn nothing_is_lost_and_no_slot_is_shared() {
        let cost = StepCost::Affine {
            fixed: 0.3,
            each: 0.1,
        };
        for seed in 0..30 {
            let load = 0.3 + 0.05 * seed as f64;
            let times = Arrivals::Poisson { load }.times(64, 0.2, seed);
            let pairs: Vec<_> = times.into_iter().zip(LENGTHS).collect();
            let requests = requests(&pairs);
            for policy in Policy::ALL {
                for slots in [1, 3, 8, 100] {
                    check(&simulate(policy, &requests, slots, &cost), &requests, slots);
                }
            }
        }
    }

    fn check(outcome: &Outcome, requests: &[Request], slots: usize) {
        let tokens = |s: &Served| u64::from(s.tokens);
        assert_eq!(outcome.served.iter().map(tokens).sum::<u64>(), 1874);
        for (served, request) in outcome.served.iter().zip(requests) {
            assert_eq!(served.arrival_s, request.arrival);
            let order = [
                served.arrival_s,
                served.started_s,
                served.first_token_s,
                served.last_token_s,
                served.released_s,
            ];
            assert!(order.is_sorted(), "{served:?}");
            assert!(served.slot < slots);
        }
        for slot in 0..slots {
            let stays = outcome.served.iter().filter(|s| s.slot == slot);
            let mut stays: Vec<_> = stays.map(|s| (s.started_s, s.released_s)).collect();
            stays.sort_by(|a, b| a.0.total_cmp(&b.0));
            assert!(stays.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        }
    }
}
