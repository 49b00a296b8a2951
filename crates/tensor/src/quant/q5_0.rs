//! Q5_0: `d` (f16), 32 fifth bits, 32 low nibbles; `x = d · (q - 16)`.

use super::{Group, f16_at, split_five_bits};

/// Splits one block of 22 bytes into one group, codes -16..=15.
pub fn unpack(block: &[u8], groups: &mut [Group]) {
    let codes = split_five_bits(&block[2..6], &block[6..22]).map(|q| q as i8 - 16);
    groups[0] = Group::plain(codes, f16_at(block, 0));
}
