//! Rotary tables for every position that is served.
//!
//! Computed in f64 by a portable implementation of `pow`, `sin` and `cos`, so every machine gets the same bits.
//! Source: RoFormer (arXiv 2104.09864); Llama 3 scaling as in the reference code of Llama 3.1.

use std::f64::consts::PI;

use ucuz_formats::ModelConfig;
use ucuz_formats::config::{RopeConfig, RopeScaling};
use ucuz_tensor::backend::{RopeStyle, RopeTable};
use ucuz_tensor::{TensorResult, numerics};

/// Frequencies in radians a token: `[rotary_dim / 2]`.
fn frequencies(config: &RopeConfig) -> Vec<f64> {
    let plain = numerics::inverse_frequencies(config.theta, config.rotary_dim);
    let scaled = |(i, base): (usize, f64)| match &config.scaling {
        RopeScaling::None => base,
        RopeScaling::Linear { factor } => base / factor,
        RopeScaling::Factors(factors) => base / f64::from(factors.get(i).copied().unwrap_or(1.0)),
        RopeScaling::Llama3 { .. } => llama3(base, &config.scaling),
    };
    plain.into_iter().enumerate().map(scaled).collect()
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

/// Bytes of the tables that a model keeps for positions `0..context`.
pub fn rope_bytes(config: &ModelConfig, context: usize) -> usize {
    let tables = std::iter::once(&config.rope).chain(&config.rope_local);
    // A cosine and a sine of four bytes for each pair of numbers that turns.
    tables
        .map(|rope| context.saturating_mul(rope.rotary_dim * 4))
        .sum()
}

/// The table for positions `0..context`.
///
/// # Errors
/// Out of memory.
pub fn rope_table(config: &RopeConfig, context: usize) -> TensorResult<RopeTable> {
    let (cos, sin) = numerics::rope_table(&frequencies(config), context, 1.0)?;
    let style = if config.interleaved {
        RopeStyle::Interleaved
    } else {
        RopeStyle::Half
    };
    Ok(RopeTable { cos, sin, style })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ucuz_formats::Checkpoint;

    use super::*;

    #[test]
    fn tables_take_the_bytes_that_are_planned() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/tiny");
        for (name, tables) in [("qwen2", 1), ("gemma3-pattern", 2)] {
            let config = Checkpoint::open(&golden.join(name)).unwrap().config;
            let all: Vec<&RopeConfig> = std::iter::once(&config.rope)
                .chain(&config.rope_local)
                .collect();
            assert_eq!(all.len(), tables, "{name}");
            let bytes = |rope: &&RopeConfig| {
                let table = rope_table(rope, 77).unwrap();
                4 * (table.cos.values().len() + table.sin.values().len())
            };
            assert_eq!(
                rope_bytes(&config, 77),
                all.iter().map(bytes).sum::<usize>(),
                "{name}"
            );
        }
    }
}
