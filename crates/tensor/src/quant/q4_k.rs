//! Q4_K: `d`, `dmin` (f16), eight 6-bit scales and minima in 12 bytes, 256 codes of 4 bits;
//! `x = d · scale · q - dmin · minimum`. A run of 32 bytes holds two groups: low nibbles, then high ones.

use super::{Group, f16_at, scales_and_minima};

/// Splits one block of 144 bytes into eight groups, codes 0..=15.
pub fn unpack(block: &[u8], groups: &mut [Group]) {
    let (d, m) = (f16_at(block, 0), -f16_at(block, 2));
    let (scales, qs) = (&block[4..16], &block[16..144]);
    for (g, group) in groups[..8].iter_mut().enumerate() {
        let (scale, minimum) = scales_and_minima(scales, g);
        let qs = &qs[g / 2 * 32..][..32];
        *group = Group {
            codes: std::array::from_fn(|l| (qs[l] >> (g % 2 * 4) & 15) as i8),
            d,
            m,
            sub_scales: [scale; 2],
            sub_mins: [minimum; 2],
        };
    }
}
