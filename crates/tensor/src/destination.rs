//! Where the bytes of a weight come to lie when it is loaded.
//!
//! Here: the plan of one part ([`PartPlan`]), the trait [`Destination`], and [`Anonymous`] memory. `formats` has two more:
//! a file of prepared weights, read and being written. Not here: what the bytes mean (`layout`), how they are made
//! ([`Backend::repack`]).

use std::ops::Range;

use crate::backend::Backend;
use crate::buffer::Buffer;
use crate::error::{TensorError, TensorResult};
use crate::layout::PanelLayout;
use crate::part_bytes::PartBytes;

/// What is known of a part before its bytes are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartPlan<'a> {
    /// Name of the tensor in the file.
    pub name: &'a str,
    /// Compute layout.
    pub layout: PanelLayout,
    /// Bytes in the backend's layout.
    pub bytes: usize,
    /// Pieces that are made one after the other; together all rows and all bytes, ascending.
    pub chunks: Vec<Chunk>,
}

/// A piece of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Rows of the part.
    pub rows: Range<usize>,
    /// Where their bytes lie in the part.
    pub bytes: Range<usize>,
}

/// Makes the bytes of one chunk in a zeroed slice of just that size; may be called again for the same chunk.
pub type MakeChunk<'a> = dyn FnMut(&Chunk, &mut [u8]) -> TensorResult<()> + 'a;

/// A place for weights.
pub trait Destination {
    /// The bytes of a part: found where they were made before, or made now, chunk by chunk.
    ///
    /// # Errors
    /// Memory, or what `make` reports. A destination that fails in another way (a full disk) must fall back to memory.
    fn place(&mut self, plan: &PartPlan<'_>, make: &mut MakeChunk<'_>) -> TensorResult<PartBytes>;
}

/// Rows of a chunk are a multiple of this: whole panels of any layout.
const CHUNK_ROWS: usize = 256;
/// A chunk has about this many bytes: enough work for all threads, and still in the second-level cache when it is written.
const CHUNK_BYTES: usize = 1 << 20;

impl<'a> PartPlan<'a> {
    /// Plans a part for `backend`.
    ///
    /// # Errors
    /// A layout that the backend refuses, or whose rows do not lie one after the other.
    pub fn new(backend: &dyn Backend, name: &'a str, layout: PanelLayout) -> TensorResult<Self> {
        let bytes_of = |rows: usize| backend.layout_bytes(&layout.with_rows(rows));
        let bytes = bytes_of(layout.rows)?;
        let smallest = bytes_of(CHUNK_ROWS.min(layout.rows))?;
        let chunk_rows = (CHUNK_BYTES / smallest.max(1)).max(1) * CHUNK_ROWS;
        let mut chunks = Vec::with_capacity(layout.rows.div_ceil(chunk_rows));
        let mut end = 0;
        for first in (0..layout.rows).step_by(chunk_rows) {
            let rows = first..(first + chunk_rows).min(layout.rows);
            let start = end;
            end = start + bytes_of(rows.len())?;
            chunks.push(Chunk {
                rows,
                bytes: start..end,
            });
        }
        if end != bytes {
            let what = format!("bytes of {name}, chunk by chunk");
            return Err(TensorError::shape(what, bytes, end));
        }
        Ok(Self {
            name,
            layout,
            bytes,
            chunks,
        })
    }
}

/// Memory from the system, given back with the weight.
#[derive(Debug, Clone, Copy)]
pub struct Anonymous;

impl Destination for Anonymous {
    fn place(&mut self, plan: &PartPlan<'_>, make: &mut MakeChunk<'_>) -> TensorResult<PartBytes> {
        let mut buffer = Buffer::zeroed(plan.bytes, plan.name)?;
        for chunk in &plan.chunks {
            make(chunk, &mut buffer.bytes_mut()[chunk.bytes.clone()])?;
        }
        Ok(buffer.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Format;
    use crate::reference::ReferenceBackend;

    #[test]
    fn chunks_cover_a_part_without_gap_or_overlap() {
        let backend = ReferenceBackend::new(1);
        for (rows, cols) in [
            (0, 32),
            (1, 32),
            (255, 64),
            (256, 1024),
            (257, 4096),
            (9000, 96),
        ] {
            let layout = PanelLayout::new(Format::Q8_0, rows, cols).unwrap();
            let plan = PartPlan::new(&backend, "a test", layout).unwrap();
            let (mut row, mut byte) = (0, 0);
            for chunk in &plan.chunks {
                assert_eq!((chunk.rows.start, chunk.bytes.start), (row, byte));
                assert_eq!(chunk.bytes.len(), chunk.rows.len() * cols * 4);
                (row, byte) = (chunk.rows.end, chunk.bytes.end);
            }
            assert_eq!((row, byte), (rows, plan.bytes), "{rows} x {cols}");
        }
    }
}
