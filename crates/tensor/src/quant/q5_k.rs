//! Q5_K: Q4_K with a fifth bit: bit `g` of `qh[l]` tops element `l` of group `g`.

use super::{Group, f16_at, scales_and_minima};

/// Splits one block of 176 bytes into eight groups, codes 0..=31.
pub fn unpack(block: &[u8], groups: &mut [Group]) {
    let (d, m) = (f16_at(block, 0), -f16_at(block, 2));
    let (scales, qh, qs) = (&block[4..16], &block[16..48], &block[48..176]);
    for (g, group) in groups[..8].iter_mut().enumerate() {
        let (scale, minimum) = scales_and_minima(scales, g);
        let qs = &qs[g / 2 * 32..][..32];
        let code = |l: usize| (qs[l] >> (g % 2 * 4) & 15 | (qh[l] >> g & 1) << 4) as i8;
        *group = Group {
            codes: std::array::from_fn(code),
            d,
            m,
            sub_scales: [scale; 2],
            sub_mins: [minimum; 2],
        };
    }
}
