//! Ceilings of the devices, before and after, and the floor that they put under a call.

use anyhow::Result;
use serde::Serialize;
use ucuz_tensor::{Backend, CeilingKind};

use super::case::Cost;

/// Medians of one ceiling further apart than this mean that the machine changed during the run.
pub const DRIFT_MAX: f64 = 0.1;

/// One ceiling, measured before and after everything else.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MeasuredCeiling {
    /// Name of the kind.
    pub kind: &'static str,
    /// `bytes/s` or `operations/s`.
    pub unit: &'static str,
    /// Median before.
    pub before: f64,
    /// Median after.
    pub after: f64,
    /// The best run of both.
    pub best: f64,
}

impl MeasuredCeiling {
    /// What floors divide by: the larger of the two medians, so that a share of it is not flattered.
    pub fn rate(&self) -> f64 {
        self.before.max(self.after)
    }

    /// How far the two medians are apart, as a share of the larger.
    pub fn drift(&self) -> f64 {
        1.0 - self.before.min(self.after) / self.rate()
    }

    /// Whether the machine changed during the run.
    pub fn drifted(&self) -> bool {
        self.drift() > DRIFT_MAX
    }
}

/// The ceilings of one device; empty when its backend has none.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Ceilings {
    /// In the order of [`CeilingKind::ALL`].
    pub measured: Vec<MeasuredCeiling>,
}

/// What a call cannot be faster than.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Floor {
    /// Seconds.
    pub seconds: f64,
    /// The ceiling that it comes from.
    pub bound: CeilingKind,
}

impl Ceilings {
    /// Measures all kinds.
    ///
    /// # Errors
    /// Memory.
    pub fn measure(backend: &dyn Backend) -> Result<Self> {
        let mut measured = Vec::new();
        for kind in CeilingKind::ALL {
            if let Some(ceiling) = backend.ceiling(kind)? {
                measured.push(MeasuredCeiling {
                    kind: kind.name(),
                    unit: kind.unit(),
                    before: ceiling.median,
                    after: ceiling.median,
                    best: ceiling.best,
                });
            }
        }
        Ok(Self { measured })
    }

    /// Takes what was measured after everything else.
    pub fn finish(&mut self, after: &Self) {
        for (mine, later) in self.measured.iter_mut().zip(&after.measured) {
            mine.after = later.after;
            mine.best = mine.best.max(later.best);
        }
    }

    /// The rate of a kind.
    fn rate(&self, kind: CeilingKind) -> Option<f64> {
        let mut all = self.measured.iter();
        all.find(|ceiling| ceiling.kind == kind.name())
            .map(MeasuredCeiling::rate)
    }

    /// The slowest of reading from memory, reading from a cache and computing, if the device's rates are known.
    pub fn floor(&self, cost: &Cost) -> Option<Floor> {
        let demands = [
            (CeilingKind::Memory, cost.memory_bytes),
            (CeilingKind::Cache, cost.cache_bytes),
            (cost.unit, cost.operations),
        ];
        let floors = demands.iter().filter_map(|(bound, amount)| {
            Some(Floor {
                seconds: *amount as f64 / self.rate(*bound)?,
                bound: *bound,
            })
        });
        floors.max_by(|a, b| a.seconds.total_cmp(&b.seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ceilings() -> Ceilings {
        let ceiling = |kind: CeilingKind, before, after| MeasuredCeiling {
            kind: kind.name(),
            unit: kind.unit(),
            before,
            after,
            best: 1e9,
        };
        Ceilings {
            measured: vec![
                ceiling(CeilingKind::Memory, 8.0, 10.0),
                ceiling(CeilingKind::Cache, 100.0, 99.0),
                ceiling(CeilingKind::Int8, 1000.0, 500.0),
            ],
        }
    }

    #[test]
    fn the_floor_is_the_slowest_of_what_a_call_needs() {
        let ceilings = ceilings();
        for (memory_bytes, cache_bytes, operations, seconds, bound) in [
            (20, 100, 1000, 2.0, CeilingKind::Memory),
            (20, 400, 1000, 4.0, CeilingKind::Cache),
            (20, 400, 5000, 5.0, CeilingKind::Int8),
        ] {
            let cost = Cost {
                memory_bytes,
                cache_bytes,
                operations,
                unit: CeilingKind::Int8,
            };
            assert_eq!(ceilings.floor(&cost), Some(Floor { seconds, bound }));
            assert_eq!(Ceilings::default().floor(&cost), None);
        }
    }

    #[test]
    fn a_machine_that_changed_is_noticed() {
        let drifted: Vec<bool> = ceilings().measured.iter().map(|c| c.drifted()).collect();
        assert_eq!(drifted, [true, false, true]);
    }

    #[test]
    fn later_medians_and_better_runs_are_taken() {
        let mut first = ceilings();
        let mut later = ceilings();
        later.measured[0].after = 12.0;
        later.measured[0].best = 2e9;
        first.finish(&later);
        assert_eq!(first.measured[0].rate(), 12.0);
        assert_eq!(
            (first.measured[0].before, first.measured[0].best),
            (8.0, 2e9)
        );
    }
}
