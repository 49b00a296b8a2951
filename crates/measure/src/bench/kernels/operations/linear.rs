//! Products with a weight of one format, and looking up its rows.
//!
//! Cost of a product of `r` rows with `m x n` weights: the weight's bytes in the backend's layout from memory, `4 r (n + m)`
//! bytes of activations, `2 r m n` operations, twice that when activations are two int8 digits. Weights go around a ring, so
//! that each call finds its own in memory, as a step of a model does.

use std::rc::Rc;

use anyhow::Result;
use ucuz_tensor::{Backend, CeilingKind, Format, Tensor};

use super::super::case::{Case, Cost, Label};
use super::super::operation::Operation;
use super::super::{Options, data};
use crate::bench::work::products;

/// Rows of an embedding table that is looked up.
const TABLE_ROWS: usize = 8192;

/// Products with every number of rows.
///
/// # Errors
/// Columns that the format cannot store, memory.
pub fn linear(backend: &dyn Backend, options: &Options, format: Format) -> Result<Vec<Case>> {
    let (out, cols) = (options.shape.rows, options.shape.cols);
    let activations = options.activations;
    let ring = data::weight_ring(
        backend,
        format,
        (out, cols),
        activations,
        options.cold_bytes,
    )?;
    let ring = Rc::new(ring);
    let (unit, products) = products(activations.arithmetic(format));
    let case = |rows: usize| -> Result<Case> {
        let x = data::activations(rows, cols)?;
        let mut dst = Tensor::zeroed(rows, out, "products")?;
        let (ring, mut next) = (Rc::clone(&ring), 0);
        let mut limits = data::limits(rows, 1, rows);
        limits.cols_max = cols;
        Ok(Case {
            label: Label::new(
                Operation::Linear,
                format.to_string(),
                rows,
                options.shape.to_string(),
            ),
            cost: Cost {
                memory_bytes: ring[0].len_bytes() as u64,
                cache_bytes: (rows * (cols + out) * 4) as u64,
                operations: 2 * (rows * out * cols) as u64 * products,
                unit,
            },
            limits,
            batch: data::step(1, rows, rows),
            body: Box::new(move |queue, _| {
                next = (next + 1) % ring.len();
                queue.linear(dst.view_mut(), x.view(), &ring[next])
            }),
        })
    };
    options.rows.iter().map(|rows| case(*rows)).collect()
}

/// Looking up every number of rows: stored bytes in, `4 r n` bytes out, one multiplication a number. The table may well be
/// in a cache, so its bytes count as such.
///
/// # Errors
/// Columns that the format cannot store, memory.
pub fn embed(backend: &dyn Backend, options: &Options, format: Format) -> Result<Vec<Case>> {
    let cols = options.shape.cols;
    let shape = (TABLE_ROWS, cols);
    let table = data::weight_ring(backend, format, shape, options.activations, 0)?.swap_remove(0);
    let row_bytes = table.len_bytes() / TABLE_ROWS;
    let case = |rows: usize| -> Result<Case> {
        let mut dst = Tensor::zeroed(rows, cols, "looked up rows")?;
        let mut batch = data::step(1, rows, rows);
        batch.tokens = data::tokens(rows, TABLE_ROWS);
        let table = table.clone();
        Ok(Case {
            label: Label::new(Operation::Embed, format.to_string(), rows, cols.to_string()),
            cost: Cost {
                memory_bytes: 0,
                cache_bytes: (rows * (row_bytes + cols * 4)) as u64,
                operations: (rows * cols) as u64,
                unit: CeilingKind::Float32,
            },
            limits: data::limits(rows, 1, rows),
            batch,
            body: Box::new(move |queue, inputs| queue.embed(dst.view_mut(), &table, 1.0, inputs)),
        })
    };
    options.rows.iter().map(|rows| case(*rows)).collect()
}
