//! Error bounds, and the comparisons that use them.

use super::data::Exact;
use crate::format::{Arithmetic, GROUP, SEGMENT};

/// Spacing of f32 at 1, twice the largest relative error of one rounding.
pub const EPS: f64 = f32::EPSILON as f64;
/// Largest relative error of rounding to bf16.
pub const BF16: f64 = 1.0 / 256.0;
/// Below this a bf16 operand may become zero.
const BF16_FLUSH: f64 = 1.0 / (1u64 << 48) as f64;

/// An expected number and how far from it a result may lie.
#[derive(Clone, Copy)]
pub struct Expected {
    pub value: f64,
    pub bound: f64,
}

/// Fails unless every result is finite and within its bound; names the worst one.
pub fn assert_within(what: &str, got: &[f32], expected: &[Expected]) {
    assert_eq!(got.len(), expected.len(), "{what}: number of results");
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        let error = (f64::from(*got) - expected.value).abs();
        assert!(
            error <= expected.bound,
            "{what}: result {i} is {got}, expected {} within {:e}; off by {error:e}",
            expected.value,
            expected.bound
        );
    }
}

/// Fails unless both have the same bits.
pub fn assert_same(what: &str, got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len(), "{what}: number of results");
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert_eq!(
            got.to_bits(),
            expected.to_bits(),
            "{what}: result {i} is {got}, expected {expected} bit for bit"
        );
    }
}

fn largest(x: &[f32]) -> f32 {
    x.iter().fold(0.0, |max, v| max.max(v.abs()))
}

/// `x · w[output] + bias` with the bound of the part's arithmetic.
///
/// - int8 activations: a code is off by half a step, so per group (or row) `0.5 · absmax / 127 · sum |w|`; codes of twelve bits have
///   16 steps for one, and one `absmax` a segment;
/// - bf16 activations: `2^-8` of each product, and what is flushed to zero;
/// - everywhere: one f32 rounding a column of what is added up.
pub fn dot(x: &[f32], part: &Exact, output: usize) -> Expected {
    let range = output * part.cols..(output + 1) * part.cols;
    let (w, magnitudes) = (&part.values[range.clone()], &part.magnitudes[range]);
    let arithmetic = part.arithmetic;
    let (mut value, mut bound) = (0.0, 0.0);
    let shared = match arithmetic {
        Arithmetic::I8Row => x.len().max(1),
        Arithmetic::I12 => SEGMENT,
        _ => GROUP,
    };
    let peaks: Vec<f32> = x.chunks(shared).map(largest).collect();
    let groups = x
        .chunks(GROUP)
        .zip(w.chunks(GROUP).zip(magnitudes.chunks(GROUP)));
    for (group, (x, (w, magnitudes))) in groups.enumerate() {
        let absmax = peaks[group * GROUP / shared];
        // The scale and the product with its inverse are rounded too: a little more than half a step.
        let step = match arithmetic {
            Arithmetic::I8 | Arithmetic::I8Row => f64::from(absmax) / 127.0 * 0.5001,
            Arithmetic::I12 => f64::from(absmax) / 127.0 / 16.0 * 0.5001,
            Arithmetic::Bf16 | Arithmetic::Bf16Code => BF16_FLUSH,
            Arithmetic::F32 => 0.0,
        };
        let relative = match arithmetic {
            Arithmetic::Bf16 | Arithmetic::Bf16Code => BF16,
            _ => 0.0,
        };
        for (x, (w, magnitude)) in x.iter().zip(w.iter().zip(magnitudes)) {
            let (x, w) = (f64::from(*x), f64::from(*w));
            value += x * w;
            bound += step * w.abs() + relative * (x * w).abs();
            let added = (x.abs() + step) * f64::from(*magnitude) * (1.0 + relative);
            bound += (part.cols + 16) as f64 * EPS * added;
            if arithmetic == Arithmetic::Bf16 {
                bound += BF16_FLUSH * x.abs();
            }
        }
    }
    if let Some(bias) = &part.bias {
        value += f64::from(bias[output]);
        bound += 2.0 * EPS * (value.abs() + f64::from(bias[output]).abs());
    }
    Expected { value, bound }
}
