//! Products with a weight: packs the activations once, then computes panel by panel.
//!
//! With a tile unit, products of many rows go to it, many panels and blocks at once (`tiled.rs`).
//!
//! A task is a run of panels of one part times a chunk of activation rows that stays in the second-level cache. Every output
//! is computed by one kernel call over all columns, so neither the split nor the number of rows can change a bit.

use std::ops::Range;

use ucuz_tensor::format::GROUP;
use ucuz_tensor::layout::PANEL_ROWS;
use ucuz_tensor::tensor::{View, ViewMut};
use ucuz_tensor::weight::{Part, Weight};

use super::packing::{LinearScratch, Packing, pack};
use super::product::{Job, Results};
use crate::pool::{Disjoint, ThreadPool};
use crate::table::{GatedKernel, Kernels};

/// Tasks that each thread gets on average: enough to even out, few enough to stream.
const TASKS_PER_THREAD: usize = 4;
/// Packed activations of one task, in bytes: a share of a second-level cache.
const CHUNK_BYTES: usize = 512 * 1024;

/// What happens to the destination.
#[derive(Debug, Clone, Copy)]
pub enum Output {
    /// `dst = sum + bias`.
    Replace,
    /// `dst = (sum + bias) + dst`.
    Add,
    /// `dst = activation(sum + bias of the first part) · (sum + bias of the second)`; see [`can_gate`].
    Gated(GatedKernel),
}

/// Whether gate and up projection can be multiplied panel by panel: two parts alike, in whole panels.
pub fn can_gate(w: &Weight) -> bool {
    let [gate, up] = &w.parts[..] else {
        return false;
    };
    gate.layout.rows == up.layout.rows
        && gate.layout.rows.is_multiple_of(PANEL_ROWS)
        && Packing::of(gate.arithmetic, None) == Packing::of(up.arithmetic, None)
}

/// One product: `dst: [rows, w.rows]` (gated: `[rows, w.rows / 2]`), `x: [rows, w.cols]`.
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

/// Computes `call`.
pub fn linear(
    pool: &ThreadPool,
    kernels: &Kernels,
    scratch: &mut LinearScratch,
    mut call: LinearCall<'_>,
) {
    let (rows, dst_cols) = (call.x.num_rows(), call.dst.num_cols());
    // A gated product goes through the gate's panels and takes the up projection's beside them.
    let (parts, up) = match call.output {
        Output::Gated(_) => (&call.w.parts[..1], call.w.parts.get(1)),
        Output::Replace | Output::Add => (&call.w.parts[..], None),
    };
    let groups = call.w.cols.div_ceil(GROUP);
    if rows == 0 {
        return;
    }
    let unit = kernels.tiles.filter(|tiles| rows >= tiles.rows_min);
    for packing in Packing::ALL {
        let wanted = |part: &&Part| Packing::of(part.arithmetic, unit) == packing;
        if !parts.iter().any(|part| wanted(&part)) {
            continue;
        }
        let blocks = pack(pool, kernels, scratch, call.x, packing);
        let panels = parts
            .iter()
            .filter(wanted)
            .map(|part| part.layout.panels())
            .sum();
        let split = Split::new(packing, rows, groups, panels, pool.threads());
        let dst = Disjoint::new(call.dst.values_mut());
        let job = Job {
            kernels,
            unit,
            blocks,
            rows,
            groups,
            dst,
            dst_cols,
            output: call.output,
            up,
        };
        pool.run(split.tasks(), &|task, _| {
            let (blocks, mut panels) = split.task(task);
            let mut results = Results::ZERO;
            for part in parts.iter().filter(wanted) {
                let own = part.layout.panels();
                let own_panels = panels.start.min(own)..panels.end.min(own);
                job.compute_all(part, own_panels, &blocks, &mut results);
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
