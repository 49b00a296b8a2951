//! Static against continuous batching: the same requests under both, simulated and run for real.
//!
//! - **Static**: a batch is formed from what waits, up to the number of slots, and runs until its longest member has ended. Who
//!   has ended holds its slot until then; whether it is still computed, as padding, is told apart
//!   ([`Policy::StaticPadded`], [`Policy::StaticLeaving`]). The textbook's batch is padded and handed back as one.
//! - **Continuous**: a slot that becomes free is given away in the next step.
//!
//! **Simulated** ([`simulate()`]): arithmetic over step costs; constant ones (the plain simulation, in steps), and ones
//! measured on the model for every mix of sequences that go on and that begin ([`StepCost`]). **Real** ([`live`]): the engine
//! gets the requests when they arrive, or a batch only when the one before it has ended.
//!
//! Capacity is what the continuous policy completes when all requests are there at once, at the same step costs; Poisson
//! arrivals come at shares of it. Throughput counts the tokens that somebody wanted, from the first arrival to the last
//! release.

mod arrivals;
mod compare;
mod cost;
mod dispatch;
pub mod live;
mod measure;
mod notes;
mod outcome;
mod report;
mod simulate;
mod study;
mod workload;

use std::sync::Arc;

use anyhow::{Result, ensure};
use serde::Serialize;
use ucuz_llm::{Clock, Llm};

use super::{ModelFacts, Setup};
use crate::{Host, Provenance};

pub use arrivals::Arrivals;
pub use compare::{Comparison, Gain, Run, Side};
pub use cost::{Grid, StepCost};
pub use dispatch::{Dispatcher, Order};
pub use outcome::{Heard, Outcome, Policy, Request, Served};
pub use simulate::simulate;
pub use study::{FIXED_SHARES, LOADS, ScanPoint, Study};
pub use workload::{LENGTHS, REQUESTS_MAX, Workload, WorkloadFacts};

/// Seeds of each point of [`Study::scan`].
const SCAN_SEEDS: usize = 40;

/// What to compare.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// What is asked for.
    pub workload: Workload,
    /// Requests that run at once.
    pub slots: usize,
    /// How they come, one after the other.
    pub arrivals: Vec<Arrivals>,
    /// Simulated runs of each Poisson arrival.
    pub seeds: usize,
    /// Real runs of each arrival; 0 leaves them out.
    pub runs: usize,
    /// Measurements of each step cost, after one to warm up.
    pub repetitions: usize,
}

/// Everything simulated at one kind of step cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Simulated {
    /// `constant` (a step is the unit of time) or `measured` (seconds).
    pub step_cost: &'static str,
    /// Requests a second (or step) that the continuous policy completes with all of them there at once.
    pub capacity_requests_per_s: f64,
    /// By arrivals.
    pub comparisons: Vec<Comparison>,
}

/// One kind of arrivals, run for real.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Real {
    /// As measured.
    pub real: Comparison,
    /// The same arrivals, simulated with measured step costs.
    pub simulated: Comparison,
}

/// Who held which slot when, all requests at once; from a real run if there was one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Timeline {
    /// Whether it was run for real.
    pub is_real: bool,
    /// [`Policy::StaticPadded`].
    pub static_padded: Outcome,
    /// [`Policy::Continuous`].
    pub continuous: Outcome,
}

/// All that was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PolicyResult {
    /// `policy`.
    pub bench: &'static str,
    /// Where the numbers come from.
    pub provenance: Provenance,
    /// What was measured.
    pub model: ModelFacts,
    /// What was asked for.
    pub workload: WorkloadFacts,
    /// Requests that run at once.
    pub slots: usize,
    /// Seconds of steps, as measured.
    pub step_costs: Grid,
    /// At constant, then at measured costs.
    pub simulated: Vec<Simulated>,
    /// By arrivals; empty when nothing was run for real.
    pub real: Vec<Real>,
    /// Gains over step costs and loads.
    pub scan: Vec<ScanPoint>,
    /// All at once.
    pub timeline: Timeline,
}

/// Measures the step costs of `setup`'s model for [`run`].
///
/// # Errors
/// Options that cannot be measured with this model and memory; what the model reports.
pub fn measure(setup: &Setup<'_>, options: &Options, host: &mut dyn Host) -> Result<Grid> {
    ensure!(options.slots > 0, "there are 0 slots; give at least 1");
    ensure!(
        !options.arrivals.is_empty(),
        "there are no arrivals to compare"
    );
    measure::measure(setup, options, host)
}

/// Simulates, and runs for real on `llm` when `options` ask for it.
///
/// `llm` must have as many sequences as there are slots; nobody else may use it meanwhile.
///
/// # Errors
/// What the engine reports.
pub fn run(
    options: &Options,
    step_costs: Grid,
    llm: Option<(&Llm, Arc<dyn Clock>)>,
    about: (Provenance, ModelFacts),
    host: &mut dyn Host,
) -> Result<PolicyResult> {
    let (workload, slots) = (&options.workload, options.slots);
    let constant = Study::new(workload, slots, StepCost::Constant(1.0));
    let measured = Study::new(workload, slots, StepCost::Measured(step_costs.clone()));
    let simulated = vec![
        simulated("constant", &constant, options)?,
        simulated("measured", &measured, options)?,
    ];
    let [static_padded, _, continuous] = measured.run(Arrivals::AllAtOnce, 0);
    let mut timeline = Timeline {
        is_real: false,
        static_padded,
        continuous,
    };
    let real = match llm {
        Some((llm, clock)) if options.runs > 0 => {
            let mut live = live::Live::new(llm, clock, workload, slots);
            real(&mut live, &measured, options, (&mut timeline, host))?
        }
        _ => Vec::new(),
    };
    let (provenance, model) = about;
    Ok(PolicyResult {
        bench: "policy",
        provenance,
        model,
        workload: workload.facts(),
        slots,
        step_costs,
        simulated,
        real,
        scan: Study::scan(workload, slots, SCAN_SEEDS.min(options.seeds))?,
        timeline,
    })
}

fn simulated(step_cost: &'static str, study: &Study<'_>, options: &Options) -> Result<Simulated> {
    let arrivals = options.arrivals.iter();
    let comparisons = arrivals.map(|&arrivals| study.compare(arrivals, options.seeds));
    Ok(Simulated {
        step_cost,
        capacity_requests_per_s: study.capacity,
        comparisons: comparisons.collect::<Result<_>>()?,
    })
}

fn real(
    live: &mut live::Live<'_>,
    study: &Study<'_>,
    options: &Options,
    (timeline, host): (&mut Timeline, &mut dyn Host),
) -> Result<Vec<Real>> {
    let runs = options.arrivals.len() * options.runs * Policy::ALL.len();
    host.begin("real runs", runs as u64 + 1);
    live.run(Policy::Continuous, &study.requests(Arrivals::AllAtOnce, 0))?;
    host.advance(1);
    let mut compared = Vec::with_capacity(options.arrivals.len());
    for &arrivals in &options.arrivals {
        let (mut real, mut simulated) = (Vec::new(), Vec::new());
        for seed in 0..options.runs as u64 {
            let requests = study.requests(arrivals, seed);
            let mut outcomes = Vec::with_capacity(Policy::ALL.len());
            for policy in Policy::ALL {
                outcomes.push(live.run(policy, &requests)?);
                host.advance(1);
            }
            let Ok(run) = Run::try_from(outcomes) else {
                continue;
            };
            real.push(run);
            simulated.push(study.run(arrivals, seed));
        }
        if let (Arrivals::AllAtOnce, Some([padded, _, continuous])) = (arrivals, real.first()) {
            *timeline = Timeline {
                is_real: true,
                static_padded: padded.clone(),
                continuous: continuous.clone(),
            };
        }
        compared.push(Real {
            real: Comparison::of(arrivals, &real)?,
            simulated: Comparison::of(arrivals, &simulated)?,
        });
    }
    host.end();
    Ok(compared)
}
