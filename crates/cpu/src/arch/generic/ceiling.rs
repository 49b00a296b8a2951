//! Loops that do one thing, as fast as portable code can: what a processor is measured with.
//!
//! Nothing of a result is used; [`black_box`] keeps the compiler from knowing it.

use std::hint::black_box;

/// Products of one [`int8`] round.
const INT8_PRODUCTS: usize = 4096;
/// Numbers of one [`float32`] round: twelve vectors of four, as many chains as hide the latency of a sum and a product.
const CHAINS: usize = 48;

/// Operations of one [`int8`] round.
pub const INT8_OPERATIONS: usize = 2 * INT8_PRODUCTS;
/// Operations of one [`float32`] round.
pub const FLOAT32_OPERATIONS: usize = 2 * CHAINS;

/// Reads `bytes` once.
pub fn read(bytes: &[u8]) {
    let mut sums = [0u64; 16];
    for line in bytes.as_chunks::<128>().0 {
        for (sum, word) in sums.iter_mut().zip(line.as_chunks::<8>().0) {
            *sum = sum.wrapping_add(u64::from_ne_bytes(*word));
        }
    }
    black_box(sums);
}

/// Multiplies unsigned by signed bytes and adds up in 32 bits.
pub fn int8(rounds: usize) {
    let (weights, values) = ([3u8; INT8_PRODUCTS], [-5i8; INT8_PRODUCTS]);
    let mut total = 0i32;
    for _ in 0..rounds {
        let (weights, values) = black_box((&weights, &values));
        let products = weights.iter().zip(values);
        let sum: i32 = products.map(|(w, x)| i32::from(*w) * i32::from(*x)).sum();
        total = total.wrapping_add(sum);
    }
    black_box(total);
}

/// Multiplies and adds f32 numbers, each rounded.
pub fn float32(rounds: usize) {
    let (factor, term) = black_box((0.5f32, 1.0f32));
    let mut chains = black_box([1.0f32; CHAINS]);
    for _ in 0..rounds {
        for chain in &mut chains {
            *chain = *chain * factor + term;
        }
    }
    black_box(chains);
}
