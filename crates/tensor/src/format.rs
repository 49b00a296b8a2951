//! Stored number formats and the arithmetic each one runs with.
//!
//! A format is how a checkpoint stores a row of weights. [`FORMATS`] is the whole list: name, block, decoder,
//! arithmetic. To add one, write `quant/<format>.rs` and a line here; the generic kernels then run it at once.

use crate::quant::{self, Group};

/// Columns of one group: the unit of activation scales and of every canonical sum.
pub const GROUP: usize = 32;

/// Columns that share the activation scale of [`Arithmetic::I12`]; the last segment of a row may be shorter.
pub const SEGMENT: usize = 8 * GROUP;

/// A stored number format; the discriminant indexes [`FORMATS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(
    missing_docs,
    non_camel_case_types,
    reason = "the field's own names; documented in FORMATS"
)]
#[repr(u8)]
pub enum Format {
    F32,
    F16,
    BF16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
    IQ4_NL,
    IQ4_XS,
    MXFP4,
    Int8Row,
}

/// How a product with this weight is computed, the same on every tier and for any number of rows.
///
/// Groups are [`GROUP`] columns, ascending. `x` is the activation row, `w` one weight row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// Activations quantised to int8 with one f32 scale `s` per row and group; exact integer dots. A group gives
    /// `g = fma(f32(dot), e, 0)`, then, if the format has a minimum, `g = fma(f32(sum of the codes), e', g)`; then
    /// `acc = fma(g, s, acc)`.
    ///
    /// `e` is the group's scale times its sub-scale, `e'` its minimum times its sub-minimum, if there are any: exact in f32. With
    /// two sub-scales both halves of a group have their own dots, sums and factors: the dots of both come first.
    I8,
    /// As [`Arithmetic::I8`] with codes of twelve bits under one scale per row and [`SEGMENT`] columns: `x ≈ s (16 q + q')`, `q`
    /// within ±127 and `q'` in -8 to 7, so that a dot is `16 · (w · q) + w · q'`; `g` goes on through all groups of a segment
    /// before it meets `s`. So scales take less work than where each group has its own, and four-bit weights, which times 16
    /// still fit a byte, meet both digits in one product of twice the columns.
    I12,
    /// Activations quantised to int8 with one f32 scale per row, weights with one per row of theirs; one exact dot over all
    /// columns, then `acc = f32(dot) · (s_x · s_w)`.
    I8Row,
    /// Activations rounded to bf16; codes are small integers (exact in bf16); per group the even and the odd
    /// columns are summed apart, ascending, then `acc = fma(even + odd, d, acc)`.
    Bf16Code,
    /// Both sides bf16; per span of 32 columns even and odd sums, ascending, then `acc = acc + (even + odd)`.
    Bf16,
    /// Both sides f32, product rounded before it is added; spans and order as [`Arithmetic::Bf16`].
    F32,
}

/// How activations meet stored integers: the one choice of arithmetic that a user has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Activations {
    /// [`Arithmetic::I8`]: the fastest, what other engines do.
    Int8,
    /// [`Arithmetic::I12`]: as exact as the stored weights deserve.
    #[default]
    Int8Pair,
}

impl Activations {
    /// Name as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Int8 => "int8",
            Self::Int8Pair => "int8x2",
        }
    }

    /// The arithmetic of a weight stored as `format`; only integer formats leave a choice.
    pub fn arithmetic(self, format: Format) -> Arithmetic {
        match (format.info().arithmetic, self) {
            (Arithmetic::I8, Self::Int8Pair) => Arithmetic::I12,
            (arithmetic, _) => arithmetic,
        }
    }
}

/// What happens to the format of a weight while it is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnLoad {
    /// It stays.
    #[default]
    AsStored,
    /// Every projection becomes [`Format::Int8Row`], rounded to nearest; embedding and head stay as they are.
    W8A8,
}

impl OnLoad {
    /// Name as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AsStored => "as-stored",
            Self::W8A8 => "w8a8",
        }
    }

    /// The format of a projection that is stored as `stored`.
    pub const fn format(self, stored: Format) -> Format {
        match self {
            Self::AsStored => stored,
            Self::W8A8 => Format::Int8Row,
        }
    }
}

/// What the numbers of a block are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// IEEE or bfloat numbers, one an element.
    Float,
    /// Integer codes with scales; see [`Group`] for the exact value of an element.
    Integer {
        /// Bits of a code: 2, 3, 4, 5, 6 or 8; `-2^(bits - 1)..` if signed, `0..2^bits` if not.
        bits: u8,
        /// Whether codes are signed.
        signed: bool,
        /// 32-column groups that share one `d` (and `m`): 1, or 8 in the 256-element blocks.
        groups_per_scale: u8,
        /// Integer sub-scales per group: 0 (none), 1 or 2 (one per 16 columns).
        sub_scales: u8,
        /// Whether a minimum `m` is added, with as many integer sub-minima as there are sub-scales.
        minimum: bool,
    },
    /// int8 codes under one f32 scale per row, which follows them.
    RowScaled,
    /// 4-bit indices into 16 integer levels.
    Codebook {
        /// The levels, exact in bf16.
        levels: &'static [i8; 16],
        /// How scales are stored.
        scale: CodebookScale,
    },
}

/// How the scales of a codebook format are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodebookScale {
    /// One f16 per group.
    F16,
    /// One f16 per 8 groups times an integer sub-scale per group.
    F16Sub,
    /// One exponent byte per group, see [`quant::mxfp4`].
    Exponent,
}

/// Splits one stored block into its groups.
pub type Unpack = fn(block: &[u8], groups: &mut [Group]);

/// One row of [`FORMATS`].
pub struct FormatInfo {
    /// The format.
    pub format: Format,
    /// Its usual name, as in GGUF tooling.
    pub name: &'static str,
    /// Type id in a GGUF file, if it can be stored there.
    pub gguf_id: Option<u32>,
    /// Elements of one block; a row is a whole number of blocks.
    pub block_elements: usize,
    /// Bytes of one block.
    pub block_bytes: usize,
    /// Bytes of a row behind its blocks.
    pub row_tail_bytes: usize,
    /// What a block holds.
    pub coding: Coding,
    /// The arithmetic it runs with.
    pub arithmetic: Arithmetic,
    /// Splits one block into `block_elements / 32` groups; `None` where a row is not made of [`Group`]s.
    pub unpack: Option<Unpack>,
}

const fn integer(
    bits: u8,
    signed: bool,
    groups_per_scale: u8,
    sub_scales: u8,
    minimum: bool,
) -> Coding {
    Coding::Integer {
        bits,
        signed,
        groups_per_scale,
        sub_scales,
        minimum,
    }
}

macro_rules! row {
    ($f:ident, $id:expr, $elements:expr, $bytes:expr, $coding:expr, $arith:ident, $unpack:expr) => {
        FormatInfo {
            format: Format::$f,
            name: stringify!($f),
            gguf_id: Some($id),
            block_elements: $elements,
            block_bytes: $bytes,
            row_tail_bytes: 0,
            coding: $coding,
            arithmetic: Arithmetic::$arith,
            unpack: $unpack,
        }
    };
}

/// Every stored format, indexed by [`Format`].
pub static FORMATS: &[FormatInfo] = &[
    row!(F32, 0, 1, 4, Coding::Float, F32, None),
    row!(F16, 1, 1, 2, Coding::Float, F32, None),
    row!(BF16, 30, 1, 2, Coding::Float, Bf16, None),
    row!(
        Q4_0,
        2,
        32,
        18,
        integer(4, true, 1, 0, false),
        I8,
        Some(quant::q4_0::unpack)
    ),
    row!(
        Q4_1,
        3,
        32,
        20,
        integer(4, false, 1, 0, true),
        I8,
        Some(quant::q4_1::unpack)
    ),
    row!(
        Q5_0,
        6,
        32,
        22,
        integer(5, true, 1, 0, false),
        I8,
        Some(quant::q5_0::unpack)
    ),
    row!(
        Q5_1,
        7,
        32,
        24,
        integer(5, false, 1, 0, true),
        I8,
        Some(quant::q5_1::unpack)
    ),
    row!(
        Q8_0,
        8,
        32,
        34,
        integer(8, true, 1, 0, false),
        I8,
        Some(quant::q8_0::unpack)
    ),
    row!(
        Q2_K,
        10,
        256,
        84,
        integer(2, false, 8, 2, true),
        I8,
        Some(quant::q2_k::unpack)
    ),
    row!(
        Q3_K,
        11,
        256,
        110,
        integer(3, true, 8, 2, false),
        I8,
        Some(quant::q3_k::unpack)
    ),
    row!(
        Q4_K,
        12,
        256,
        144,
        integer(4, false, 8, 1, true),
        I8,
        Some(quant::q4_k::unpack)
    ),
    row!(
        Q5_K,
        13,
        256,
        176,
        integer(5, false, 8, 1, true),
        I8,
        Some(quant::q5_k::unpack)
    ),
    row!(
        Q6_K,
        14,
        256,
        210,
        integer(6, true, 8, 2, false),
        I8,
        Some(quant::q6_k::unpack)
    ),
    row!(
        IQ4_NL,
        20,
        32,
        18,
        Coding::Codebook {
            levels: &quant::iq4_nl::LEVELS,
            scale: CodebookScale::F16,
        },
        Bf16Code,
        Some(quant::iq4_nl::unpack)
    ),
    row!(
        IQ4_XS,
        23,
        256,
        136,
        Coding::Codebook {
            levels: &quant::iq4_nl::LEVELS,
            scale: CodebookScale::F16Sub,
        },
        Bf16Code,
        Some(quant::iq4_xs::unpack)
    ),
    row!(
        MXFP4,
        39,
        32,
        17,
        Coding::Codebook {
            levels: &quant::mxfp4::LEVELS,
            scale: CodebookScale::Exponent,
        },
        Bf16Code,
        Some(quant::mxfp4::unpack)
    ),
    FormatInfo {
        format: Format::Int8Row,
        name: "INT8_ROW",
        gguf_id: None,
        block_elements: 1,
        block_bytes: 1,
        row_tail_bytes: 4,
        coding: Coding::RowScaled,
        arithmetic: Arithmetic::I8Row,
        unpack: None,
    },
];

impl Format {
    /// Its row of [`FORMATS`].
    pub fn info(self) -> &'static FormatInfo {
        &FORMATS[self as usize]
    }

    /// The format with this GGUF type id, if it is one that is read here.
    pub fn from_gguf_id(id: u32) -> Option<Self> {
        FORMATS
            .iter()
            .find(|row| row.gguf_id == Some(id))
            .map(|row| row.format)
    }

    /// Bytes of a row of `cols` elements; `None` when `cols` is not a whole number of blocks or overflows.
    pub fn row_bytes(self, cols: usize) -> Option<usize> {
        let info = self.info();
        cols.is_multiple_of(info.block_elements)
            .then_some(cols / info.block_elements)?
            .checked_mul(info.block_bytes)?
            .checked_add(info.row_tail_bytes)
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.info().name)
    }
}
