//! Resident memory of the server over the run, and whether it grows.

use serde::Serialize;

/// One look.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MemorySample {
    /// Seconds since the start of the run.
    pub at_s: f64,
    /// Bytes that were resident.
    pub bytes: u64,
}

/// What the samples come to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MemoryTrend {
    /// First sample.
    pub first_bytes: u64,
    /// Last.
    pub last_bytes: u64,
    /// Largest.
    pub max_bytes: u64,
    /// Growth by least squares over the samples past the settling time; `None` with fewer than three of them.
    pub mib_per_10_min: Option<f64>,
    /// How many samples that is.
    pub fitted: usize,
}

impl MemoryTrend {
    /// Sums up; `None` without samples.
    pub fn of(samples: &[MemorySample], settle_s: f64) -> Option<Self> {
        let settled: Vec<&MemorySample> = samples.iter().filter(|s| s.at_s >= settle_s).collect();
        Some(Self {
            first_bytes: samples.first()?.bytes,
            last_bytes: samples.last()?.bytes,
            max_bytes: samples.iter().map(|sample| sample.bytes).max()?,
            mib_per_10_min: slope(&settled).map(|bytes_per_s| bytes_per_s * 600.0 / MIB),
            fitted: settled.len(),
        })
    }
}

const MIB: f64 = (1 << 20) as f64;

/// Bytes a second, by least squares.
fn slope(samples: &[&MemorySample]) -> Option<f64> {
    if samples.len() < 3 {
        return None;
    }
    let n = samples.len() as f64;
    let mean_t = samples.iter().map(|s| s.at_s).sum::<f64>() / n;
    let mean_b = samples.iter().map(|s| s.bytes as f64).sum::<f64>() / n;
    let (mut products, mut squares) = (0.0, 0.0);
    for sample in samples {
        let t = sample.at_s - mean_t;
        products += t * (sample.bytes as f64 - mean_b);
        squares += t * t;
    }
    (squares > 0.0).then(|| products / squares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_fitted_past_the_settling_time() {
        // 100 MiB at once while loading, then 1 MiB a minute.
        let samples: Vec<MemorySample> = (0..300)
            .map(|s| MemorySample {
                at_s: f64::from(s),
                bytes: if s < 10 {
                    1 << 20
                } else {
                    (100 << 20) + s as u64 * ((1 << 20) / 60)
                },
            })
            .collect();
        let trend = MemoryTrend::of(&samples, 10.0).unwrap();
        assert!(
            (trend.mib_per_10_min.unwrap() - 10.0).abs() < 0.01,
            "{trend:?}"
        );
        assert_eq!((trend.first_bytes, trend.fitted), (1 << 20, 290));
        let all = MemoryTrend::of(&samples, 0.0).unwrap();
        assert!(all.mib_per_10_min.unwrap() > 40.0, "{all:?}");
    }

    #[test]
    fn few_samples_have_no_growth() {
        assert_eq!(MemoryTrend::of(&[], 0.0), None);
        let one = MemorySample {
            at_s: 0.0,
            bytes: 7,
        };
        let trend = MemoryTrend::of(&[one, one, one], 0.0).unwrap();
        assert_eq!(
            (trend.max_bytes, trend.mib_per_10_min),
            (7, None),
            "no time has passed"
        );
        assert_eq!(
            MemoryTrend::of(&[one; 9], 1.0).unwrap().mib_per_10_min,
            None
        );
    }
}
