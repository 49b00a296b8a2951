//! Axes: a scale, its ticks and their labels.
//!
//! Everything is drawn in transformed numbers (`log2`, `log10` or themselves), so that one kind of chart serves all scales.

use std::ops::RangeInclusive;

use crate::number;

/// Most ticks with a label.
const TICKS_MAX: usize = 12;

/// How numbers become distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Equal steps; starts at zero unless something lies below.
    Linear,
    /// Equal factors, ticks at powers of two: lengths, batches, rows.
    Log2,
    /// Equal factors, ticks at 1, 2 and 5 times powers of ten: times, rates, bytes.
    Log10,
}

/// One axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    /// What it shows, with the unit.
    pub label: String,
    /// How numbers become distances.
    pub scale: Scale,
}

impl Axis {
    /// An axis.
    pub fn new(label: impl Into<String>, scale: Scale) -> Self {
        Self {
            label: label.into(),
            scale,
        }
    }

    /// The transformed range that shows `values`, with a little room at both ends; `None` without values.
    pub(super) fn range(&self, values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
        let (low, high) = values
            .map(|v| self.scale.forward(v))
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
                (low.min(v), high.max(v))
            });
        if low > high {
            return None;
        }
        let room = match high - low {
            width if width > 0.0 => width * 0.05,
            _ => 0.5,
        };
        match self.scale {
            Scale::Linear if low >= 0.0 => Some((0.0, (high + room).max(f64::MIN_POSITIVE))),
            _ => Some((low - room, high + room)),
        }
    }
}

impl Scale {
    /// Whether `value` has a place.
    pub(super) fn holds(self, value: f64) -> bool {
        value.is_finite() && (self == Self::Linear || value > 0.0)
    }

    pub(super) fn forward(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log2 => value.log2(),
            Self::Log10 => value.log10(),
        }
    }

    fn backward(self, place: f64) -> f64 {
        match self {
            Self::Linear => place,
            Self::Log2 => place.exp2(),
            Self::Log10 => 10f64.powf(place),
        }
    }

    /// Transformed places of the ticks between `low` and `high`, both transformed.
    pub(super) fn ticks(self, low: f64, high: f64) -> Vec<f64> {
        let whole = low.ceil() as i64..=high.floor() as i64;
        let ticks = match self {
            Self::Linear => linear_ticks(low, high),
            Self::Log2 => thinned(whole),
            Self::Log10 => decimal_ticks(low, high, whole),
        };
        match ticks.len() {
            // Everything lies between two round numbers: its ends are better than no ticks.
            0 | 1 if self != Self::Linear => vec![low, high],
            _ => ticks,
        }
    }

    /// The number at a transformed place, for people: 8192, 0.5, 20k, 3M.
    pub(super) fn label(self, place: f64) -> String {
        let value = self.backward(place);
        let units = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")];
        match units.iter().find(|(unit, _)| value.abs() >= *unit) {
            // Thousands from ten thousand on: 8192 is better known than 8.192k.
            Some((1e4, name)) => number::short(value / 1e3, 3) + name,
            Some((unit, name)) => number::short(value / unit, 3) + name,
            None => number::short(value, 4),
        }
    }
}

/// Every whole power, or every second, third ... of them.
fn thinned(whole: RangeInclusive<i64>) -> Vec<f64> {
    let count = whole.clone().count();
    let step = count.div_ceil(TICKS_MAX).max(1);
    whole.step_by(step).map(|power| power as f64).collect()
}

/// 1, 2 and 5 times powers of ten while there are few, else the powers alone.
fn decimal_ticks(low: f64, high: f64, whole: RangeInclusive<i64>) -> Vec<f64> {
    let powers = low.floor() as i64..=high.floor() as i64;
    let fine: Vec<f64> = powers
        .flat_map(|power| [1.0f64, 2.0, 5.0].map(|digit| power as f64 + digit.log10()))
        .filter(|tick| (low..=high).contains(tick))
        .collect();
    match fine.len() <= TICKS_MAX {
        true => fine,
        false => thinned(whole),
    }
}

/// Steps of 1, 2 or 5 times a power of ten, about six of them.
fn linear_ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 6.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|digit| digit * power)
        .into_iter()
        .find(|step| *step >= rough)
        .unwrap_or(power);
    let first = (low / step).ceil() as i64;
    let last = (high / step).floor() as i64;
    (first..=last).map(|i| i as f64 * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, low: f64, high: f64) -> Vec<String> {
        let (low, high) = (scale.forward(low), scale.forward(high));
        let ticks = scale.ticks(low, high);
        ticks.into_iter().map(|tick| scale.label(tick)).collect()
    }

    #[test]
    fn powers_of_two_are_all_shown_while_they_fit() {
        let all = [
            "16", "32", "64", "128", "256", "512", "1024", "2048", "4096", "8192",
        ];
        assert_eq!(labels(Scale::Log2, 15.0, 8300.0), all);
        assert_eq!(
            labels(Scale::Log2, 1.0, 1048576.0).len(),
            11,
            "every second one"
        );
    }

    #[test]
    fn decimal_ticks_get_coarser_with_the_range() {
        assert_eq!(
            labels(Scale::Log10, 0.9, 60.0),
            ["1", "2", "5", "10", "20", "50"]
        );
        assert_eq!(
            labels(Scale::Log10, 0.9, 2e6),
            ["1", "10", "100", "1000", "10k", "100k", "1M"]
        );
    }

    #[test]
    fn linear_ticks_start_at_zero() {
        let axis = Axis::new("tokens/s", Scale::Linear);
        let (low, high) = axis.range([120.0, 560.0].into_iter()).unwrap();
        assert_eq!(low, 0.0);
        assert_eq!(
            labels(Scale::Linear, low, high),
            ["0", "100", "200", "300", "400", "500"]
        );
    }

    #[test]
    fn a_narrow_or_empty_range_still_has_an_axis() {
        assert_eq!(Axis::new("", Scale::Log2).range([].into_iter()), None);
        let (low, high) = Axis::new("", Scale::Log10)
            .range([3.3].into_iter())
            .unwrap();
        assert!(low < high);
        assert!(labels(Scale::Log2, 5.0, 7.0).len() >= 2);
    }

    #[test]
    fn a_logarithmic_axis_has_no_place_for_zero() {
        assert!(Scale::Linear.holds(0.0) && Scale::Linear.holds(-1.0));
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(!Scale::Log2.holds(value) && !Scale::Log10.holds(value));
        }
    }
}
