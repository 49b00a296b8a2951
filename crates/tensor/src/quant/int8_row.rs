//! INT8_ROW: one int8 code per element, then the row's scale (f32); `x = scale · q`.
//!
//! The symmetric per-channel weights of "W8A8" checkpoints. Codes are within ±127, rounded half to even.

use crate::numerics::RowScale;

/// Encodes one row; `out` holds a byte an element and four for the scale. A number that is not finite makes the scale NaN.
///
/// # Panics
/// When `out` is not that long.
pub fn encode(row: &[f32], out: &mut [u8]) {
    assert_eq!(out.len(), row.len() + 4, "bytes of an INT8_ROW row");
    let (codes, tail) = out.split_at_mut(row.len());
    let scale = RowScale::of(row);
    for (code, x) in codes.iter_mut().zip(row) {
        *code = scale.code_or_zero(*x) as u8;
    }
    tail.copy_from_slice(&scale.scale.to_le_bytes());
}

/// The codes of a stored row and its scale.
///
/// # Panics
/// When the row is shorter than its scale.
pub fn split(stored: &[u8]) -> (&[u8], f32) {
    let (codes, tail) = stored.split_at(stored.len() - 4);
    (
        codes,
        f32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]),
    )
}

/// Decodes one stored row.
pub fn decode(stored: &[u8], out: &mut [f32]) {
    let (codes, scale) = split(stored);
    for (out, code) in out.iter_mut().zip(codes) {
        *out = scale * f32::from(*code as i8);
    }
}
