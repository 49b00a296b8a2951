//! Rotary tables for every position that is served.
//!
//! Computed in f64 by a portable implementation of `pow`, `sin` and `cos`, so every machine gets the same bits.
//! Source: RoFormer (arXiv 2104.09864); Llama 3 scaling as in the reference code of Llama 3.1.

use std::f64::consts::PI;

use ucuz_formats::config::{RopeConfig, RopeScaling};
use ucuz_tensor::backend::{RopeStyle, RopeTable};
use ucuz_tensor::{Tensor, TensorResult};

/// Frequencies in radians a token: `[rotary_dim / 2]`.
fn frequencies(config: &RopeConfig) -> Vec<f64> {
    let pairs = config.rotary_dim / 2;
    (0..pairs)
        .map(|i| {
            let base = libm::pow(config.theta, -2.0 * i as f64 / config.rotary_dim as f64);
            match &config.scaling {
                RopeScaling::None => base,
                RopeScaling::Linear { factor } => base / factor,
                RopeScaling::Factors(factors) => {
                    base / f64::from(factors.get(i).copied().unwrap_or(1.0))
                }
                RopeScaling::Llama3 { .. } => llama3(base, &config.scaling),
            }
        })
        .collect()
}

/// Llama 3: long wavelengths are divided by `factor`, short ones kept, a linear ramp in between.
fn llama3(frequency: f64, scaling: &RopeScaling) -> f64 {
    let RopeScaling::Llama3 {
        factor,
        low_freq_factor,
        high_freq_factor,
        original_context,
    } = scaling
    else {
        return frequency;
    };
    let wavelength = 2.0 * PI / frequency;
    if wavelength < original_context / high_freq_factor {
        frequency
    } else if wavelength > original_context / low_freq_factor {
        frequency / factor
    } else {
        let smooth = (original_context / wavelength - low_freq_factor)
            / (high_freq_factor - low_freq_factor);
        (1.0 - smooth) * frequency / factor + smooth * frequency
    }
}

/// The table for positions `0..context`.
///
/// # Errors
/// Out of memory.
pub fn rope_table(config: &RopeConfig, context: usize) -> TensorResult<RopeTable> {
    let frequencies = frequencies(config);
    let mut cos = Tensor::zeroed(context, frequencies.len(), "the rotary table")?;
    let mut sin = Tensor::zeroed(context, frequencies.len(), "the rotary table")?;
    let (mut cos_view, mut sin_view) = (cos.view_mut(), sin.view_mut());
    for position in 0..context {
        let (cos_row, sin_row) = (cos_view.row_mut(position), sin_view.row_mut(position));
        for ((c, s), frequency) in cos_row.iter_mut().zip(sin_row).zip(&frequencies) {
            let angle = position as f64 * frequency;
            *c = libm::cos(angle) as f32;
            *s = libm::sin(angle) as f32;
        }
    }
    let style = if config.interleaved {
        RopeStyle::Interleaved
    } else {
        RopeStyle::Half
    };
    Ok(RopeTable { cos, sin, style })
}
