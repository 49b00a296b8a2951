//! The kernels of each tier: one static table of functions a tier, and the only place that chooses among tiers.
//!
//! A slot of the AVX2, AVX-512 and AMX tables wraps a function that needs those instruction sets. [`Kernels::for_tier`] hands
//! out a table only when the processor has them all, which is what every `SAFETY` comment below refers to.

use ucuz_tensor::layout::{CodedPanel, PANEL_ROWS};

use crate::activations::{self, Bf16Group, I8Group, Rounding, Tile};
use crate::arch::generic;
use crate::arch::generic::attention::{SpanInput, SpanOutput};
use crate::arch::generic::rope::QkRow;
#[cfg(target_arch = "x86_64")]
use crate::arch::{amx, avx2, avx512};
use crate::detect::{CpuFeatures, Tier};

/// One panel of integer weights times one block of int8 activations.
#[derive(Debug)]
pub struct CodedCall<'a> {
    /// The panel.
    pub panel: &'a [u8],
    /// Its geometry.
    pub coded: CodedPanel,
    /// The activation block: `planes` entries per 32 columns.
    pub groups: &'a [I8Group],
    /// int8 codes of one number: 1 (`Arithmetic::I8`) or 2 (`Arithmetic::I8Pair`).
    pub planes: usize,
    /// Activation rows that count, 1 to 16; a kernel may write more rows of the tile.
    pub rows: usize,
}

/// One panel of float or codebook weights times one block of float activations.
#[derive(Debug)]
pub struct FloatCall<'a> {
    /// The panel.
    pub panel: &'a [u8],
    /// The activation block: `[columns][rows.next_power_of_two()]`.
    pub x: &'a [f32],
    /// Activation rows that count, 1 to 8; a kernel may write up to the next power of two.
    pub rows: usize,
}

/// Consecutive panels of one part times consecutive blocks of 16 activation rows.
#[derive(Debug)]
pub struct TileCall<'a, X> {
    /// Whole panels, one after the other.
    pub panels: &'a [u8],
    /// Bytes of one panel.
    pub panel_bytes: usize,
    /// Whole blocks, one after the other: [`I8Group`]s, `planes` per 32 columns, or [`Bf16Group`]s, one per 32 columns.
    pub x: &'a [X],
    /// Entries of one block.
    pub block_len: usize,
}

impl<'a, X> TileCall<'a, X> {
    /// Number of panels.
    pub fn num_panels(&self) -> usize {
        self.panels.len() / self.panel_bytes
    }

    /// Number of blocks.
    pub fn num_blocks(&self) -> usize {
        self.x.len() / self.block_len
    }

    /// One panel.
    pub fn panel(&self, panel: usize) -> &'a [u8] {
        &self.panels[panel * self.panel_bytes..][..self.panel_bytes]
    }

    /// One block.
    pub fn block(&self, block: usize) -> &'a [X] {
        &self.x[block * self.block_len..][..self.block_len]
    }
}

/// Integer weights of a [`TileCall`].
#[derive(Debug, Clone, Copy)]
pub struct TileCodes {
    /// Geometry of a panel.
    pub coded: CodedPanel,
    /// int8 codes of one number: 1 or 2.
    pub planes: usize,
}

/// Takes each finished product once: `(panel, block, sums)`, counted from the call's first; rows past the last are garbage.
pub type TileSink<'a> = dyn FnMut(usize, usize, &Tile) + 'a;

/// Products of a tile unit, which wants many panels and rows at once. The bits are those of the kernels beside it.
#[derive(Debug)]
pub struct TileKernels {
    /// Fewest rows of a block of 16 that make it worth while.
    pub rows_min: usize,
    /// [`activations::pack_tiles`].
    pub pack_tiles: fn(&mut [Bf16Group], &[f32], cols: usize),
    /// Integer weights, `Arithmetic::I8` and `Arithmetic::I8Pair`.
    pub linear_i8: fn(&TileCall<'_, I8Group>, TileCodes, &mut TileSink<'_>),
    /// Codebook weights, `Arithmetic::Bf16Code`.
    pub linear_codebook: fn(&TileCall<'_, Bf16Group>, &Levels, &mut TileSink<'_>),
    /// bf16 weights, `Arithmetic::Bf16`.
    pub linear_bf16: fn(&TileCall<'_, Bf16Group>, &mut TileSink<'_>),
}

/// The sixteen levels of a codebook.
pub type Levels = [f32; 16];

/// A kernel of float weights.
pub type FloatKernel = fn(&mut [[f32; PANEL_ROWS]], &FloatCall<'_>);

/// `dst = activation(gate) · up`.
pub type GatedKernel = fn(dst: &mut [f32], gate: &[f32], up: &[f32]);

/// The functions of one tier. All tiers compute the same bits.
pub struct Kernels {
    /// The tier.
    pub tier: Tier,
    /// [`activations::quantise_block`].
    pub quantise_block: fn(&mut [I8Group], &[f32], cols: usize, planes: usize),
    /// [`activations::pack_block`].
    pub pack_block: fn(&mut [f32], &[f32], usize, Rounding),
    /// Integer weights, `Arithmetic::I8` and `Arithmetic::I8Pair`.
    pub linear_i8: fn(&mut Tile, &CodedCall<'_>),
    /// Codebook weights, `Arithmetic::Bf16Code`.
    pub linear_codebook: fn(&mut [[f32; PANEL_ROWS]], &FloatCall<'_>, &Levels),
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
    /// SiLU.
    pub silu_mul: GatedKernel,
    /// GELU, the tanh form.
    pub gelu_mul: GatedKernel,
    /// Products of a tile unit, for tiers that have one.
    pub tiles: Option<&'static TileKernels>,
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
    quantise_block: activations::quantise_block,
    pack_block: activations::pack_block,
    linear_i8: generic::integer::linear_i8,
    linear_codebook: generic::codebook::linear_codebook,
    linear_bf16: generic::float::linear_float::<generic::float::Bf16Columns>,
    linear_f16: generic::float::linear_float::<generic::float::F16Columns>,
    linear_f32: generic::float::linear_float::<generic::float::F32Columns>,
    rms_norm: generic::norm::rms_norm,
    qk_norm_rope: generic::rope::qk_norm_rope,
    attention_span: generic::attention::attention_span,
    silu_mul: generic::activation::silu_mul,
    gelu_mul: generic::activation::gelu_mul,
    tiles: None,
};

#[cfg(target_arch = "x86_64")]
static AVX2: Kernels = Kernels {
    tier: Tier::Avx2,
    // SAFETY: detected, see `for_tier`.
    quantise_block: |block, x, cols, planes| unsafe {
        avx2::portable::quantise_block(block, x, cols, planes)
    },
    // SAFETY: detected, see `for_tier`.
    pack_block: |block, x, cols, r| unsafe { avx2::portable::pack_block(block, x, cols, r) },
    // SAFETY: detected, see `for_tier`.
    linear_i8: |tile, call| unsafe { avx2::integer::linear_i8(tile, call) },
    // SAFETY: detected, see `for_tier`.
    linear_codebook: |tile, call, levels| unsafe {
        avx2::codebook::linear_codebook(tile, call, levels)
    },
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
    silu_mul: |dst, gate, up| unsafe { avx2::activation::silu_mul(dst, gate, up) },
    // SAFETY: detected, see `for_tier`.
    gelu_mul: |dst, gate, up| unsafe { avx2::activation::gelu_mul(dst, gate, up) },
    tiles: None,
};

#[cfg(target_arch = "x86_64")]
static AVX512: Kernels = Kernels {
    tier: Tier::Avx512,
    // SAFETY: detected, see `for_tier`.
    quantise_block: |block, x, cols, planes| unsafe {
        avx512::quantise::quantise_block(block, x, cols, planes)
    },
    // SAFETY: detected, see `for_tier`.
    pack_block: |block, x, cols, r| unsafe { avx512::portable::pack_block(block, x, cols, r) },
    // SAFETY: detected, see `for_tier`.
    linear_i8: |tile, call| unsafe { avx512::integer::linear_i8(tile, call) },
    // SAFETY: detected, see `for_tier`.
    linear_codebook: |tile, call, levels| unsafe {
        avx512::codebook::linear_codebook(tile, call, levels)
    },
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
    silu_mul: |dst, gate, up| unsafe { avx512::activation::silu_mul(dst, gate, up) },
    // SAFETY: detected, see `for_tier`.
    gelu_mul: |dst, gate, up| unsafe { avx512::activation::gelu_mul(dst, gate, up) },
    tiles: None,
};

/// What the AVX-512 tier does, but for products and attention of many rows.
#[cfg(target_arch = "x86_64")]
static AMX: Kernels = Kernels {
    tier: Tier::Amx,
    // SAFETY: detected, see `for_tier`.
    attention_span: |input, output| unsafe { amx::attention::attention_span(input, output) },
    tiles: Some(&AMX_TILES),
    ..AVX512
};

#[cfg(target_arch = "x86_64")]
static AMX_TILES: TileKernels = TileKernels {
    rows_min: amx::ROWS_MIN,
    // SAFETY: detected, see `for_tier`.
    pack_tiles: |block, x, cols| unsafe { amx::portable::pack_tiles(block, x, cols) },
    // SAFETY: detected, see `for_tier`.
    linear_i8: |call, codes, sink| unsafe { amx::integer::linear_i8(call, codes, sink) },
    // SAFETY: detected, see `for_tier`.
    linear_codebook: |call, levels, sink| unsafe {
        amx::codebook::linear_codebook(call, levels, sink)
    },
    // SAFETY: detected, see `for_tier`.
    linear_bf16: |call, sink| unsafe { amx::float::linear_bf16(call, sink) },
};
