//! What a measurement needs of the world, passed in.

use std::time::Duration;

use anyhow::{Context, Result};
use ucuz_report::Spread;

/// The clock, the memory and the person who waits.
pub trait Host {
    /// Time since an origin of the host's own; never goes back.
    fn now(&self) -> Duration;

    /// A stage of `units` (of whatever takes time in it) begins.
    fn begin(&mut self, what: &str, units: u64);

    /// `units` of the stage are done.
    fn advance(&mut self, units: u64);

    /// The stage is over.
    fn end(&mut self);

    /// Lets [`Host::peak_memory_bytes`] start anew from what is resident now; whether that worked.
    fn reset_peak_memory(&mut self) -> bool;

    /// Most bytes of the process that were resident at once; `None` where the system does not tell.
    fn peak_memory_bytes(&self) -> Option<u64>;

    /// Bytes of another process that are resident; `None` where there is no such process, or the system does not tell.
    fn resident_memory_bytes(&self, pid: u32) -> Option<u64>;
}

/// Runs `work` once to warm up and `repetitions` times for the result; each run's duration is what it returns.
///
/// The result is in seconds.
///
/// # Errors
/// What `work` reports, or no repetition.
pub fn repeat(
    host: &mut dyn Host,
    repetitions: usize,
    work: &mut dyn FnMut(&mut dyn Host) -> Result<Duration>,
) -> Result<Spread> {
    work(host)?;
    let mut seconds = Vec::with_capacity(repetitions);
    for _ in 0..repetitions {
        seconds.push(work(host)?.as_secs_f64());
    }
    Spread::of(&seconds).context("nothing was measured; raise --repeat")
}
