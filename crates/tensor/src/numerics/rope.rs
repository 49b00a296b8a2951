//! Rotation tables, made once at load in f64 by the pure-Rust `libm`, so that every machine has the same bits.

use crate::error::TensorResult;
use crate::tensor::Tensor;

/// `theta^(-2i / rotary_dim)` for `i` in `0 .. rotary_dim / 2`: radians per position of each pair.
pub fn inverse_frequencies(theta: f64, rotary_dim: usize) -> Vec<f64> {
    (0..rotary_dim / 2)
        .map(|i| libm::pow(theta, -((2 * i) as f64) / rotary_dim as f64))
        .collect()
}

/// Cosines and sines of `position · inv_freq[i]`, times `scale`, rounded to f32 once.
///
/// Shapes: both `[positions, inv_freq.len()]`.
///
/// # Errors
/// [`crate::TensorError::OutOfMemory`] when a table cannot be allocated.
pub fn rope_table(
    inv_freq: &[f64],
    positions: usize,
    scale: f64,
) -> TensorResult<(Tensor, Tensor)> {
    let mut cos = Tensor::zeroed(positions, inv_freq.len(), "the rope table")?;
    let mut sin = Tensor::zeroed(positions, inv_freq.len(), "the rope table")?;
    let (mut cos_rows, mut sin_rows) = (cos.view_mut(), sin.view_mut());
    for position in 0..positions {
        let cells = cos_rows.row_mut(position).iter_mut();
        let cells = cells.zip(sin_rows.row_mut(position));
        for ((c, s), frequency) in cells.zip(inv_freq) {
            let angle = position as f64 * frequency;
            *c = (libm::cos(angle) * scale) as f32;
            *s = (libm::sin(angle) * scale) as f32;
        }
    }
    Ok((cos, sin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_match_the_standard_library_to_one_rounding() {
        let inv_freq = inverse_frequencies(1e6, 64);
        assert_eq!((inv_freq.len(), inv_freq[0]), (32, 1.0));
        let (cos, sin) = rope_table(&inv_freq, 3000, 1.25).unwrap();
        for position in [0, 1, 2, 77, 2999] {
            for (i, frequency) in inv_freq.iter().enumerate() {
                let exact_frequency = 1e6f64.powf(-(i as f64) / 32.0);
                assert!((frequency / exact_frequency - 1.0).abs() < 1e-15);
                let angle = position as f64 * frequency;
                for (got, exact) in [
                    (cos.rows(position..position + 1).values()[i], angle.cos()),
                    (sin.rows(position..position + 1).values()[i], angle.sin()),
                ] {
                    let bound = 2f64.powi(-24) * 1.25 * 1.000_001;
                    assert!((f64::from(got) - 1.25 * exact).abs() <= bound);
                }
            }
        }
    }
}
