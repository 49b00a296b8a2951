//! Q4_1: `d`, `m` (f16), then 32 codes of 4 bits, element `j` and `j + 16` in one byte; `x = d · q + m`.

use super::{Group, f16_at, split_nibbles};

/// Splits one block of 20 bytes into one group, codes 0..=15.
pub fn unpack(block: &[u8], groups: &mut [Group]) {
    let codes = split_nibbles(&block[4..20]).map(|q| q as i8);
    groups[0] = Group {
        m: f16_at(block, 2),
        ..Group::plain(codes, f16_at(block, 0))
    };
}
