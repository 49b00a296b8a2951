//! Compute layouts of weights: where each code and scale of a part lies after `repack`.
//!
//! Sizes and offsets only, so that a plan can size a machine that is not here. One layout serves every CPU tier: rows are
//! interleaved in panels of 16, because 16 rows times 4 bytes fill one 64-byte vector, and a lane is an output row.
//!
//! ```text
//! part   = panels of 16 rows (rows past the end are zero), one after the other
//! panel  = integer/codebook: blocks of `groups_per_scale` groups of 32 columns, ascending
//!          float:            pairs of columns (bf16), or single columns (f16, f32), ascending, padded to 32 columns
//! block  = d[16]  m[16]?  then per group: sub_scales[s][16]  sub_mins[s][16]  codes
//!          d, m are f16 (integer) or f32 (codebook); m only with a minimum; a short last block holds only its groups
//! codes  = 8 bits: for quad q in 0..8, row r, c in 0..4:  byte (q*16 + r)*4 + c            = code(r, 4q + c) + 128
//!          4 bits: for quad q in 0..4, row r, c in 0..4:  byte (q*16 + r)*4 + c, low nibble = code(r, 4q + c) + bias,
//!                                                         high nibble = code(r, 16 + 4q + c) + bias
//!          bias = 8 when signed, else 0; codebook: the nibble is the index into the levels
//! bf16   = for pair p, row r: [w(r, 2p), w(r, 2p + 1)]        f16, f32 = for column k, row r: w(r, k)
//! ```

use crate::error::{TensorError, TensorResult};
use crate::format::{Coding, Format, GROUP};

/// Rows of one panel.
pub const PANEL_ROWS: usize = 16;

/// Version of the order of bytes in a panel; it keys prepared weights that are kept on disk.
///
/// Raise it with any change of where a code or scale lies, or of how it is stored: files of another version are made anew.
pub const LAYOUT_VERSION: u32 = 1;

/// The compute layout of one weight part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PanelLayout {
    /// Stored format it was made from.
    pub format: Format,
    /// Rows that mean something.
    pub rows: usize,
    /// Columns that mean something.
    pub cols: usize,
    /// Offsets within a panel.
    pub kind: PanelKind,
}

/// How a panel is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PanelKind {
    /// Codes with scales.
    Coded(CodedPanel),
    /// `[cols/2][16][2]` bf16.
    Bf16,
    /// `[cols][16]` f16.
    F16,
    /// `[cols][16]` f32.
    F32,
}

/// Byte geometry of a coded panel; all sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodedPanel {
    /// 4 or 8.
    pub bits: u8,
    /// What is added to a code before it is stored; 0 for codebook indices.
    pub bias: u8,
    /// Groups that share `d` and `m`.
    pub groups_per_scale: usize,
    /// Integer sub-scales (and, with a minimum, sub-minima) per group: 0, 1, 2.
    pub sub_scales: usize,
    /// Whether there is a minimum.
    pub minimum: bool,
    /// Whether `d` is f32 (codebook) instead of f16.
    pub wide_scale: bool,
}

impl CodedPanel {
    /// Bytes of `d` (and `m`) at the head of a block.
    pub const fn header_bytes(&self) -> usize {
        let d = PANEL_ROWS * if self.wide_scale { 4 } else { 2 };
        d + if self.minimum { PANEL_ROWS * 2 } else { 0 }
    }

    /// Bytes of the sub-scales (and sub-minima) before the codes of a group.
    pub const fn sub_bytes(&self) -> usize {
        self.sub_scales * PANEL_ROWS * if self.minimum { 2 } else { 1 }
    }

    /// Bytes of the codes of a group.
    pub const fn code_bytes(&self) -> usize {
        PANEL_ROWS * GROUP * self.bits as usize / 8
    }

    /// Bytes of one group: sub-scales and codes.
    pub const fn group_bytes(&self) -> usize {
        self.sub_bytes() + self.code_bytes()
    }

    /// Bytes of a panel of `groups` groups.
    pub const fn panel_bytes(&self, groups: usize) -> usize {
        groups.div_ceil(self.groups_per_scale) * self.header_bytes() + groups * self.group_bytes()
    }

    /// Offset of the block that holds `group`, from the panel's start.
    pub const fn block_offset(&self, group: usize) -> usize {
        let block = group / self.groups_per_scale;
        block * (self.header_bytes() + self.groups_per_scale * self.group_bytes())
    }

    /// Offset of a group's sub-scales (its codes follow them), from the panel's start.
    pub const fn group_offset(&self, group: usize) -> usize {
        self.block_offset(group)
            + self.header_bytes()
            + group % self.groups_per_scale * self.group_bytes()
    }
}

impl PanelLayout {
    /// The layout of `rows x cols` weights stored as `format`.
    ///
    /// # Errors
    /// [`TensorError::Shape`] when a row is not a whole number of 32-column groups (coded formats only).
    pub fn new(format: Format, rows: usize, cols: usize) -> TensorResult<Self> {
        let kind = match format.info().coding {
            Coding::Float => match format {
                Format::BF16 => PanelKind::Bf16,
                Format::F16 => PanelKind::F16,
                _ => PanelKind::F32,
            },
            Coding::Integer {
                bits,
                signed,
                groups_per_scale,
                sub_scales,
                minimum,
            } => PanelKind::Coded(CodedPanel {
                bits,
                bias: if bits == 8 {
                    128
                } else if signed {
                    8
                } else {
                    0
                },
                groups_per_scale: usize::from(groups_per_scale),
                sub_scales: usize::from(sub_scales),
                minimum,
                wide_scale: false,
            }),
            Coding::Codebook { .. } => PanelKind::Coded(CodedPanel {
                bits: 4,
                bias: 0,
                groups_per_scale: 1,
                sub_scales: 0,
                minimum: false,
                wide_scale: true,
            }),
        };
        if matches!(kind, PanelKind::Coded(_)) && !cols.is_multiple_of(GROUP) {
            return Err(TensorError::shape(
                format!("columns of a {format} weight"),
                "a multiple of 32",
                cols,
            ));
        }
        Ok(Self {
            format,
            rows,
            cols,
            kind,
        })
    }

    /// The layout of `rows` rows of this part, as if they were a part of their own.
    pub const fn with_rows(&self, rows: usize) -> Self {
        Self { rows, ..*self }
    }

    /// Groups of 32 columns in a row, the last one padded.
    pub fn groups(&self) -> usize {
        self.cols.div_ceil(GROUP)
    }

    /// Panels of 16 rows, the last one padded.
    pub fn panels(&self) -> usize {
        self.rows.div_ceil(PANEL_ROWS)
    }

    /// Bytes of one panel.
    pub fn panel_bytes(&self) -> usize {
        let cols = self.groups() * GROUP;
        match self.kind {
            PanelKind::Coded(coded) => coded.panel_bytes(self.groups()),
            PanelKind::Bf16 | PanelKind::F16 => PANEL_ROWS * cols * 2,
            PanelKind::F32 => PANEL_ROWS * cols * 4,
        }
    }

    /// Bytes of the whole part; `None` on overflow.
    pub fn checked_bytes(&self) -> Option<usize> {
        self.panels().checked_mul(self.panel_bytes())
    }
}
