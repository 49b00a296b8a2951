//! Portable kernels compiled for this tier: the compiler turns their lanes into vectors.

use ucuz_tensor::layout::PANEL_ROWS;

use crate::activations::{self, I8Group, Rounding};
use crate::arch::generic::float::{
    Bf16Columns, F16Columns, F32Columns, Fused, Rounded, linear_float,
};
use crate::table::FloatCall;

/// [`activations::quantise_block`].
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub fn quantise_block(block: &mut [I8Group], x: &[f32], cols: usize) {
    activations::quantise_block(block, x, cols);
}

/// [`activations::pack_block`].
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub fn pack_block(block: &mut [f32], x: &[f32], cols: usize, rounding: Rounding) {
    activations::pack_block(block, x, cols, rounding);
}

/// Products of a bf16 panel; they are exact, so the fused form has the same bits.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub fn linear_bf16(tile: &mut [[f32; PANEL_ROWS]], call: &FloatCall<'_>) {
    linear_float::<Bf16Columns, Fused>(tile, call);
}

/// Products of an f16 panel.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub fn linear_f16(tile: &mut [[f32; PANEL_ROWS]], call: &FloatCall<'_>) {
    linear_float::<F16Columns, Rounded>(tile, call);
}

/// Products of an f32 panel.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub fn linear_f32(tile: &mut [[f32; PANEL_ROWS]], call: &FloatCall<'_>) {
    linear_float::<F32Columns, Rounded>(tile, call);
}
