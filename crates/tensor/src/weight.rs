//! A weight: a name and parts that share one input, each part in its own format and compute layout.
//!
//! Loading is `layout` (pure sizes), a destination, `repack` by row range, then the source pages may go.

use std::sync::Arc;

use crate::backend::Backend;
use crate::destination::{Anonymous, Destination, PartPlan};
use crate::error::{TensorError, TensorResult};
use crate::format::{Activations, Arithmetic, Format, OnLoad};
use crate::layout::PanelLayout;
use crate::part_bytes::PartBytes;

/// A part as stored: rows of whole blocks, borrowed from a file.
#[derive(Debug, Clone)]
pub struct RawPart<'a> {
    /// Name of the tensor in the file, for errors.
    pub name: String,
    /// Stored format.
    pub format: Format,
    /// Output features.
    pub rows: usize,
    /// Input features.
    pub cols: usize,
    /// `rows` rows of `format.row_bytes(cols)` bytes.
    pub bytes: &'a [u8],
    /// One number per row, added after the sum.
    pub bias: Option<Vec<f32>>,
}

impl RawPart<'_> {
    /// Bytes of one stored row.
    ///
    /// # Errors
    /// [`TensorError::Shape`] when `cols` is not a whole number of blocks.
    pub fn row_bytes(&self) -> TensorResult<usize> {
        self.format.row_bytes(self.cols).ok_or_else(|| {
            let block = self.format.info().block_elements;
            TensorError::shape(
                format!("columns of {} ({})", self.name, self.format),
                format!("a multiple of {block}"),
                self.cols,
            )
        })
    }
}

/// How weights are loaded: their arithmetic, and the format they end up in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct WeightOptions {
    /// How activations meet stored integers.
    pub activations: Activations,
    /// What becomes of the stored format.
    pub on_load: OnLoad,
}

/// One part after loading.
#[derive(Debug)]
pub struct Part {
    /// Name of the tensor in the file.
    pub name: String,
    /// First output column of this part in the weight's output.
    pub first_row: usize,
    /// Compute layout; holds rows, columns and the stored format.
    pub layout: PanelLayout,
    /// The arithmetic, fixed at load.
    pub arithmetic: Arithmetic,
    /// The repacked bytes, in the order the backend chose.
    pub data: PartBytes,
    /// One number per row, added after the sum.
    pub bias: Option<Vec<f32>>,
}

/// Projections with one input (q, k, v; gate, up), computed by one call.
#[derive(Debug)]
pub struct Weight {
    /// Name for traces and errors.
    pub name: String,
    /// Output features: the sum of the parts' rows.
    pub rows: usize,
    /// Input features, the same for all parts.
    pub cols: usize,
    /// The parts, in output order.
    pub parts: Vec<Part>,
}

impl Weight {
    /// Brings stored parts into `backend`'s layout, in memory of their own.
    ///
    /// # Errors
    /// [`TensorError::Shape`] when the parts disagree on their columns or byte counts, [`TensorError::OutOfMemory`], or
    /// whatever the backend refuses.
    pub fn load(
        backend: &dyn Backend,
        name: &str,
        raw: &[RawPart<'_>],
        options: WeightOptions,
    ) -> TensorResult<Arc<Self>> {
        Self::load_into(&mut Anonymous, backend, name, raw, options)
    }

    /// As [`Weight::load`], with the bytes where `destination` has them.
    ///
    /// # Errors
    /// As [`Weight::load`].
    pub fn load_into(
        destination: &mut dyn Destination,
        backend: &dyn Backend,
        name: &str,
        raw: &[RawPart<'_>],
        options: WeightOptions,
    ) -> TensorResult<Arc<Self>> {
        let cols = raw.first().map_or(0, |part| part.cols);
        let mut parts = Vec::with_capacity(raw.len());
        let mut rows = 0;
        for part in raw {
            if part.cols != cols {
                return Err(TensorError::shape(
                    &part.name,
                    format!("{cols} columns"),
                    part.cols,
                ));
            }
            parts.push(Part::load(destination, backend, part, rows, options)?);
            rows += part.rows;
        }
        Ok(Arc::new(Self {
            name: name.to_owned(),
            rows,
            cols,
            parts,
        }))
    }

    /// Resident bytes of all parts, biases included.
    pub fn len_bytes(&self) -> usize {
        self.parts
            .iter()
            .map(|part| part.data.len_bytes() + part.bias.as_ref().map_or(0, |b| b.len() * 4))
            .sum()
    }
}

impl Part {
    fn load(
        destination: &mut dyn Destination,
        backend: &dyn Backend,
        raw: &RawPart<'_>,
        first_row: usize,
        options: WeightOptions,
    ) -> TensorResult<Self> {
        let row_bytes = raw.row_bytes()?;
        if row_bytes.checked_mul(raw.rows) != Some(raw.bytes.len()) {
            return Err(TensorError::shape(
                &raw.name,
                format!("{} rows of {row_bytes} bytes", raw.rows),
                raw.bytes.len(),
            ));
        }
        if let Some(bias) = &raw.bias
            && bias.len() != raw.rows
        {
            return Err(TensorError::shape(
                format!("bias of {}", raw.name),
                raw.rows,
                bias.len(),
            ));
        }
        let format = options.on_load.format(raw.format);
        let layout = PanelLayout::converted(raw.format, format, raw.rows, raw.cols)?;
        let arithmetic = options.activations.arithmetic(format);
        let plan = PartPlan::new(backend, &raw.name, layout)?;
        let data = destination.place(&plan, &mut |chunk, bytes| {
            let (rows, chunk_layout) = (&chunk.rows, layout.with_rows(chunk.rows.len()));
            let source = &raw.bytes[rows.start * row_bytes..rows.end * row_bytes];
            backend.repack(bytes, &chunk_layout, source, 0..rows.len())
        })?;
        Ok(Self {
            name: raw.name.clone(),
            first_row,
            layout,
            arithmetic,
            data,
            bias: raw.bias.clone(),
        })
    }
}
