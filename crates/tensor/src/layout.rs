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
//!          d, m are f16, or d an exponent byte (MXFP4); m only with a minimum; a short last block holds only its groups
//!          2-bit codes: sub-scale and sub-minimum share a byte, the scale in its low nibble
//! codes  = planes of 8, 4, 2 or 1 bits, the low bits of the code first: 2 = 2, 3 = 2 + 1, 4 = 4, 5 = 4 + 1, 6 = 4 + 2, 8 = 8
//! plane  = b vectors of 64 bytes; quad q (columns 4q..4q + 4 of 32) is in vector q % b, shifted left by b (q / b):
//!          byte ((q % b)*16 + r)*4 + c, bits b (q / b)..  =  its b bits of code(r, 4q + c) + bias
//!          bias = 2^(bits - 1) when signed, else 0; codebook: the code is the index into the levels
//! rows   = INT8_ROW: scale[16] in f32, then for quad q, row r, c in 0..4:  byte (q*16 + r)*4 + c  =  code(r, 4q + c) + 128,
//!          columns padded to 64
//! bf16   = for pair p, row r: [w(r, 2p), w(r, 2p + 1)]        f16, f32 = for column k, row r: w(r, k)
//! ```

use crate::error::{TensorError, TensorResult};
use crate::format::{CodebookScale, Coding, Format, GROUP};

/// Rows of one panel.
pub const PANEL_ROWS: usize = 16;
/// Columns of one span of row-scaled codes: what one tile of a tile unit takes.
pub const ROW_SPAN: usize = 64;
/// Bytes of the scales at the head of a panel of row-scaled codes.
pub const ROW_HEAD_BYTES: usize = PANEL_ROWS * 4;
/// Most columns of row-scaled weights: `127² · 2^16` and `255 · 127 · 2^16` fit 32 bits.
const ROW_COLS_MAX: usize = 1 << 16;
/// Bytes of four columns of a panel at eight bits: one vector.
const QUAD_BYTES: usize = PANEL_ROWS * 4;

/// Version of the order of bytes in a panel; it keys prepared weights that are kept on disk.
///
/// Raise it with any change of where a code or scale lies, or of how it is stored: files of another version are made anew.
pub const LAYOUT_VERSION: u32 = 1;

/// The compute layout of one weight part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PanelLayout {
    /// Format of the weights in memory.
    pub format: Format,
    /// Format of the rows they are made from; another one when they are converted on the way.
    pub stored: Format,
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
    /// int8 codes with one scale a row.
    Rows,
    /// `[cols/2][16][2]` bf16.
    Bf16,
    /// `[cols][16]` f16.
    F16,
    /// `[cols][16]` f32.
    F32,
}

/// How the scale of a block is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScaleKind {
    /// f16.
    F16,
    /// An exponent byte, see [`crate::quant::mxfp4`].
    Exponent,
}

/// Byte geometry of a coded panel; all sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodedPanel {
    /// Bits of a code: 2, 3, 4, 5, 6 or 8.
    pub bits: u8,
    /// What is added to a code before it is stored; 0 for codebook indices.
    pub bias: u8,
    /// Groups that share `d` and `m`.
    pub groups_per_scale: usize,
    /// Integer sub-scales (and, with a minimum, sub-minima) per group: 0, 1, 2.
    pub sub_scales: usize,
    /// Whether there is a minimum.
    pub minimum: bool,
    /// How `d` is stored.
    pub scale: ScaleKind,
}

impl CodedPanel {
    /// Bytes of `d` (and `m`) at the head of a block.
    pub const fn header_bytes(&self) -> usize {
        let d = match self.scale {
            ScaleKind::F16 => PANEL_ROWS * 2,
            ScaleKind::Exponent => PANEL_ROWS,
        };
        d + if self.minimum { PANEL_ROWS * 2 } else { 0 }
    }

    /// Bytes of the sub-scales (and sub-minima) before the codes of a group.
    pub const fn sub_bytes(&self) -> usize {
        let own_byte = self.minimum && !self.packed_subs();
        self.sub_scales * PANEL_ROWS * if own_byte { 2 } else { 1 }
    }

    /// Whether a sub-scale and its sub-minimum share a byte: the scale is the low nibble.
    pub const fn packed_subs(&self) -> bool {
        self.bits == 2
    }

    /// Bits of the plane that holds the low bits of the codes; the other plane has the rest, if any.
    pub const fn low_bits(&self) -> u8 {
        match self.bits {
            2 | 3 => 2,
            8 => 8,
            _ => 4,
        }
    }

    /// Where each plane lies: bits of the plane, its first byte within the codes of a group, bits of the code below it.
    pub fn planes(&self) -> impl Iterator<Item = (u8, usize, u8)> + use<> {
        let low = self.low_bits();
        let start = usize::from(low) * QUAD_BYTES;
        [(low, 0, 0), (self.bits - low, start, low)]
            .into_iter()
            .filter(|plane| plane.0 > 0)
    }

    /// The stored code, bias and all, of one column of one lane; `codes` are those of the group.
    pub fn stored_code(&self, codes: &[u8], column: usize, lane: usize) -> u8 {
        let (quad, c) = (column / 4, column % 4);
        self.planes().fold(0, |code, (bits, start, below)| {
            let b = usize::from(bits);
            let byte = codes[start + (quad % b * PANEL_ROWS + lane) * 4 + c];
            let mask = u8::MAX >> (8 - bits);
            code | (byte >> (b * (quad / b)) & mask) << below
        })
    }

    /// Stores the codes, bias and all, of the 32 columns of one lane.
    pub fn put_codes(&self, codes: &mut [u8], lane: usize, stored: &[u8; GROUP]) {
        let words: &[[u8; 4]; GROUP / 4] = bytemuck::cast_ref(stored);
        let quads = words.map(u32::from_le_bytes);
        let (low, high) = codes.split_at_mut(usize::from(self.low_bits()) * QUAD_BYTES);
        match self.low_bits() {
            2 => put_plane::<2, 0>(low, lane, &quads),
            4 => put_plane::<4, 0>(low, lane, &quads),
            _ => put_plane::<8, 0>(low, lane, &quads),
        }
        match self.bits {
            3 => put_plane::<1, 2>(high, lane, &quads),
            5 => put_plane::<1, 4>(high, lane, &quads),
            6 => put_plane::<2, 4>(high, lane, &quads),
            _ => {}
        }
    }

    /// Bytes of the codes of a group.
    pub const fn code_bytes(&self) -> usize {
        QUAD_BYTES * self.bits as usize
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

/// Stores `B` bits, from bit `BELOW` on, of eight quads of codes; a quad is a word, and no bit leaves its byte.
///
/// Constants and plain loops: the compiler unrolls all of it, which is ten times faster than the same with `B` as a value.
fn put_plane<const B: usize, const BELOW: u32>(
    plane: &mut [u8],
    lane: usize,
    quads: &[u32; GROUP / 4],
) {
    let mask = u32::from(u8::MAX >> (8 - B)) * 0x0101_0101;
    let vectors = &mut plane.as_chunks_mut::<QUAD_BYTES>().0[..B];
    for (first, vector) in vectors.iter_mut().enumerate() {
        let mut word = 0;
        for at in 0..8 / B {
            word |= (quads[first + B * at] >> BELOW & mask) << (B * at);
        }
        vector.as_chunks_mut::<4>().0[lane] = word.to_le_bytes();
    }
}

impl PanelLayout {
    /// The layout of `rows x cols` weights stored as `format`.
    ///
    /// # Errors
    /// [`TensorError::Shape`] when a row is not a whole number of 32-column groups (coded formats only).
    pub fn new(format: Format, rows: usize, cols: usize) -> TensorResult<Self> {
        Self::converted(format, format, rows, cols)
    }

    /// The layout of `rows x cols` weights stored as `stored` that become `format` while they are repacked.
    ///
    /// # Errors
    /// As [`PanelLayout::new`]; [`TensorError::Shape`] when there are too many columns for [`Format::Int8Row`].
    pub fn converted(
        stored: Format,
        format: Format,
        rows: usize,
        cols: usize,
    ) -> TensorResult<Self> {
        let kind = match format.info().coding {
            Coding::RowScaled => PanelKind::Rows,
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
                bias: if signed { 1 << (bits - 1) } else { 0 },
                groups_per_scale: usize::from(groups_per_scale),
                sub_scales: usize::from(sub_scales),
                minimum,
                scale: ScaleKind::F16,
            }),
            Coding::Codebook { scale, .. } => PanelKind::Coded(CodedPanel {
                bits: 4,
                bias: 0,
                groups_per_scale: if scale == CodebookScale::F16Sub { 8 } else { 1 },
                sub_scales: usize::from(scale == CodebookScale::F16Sub),
                minimum: false,
                scale: match scale {
                    CodebookScale::Exponent => ScaleKind::Exponent,
                    CodebookScale::F16 | CodebookScale::F16Sub => ScaleKind::F16,
                },
            }),
        };
        if matches!(kind, PanelKind::Coded(_)) && !cols.is_multiple_of(GROUP) {
            return Err(TensorError::shape(
                format!("columns of a {format} weight"),
                "a multiple of 32",
                cols,
            ));
        }
        if kind == PanelKind::Rows && cols > ROW_COLS_MAX {
            return Err(TensorError::shape(
                format!("columns of a {format} weight"),
                format!("at most {ROW_COLS_MAX}, so that dots fit 32 bits"),
                cols,
            ));
        }
        Ok(Self {
            format,
            stored,
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
            PanelKind::Rows => ROW_HEAD_BYTES + PANEL_ROWS * self.cols.next_multiple_of(ROW_SPAN),
            PanelKind::Bf16 | PanelKind::F16 => PANEL_ROWS * cols * 2,
            PanelKind::F32 => PANEL_ROWS * cols * 4,
        }
    }

    /// Bytes of the whole part; `None` on overflow.
    pub fn checked_bytes(&self) -> Option<usize> {
        self.panels().checked_mul(self.panel_bytes())
    }
}
