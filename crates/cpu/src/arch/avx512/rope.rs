//! Norm and rotation: the text of `generic::rope`, compiled for this tier.

use crate::arch::generic::rope::{self, QkRow};

/// See [`rope::qk_norm_rope`].
///
/// # Safety
/// The processor has AVX-512 F, BW, DQ and VL, and FMA.
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,fma")]
pub fn qk_norm_rope(heads: &mut [f32], row: &QkRow<'_>) {
    rope::qk_norm_rope(heads, row);
}
