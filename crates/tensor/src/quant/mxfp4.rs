//! MXFP4 as in GGUF: one exponent byte `e` (E8M0), then 32 indices of 4 bits, element `j` and `j + 16` in one byte.
//!
//! The levels are the FP4 values doubled, hence integers; the scale is halved, `2^(e - 128)`, which is denormal for `e < 2`.
//! `e = 255` means NaN in the OCP standard; gguf-py and ggml read it as an exponent like any other, and so is it here.

use super::{Group, split_nibbles};

/// The levels, twice the FP4 values.
///
/// Source: `kvalues_mxfp4`, ggml-common.h.
pub static LEVELS: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Splits one block of 17 bytes into one group, codes being levels.
pub fn unpack(block: &[u8], groups: &mut [Group]) {
    let levels = split_nibbles(&block[1..17]).map(|q| LEVELS[usize::from(q)]);
    groups[0] = Group::plain(levels, half_scale(block[0]));
}

/// `2^(e - 128)`.
pub fn half_scale(e: u8) -> f32 {
    f32::from_bits(match e {
        0 | 1 => 0x0020_0000 << e,
        _ => (u32::from(e) - 1) << 23,
    })
}

/// The exponent byte of a scale: the inverse of [`half_scale`].
pub fn exponent(scale: f32) -> u8 {
    match scale.to_bits() {
        0x0020_0000 => 0,
        0x0040_0000 => 1,
        bits => ((bits >> 23) + 1) as u8,
    }
}
