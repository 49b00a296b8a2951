//! A matrix that owns its memory, and borrowed ranges of its rows.
//!
//! Operations take [`View`] and [`ViewMut`], so that in safe code a destination never aliases a source. Activations are
//! f32 everywhere; other precisions live inside weights and the KV pool, whose layout is the backend's business.

use std::ops::Range;

use crate::buffer::Buffer;
use crate::error::{TensorError, TensorResult};

/// A row-major f32 matrix `[rows, cols]` on one device. Not `Clone`: copies are explicit operations.
#[derive(Debug)]
pub struct Tensor {
    rows: usize,
    cols: usize,
    buffer: Buffer,
}

impl Tensor {
    /// A zeroed matrix.
    ///
    /// # Errors
    /// [`TensorError::OutOfMemory`] when the size overflows or the allocator refuses.
    pub fn zeroed(rows: usize, cols: usize, what: &str) -> TensorResult<Self> {
        let bytes = rows
            .checked_mul(cols)
            .and_then(|n| n.checked_mul(4))
            .ok_or_else(|| TensorError::OutOfMemory {
                what: what.to_owned(),
                bytes: usize::MAX,
            })?;
        Ok(Self {
            rows,
            cols,
            buffer: Buffer::zeroed(bytes, what)?,
        })
    }

    /// A matrix holding `values`, row by row.
    ///
    /// # Errors
    /// [`TensorError::Shape`] unless `values` fills whole rows of `cols`.
    pub fn from_values(values: &[f32], cols: usize, what: &str) -> TensorResult<Self> {
        if cols == 0 || !values.len().is_multiple_of(cols) {
            return Err(TensorError::shape(
                what,
                format!("rows of {cols}"),
                values.len(),
            ));
        }
        let mut tensor = Self::zeroed(values.len() / cols, cols, what)?;
        tensor.buffer.cast_mut::<f32>().copy_from_slice(values);
        Ok(tensor)
    }

    /// Number of rows.
    pub fn num_rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn num_cols(&self) -> usize {
        self.cols
    }

    /// Size in bytes.
    pub fn len_bytes(&self) -> usize {
        self.buffer.len_bytes()
    }

    /// All values, row by row.
    pub fn values(&self) -> &[f32] {
        self.buffer.cast()
    }

    /// All rows, read only.
    pub fn view(&self) -> View<'_> {
        self.rows(0..self.rows)
    }

    /// A range of rows, read only.
    ///
    /// # Panics
    /// When the range leaves the tensor.
    pub fn rows(&self, range: Range<usize>) -> View<'_> {
        assert!(
            range.start <= range.end && range.end <= self.rows,
            "rows {range:?} of {}",
            self.rows
        );
        View {
            values: &self.values()[range.start * self.cols..range.end * self.cols],
            cols: self.cols,
        }
    }

    /// All rows, writable.
    pub fn view_mut(&mut self) -> ViewMut<'_> {
        self.rows_mut(0..self.rows)
    }

    /// A range of rows, writable.
    ///
    /// # Panics
    /// When the range leaves the tensor.
    pub fn rows_mut(&mut self, range: Range<usize>) -> ViewMut<'_> {
        assert!(
            range.start <= range.end && range.end <= self.rows,
            "rows {range:?} of {}",
            self.rows
        );
        let cols = self.cols;
        let values = &mut self.buffer.cast_mut::<f32>()[range.start * cols..range.end * cols];
        ViewMut { values, cols }
    }
}

/// Borrowed rows `[rows, cols]`, read only, contiguous.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    values: &'a [f32],
    cols: usize,
}

impl<'a> View<'a> {
    /// Number of rows.
    pub fn num_rows(&self) -> usize {
        self.values.len().checked_div(self.cols).unwrap_or(0)
    }

    /// Number of columns.
    pub fn num_cols(&self) -> usize {
        self.cols
    }

    /// All values, row by row.
    pub fn values(&self) -> &'a [f32] {
        self.values
    }

    /// One row.
    pub fn row(&self, row: usize) -> &'a [f32] {
        &self.values[row * self.cols..(row + 1) * self.cols]
    }

    /// A range of rows.
    ///
    /// # Panics
    /// When the range leaves the view.
    pub fn rows(&self, range: Range<usize>) -> View<'a> {
        View {
            values: &self.values[range.start * self.cols..range.end * self.cols],
            cols: self.cols,
        }
    }
}

/// Borrowed rows `[rows, cols]`, writable, contiguous.
#[derive(Debug)]
pub struct ViewMut<'a> {
    values: &'a mut [f32],
    cols: usize,
}

impl<'a> ViewMut<'a> {
    /// Number of rows.
    pub fn num_rows(&self) -> usize {
        self.values.len().checked_div(self.cols).unwrap_or(0)
    }

    /// Number of columns.
    pub fn num_cols(&self) -> usize {
        self.cols
    }

    /// All values, row by row.
    pub fn values(&self) -> &[f32] {
        self.values
    }

    /// All values, row by row, writable.
    pub fn values_mut(&mut self) -> &mut [f32] {
        self.values
    }

    /// One row, writable.
    pub fn row_mut(&mut self, row: usize) -> &mut [f32] {
        &mut self.values[row * self.cols..(row + 1) * self.cols]
    }

    /// The same rows, to read.
    pub fn view(&self) -> View<'_> {
        View {
            values: self.values,
            cols: self.cols,
        }
    }

    /// A range of rows, writable.
    ///
    /// # Panics
    /// When the range leaves the view.
    pub fn rows_mut(&mut self, range: Range<usize>) -> ViewMut<'_> {
        ViewMut {
            values: &mut self.values[range.start * self.cols..range.end * self.cols],
            cols: self.cols,
        }
    }

    /// The same rows, borrowed for a shorter time.
    pub fn reborrow(&mut self) -> ViewMut<'_> {
        ViewMut {
            values: self.values,
            cols: self.cols,
        }
    }
}
