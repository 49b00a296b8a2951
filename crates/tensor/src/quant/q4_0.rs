//! Q4_0: `d` (f16), then 32 codes of 4 bits around 8, element `j` and `j + 16` in one byte; `x = d · (q - 8)`.

use half::f16;

use super::{Group, f16_at, split_nibbles};
use crate::format::GROUP;

/// Splits one block of 18 bytes into one group, codes -8..=7.
pub fn unpack(block: &[u8], groups: &mut [Group]) {
    let codes = split_nibbles(&block[2..18]).map(|q| q as i8 - 8);
    groups[0] = Group::plain(codes, f16_at(block, 0));
}

/// Encodes 32 numbers: the one of largest magnitude becomes -8 exactly, so the scale carries its sign.
///
/// Source: `quantize_row_q4_0_ref`; the product is rounded before the sum, as in gguf-py.
pub fn encode(x: &[f32; GROUP]) -> [u8; 18] {
    let larger = |max: f32, v: &f32| if v.abs() > max.abs() { *v } else { max };
    let largest = x.iter().fold(x[0], larger);
    let d = largest / -8.0;
    let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
    let code = |v: f32| ((v * inverse + 8.5) as u8).min(15);
    let mut block = [0; 18];
    block[..2].copy_from_slice(&f16::from_f32(d).to_le_bytes());
    for j in 0..16 {
        block[2 + j] = code(x[j]) | code(x[j + 16]) << 4;
    }
    block
}
