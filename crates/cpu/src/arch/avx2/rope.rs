//! Norm and rotation: the text of `generic::rope`, compiled for this tier.

use crate::arch::generic::rope::{self, QkRow};

/// See [`rope::qk_norm_rope`].
///
/// # Safety
/// The processor has AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub fn qk_norm_rope(heads: &mut [f32], row: &QkRow<'_>) {
    rope::qk_norm_rope(heads, row);
}
