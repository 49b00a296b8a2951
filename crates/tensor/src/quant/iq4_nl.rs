//! IQ4_NL: `d` (f16), then 32 indices of 4 bits into 16 uneven levels, element `j` and `j + 16` in one byte.

use super::{Group, f16_at, split_nibbles};

/// The levels of IQ4_NL and IQ4_XS.
///
/// Source: `kvalues_iq4nl`, ggml-common.h.
pub static LEVELS: [i8; 16] = [
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
];

/// Splits one block of 18 bytes into one group, codes being levels.
pub fn unpack(block: &[u8], groups: &mut [Group]) {
    let levels = split_nibbles(&block[2..18]).map(|q| LEVELS[usize::from(q)]);
    groups[0] = Group::plain(levels, f16_at(block, 0));
}
