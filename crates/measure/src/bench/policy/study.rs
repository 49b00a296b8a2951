//! The simulation over arrivals, seeds and step costs.

use anyhow::Result;
use serde::Serialize;

use super::arrivals::Arrivals;
use super::compare::{Comparison, Run};
use super::cost::StepCost;
use super::outcome::{Policy, Request};
use super::simulate::simulate;
use super::workload::Workload;

/// Shares of a full step that do not depend on who is in it, in [`Study::scan`].
pub const FIXED_SHARES: [f64; 6] = [1.0, 0.7, 0.5, 0.3, 0.2, 0.1];
/// Loads there.
pub const LOADS: [f64; 6] = [0.5, 0.6, 0.7, 0.8, 0.9, 1.0];

/// A workload on some slots at some cost.
#[derive(Debug, Clone)]
pub struct Study<'a> {
    /// What is asked for.
    pub workload: &'a Workload,
    /// Slots.
    pub slots: usize,
    /// What a step costs.
    pub cost: StepCost,
    /// Requests a second that the continuous policy completes when all of them are there at once.
    pub capacity: f64,
}

/// Gains where a step costs `fixed_share + (1 - fixed_share) * sequences / slots`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScanPoint {
    /// Share of a full step that does not depend on who is in it.
    pub fixed_share: f64,
    /// How requests came.
    pub arrivals: Arrivals,
    /// Throughput of continuous over static, padded.
    pub throughput: f64,
    /// Mean latency of static, padded, handed back as a batch, over continuous.
    pub latency: f64,
}

impl<'a> Study<'a> {
    /// Finds the capacity.
    pub fn new(workload: &'a Workload, slots: usize, cost: StepCost) -> Self {
        let mut study = Self {
            workload,
            slots,
            cost,
            capacity: 1.0,
        };
        let requests = study.requests(Arrivals::AllAtOnce, 0);
        let outcome = simulate(Policy::Continuous, &requests, slots, &study.cost);
        study.capacity = outcome.requests_per_s();
        study
    }

    /// The workload as it comes.
    pub fn requests(&self, arrivals: Arrivals, seed: u64) -> Vec<Request> {
        let lengths = &self.workload.lengths;
        let times = arrivals.times(lengths.len(), self.capacity, seed);
        let requests = times.into_iter().zip(lengths);
        let request = |(arrival, &tokens)| Request { arrival, tokens };
        requests.map(request).collect()
    }

    /// What each policy makes of the requests of `seed`.
    pub fn run(&self, arrivals: Arrivals, seed: u64) -> Run {
        let requests = self.requests(arrivals, seed);
        Policy::ALL.map(|policy| simulate(policy, &requests, self.slots, &self.cost))
    }

    /// Compares over the seeds `0..seeds`; requests that are all there at once need one.
    ///
    /// # Errors
    /// No seeds.
    pub fn compare(&self, arrivals: Arrivals, seeds: usize) -> Result<Comparison> {
        let seeds = match arrivals {
            Arrivals::AllAtOnce => seeds.min(1),
            Arrivals::Poisson { .. } => seeds,
        };
        let runs: Vec<Run> = (0..seeds as u64)
            .map(|seed| self.run(arrivals, seed))
            .collect();
        Comparison::of(arrivals, &runs)
    }

    /// Gains over [`FIXED_SHARES`] and [`LOADS`].
    ///
    /// # Errors
    /// No seeds.
    pub fn scan(workload: &Workload, slots: usize, seeds: usize) -> Result<Vec<ScanPoint>> {
        let mut points = Vec::new();
        for fixed_share in FIXED_SHARES {
            let cost = StepCost::Affine {
                fixed: fixed_share,
                each: (1.0 - fixed_share) / slots as f64,
            };
            let study = Study::new(workload, slots, cost);
            let loads = LOADS.map(|load| Arrivals::Poisson { load });
            for arrivals in std::iter::once(Arrivals::AllAtOnce).chain(loads) {
                let gain = study.compare(arrivals, seeds)?.gains[0];
                points.push(ScanPoint {
                    fixed_share,
                    arrivals,
                    throughput: gain.throughput.value,
                    latency: gain.latency.value,
                });
            }
        }
        Ok(points)
    }
}

#[cfg(test)]
mod tests {
    use super::super::workload::LENGTHS;
    use super::*;

    fn workload() -> Workload {
        Workload::new(LENGTHS.to_vec(), 1).unwrap()
    }

    #[test]
    fn capacity_is_what_continuous_reaches_with_all_at_once() {
        let workload = workload();
        let study = Study::new(&workload, 8, StepCost::Constant(1.0));
        assert_eq!(study.capacity, 64.0 / 350.0);
    }

    #[test]
    fn the_plain_simulation_gains_what_it_is_known_for() {
        let workload = workload();
        let study = Study::new(&workload, 8, StepCost::Constant(1.0));
        let all = study.compare(Arrivals::AllAtOnce, 50).unwrap();
        assert_eq!(all.runs, 1);
        assert!((all.gains[0].throughput.value - 688.0 / 350.0).abs() < 1e-12);
        // With a constant step cost padding is free.
        assert_eq!(all.gains[0].latency, all.gains[1].latency);
        for (load, throughput, latency) in [(0.5, 1.23, 5.2), (0.7, 1.43, 6.5), (0.9, 1.6, 7.7)] {
            let poisson = study.compare(Arrivals::Poisson { load }, 200).unwrap();
            let gain = poisson.gains[0];
            assert!(
                (gain.throughput.value - throughput).abs() < 0.05,
                "{gain:?}"
            );
            assert!((gain.latency.value - latency).abs() < 0.3, "{gain:?}");
        }
    }

    #[test]
    fn padding_that_costs_makes_the_gain_larger() {
        let points = Study::scan(&workload(), 8, 20).unwrap();
        assert_eq!(points.len(), FIXED_SHARES.len() * (LOADS.len() + 1));
        let at = |share: f64| {
            let load = Arrivals::Poisson { load: 0.7 };
            let point = points
                .iter()
                .find(|p| p.fixed_share == share && p.arrivals == load);
            point.unwrap().clone()
        };
        assert!(at(0.1).throughput > at(1.0).throughput);
        assert!(at(0.1).latency > 10.0 && at(1.0).latency < 8.0);
    }
}
