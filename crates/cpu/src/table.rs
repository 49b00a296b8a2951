//! The kernels of each tier: one static table of functions a tier, and the only place that chooses among tiers.
//!
//! A slot of the AVX2, AVX-512 and AMX tables wraps a function that needs those instruction sets. [`Kernels::for_tier`] hands
//! out a table only when the processor has them all, which is what every `SAFETY` comment below refers to.

use ucuz_tensor::layout::{CodedPanel, PANEL_ROWS};

use crate::activations::{self, I8Group, I12Group, Rounding, RowHead, RowSpan, Tile};
use crate::arch::generic;
use crate::arch::generic::attention::{SpanInput, SpanOutput};
use crate::arch::generic::rope::QkRow;
use crate::arch::store::{self, StoreCall};
#[cfg(target_arch = "x86_64")]
use crate::arch::{amx, avx2, avx512};
use crate::detect::{CpuFeatures, Tier};

mod tiles;

pub use tiles::{TileBook, TileCall, TileKernels, TileOutput, TileStore};

/// One panel of integer weights times one block of integer codes.
#[derive(Debug)]
pub struct CodedCall<'a, X> {
    /// The panel.
    pub panel: &'a [u8],
    /// Its geometry.
    pub coded: CodedPanel,
    /// The activation block: one entry per 32 columns.
    pub groups: &'a [X],
    /// Activation rows that count, 1 to 16; a kernel may write more rows of the tile.
    pub rows: usize,
    /// How far ahead of the panel's bytes memory is asked for, in bytes: a hint, which some tiers ignore.
    pub ahead: usize,
}

/// One panel of row-scaled weights times one block of row-scaled activations.
#[derive(Debug)]
pub struct RowCall<'a> {
    /// The panel.
    pub panel: &'a [u8],
    /// Scales and sums of the activation rows.
    pub head: &'a RowHead,
    /// Their codes, one entry per 64 columns.
    pub spans: &'a [RowSpan],
    /// Activation rows that count, 1 to 16; a kernel may write more rows of the tile.
    pub rows: usize,
    /// How far ahead of the panel's bytes memory is asked for, in bytes.
    pub ahead: usize,
}

/// One panel of float weights times one block of float activations.
#[derive(Debug)]
pub struct FloatCall<'a> {
    /// The panel.
    pub panel: &'a [u8],
    /// The activation block: `[columns][rows.next_power_of_two()]`.
    pub x: &'a [f32],
    /// Activation rows that count, 1 to 8; a kernel may write up to the next power of two.
    pub rows: usize,
    /// As in [`CodedCall`].
    pub ahead: usize,
}

/// One panel of codebook weights times one block of float activations.
#[derive(Debug)]
pub struct CodebookCall<'a> {
    /// The panel.
    pub panel: &'a [u8],
    /// Its geometry.
    pub coded: CodedPanel,
    /// What the codes stand for.
    pub levels: &'a Levels,
    /// The activation block, as in [`FloatCall`].
    pub x: &'a [f32],
    /// Activation rows that count, as in [`FloatCall`].
    pub rows: usize,
    /// As in [`CodedCall`].
    pub ahead: usize,
}

/// The sixteen levels of a codebook.
pub type Levels = [f32; 16];

/// A kernel of float weights.
pub type FloatKernel = fn(&mut [[f32; PANEL_ROWS]], &FloatCall<'_>);

/// `dst = activation(gate) · up`.
pub type GatedKernel = fn(dst: &mut [f32], gate: &[f32], up: &[f32]);

/// A loop of arithmetic that touches no memory.
#[derive(Debug, Clone, Copy)]
pub struct RateLoop {
    /// Runs that many rounds.
    pub run: fn(rounds: usize),
    /// Operations of one round; a multiply-add counts as two.
    pub operations: usize,
}

/// What a tier's ceilings are measured with: the fastest that its instructions can do, nothing else.
#[derive(Debug)]
pub struct CeilingLoops {
    /// Reads bytes once.
    pub read: fn(&[u8]),
    /// int8 products added up in int32.
    pub int8: RateLoop,
    /// bf16 products added up in f32; without a unit for them these are f32 products.
    pub bf16: RateLoop,
    /// f32 multiply-adds.
    pub float32: RateLoop,
}

/// The functions of one tier. All tiers compute the same bits.
pub struct Kernels {
    /// The tier.
    pub tier: Tier,
    /// [`activations::quantise_block`] for `Arithmetic::I8`.
    pub quantise_i8: fn(&mut [I8Group], &[f32], cols: usize),
    /// The same for `Arithmetic::I12`.
    pub quantise_i12: fn(&mut [I12Group], &[f32], cols: usize),
    /// [`activations::quantise_rows`].
    pub quantise_rows: fn(&mut RowHead, &mut [RowSpan], &[f32], cols: usize),
    /// [`activations::pack_block`].
    pub pack_block: fn(&mut [f32], &[f32], usize, Rounding),
    /// Integer weights, `Arithmetic::I8`.
    pub linear_i8: fn(&mut Tile, &CodedCall<'_, I8Group>),
    /// The same, `Arithmetic::I12`.
    pub linear_i12: fn(&mut Tile, &CodedCall<'_, I12Group>),
    /// Row-scaled weights, `Arithmetic::I8Row`.
    pub linear_rows: fn(&mut Tile, &RowCall<'_>),
    /// Codebook weights, `Arithmetic::Bf16Code`.
    pub linear_codebook: fn(&mut [[f32; PANEL_ROWS]], &CodebookCall<'_>),
    /// bf16 weights, `Arithmetic::Bf16`.
    pub linear_bf16: FloatKernel,
    /// f16 weights, `Arithmetic::F32`.
    pub linear_f16: FloatKernel,
    /// f32 weights, `Arithmetic::F32`.
    pub linear_f32: FloatKernel,
    /// `dst = x / sqrt(mean(x²) + eps) · weight`, one row.
    pub rms_norm: fn(dst: &mut [f32], x: &[f32], weight: &[f32], eps: f32),
    /// Norms and rotates the query and key heads of one row, in place.
    pub qk_norm_rope: fn(heads: &mut [f32], row: &QkRow<'_>),
    /// Attention of a tile of rows over one span of a bf16 cache.
    pub attention_span: fn(&SpanInput<'_>, &mut SpanOutput<'_>),
    /// The same over an int8 cache.
    pub attention_span_int8: fn(&SpanInput<'_>, &mut SpanOutput<'_>),
    /// [`store::store_tile`], unsafe as there.
    pub store_tile: unsafe fn(&StoreCall<'_>),
    /// SiLU.
    pub silu_mul: GatedKernel,
    /// GELU, the tanh form.
    pub gelu_mul: GatedKernel,
    /// Products of a tile unit, for tiers that have one.
    pub tiles: Option<&'static TileKernels>,
    /// What this tier is measured with.
    pub ceiling: &'static CeilingLoops,
}

impl std::fmt::Debug for Kernels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kernels({})", self.tier)
    }
}

impl Kernels {
    /// The table of `tier`, if this processor can run it.
    pub fn for_tier(tier: Tier) -> Option<&'static Self> {
        CpuFeatures::detect()
            .missing(tier)
            .is_none()
            .then_some(match tier {
                Tier::Generic => &GENERIC,
                #[cfg(target_arch = "x86_64")]
                Tier::Avx2 if CpuFeatures::detect().has("avxvnni") => &AVX2_VNNI,
                #[cfg(target_arch = "x86_64")]
                Tier::Avx2 => &AVX2,
                #[cfg(target_arch = "x86_64")]
                Tier::Avx512 => &AVX512,
                #[cfg(target_arch = "x86_64")]
                Tier::Amx => &AMX,
                #[cfg(not(target_arch = "x86_64"))]
                _ => &GENERIC,
            })
    }

    /// The AMX table, whether or not the processor has tiles: for the emulator, which has seen to it that they execute.
    #[cfg(all(feature = "test-support", target_arch = "x86_64", target_os = "linux"))]
    pub(crate) fn amx_undetected() -> &'static Self {
        &AMX
    }
}

static GENERIC: Kernels = Kernels {
    tier: Tier::Generic,
    quantise_i8: activations::quantise_block,
    quantise_i12: activations::quantise_block,
    quantise_rows: activations::quantise_rows,
    pack_block: activations::pack_block,
    linear_i8: generic::integer::linear,
    linear_i12: generic::integer::linear,
    linear_rows: generic::row_scaled::linear_rows,
    linear_codebook: generic::codebook::linear_codebook,
    linear_bf16: generic::float::linear_float::<generic::float::Bf16Columns>,
    linear_f16: generic::float::linear_float::<generic::float::F16Columns>,
    linear_f32: generic::float::linear_float::<generic::float::F32Columns>,
    rms_norm: generic::norm::rms_norm,
    qk_norm_rope: generic::rope::qk_norm_rope,
    attention_span: generic::attention::attention_span,
    attention_span_int8: generic::attention::attention_span_int8,
    store_tile: store::store_tile,
    silu_mul: generic::activation::silu_mul,
    gelu_mul: generic::activation::gelu_mul,
    tiles: None,
    ceiling: &GENERIC_CEILING,
};

static GENERIC_CEILING: CeilingLoops = CeilingLoops {
    read: generic::ceiling::read,
    int8: RateLoop {
        run: generic::ceiling::int8,
        operations: generic::ceiling::INT8_OPERATIONS,
    },
    bf16: GENERIC_FLOAT32,
    float32: GENERIC_FLOAT32,
};

const GENERIC_FLOAT32: RateLoop = RateLoop {
    run: generic::ceiling::float32,
    operations: generic::ceiling::FLOAT32_OPERATIONS,
};

#[cfg(target_arch = "x86_64")]
static AVX2: Kernels = Kernels {
    tier: Tier::Avx2,
    // SAFETY: detected, see `for_tier`.
    quantise_i8: |block, x, cols| unsafe { avx2::portable::quantise_block(block, x, cols) },
    // SAFETY: detected, see `for_tier`.
    quantise_i12: |block, x, cols| unsafe { avx2::portable::quantise_block(block, x, cols) },
    // SAFETY: detected, see `for_tier`.
    quantise_rows: |head, spans, x, cols| unsafe {
        avx2::portable::quantise_rows(head, spans, x, cols)
    },
    // SAFETY: detected, see `for_tier`.
    pack_block: |block, x, cols, r| unsafe { avx2::portable::pack_block(block, x, cols, r) },
    // SAFETY: detected, see `for_tier`.
    linear_i8: |tile, call| unsafe { avx2::integer::linear(tile, call) },
    // SAFETY: detected, see `for_tier`.
    linear_i12: |tile, call| unsafe { avx2::integer::linear(tile, call) },
    // SAFETY: detected, see `for_tier`.
    linear_rows: |tile, call| unsafe { avx2::row_scaled::linear_rows(tile, call) },
    // SAFETY: detected, see `for_tier`.
    linear_codebook: |tile, call| unsafe { avx2::codebook::linear_codebook(tile, call) },
    // SAFETY: detected, see `for_tier`.
    linear_bf16: |tile, call| unsafe { avx2::float::linear_bf16(tile, call) },
    // SAFETY: detected, see `for_tier`.
    linear_f16: |tile, call| unsafe { avx2::float::linear_f16(tile, call) },
    // SAFETY: detected, see `for_tier`.
    linear_f32: |tile, call| unsafe { avx2::float::linear_f32(tile, call) },
    // SAFETY: detected, see `for_tier`.
    rms_norm: |dst, x, weight, eps| unsafe { avx2::norm::rms_norm(dst, x, weight, eps) },
    // SAFETY: detected, see `for_tier`.
    qk_norm_rope: |heads, row| unsafe { avx2::rope::qk_norm_rope(heads, row) },
    // SAFETY: detected, see `for_tier`.
    attention_span: |input, output| unsafe { avx2::attention::attention_span(input, output) },
    // SAFETY: detected, see `for_tier`.
    attention_span_int8: |input, output| unsafe {
        avx2::attention::attention_span_int8(input, output)
    },
    // SAFETY: detected, see `for_tier`; the caller keeps the rest of its promise.
    store_tile: |call| unsafe { avx2::portable::store_tile(call) },
    // SAFETY: detected, see `for_tier`.
    silu_mul: |dst, gate, up| unsafe { avx2::activation::silu_mul(dst, gate, up) },
    // SAFETY: detected, see `for_tier`.
    gelu_mul: |dst, gate, up| unsafe { avx2::activation::gelu_mul(dst, gate, up) },
    tiles: None,
    ceiling: &AVX2_CEILING,
};

#[cfg(target_arch = "x86_64")]
static AVX2_CEILING: CeilingLoops = CeilingLoops {
    // SAFETY: detected, see `for_tier`.
    read: |bytes| unsafe { avx2::ceiling::read(bytes) },
    int8: RateLoop {
        // SAFETY: detected, see `for_tier`.
        run: |rounds| unsafe { avx2::ceiling::int8(rounds) },
        operations: avx2::ceiling::INT8_OPERATIONS,
    },
    bf16: AVX2_FLOAT32,
    float32: AVX2_FLOAT32,
};

#[cfg(target_arch = "x86_64")]
const AVX2_FLOAT32: RateLoop = RateLoop {
    // SAFETY: detected, see `for_tier`.
    run: |rounds| unsafe { avx2::ceiling::float32(rounds) },
    operations: avx2::ceiling::FLOAT32_OPERATIONS,
};

/// AVX2 with AVX-VNNI, as on processors that have the one but not AVX-512.
#[cfg(target_arch = "x86_64")]
static AVX2_VNNI: Kernels = Kernels {
    // SAFETY: detected, see `for_tier`.
    linear_i8: |tile, call| unsafe { avx2::integer::linear_vnni(tile, call) },
    // SAFETY: detected, see `for_tier`.
    linear_i12: |tile, call| unsafe { avx2::integer::linear_vnni(tile, call) },
    ..AVX2
};

#[cfg(target_arch = "x86_64")]
static AVX512: Kernels = Kernels {
    tier: Tier::Avx512,
    // SAFETY: detected, see `for_tier`.
    quantise_i8: |block, x, cols| unsafe { avx512::quantise::quantise_block(block, x, cols) },
    // SAFETY: detected, see `for_tier`.
    quantise_i12: |block, x, cols| unsafe { avx512::quantise::quantise_block(block, x, cols) },
    // SAFETY: detected, see `for_tier`.
    quantise_rows: |head, spans, x, cols| unsafe {
        avx512::quantise_rows::quantise_rows(head, spans, x, cols)
    },
    // SAFETY: detected, see `for_tier`.
    pack_block: |block, x, cols, r| unsafe { avx512::portable::pack_block(block, x, cols, r) },
    // SAFETY: detected, see `for_tier`.
    linear_i8: |tile, call| unsafe { avx512::integer::linear(tile, call) },
    // SAFETY: detected, see `for_tier`.
    linear_i12: |tile, call| unsafe { avx512::integer::linear(tile, call) },
    // SAFETY: detected, see `for_tier`.
    linear_rows: |tile, call| unsafe { avx512::row_scaled::linear_rows(tile, call) },
    // SAFETY: detected, see `for_tier`.
    linear_codebook: |tile, call| unsafe { avx512::codebook::linear_codebook(tile, call) },
    // SAFETY: detected, see `for_tier`.
    linear_bf16: |tile, call| unsafe { avx512::float::linear_bf16(tile, call) },
    // SAFETY: detected, see `for_tier`.
    linear_f16: |tile, call| unsafe { avx512::float::linear_f16(tile, call) },
    // SAFETY: detected, see `for_tier`.
    linear_f32: |tile, call| unsafe { avx512::float::linear_f32(tile, call) },
    // SAFETY: detected, see `for_tier`.
    rms_norm: |dst, x, weight, eps| unsafe { avx512::norm::rms_norm(dst, x, weight, eps) },
    // SAFETY: detected, see `for_tier`.
    qk_norm_rope: |heads, row| unsafe { avx512::rope::qk_norm_rope(heads, row) },
    // SAFETY: detected, see `for_tier`.
    attention_span: |input, output| unsafe { avx512::attention::attention_span(input, output) },
    // SAFETY: detected, see `for_tier`.
    attention_span_int8: |input, output| unsafe {
        avx512::attention::attention_span_int8(input, output)
    },
    // SAFETY: detected, see `for_tier`; the caller keeps the rest of its promise.
    store_tile: |call| unsafe { avx512::portable::store_tile(call) },
    // SAFETY: detected, see `for_tier`.
    silu_mul: |dst, gate, up| unsafe { avx512::activation::silu_mul(dst, gate, up) },
    // SAFETY: detected, see `for_tier`.
    gelu_mul: |dst, gate, up| unsafe { avx512::activation::gelu_mul(dst, gate, up) },
    tiles: None,
    ceiling: &AVX512_CEILING,
};

/// What the AVX-512 tier does, but for products and attention of many rows.
#[cfg(target_arch = "x86_64")]
static AMX: Kernels = Kernels {
    tier: Tier::Amx,
    // SAFETY: detected, see `for_tier`.
    attention_span: |input, output| unsafe { amx::attention::attention_span(input, output) },
    // SAFETY: detected, see `for_tier`.
    attention_span_int8: |input, output| unsafe {
        amx::attention_int8::attention_span_int8(input, output)
    },
    tiles: Some(&AMX_TILES),
    ceiling: &AMX_CEILING,
    ..AVX512
};

#[cfg(target_arch = "x86_64")]
static AMX_TILES: TileKernels = TileKernels {
    rows_min: amx::ROWS_MIN,
    coded_rows_min: amx::CODED_ROWS_MIN,
    // SAFETY: detected, see `for_tier`.
    pack_tiles: |block, x, cols| unsafe { amx::portable::pack_tiles(block, x, cols) },
    // SAFETY: detected, see `for_tier`; the caller keeps the rest of its promise.
    linear_i8: |call, coded, output| unsafe { amx::integer::linear(call, coded, output) },
    // SAFETY: the caller's promise.
    linear_i12: |call, coded, output| unsafe { amx::integer::linear(call, coded, output) },
    // SAFETY: detected, see `for_tier`; the caller keeps the rest of its promise.
    linear_rows: |call, heads, output| unsafe { amx::row_scaled::linear_rows(call, heads, output) },
    // SAFETY: detected, see `for_tier`; the caller keeps the rest of its promise.
    linear_codebook: |call, book, output| unsafe {
        amx::codebook::linear_codebook(call, book, output)
    },
    // SAFETY: detected, see `for_tier`; the caller keeps the rest of its promise.
    linear_bf16: |call, output| unsafe { amx::float::linear_bf16(call, output) },
};

/// Tiles do the products of bytes and of bf16; the rest is as in AVX-512.
#[cfg(target_arch = "x86_64")]
static AMX_CEILING: CeilingLoops = CeilingLoops {
    int8: RateLoop {
        // SAFETY: detected, see `for_tier`.
        run: |rounds| unsafe { amx::ceiling::int8(rounds) },
        operations: amx::ceiling::INT8_OPERATIONS,
    },
    bf16: RateLoop {
        // SAFETY: detected, see `for_tier`.
        run: |rounds| unsafe { amx::ceiling::bf16(rounds) },
        operations: amx::ceiling::BF16_OPERATIONS,
    },
    ..AVX512_CEILING
};

#[cfg(target_arch = "x86_64")]
static AVX512_CEILING: CeilingLoops = CeilingLoops {
    // SAFETY: detected, see `for_tier`.
    read: |bytes| unsafe { avx512::ceiling::read(bytes) },
    int8: RateLoop {
        // SAFETY: detected, see `for_tier`.
        run: |rounds| unsafe { avx512::ceiling::int8(rounds) },
        operations: avx512::ceiling::INT8_OPERATIONS,
    },
    bf16: AVX512_FLOAT32,
    float32: AVX512_FLOAT32,
};

#[cfg(target_arch = "x86_64")]
const AVX512_FLOAT32: RateLoop = RateLoop {
    // SAFETY: detected, see `for_tier`.
    run: |rounds| unsafe { avx512::ceiling::float32(rounds) },
    operations: avx512::ceiling::FLOAT32_OPERATIONS,
};

#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
