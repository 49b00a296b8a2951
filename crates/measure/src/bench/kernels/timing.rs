//! The clock: how often a case is called, and how devices take turns.
//!
//! A sample is as many calls as fill [`Timing::sample_seconds`]; devices take turns sample by sample, so that a neighbour's
//! noise falls on all of them. Before a sample the queue is called for [`SETTLE_SECONDS`], until the other devices' threads
//! have gone to sleep and its own data are back where a step leaves them.

use anyhow::Result;
use ucuz_tensor::Queue;

use super::case::Case;
use crate::Host;

/// Longer than the threads of another device spin after their last call.
const SETTLE_SECONDS: f64 = 1e-3;
/// Calls that are timed to choose the number of calls of a sample.
const TRIAL_CALLS: usize = 3;

/// How long to measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timing {
    /// Samples of each case and device, unless they take longer than `case_seconds`.
    pub repeat: usize,
    /// Least duration of a sample.
    pub sample_seconds: f64,
    /// After so long a case is left on that device with the samples it has, at least one.
    pub case_seconds: f64,
}

/// A case on its device.
pub struct Runner {
    queue: Box<dyn Queue>,
    case: Case,
    calls: usize,
    spent_seconds: f64,
    /// Seconds a call, one number a sample.
    pub samples: Vec<f64>,
}

impl Runner {
    /// Takes a case and a queue that holds its limits.
    pub fn new(queue: Box<dyn Queue>, case: Case) -> Self {
        Self {
            queue,
            case,
            calls: 1,
            spent_seconds: 0.0,
            samples: Vec::new(),
        }
    }

    /// The case.
    pub fn case(&self) -> &Case {
        &self.case
    }

    /// Seconds of `calls` calls in one step.
    fn timed(&mut self, host: &dyn Host, calls: usize) -> Result<f64> {
        let inputs = self.queue.begin(&self.case.batch)?;
        let start = host.now();
        for _ in 0..calls {
            (self.case.body)(self.queue.as_mut(), &inputs)?;
        }
        // No clock can tell less; zero would be an infinite rate.
        let seconds = (host.now() - start).as_secs_f64().max(1e-9);
        self.spent_seconds += seconds;
        Ok(seconds)
    }

    /// Chooses the number of calls of a sample. A first call pays for cold code and pages and tells little, unless it is so
    /// long that one is enough.
    fn warm_up(&mut self, host: &dyn Host, timing: &Timing) -> Result<()> {
        let first = self.timed(host, 1)?;
        if first >= timing.sample_seconds * 10.0 {
            self.samples.push(first);
            return Ok(());
        }
        let call = self.timed(host, TRIAL_CALLS)? / TRIAL_CALLS as f64;
        self.calls = (timing.sample_seconds / call).ceil() as usize;
        Ok(())
    }

    fn sample(&mut self, host: &dyn Host, timing: &Timing) -> Result<()> {
        if !self.samples.is_empty() && self.spent_seconds >= timing.case_seconds {
            return Ok(());
        }
        let mut settled = 0.0;
        while self.calls > 1 && settled < SETTLE_SECONDS {
            settled += self.timed(host, 1)?;
        }
        let seconds = self.timed(host, self.calls)? / self.calls as f64;
        self.samples.push(seconds);
        Ok(())
    }
}

/// Times one case on all devices.
///
/// # Errors
/// What an operation reports.
pub fn time(runners: &mut [Runner], timing: &Timing, host: &dyn Host) -> Result<()> {
    for runner in &mut *runners {
        runner.warm_up(host, timing)?;
    }
    for _ in 0..timing.repeat {
        for runner in &mut *runners {
            if runner.samples.len() < timing.repeat {
                runner.sample(host, timing)?;
            }
        }
    }
    Ok(())
}

/// Times them once more, twice as long: more samples for a verdict that the first ones made doubtful.
///
/// # Errors
/// What an operation reports.
pub fn time_again(runners: &mut [Runner], timing: &Timing, host: &dyn Host) -> Result<()> {
    for runner in &mut *runners {
        runner.spent_seconds = 0.0;
    }
    for _ in 0..2 * timing.repeat {
        for runner in &mut *runners {
            runner.sample(host, timing)?;
        }
    }
    Ok(())
}
