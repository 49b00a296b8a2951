//! Decoders of stored blocks, one file per format: bytes to exact codes and scales.
//!
//! Every quantised format unpacks to [`Group`]s of 32 columns, the one form that kernels, layouts, the embedding lookup
//! and the reference share.

use crate::format::GROUP;

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
