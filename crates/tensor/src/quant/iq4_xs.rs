//! IQ4_XS: `d` (f16), eight 6-bit scales around 32 (high bit pairs in a u16, low nibbles in 4 bytes), 256 indices into the
//! levels of IQ4_NL. `d · (scale - 32)` is exact in f32.

use super::iq4_nl::LEVELS;
use super::{Group, f16_at, split_nibbles};

/// Splits one block of 136 bytes into eight groups, codes being levels.
pub fn unpack(block: &[u8], groups: &mut [Group]) {
    let d = f16_at(block, 0);
    let high = u16::from_le_bytes([block[2], block[3]]);
    let (low, qs) = (&block[4..8], &block[8..136]);
    for (g, group) in groups[..8].iter_mut().enumerate() {
        let nibble = low[g / 2] >> (g % 2 * 4) & 15;
        let scale = nibble | ((high >> (2 * g) & 3) as u8) << 4;
        let levels = split_nibbles(&qs[16 * g..][..16]).map(|q| LEVELS[usize::from(q)]);
        *group = Group {
            sub_scales: [scale as i8 - 32; 2],
            ..Group::plain(levels, d)
        };
    }
}
