//! Q3_K: 256 high bits, 256 low codes of 2 bits, 16 scales of 6 bits around 32, `d` (f16);
//! `x = d · (scale - 32) · (q - 4)` with one scale per 16 elements.

use super::{Group, f16_at};

/// Splits one block of 110 bytes into eight groups, codes -4..=3.
pub fn unpack(block: &[u8], groups: &mut [Group]) {
    let (high, qs, scales) = (&block[..32], &block[32..96], &block[96..108]);
    let d = f16_at(block, 108);
    for (g, group) in groups[..8].iter_mut().enumerate() {
        let qs = &qs[g / 4 * 32..][..32];
        let code = |l: usize| (qs[l] >> (g % 4 * 2) & 3 | (high[l] >> g & 1) << 2) as i8 - 4;
        *group = Group {
            sub_scales: [scale(scales, 2 * g), scale(scales, 2 * g + 1)],
            ..Group::plain(std::array::from_fn(code), d)
        };
    }
}

/// Scale `k` of 16, -32..=31: its low nibble is in byte `k % 8`, its two high bits in byte `8 + k % 4`.
fn scale(packed: &[u8], k: usize) -> i8 {
    let low = packed[k % 8] >> (k / 8 * 4) & 15;
    let high = packed[8 + k % 4] >> (k / 4 * 2) & 3;
    (low | high << 4) as i8 - 32
}
