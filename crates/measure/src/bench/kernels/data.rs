//! Made-up weights, activations and steps. What they hold does not change the speed, as long as no number is denormal.

use std::sync::Arc;

use anyhow::{Context, Result};
use ucuz_tensor::backend::Limits;
use ucuz_tensor::batch::GroupTables;
use ucuz_tensor::cache::BLOCK_TOKENS;
use ucuz_tensor::weight::RawPart;
use ucuz_tensor::{
    Activations, Backend, Batch, Format, OnLoad, SeqSlot, Tensor, TensorResult, Weight,
    WeightOptions,
};

/// xorshift64: the same bytes on every run.
struct Noise(u64);

impl Noise {
    fn byte(&mut self) -> u8 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 56) as u8
    }
}

/// Bytes of a stored row of `cols` numbers.
///
/// # Errors
/// Columns that the format cannot store.
pub fn row_bytes(format: Format, cols: usize) -> Result<usize> {
    format.row_bytes(cols).with_context(|| {
        let multiple = format.info().block_elements;
        format!(
            "rows of {format} are multiples of {multiple}, got {cols}; change --shape or --formats"
        )
    })
}

/// Stored rows. Every byte of a coded block is `0x2?`, so that wherever its scales lie they are small normal numbers; the
/// last byte of a float is `0x3c`, about one or a hundredth.
fn stored(format: Format, rows: usize, cols: usize) -> Result<Vec<u8>> {
    let info = format.info();
    let row_bytes = row_bytes(format, cols)?;
    let mut noise = Noise(1);
    let mut bytes: Vec<u8> = (0..row_bytes * rows).map(|_| noise.byte()).collect();
    if info.block_elements > 1 {
        bytes.iter_mut().for_each(|byte| *byte = 0x20 | *byte & 15);
    } else {
        let numbers = bytes.chunks_exact_mut(info.block_bytes);
        numbers.for_each(|number| number[info.block_bytes - 1] = 0x3c);
    }
    Ok(bytes)
}

/// A weight, as often as it takes to fill `ring_bytes`: whoever walks around the ring finds none in a cache that holds half of
/// it.
///
/// # Errors
/// Columns that the format cannot store, memory.
pub fn weight_ring(
    backend: &dyn Backend,
    format: Format,
    (rows, cols): (usize, usize),
    activations: Activations,
    ring_bytes: usize,
) -> Result<Vec<Arc<Weight>>> {
    let bytes = stored(format, rows, cols)?;
    let part = RawPart {
        name: format!("{format} {rows}x{cols}"),
        format,
        rows,
        cols,
        bytes: &bytes,
        bias: None,
    };
    let load = || {
        Weight::load(
            backend,
            &part.name,
            std::slice::from_ref(&part),
            WeightOptions {
                activations,
                on_load: OnLoad::AsStored,
            },
        )
    };
    let first = load()?;
    let copies = ring_bytes.div_ceil(first.len_bytes().max(1)).max(1);
    let mut ring = vec![first];
    for _ in 1..copies {
        ring.push(load()?);
    }
    Ok(ring)
}

/// `[rows, cols]` numbers within ±1.
///
/// # Errors
/// Memory.
pub fn activations(rows: usize, cols: usize) -> TensorResult<Tensor> {
    let mut noise = Noise(2);
    let values: Vec<f32> = (0..rows * cols)
        .map(|_| (f32::from(noise.byte()) - 127.5) / 128.0)
        .collect();
    Tensor::from_values(&values, cols, "made-up activations")
}

/// `count` ids below `vocab`, far from each other.
pub fn tokens(count: usize, vocab: usize) -> Vec<u32> {
    // A prime step visits all of them.
    (0..count).map(|i| (i * 7919 % vocab) as u32).collect()
}

/// A step in which each of `sequences` computes its last `rows` of `context` tokens.
pub fn step(sequences: usize, rows: usize, context: usize) -> Batch {
    let blocks = context.div_ceil(BLOCK_TOKENS);
    let positions = (context - rows) as u32..context as u32;
    Batch {
        tokens: vec![0; sequences * rows],
        positions: (0..sequences).flat_map(|_| positions.clone()).collect(),
        seq_starts: (0..=sequences).map(|s| (s * rows) as u32).collect(),
        kv_lens: vec![context as u32; sequences],
        slots: (0..sequences).map(|s| SeqSlot(s as u32)).collect(),
        groups: vec![GroupTables {
            blocks: (0..(sequences * blocks) as u32).collect(),
            starts: (0..=sequences).map(|s| (s * blocks) as u32).collect(),
        }],
        logit_rows: Vec::new(),
    }
}

/// Limits of a queue for steps of `rows` rows in all, `sequences` sequences and at most `context` tokens each.
pub fn limits(rows: usize, sequences: usize, context: usize) -> Limits {
    Limits {
        step_rows: rows,
        sequences,
        logit_rows: 1,
        context,
        cols_max: BLOCK_TOKENS,
        vocab: 1,
    }
}

#[cfg(test)]
mod tests {
    use ucuz_tensor::format::FORMATS;
    use ucuz_tensor::quant::decode_row;

    use super::*;

    #[test]
    fn made_up_weights_are_normal_numbers() {
        for info in FORMATS {
            let bytes = stored(info.format, 2, 256).unwrap();
            let mut row = [0.0; 256];
            for stored in bytes.chunks_exact(bytes.len() / 2) {
                decode_row(info.format, stored, &mut row);
                let sane = |x: &f32| *x == 0.0 || x.is_normal() && x.abs() < 1e6;
                assert!(row.iter().all(sane), "{} {row:?}", info.name);
                assert!(row.iter().any(|x| *x != 0.0), "{}", info.name);
            }
        }
        assert!(stored(Format::Q4_K, 1, 32).is_err());
    }

    #[test]
    fn a_step_ends_at_its_context() {
        let batch = step(2, 3, 40);
        assert_eq!(batch.positions, [37, 38, 39, 37, 38, 39]);
        assert_eq!(batch.table(0, 1), [2, 3]);
        assert_eq!(batch.sequence_rows(1), 3..6);
    }
}
