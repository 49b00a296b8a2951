//! Q6_K: 256 low nibbles, 256 high bit pairs, 16 signed scales, `d` (f16); `x = d · scale · (q - 32)` with one scale per
//! 16 elements. Each half of 128 elements is four groups: of 64 bytes of nibbles, low ones first; of `qh`, pairs ascending.

use super::{Group, f16_at};

/// Splits one block of 210 bytes into eight groups, codes -32..=31.
pub fn unpack(block: &[u8], groups: &mut [Group]) {
    let (ql, qh, scales) = (&block[..128], &block[128..192], &block[192..208]);
    let d = f16_at(block, 208);
    for (g, group) in groups[..8].iter_mut().enumerate() {
        let (half, j) = (g / 4, g % 4);
        let ql = &ql[half * 64 + j % 2 * 32..][..32];
        let qh = &qh[half * 32..][..32];
        let code = |l: usize| (ql[l] >> (j / 2 * 4) & 15 | (qh[l] >> (2 * j) & 3) << 4) as i8 - 32;
        *group = Group {
            sub_scales: [scales[2 * g] as i8, scales[2 * g + 1] as i8],
            ..Group::plain(std::array::from_fn(code), d)
        };
    }
}
