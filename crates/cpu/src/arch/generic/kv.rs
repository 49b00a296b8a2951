//! Where a token's keys and values lie in a block, and how they are written.
//!
//! ```text
//! block  = per kv head: keys, then values; both take 32 · head_dim numbers
//! bf16   keys   = [half of 16 tokens][pair of dims][16 tokens][2 dims]
//!        values = [group of 16 dims][pair of tokens][16 dims][2 tokens]
//! f32    keys   = [32 tokens][dim]         values = [32 tokens][dim]
//! ```
//! So 64 bytes hold 16 keys and two dims, or 16 dims and two tokens: the second operand of a tile product, and a vector
//! whose lanes are what the sum does not run over. One text for all tiers: a token's words lie 64 bytes apart.

use ucuz_tensor::cache::BLOCK_TOKENS;
use ucuz_tensor::numerics::bf16_bits;

/// Writes one token's key, rounded to bf16, into its head's keys of a block.
pub fn store_key(keys: &mut [u16], token: usize, key: &[f32]) {
    let start = token / 16 * 16 * key.len() + token % 16 * 2;
    for (pair, dims) in key.as_chunks::<2>().0.iter().enumerate() {
        let at = start + pair * 32;
        keys[at..at + 2].copy_from_slice(&dims.map(bf16_bits));
    }
}

/// Writes one token's value, rounded to bf16, into its head's values of a block.
pub fn store_value(values: &mut [u16], token: usize, value: &[f32]) {
    let groups = values.chunks_exact_mut(16 * BLOCK_TOKENS);
    for (group, dims) in groups.zip(value.as_chunks::<16>().0) {
        let pairs = &mut group[token / 2 * 32..token / 2 * 32 + 32];
        for (place, v) in pairs.as_chunks_mut::<2>().0.iter_mut().zip(dims) {
            place[token % 2] = bf16_bits(*v);
        }
    }
}

/// Writes one token's key or value into its head's part of an f32 block.
pub fn store_f32(part: &mut [f32], token: usize, x: &[f32]) {
    part[token * x.len()..(token + 1) * x.len()].copy_from_slice(x);
}
