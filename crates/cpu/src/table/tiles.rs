//! What a tile unit computes and in which portions: the slots of a tier that has one.

use ucuz_tensor::layout::CodedPanel;

use super::{GatedKernel, Levels};
use crate::activations::{Bf16Group, I8Group, I12Group, RowHead, RowSpan};
use crate::pool::Disjoint;

/// Consecutive panels of one part times consecutive blocks of 16 activation rows.
#[derive(Debug)]
pub struct TileCall<'a, X> {
    /// Whole panels, one after the other.
    pub panels: &'a [u8],
    /// Bytes of one panel.
    pub panel_bytes: usize,
    /// Whole blocks, one after the other: [`RowSpan`]s, one per 64 columns; or groups of another kind, one per 32.
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

/// Codebook weights of a [`TileCall`].
#[derive(Debug)]
pub struct TileBook<'a> {
    /// Geometry of a panel.
    pub coded: CodedPanel,
    /// What the codes stand for.
    pub levels: &'a Levels,
}

/// What happens to the old value.
#[derive(Debug, Clone, Copy)]
pub enum TileStore {
    /// `dst = sum + bias`.
    Replace,
    /// `dst = (sum + bias) + dst`.
    Add,
    /// `dst = activation(dst) · (sum + bias)`: the gate's results wait in the destination.
    Gate(GatedKernel),
}

/// Where the products of a [`TileCall`] go.
#[derive(Debug)]
pub struct TileOutput<'a> {
    /// Destination.
    pub dst: &'a Disjoint<'a, f32>,
    /// Index of the number that the call's first activation row and first weight row meet in.
    pub start: usize,
    /// Numbers from row to row.
    pub stride: usize,
    /// Activation rows that count, of all blocks.
    pub rows: usize,
    /// Weight rows that count, of all panels.
    pub lanes: usize,
    /// Biases of these, if there are any.
    pub bias: Option<&'a [f32]>,
    /// What happens to the old values.
    pub store: TileStore,
}

/// Products of a tile unit, which wants many panels and rows at once. The bits are those of the kernels beside it.
///
/// Products are unsafe because the destination must belong to the calling task, see [`Disjoint::range`].
#[derive(Debug)]
pub struct TileKernels {
    /// Fewest rows that make it worth while; of a block of 16 too, where sums stay in the unit.
    pub rows_min: usize,
    /// Fewest rows that make it worth while for integer codes whose sums leave the unit once a group: with one digit and with
    /// two.
    pub coded_rows_min: [usize; 2],
    /// [`crate::activations::pack_tiles`].
    pub pack_tiles: fn(&mut [Bf16Group], &[f32], cols: usize),
    /// Integer weights, `Arithmetic::I8`.
    pub linear_i8: unsafe fn(&TileCall<'_, I8Group>, &CodedPanel, &TileOutput<'_>),
    /// The same, `Arithmetic::I12`.
    pub linear_i12: unsafe fn(&TileCall<'_, I12Group>, &CodedPanel, &TileOutput<'_>),
    /// Row-scaled weights, `Arithmetic::I8Row`; one head a block.
    pub linear_rows: unsafe fn(&TileCall<'_, RowSpan>, &[RowHead], &TileOutput<'_>),
    /// Codebook weights, `Arithmetic::Bf16Code`.
    pub linear_codebook: unsafe fn(&TileCall<'_, Bf16Group>, &TileBook<'_>, &TileOutput<'_>),
    /// bf16 weights, `Arithmetic::Bf16`.
    pub linear_bf16: unsafe fn(&TileCall<'_, Bf16Group>, &TileOutput<'_>),
}
