//! What a device can do at most, measured by loops that do nothing else: the roof over every operation.
//!
//! Here: the names and the numbers. Each backend measures with its own instructions ([`crate::Backend::ceiling`]);
//! whoever divides by a ceiling measures it in the same run, since clocks and neighbours change it.

/// What bounds an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CeilingKind {
    /// Reading memory that no cache holds, in bytes/s.
    Memory,
    /// Reading what each thread's own cache holds, in bytes/s.
    Cache,
    /// int8 products added up in int32, in operations/s.
    Int8,
    /// bf16 products added up in f32, in operations/s; where no unit multiplies bf16 this is the rate of f32.
    Bf16,
    /// f32 multiply-adds, in operations/s.
    Float32,
}

impl CeilingKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [
        Self::Memory,
        Self::Cache,
        Self::Int8,
        Self::Bf16,
        Self::Float32,
    ];

    /// Name in tables and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cache => "cache",
            Self::Int8 => "int8",
            Self::Bf16 => "bf16",
            Self::Float32 => "f32",
        }
    }

    /// What one unit of the rate is.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Memory | Self::Cache => "bytes/s",
            Self::Int8 | Self::Bf16 | Self::Float32 => "operations/s",
        }
    }
}

impl std::fmt::Display for CeilingKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A measured rate of all threads together, in [`CeilingKind::unit`]; a multiply-add counts as two operations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ceiling {
    /// What was measured.
    pub kind: CeilingKind,
    /// The median of the runs: what the device sustains.
    pub median: f64,
    /// The fastest run: what it reached undisturbed.
    pub best: f64,
    /// Number of runs.
    pub runs: usize,
}

impl Ceiling {
    /// The rate of runs that did `work` units each, from their durations in seconds.
    ///
    /// # Panics
    /// Without runs, or when one took no time.
    pub fn of_runs(kind: CeilingKind, work: f64, seconds: &[f64]) -> Self {
        let mut sorted = seconds.to_vec();
        sorted.sort_by(f64::total_cmp);
        assert!(
            sorted.first().is_some_and(|fastest| *fastest > 0.0),
            "a ceiling needs runs that took time, got {seconds:?}"
        );
        Self {
            kind,
            median: work / sorted[sorted.len() / 2],
            best: work / sorted[0],
            runs: sorted.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ceiling_is_the_median_of_its_runs_and_keeps_the_best() {
        let ceiling = Ceiling::of_runs(CeilingKind::Int8, 6.0, &[3.0, 1.0, 2.0]);
        assert_eq!((ceiling.median, ceiling.best, ceiling.runs), (3.0, 6.0, 3));
    }
}
