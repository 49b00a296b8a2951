//! Activations in the form that kernels read: packed once per weight, on all threads.

use ucuz_tensor::buffer::Buffer;
use ucuz_tensor::error::TensorResult;
use ucuz_tensor::format::{Arithmetic, GROUP};
use ucuz_tensor::layout::ROW_SPAN;
use ucuz_tensor::tensor::View;

use crate::activations::{
    BLOCK_ROWS, Bf16Group, Codes, FLOAT_ROWS, I8Group, I12Group, Rounding, RowHead, RowSpan,
};
use crate::pool::{Disjoint, ThreadPool};
use crate::table::{Kernels, TileKernels};

/// Bytes that a kernel reads of what a group has beside its codes.
const ABOUT_BYTES_READ: usize = 128;

/// Packed activations of one call.
#[derive(Debug)]
pub struct LinearScratch {
    codes: Buffer,
    heads: Buffer,
    floats: Buffer,
}

impl LinearScratch {
    /// Bytes for `rows` activation rows of at most `cols` columns.
    pub fn len_bytes(rows: usize, cols: usize) -> usize {
        let [codes, heads, floats] = Self::sizes(rows, cols);
        codes.saturating_add(heads).saturating_add(floats)
    }

    /// Allocates for `rows` activation rows of at most `cols` columns.
    ///
    /// # Errors
    /// `OutOfMemory` when the allocator refuses.
    pub fn new(rows: usize, cols: usize) -> TensorResult<Self> {
        let [codes, heads, floats] = Self::sizes(rows, cols);
        let what = "packed activations";
        Ok(Self {
            codes: Buffer::zeroed(codes, what)?,
            heads: Buffer::zeroed(heads, what)?,
            floats: Buffer::zeroed(floats, what)?,
        })
    }

    /// Bytes of codes, row heads and floats.
    fn sizes(rows: usize, cols: usize) -> [usize; 3] {
        let groups = cols.div_ceil(GROUP);
        let blocks = rows.div_ceil(BLOCK_ROWS);
        let block_bytes =
            (groups * size_of::<I12Group>()).max(cols.div_ceil(ROW_SPAN) * size_of::<RowSpan>());
        let floats = rows
            .next_multiple_of(FLOAT_ROWS)
            .saturating_mul(groups * GROUP);
        [
            blocks.saturating_mul(block_bytes),
            blocks.saturating_mul(size_of::<RowHead>()),
            floats.saturating_mul(size_of::<f32>()),
        ]
    }
}

/// How a part wants its activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Integer codes of one digit.
    I8,
    /// Integer codes of two.
    I12,
    /// int8 codes under one scale a row.
    Rows,
    /// Numbers, rounded or not.
    Float(Rounding),
    /// bf16, for a tile unit.
    Tiles,
}

impl Packing {
    /// Every one.
    pub const ALL: [Self; 6] = [
        Self::I8,
        Self::I12,
        Self::Rows,
        Self::Float(Rounding::Bf16),
        Self::Float(Rounding::None),
        Self::Tiles,
    ];

    /// What kernels of `arithmetic` read, those of a tile unit where there is one and rows enough.
    pub fn of(arithmetic: Arithmetic, tiles: Option<&TileKernels>) -> Self {
        match arithmetic {
            Arithmetic::I8 => Self::I8,
            Arithmetic::I12 => Self::I12,
            Arithmetic::I8Row => Self::Rows,
            Arithmetic::Bf16Code | Arithmetic::Bf16 if tiles.is_some() => Self::Tiles,
            Arithmetic::Bf16Code | Arithmetic::Bf16 => Self::Float(Rounding::Bf16),
            Arithmetic::F32 => Self::Float(Rounding::None),
        }
    }

    /// Activation rows of one block.
    pub fn block_rows(self) -> usize {
        match self {
            Self::I8 | Self::I12 | Self::Rows | Self::Tiles => BLOCK_ROWS,
            Self::Float(_) => FLOAT_ROWS,
        }
    }

    /// Bytes of a block that a kernel reads.
    pub fn block_bytes(self, groups: usize) -> usize {
        match self {
            Self::I8 => groups * (GROUP * BLOCK_ROWS + ABOUT_BYTES_READ),
            Self::I12 => groups * (2 * GROUP * BLOCK_ROWS + ABOUT_BYTES_READ),
            Self::Rows => groups * GROUP * BLOCK_ROWS,
            Self::Float(_) => groups * GROUP * FLOAT_ROWS * 4,
            Self::Tiles => groups * size_of::<Bf16Group>(),
        }
    }
}

/// Packed activations: `blocks` of `rows` rows each.
pub enum Blocks<'a> {
    /// Groups of all blocks of 16 rows.
    I8(&'a [I8Group]),
    /// The same.
    I12(&'a [I12Group]),
    /// Heads and spans of all blocks.
    Rows(&'a [RowHead], &'a [RowSpan]),
    /// Blocks of 8 rows.
    Floats(&'a [f32]),
    /// Groups of all blocks of 16 rows.
    Tiles(&'a [Bf16Group]),
}

/// Packs all rows of `x`.
pub fn pack<'a>(
    pool: &ThreadPool,
    kernels: &Kernels,
    scratch: &'a mut LinearScratch,
    x: View<'_>,
    packing: Packing,
) -> Blocks<'a> {
    match packing {
        Packing::I8 => Blocks::I8(pack_codes(pool, kernels.quantise_i8, &mut scratch.codes, x)),
        Packing::I12 => Blocks::I12(pack_codes(
            pool,
            kernels.quantise_i12,
            &mut scratch.codes,
            x,
        )),
        Packing::Rows => pack_rows(pool, kernels, scratch, x),
        Packing::Float(rounding) => pack_floats(pool, kernels, &mut scratch.floats, x, rounding),
        Packing::Tiles => pack_tiles(pool, kernels.tiles, &mut scratch.floats, x),
    }
}

fn pack_codes<'a, X: Codes>(
    pool: &ThreadPool,
    quantise: fn(&mut [X], &[f32], cols: usize),
    scratch: &'a mut Buffer,
    x: View<'_>,
) -> &'a [X] {
    let cols = x.num_cols();
    assert!(
        cols.is_multiple_of(GROUP),
        "coded weights have whole groups"
    );
    let groups = cols / GROUP;
    let blocks = x.num_rows().div_ceil(BLOCK_ROWS);
    let codes = &mut scratch.cast_mut::<X>()[..blocks * groups];
    each_block(pool, codes, groups, &|target, block| {
        quantise(target, block_values(x, block, BLOCK_ROWS), cols);
    });
    codes
}

fn pack_rows<'a>(
    pool: &ThreadPool,
    kernels: &Kernels,
    scratch: &'a mut LinearScratch,
    x: View<'_>,
) -> Blocks<'a> {
    let cols = x.num_cols();
    let stride = cols.div_ceil(ROW_SPAN);
    let blocks = x.num_rows().div_ceil(BLOCK_ROWS);
    let heads = &mut scratch.heads.cast_mut::<RowHead>()[..blocks];
    let spans = &mut scratch.codes.cast_mut::<RowSpan>()[..blocks * stride];
    let (to_heads, to_spans) = (Disjoint::new(heads), Disjoint::new(spans));
    pool.run(blocks, &|block, _| {
        // SAFETY: each task has its own block.
        let (heads, spans) = unsafe {
            (
                to_heads.range(block..block + 1),
                to_spans.range(block * stride..(block + 1) * stride),
            )
        };
        (kernels.quantise_rows)(
            &mut heads[0],
            spans,
            block_values(x, block, BLOCK_ROWS),
            cols,
        );
    });
    Blocks::Rows(heads, spans)
}

fn pack_floats<'a>(
    pool: &ThreadPool,
    kernels: &Kernels,
    scratch: &'a mut Buffer,
    x: View<'_>,
    rounding: Rounding,
) -> Blocks<'a> {
    let cols = x.num_cols();
    let stride = cols.next_multiple_of(GROUP) * FLOAT_ROWS;
    let blocks = x.num_rows().div_ceil(FLOAT_ROWS);
    let floats = &mut scratch.cast_mut::<f32>()[..blocks * stride];
    each_block(pool, floats, stride, &|target, block| {
        let values = block_values(x, block, FLOAT_ROWS);
        let rows = (values.len() / cols).next_power_of_two();
        let target = &mut target[..stride / FLOAT_ROWS * rows];
        (kernels.pack_block)(target, values, cols, rounding);
    });
    Blocks::Floats(floats)
}

/// They take at most what float blocks would: 64 bytes a row and group against 128.
fn pack_tiles<'a>(
    pool: &ThreadPool,
    tiles: Option<&TileKernels>,
    scratch: &'a mut Buffer,
    x: View<'_>,
) -> Blocks<'a> {
    let groups = x.num_cols().div_ceil(GROUP);
    let blocks = x.num_rows().div_ceil(BLOCK_ROWS);
    let packed = &mut scratch.cast_mut::<Bf16Group>()[..blocks * groups];
    if let Some(tiles) = tiles {
        each_block(pool, packed, groups, &|target, block| {
            (tiles.pack_tiles)(target, block_values(x, block, BLOCK_ROWS), x.num_cols());
        });
    }
    Blocks::Tiles(packed)
}

/// Calls `pack` with each block of `len` entries of `packed` and its number, on all threads.
fn each_block<T: Send + Sync>(
    pool: &ThreadPool,
    packed: &mut [T],
    len: usize,
    pack: &(dyn Fn(&mut [T], usize) + Sync),
) {
    debug_assert!(len > 0, "a weight has columns");
    let blocks = packed.len() / len;
    let target = Disjoint::new(packed);
    pool.run(blocks, &|block, _| {
        // SAFETY: each task has its own block.
        let packed = unsafe { target.range(block * len..(block + 1) * len) };
        pack(packed, block);
    });
}

/// The rows of one block.
fn block_values<'a>(x: View<'a>, block: usize, block_rows: usize) -> &'a [f32] {
    let size = block_rows * x.num_cols();
    let end = x.values().len().min((block + 1) * size);
    &x.values()[block * size..end]
}
