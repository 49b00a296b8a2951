//! Q5_1: `d`, `m` (f16), 32 fifth bits, 32 low nibbles; `x = d · q + m`.

use super::{Group, f16_at, split_five_bits};

/// Splits one block of 24 bytes into one group, codes 0..=31.
pub fn unpack(block: &[u8], groups: &mut [Group]) {
    let codes = split_five_bits(&block[4..8], &block[8..24]).map(|q| q as i8);
    groups[0] = Group {
        m: f16_at(block, 2),
        ..Group::plain(codes, f16_at(block, 0))
    };
}
