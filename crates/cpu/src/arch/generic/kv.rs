//! Where a token's keys and values lie in a block, and how they are written.
//!
//! ```text
//! block  = per kv head: keys, then values; both take 32 · head_dim numbers, and for int8 32 scales after them
//! bf16   keys   = [half of 16 tokens][pair of dims][16 tokens][2 dims]
//!        values = [group of 16 dims][pair of tokens][16 dims][2 tokens]
//! int8   keys   = [half of 16 tokens][dim][16 tokens], 32 scales
//!        values = [group of 16 dims][32 tokens][16 dims], 32 scales
//! f32    keys   = [32 tokens][dim]         values = [32 tokens][dim]
//! ```
//! So 64 bytes of bf16 hold 16 keys and two dims, or 16 dims and two tokens: the second operand of a tile product, and a
//! vector whose lanes are what the sum does not run over. int8 has the same order but for the two of a pair, which lie
//! apart: widening 16 bytes to 16 lanes is then one instruction. Scales are f32, `absmax / 127` of the token's numbers.
//! One text for all tiers: a token's key lies 64 or 16 bytes apart.

use ucuz_tensor::cache::BLOCK_TOKENS;
use ucuz_tensor::numerics::{RowScale, bf16_bits};

/// Which half of a head's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Keys.
    Key,
    /// Values.
    Value,
}

impl Side {
    /// Of part `part` of a block: keys and values of the heads in turn.
    pub const fn of_part(part: usize) -> Self {
        if part.is_multiple_of(2) {
            Self::Key
        } else {
            Self::Value
        }
    }
}

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

/// Writes one token's key as codes and their scale into its head's keys of an int8 block.
pub fn store_key_int8(keys: &mut [u8], token: usize, key: &[f32]) {
    let (codes, scale) = set_scale(keys, token, key);
    let start = token / 16 * 16 * key.len() + token % 16;
    for (place, x) in codes[start..].iter_mut().step_by(16).zip(key) {
        *place = scale.code_or_zero(*x) as u8;
    }
}

/// Writes one token's value as codes and their scale into its head's values of an int8 block.
pub fn store_value_int8(values: &mut [u8], token: usize, value: &[f32]) {
    let (codes, scale) = set_scale(values, token, value);
    let groups = codes.chunks_exact_mut(16 * BLOCK_TOKENS);
    for (group, dims) in groups.zip(value.as_chunks::<16>().0) {
        group.as_chunks_mut().0[token] = dims.map(|x| scale.code_or_zero(x) as u8);
    }
}

/// Stores the scale of a token's numbers; returns the codes of the part, and the scale.
fn set_scale<'a>(part: &'a mut [u8], token: usize, x: &[f32]) -> (&'a mut [u8], RowScale) {
    let (codes, scales) = part.split_at_mut(BLOCK_TOKENS * x.len());
    let scale = RowScale::of(x);
    scales.as_chunks_mut().0[token] = scale.scale.to_ne_bytes();
    (codes, scale)
}

/// Writes one token's key or value into its head's part of an f32 block.
pub fn store_f32(part: &mut [f32], token: usize, x: &[f32]) {
    part[token * x.len()..(token + 1) * x.len()].copy_from_slice(x);
}
