//! Products with a weight: packs the activations once, then computes panel by panel.
//!
//! With a tile unit, products of many rows go to it, many panels and blocks at once ([`tiled`]).
//!
//! A task is a run of panels of one part times a chunk of activation rows that stays in the second-level cache. Every output
//! is computed by one kernel call over all columns, so neither the split nor the number of rows can change a bit.

use std::ops::Range;

use ucuz_tensor::buffer::Buffer;
use ucuz_tensor::error::TensorResult;
use ucuz_tensor::format::{Arithmetic, Coding, GROUP};
use ucuz_tensor::layout::{PANEL_ROWS, PanelKind};
use ucuz_tensor::tensor::{View, ViewMut};
use ucuz_tensor::weight::{Part, Weight};

use crate::activations::{BLOCK_ROWS, Bf16Group, FLOAT_ROWS, I8Group, Rounding, Tile};
use crate::pool::{Disjoint, ThreadPool};
use crate::table::{CodedCall, FloatCall, Kernels, Levels, TileKernels};

mod tiled;

/// Tasks that each thread gets on average: enough to even out, few enough to stream.
const TASKS_PER_THREAD: usize = 4;
/// Packed activations of one task, in bytes: a share of a second-level cache.
const CHUNK_BYTES: usize = 512 * 1024;
/// Panels that a block of rows meets before the next block's turn: 64 columns of the destination are written together.
const PANELS_PER_PASS: usize = 4;
/// int8 codes of one activation, at most.
const PLANES_MAX: usize = 2;
/// Bytes of an [`I8Group`] that a kernel reads.
const GROUP_BYTES_READ: usize = 640;

/// Packed activations of one call.
#[derive(Debug)]
pub struct LinearScratch {
    codes: Buffer,
    floats: Buffer,
}

impl LinearScratch {
    /// Bytes for `rows` activation rows of at most `cols` columns.
    pub fn len_bytes(rows: usize, cols: usize) -> usize {
        let (codes, floats) = Self::sizes(rows, cols);
        codes.saturating_add(floats)
    }

    /// Allocates for `rows` activation rows of at most `cols` columns.
    ///
    /// # Errors
    /// `OutOfMemory` when the allocator refuses.
    pub fn new(rows: usize, cols: usize) -> TensorResult<Self> {
        let (codes, floats) = Self::sizes(rows, cols);
        let what = "packed activations";
        Ok(Self {
            codes: Buffer::zeroed(codes, what)?,
            floats: Buffer::zeroed(floats, what)?,
        })
    }

    fn sizes(rows: usize, cols: usize) -> (usize, usize) {
        let groups = cols.div_ceil(GROUP);
        let codes = rows
            .div_ceil(BLOCK_ROWS)
            .saturating_mul(groups * PLANES_MAX);
        let floats = rows
            .next_multiple_of(FLOAT_ROWS)
            .saturating_mul(groups * GROUP);
        (
            codes.saturating_mul(size_of::<I8Group>()),
            floats.saturating_mul(size_of::<f32>()),
        )
    }
}

/// What happens to the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// `dst = sum + bias`.
    Replace,
    /// `dst = (sum + bias) + dst`.
    Add,
}

/// One product: `dst: [rows, w.rows]`, `x: [rows, w.cols]`.
#[derive(Debug)]
pub struct LinearCall<'a> {
    /// Destination.
    pub dst: ViewMut<'a>,
    /// Activations.
    pub x: View<'a>,
    /// Weight.
    pub w: &'a Weight,
    /// What happens to the destination.
    pub output: Output,
}

/// How a part wants its activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    /// int8 codes, one or two a number.
    Codes {
        planes: usize,
    },
    Float(Rounding),
    /// bf16, for a tile unit.
    Tiles,
}

impl Packing {
    const ALL: [Self; 5] = [
        Self::Codes { planes: 1 },
        Self::Codes { planes: 2 },
        Self::Float(Rounding::Bf16),
        Self::Float(Rounding::None),
        Self::Tiles,
    ];

    fn of(arithmetic: Arithmetic, tiles: Option<&TileKernels>) -> Self {
        match arithmetic {
            Arithmetic::I8 => Self::Codes { planes: 1 },
            Arithmetic::I8Pair => Self::Codes { planes: 2 },
            Arithmetic::Bf16Code | Arithmetic::Bf16 if tiles.is_some() => Self::Tiles,
            Arithmetic::Bf16Code | Arithmetic::Bf16 => Self::Float(Rounding::Bf16),
            Arithmetic::F32 => Self::Float(Rounding::None),
        }
    }

    /// Activation rows of one block.
    fn block_rows(self) -> usize {
        match self {
            Self::Codes { .. } | Self::Tiles => BLOCK_ROWS,
            Self::Float(_) => FLOAT_ROWS,
        }
    }

    /// Bytes of a block that a kernel reads.
    fn block_bytes(self, groups: usize) -> usize {
        match self {
            Self::Codes { planes } => groups * planes * GROUP_BYTES_READ,
            Self::Float(_) => groups * GROUP * FLOAT_ROWS * 4,
            Self::Tiles => groups * size_of::<Bf16Group>(),
        }
    }
}

/// Computes `call`.
pub fn linear(
    pool: &ThreadPool,
    kernels: &Kernels,
    scratch: &mut LinearScratch,
    mut call: LinearCall<'_>,
) {
    let (rows, dst_cols) = (call.x.num_rows(), call.w.rows);
    let groups = call.w.cols.div_ceil(GROUP);
    if rows == 0 {
        return;
    }
    let tiles = kernels.tiles.filter(|tiles| rows >= tiles.rows_min);
    for packing in Packing::ALL {
        let wanted = |part: &&Part| Packing::of(part.arithmetic, tiles) == packing;
        if !call.w.parts.iter().any(|part| wanted(&part)) {
            continue;
        }
        let blocks = match packing {
            Packing::Codes { planes } => {
                pack_codes(pool, kernels, &mut scratch.codes, call.x, planes)
            }
            Packing::Float(rounding) => {
                pack_floats(pool, kernels, &mut scratch.floats, call.x, rounding)
            }
            Packing::Tiles => tiled::pack(pool, tiles, &mut scratch.floats, call.x),
        };
        let panels = call
            .w
            .parts
            .iter()
            .filter(wanted)
            .map(|part| part.layout.panels())
            .sum();
        let split = Split::new(packing, rows, groups, panels, pool.threads());
        let dst = Disjoint::new(call.dst.values_mut());
        let job = Job {
            kernels,
            tiles,
            blocks,
            rows,
            groups,
            dst,
            dst_cols,
            output: call.output,
        };
        pool.run(split.tasks(), &|task, _| {
            let (blocks, mut panels) = split.task(task);
            for part in call.w.parts.iter().filter(wanted) {
                let own = part.layout.panels();
                job.compute_all(part, panels.start.min(own)..panels.end.min(own), &blocks);
                panels = panels.start.saturating_sub(own)..panels.end.saturating_sub(own);
            }
        });
    }
}

/// How blocks of rows and panels are shared out.
struct Split {
    blocks: usize,
    blocks_per_task: usize,
    panels: usize,
    panels_per_task: usize,
}

impl Split {
    fn new(packing: Packing, rows: usize, groups: usize, panels: usize, threads: usize) -> Self {
        let blocks = rows.div_ceil(packing.block_rows());
        let fits = CHUNK_BYTES / packing.block_bytes(groups).max(1);
        let blocks_per_task = fits.clamp(1, blocks);
        let chunks = blocks.div_ceil(blocks_per_task);
        let panels_per_task = (panels * chunks)
            .div_ceil(threads * TASKS_PER_THREAD)
            .min(panels);
        Self {
            blocks,
            blocks_per_task,
            panels,
            panels_per_task: panels_per_task.max(1),
        }
    }

    fn tasks(&self) -> usize {
        self.blocks.div_ceil(self.blocks_per_task) * self.panels.div_ceil(self.panels_per_task)
    }

    /// Blocks and panels of a task; tasks in a row share their blocks.
    fn task(&self, task: usize) -> (Range<usize>, Range<usize>) {
        let runs = self.panels.div_ceil(self.panels_per_task);
        let (block, panel) = (
            task / runs * self.blocks_per_task,
            task % runs * self.panels_per_task,
        );
        (
            block..self.blocks.min(block + self.blocks_per_task),
            panel..self.panels.min(panel + self.panels_per_task),
        )
    }
}

/// Packed activations: `blocks` of `rows` rows each.
enum Blocks<'a> {
    Codes(&'a [I8Group], usize),
    Floats(&'a [f32]),
    Tiles(&'a [Bf16Group]),
}

fn pack_codes<'a>(
    pool: &ThreadPool,
    kernels: &Kernels,
    scratch: &'a mut Buffer,
    x: View<'_>,
    planes: usize,
) -> Blocks<'a> {
    let cols = x.num_cols();
    assert!(
        cols.is_multiple_of(GROUP),
        "coded weights have whole groups"
    );
    let groups = cols / GROUP * planes;
    let blocks = x.num_rows().div_ceil(BLOCK_ROWS);
    let codes = &mut scratch.cast_mut::<I8Group>()[..blocks * groups];
    let target = Disjoint::new(codes);
    pool.run(blocks, &|block, _| {
        // SAFETY: each task has its own block.
        let target = unsafe { target.range(block * groups..(block + 1) * groups) };
        (kernels.quantise_block)(target, block_values(x, block, BLOCK_ROWS), cols, planes);
    });
    Blocks::Codes(codes, planes)
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
    let target = Disjoint::new(floats);
    pool.run(blocks, &|block, _| {
        let values = block_values(x, block, FLOAT_ROWS);
        let rows = (values.len() / cols).next_power_of_two();
        let start = block * stride;
        // SAFETY: each task has its own block.
        let target = unsafe { target.range(start..start + stride / FLOAT_ROWS * rows) };
        (kernels.pack_block)(target, values, cols, rounding);
    });
    Blocks::Floats(floats)
}

/// The rows of one block.
fn block_values<'a>(x: View<'a>, block: usize, block_rows: usize) -> &'a [f32] {
    let size = block_rows * x.num_cols();
    let end = x.values().len().min((block + 1) * size);
    &x.values()[block * size..end]
}

/// Everything that a panel needs to be computed.
struct Job<'a> {
    kernels: &'a Kernels,
    /// The tile unit, if there is one and rows enough.
    tiles: Option<&'a TileKernels>,
    blocks: Blocks<'a>,
    rows: usize,
    groups: usize,
    dst: Disjoint<'a, f32>,
    dst_cols: usize,
    output: Output,
}

impl Job<'_> {
    /// Panels of a part times blocks of rows: a few panels at a time stay in the first-level cache for all blocks.
    fn compute_all(&self, part: &Part, panels: Range<usize>, blocks: &Range<usize>) {
        let blocks = self.compute_tiles(part, &panels, blocks);
        for first in panels.clone().step_by(PANELS_PER_PASS) {
            for block in blocks.clone() {
                for panel in first..panels.end.min(first + PANELS_PER_PASS) {
                    self.compute(part, panel, block);
                }
            }
        }
    }

    /// One panel of a part times one block of rows, into the destination.
    fn compute(&self, part: &Part, panel: usize, block: usize) {
        let bytes = part.layout.panel_bytes();
        let panel_bytes = &part.data.bytes()[panel * bytes..][..bytes];
        let mut tile: Tile = [[0.0; PANEL_ROWS]; BLOCK_ROWS];
        let (first, rows) = match &self.blocks {
            Blocks::Codes(groups, planes) => {
                let first = block * BLOCK_ROWS;
                let rows = BLOCK_ROWS.min(self.rows - first);
                let size = self.groups * planes;
                if let PanelKind::Coded(coded) = part.layout.kind {
                    let groups = &groups[block * size..][..size];
                    let call = CodedCall {
                        panel: panel_bytes,
                        coded,
                        groups,
                        planes: *planes,
                        rows,
                    };
                    (self.kernels.linear_i8)(&mut tile, &call);
                }
                (first, rows)
            }
            Blocks::Floats(floats) => {
                let first = block * FLOAT_ROWS;
                let rows = FLOAT_ROWS.min(self.rows - first);
                let cols = self.groups * GROUP;
                let x = &floats[block * FLOAT_ROWS * cols..][..cols * rows.next_power_of_two()];
                self.float(
                    &mut tile,
                    part,
                    FloatCall {
                        panel: panel_bytes,
                        x,
                        rows,
                    },
                );
                (first, rows)
            }
            Blocks::Tiles(_) => unreachable!("the tile unit takes all of these"),
        };
        self.store(part, panel, first, &tile[..rows]);
    }

    fn float(&self, tile: &mut Tile, part: &Part, call: FloatCall<'_>) {
        match (part.layout.kind, part.layout.format.info().coding) {
            (PanelKind::Coded(_), Coding::Codebook { levels }) => {
                let levels: Levels = levels.map(f32::from);
                (self.kernels.linear_codebook)(tile, &call, &levels);
            }
            (PanelKind::Coded(_), _) => unreachable!("integer codes meet packed codes"),
            (PanelKind::Bf16, _) => (self.kernels.linear_bf16)(tile, &call),
            (PanelKind::F16, _) => (self.kernels.linear_f16)(tile, &call),
            (PanelKind::F32, _) => (self.kernels.linear_f32)(tile, &call),
        }
    }

    /// Adds bias and residual and writes rows `first..` of the destination.
    fn store(&self, part: &Part, panel: usize, first: usize, tile: &[[f32; PANEL_ROWS]]) {
        let lane = panel * PANEL_ROWS;
        let lanes = PANEL_ROWS.min(part.layout.rows - lane);
        let mut bias = [0.0; PANEL_ROWS];
        if let Some(values) = &part.bias {
            bias[..lanes].copy_from_slice(&values[lane..lane + lanes]);
        }
        for (row, sums) in tile.iter().enumerate() {
            let start = (first + row) * self.dst_cols + part.first_row + lane;
            // SAFETY: a (panel, block) pair belongs to one task, and pairs do not share destinations.
            let dst = unsafe { self.dst.range(start..start + lanes) };
            let mut sums = *sums;
            if part.bias.is_some() {
                sums.iter_mut()
                    .zip(bias)
                    .for_each(|(sum, bias)| *sum += bias);
            }
            if self.output == Output::Add {
                sums.iter_mut()
                    .zip(&*dst)
                    .for_each(|(sum, residual)| *sum += residual);
            }
            match dst.first_chunk_mut() {
                Some(whole) if lanes == PANEL_ROWS => *whole = sums,
                _ => dst.copy_from_slice(&sums[..lanes]),
            }
        }
    }
}
