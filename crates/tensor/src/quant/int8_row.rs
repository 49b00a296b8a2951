//! INT8_ROW: one int8 code per element, then the row's scale (f32); `x = scale · q`.
//!
//! The symmetric per-channel weights of "W8A8" checkpoints. Codes are within ±127, rounded half to even.

/// Encodes one row; `out` holds a byte an element and four for the scale. A number that is not finite makes the scale NaN.
///
/// # Panics
/// When `out` is not that long.
pub fn encode(row: &[f32], out: &mut [u8]) {
    assert_eq!(out.len(), row.len() + 4, "bytes of an INT8_ROW row");
    let (codes, tail) = out.split_at_mut(row.len());
    let absmax = row.iter().fold(0.0f32, |max, x| max.max(x.abs()));
    let finite = row.iter().all(|x| x.is_finite());
    // Below 2^-100 the inverse would come near infinity: such a row is zero, as for activations.
    let tiny = absmax < f32::from_bits((127 - 100) << 23);
    let (scale, inverse) = match (finite, tiny) {
        (false, _) => (f32::NAN, 0.0),
        (true, true) => (0.0, 0.0),
        (true, false) => (absmax / 127.0, 127.0 / absmax),
    };
    for (code, x) in codes.iter_mut().zip(row) {
        let rounded = if finite {
            (x * inverse).round_ties_even()
        } else {
            0.0
        };
        *code = (rounded.clamp(-127.0, 127.0) as i8) as u8;
    }
    tail.copy_from_slice(&scale.to_le_bytes());
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
