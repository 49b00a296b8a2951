//! Activations to bf16 tiles, compiled for this tier: the compiler turns the loops into vectors.

use crate::activations::{self, Bf16Group};

/// [`activations::pack_tiles`].
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub fn pack_tiles(block: &mut [Bf16Group], x: &[f32], cols: usize) {
    activations::pack_tiles(block, x, cols);
}
