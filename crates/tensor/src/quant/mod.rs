//! Decoders of stored blocks, one file per format: bytes to exact codes and scales.
//!
//! Every quantised format unpacks to [`Group`]s of 32 columns, the one form that kernels, layouts, the embedding lookup
//! and the reference share. [`decode_row`] turns any format into f32, bit for bit what `gguf-py` reads. The encoders here
//! are the plain round-to-nearest ones; searches for better codes are not part of a format.
//!
//! Source of all block layouts: ggml-common.h, ggml-quants.c (llama.cpp) and gguf-py's quants.py.

use half::{bf16, f16};

use crate::format::{Coding, Format, GROUP};

/// 32 consecutive columns of one row in exact form.
///
/// With `s = column / 16`, the element is `(d · sub_scales[s]) · codes[column] + m · sub_mins[s]`, each product and the
/// sum rounded to f32 once (the products `d · sub_scale` and `m · sub_min` are exact).
/// Formats without sub-scales hold 1 there; formats without a minimum hold `m = 0`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Group {
    /// Integer codes, or codebook levels.
    pub codes: [i8; GROUP],
    /// Scale (an f16 value for integer formats).
    pub d: f32,
    /// Minimum (an f16 value), sign such that it is added.
    pub m: f32,
    /// Integer scale of each half of the group.
    pub sub_scales: [i8; 2],
    /// Integer factor of the minimum for each half of the group.
    pub sub_mins: [i8; 2],
}

/// INT8_ROW.
pub mod int8_row;
/// IQ4_NL.
pub mod iq4_nl;
/// IQ4_XS.
pub mod iq4_xs;
/// MXFP4.
pub mod mxfp4;
/// Q2_K.
pub mod q2_k;
/// Q3_K.
pub mod q3_k;
/// Q4_0.
pub mod q4_0;
/// Q4_1.
pub mod q4_1;
/// Q4_K.
pub mod q4_k;
/// Q5_0.
pub mod q5_0;
/// Q5_1.
pub mod q5_1;
/// Q5_K.
pub mod q5_k;
/// Q6_K.
pub mod q6_k;
/// Q8_0.
pub mod q8_0;

/// Groups of the largest block (256 elements).
pub const BLOCK_GROUPS_MAX: usize = 8;

impl Group {
    /// All codes and scales zero: what to fill before [`unpack`](crate::format::FormatInfo::unpack).
    pub const ZERO: Self = Self {
        codes: [0; GROUP],
        d: 0.0,
        m: 0.0,
        sub_scales: [1; 2],
        sub_mins: [1; 2],
    };

    /// Codes under one scale, without sub-scales or minimum.
    const fn plain(codes: [i8; GROUP], d: f32) -> Self {
        Self {
            codes,
            d,
            ..Self::ZERO
        }
    }

    /// The elements without their minimum, for formats that have none: adding 0 would lose the sign of -0.
    pub fn write_scaled(&self, out: &mut [f32; GROUP]) {
        for (column, (out, code)) in out.iter_mut().zip(self.codes).enumerate() {
            *out = self.d * f32::from(self.sub_scales[column / 16]) * f32::from(code);
        }
    }

    /// The elements with their minimum.
    pub fn write_with_minimum(&self, out: &mut [f32; GROUP]) {
        self.write_scaled(out);
        for (column, out) in out.iter_mut().enumerate() {
            *out += self.m * f32::from(self.sub_mins[column / 16]);
        }
    }
}

/// Decodes one stored row into f32, the values that `gguf-py` reads, bit for bit.
///
/// # Panics
/// When `stored` is not exactly the bytes of `out.len()` elements (see [`Format::row_bytes`]).
pub fn decode_row(format: Format, stored: &[u8], out: &mut [f32]) {
    assert_eq!(
        format.row_bytes(out.len()),
        Some(stored.len()),
        "bytes of a row of {format}"
    );
    let info = format.info();
    let Some(unpack) = info.unpack else {
        return decode_plain(format, stored, out);
    };
    let minimum = matches!(info.coding, Coding::Integer { minimum: true, .. });
    let mut groups = [Group::ZERO; BLOCK_GROUPS_MAX];
    let groups = &mut groups[..info.block_elements / GROUP];
    let blocks = stored.chunks_exact(info.block_bytes);
    for (block, out) in blocks.zip(out.as_chunks_mut().0.chunks_exact_mut(groups.len())) {
        unpack(block, groups);
        for (group, out) in groups.iter().zip(out) {
            if minimum {
                group.write_with_minimum(out);
            } else {
                group.write_scaled(out);
            }
        }
    }
}

fn decode_plain(format: Format, stored: &[u8], out: &mut [f32]) {
    match format {
        Format::Int8Row => int8_row::decode(stored, out),
        Format::F16 => {
            for (out, bytes) in out.iter_mut().zip(stored.as_chunks().0) {
                *out = f16::from_le_bytes(*bytes).to_f32();
            }
        }
        Format::BF16 => {
            for (out, bytes) in out.iter_mut().zip(stored.as_chunks().0) {
                *out = bf16::from_le_bytes(*bytes).to_f32();
            }
        }
        _ => {
            for (out, bytes) in out.iter_mut().zip(stored.as_chunks().0) {
                *out = f32::from_le_bytes(*bytes);
            }
        }
    }
}

/// Brings a stored row into another format, by way of `values`, which has its length.
///
/// Only [`Format::Int8Row`] can be a target; a row that is in the format already is copied.
///
/// # Panics
/// When lengths disagree, or for another target.
pub fn convert_row(stored: (Format, &[u8]), format: Format, values: &mut [f32], out: &mut [u8]) {
    if stored.0 == format {
        return out.copy_from_slice(stored.1);
    }
    assert_eq!(format, Format::Int8Row, "the only format to convert to");
    decode_row(stored.0, stored.1, values);
    int8_row::encode(values, out);
}

/// Encodes a row as Q8_0 blocks.
///
/// # Panics
/// When `row` is not whole blocks of 32, or `out` is not 34 bytes a block.
pub fn encode_q8_0(row: &[f32], out: &mut [u8]) {
    encode_row(Format::Q8_0, row, out, q8_0::encode);
}

/// Encodes a row as Q4_0 blocks.
///
/// # Panics
/// When `row` is not whole blocks of 32, or `out` is not 18 bytes a block.
pub fn encode_q4_0(row: &[f32], out: &mut [u8]) {
    encode_row(Format::Q4_0, row, out, q4_0::encode);
}

fn encode_row<const BYTES: usize>(
    format: Format,
    row: &[f32],
    out: &mut [u8],
    encode: fn(&[f32; GROUP]) -> [u8; BYTES],
) {
    assert_eq!(
        format.row_bytes(row.len()),
        Some(out.len()),
        "bytes of a row of {format}"
    );
    for (x, out) in row.as_chunks().0.iter().zip(out.as_chunks_mut().0) {
        *out = encode(x);
    }
}

/// The f16 at `offset` of a block.
fn f16_at(block: &[u8], offset: usize) -> f32 {
    f16::from_le_bytes([block[offset], block[offset + 1]]).to_f32()
}

/// 16 bytes of nibbles to 32 numbers: low nibbles first, then high ones.
fn split_nibbles(qs: &[u8]) -> [u8; GROUP] {
    std::array::from_fn(|i| qs[i % 16] >> (i / 16 * 4) & 15)
}

/// The 5-bit codes of Q5_0 and Q5_1: nibbles with bit `i` of `qh` on top of element `i`.
fn split_five_bits(qh: &[u8], qs: &[u8]) -> [u8; GROUP] {
    let low = split_nibbles(qs);
    std::array::from_fn(|i| low[i] | (qh[i / 8] >> (i % 8) & 1) << 4)
}

/// The eight 6-bit scales and minima that Q4_K and Q5_K pack into 12 bytes.
fn scales_and_minima(s: &[u8], sub_block: usize) -> (i8, i8) {
    let j = sub_block;
    let (scale, minimum) = if j < 4 {
        (s[j] & 63, s[j + 4] & 63)
    } else {
        (
            s[j + 4] & 15 | s[j - 4] >> 6 << 4,
            s[j + 4] >> 4 | s[j] >> 6 << 4,
        )
    };
    (scale as i8, minimum as i8)
}
