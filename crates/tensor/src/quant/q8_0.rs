//! Q8_0: `d` (f16), then 32 signed bytes; `x = d · q`.

use half::f16;

use super::{Group, f16_at};
use crate::format::GROUP;

/// Splits one block of 34 bytes into one group, codes -128..=127.
pub fn unpack(block: &[u8], groups: &mut [Group]) {
    let codes = std::array::from_fn(|i| block[2 + i] as i8);
    groups[0] = Group::plain(codes, f16_at(block, 0));
}

/// Encodes 32 numbers: `d = absmax / 127`, codes rounded half away from zero with the unrounded `d`.
///
/// Source: `quantize_row_q8_0_ref`.
pub fn encode(x: &[f32; GROUP]) -> [u8; 34] {
    let d = x.iter().fold(0.0f32, |max, v| max.max(v.abs())) / 127.0;
    let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
    let mut block = [0; 34];
    block[..2].copy_from_slice(&f16::from_f32(d).to_le_bytes());
    for (out, v) in block[2..].iter_mut().zip(x) {
        *out = (v * inverse).round() as i8 as u8;
    }
    block
}
