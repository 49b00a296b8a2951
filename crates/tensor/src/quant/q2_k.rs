//! Q2_K: 16 bytes of 4-bit scale (low) and minimum (high), 256 codes of 2 bits, `d`, `dmin` (f16);
//! `x = d · scale · q - dmin · minimum` with one scale and minimum per 16 elements.

use super::{Group, f16_at};

/// Splits one block of 84 bytes into eight groups, codes 0..=3.
pub fn unpack(block: &[u8], groups: &mut [Group]) {
    let (scales, qs) = (&block[..16], &block[16..80]);
    let (d, m) = (f16_at(block, 80), -f16_at(block, 82));
    for (g, group) in groups[..8].iter_mut().enumerate() {
        let qs = &qs[g / 4 * 32..][..32];
        let pair = [scales[2 * g], scales[2 * g + 1]];
        *group = Group {
            codes: std::array::from_fn(|l| (qs[l] >> (g % 4 * 2) & 3) as i8),
            d,
            m,
            sub_scales: pair.map(|s| (s & 15) as i8),
            sub_mins: pair.map(|s| (s >> 4) as i8),
        };
    }
}
