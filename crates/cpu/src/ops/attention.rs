//! Paged attention: tiles of query rows over spans of 256 positions, no score matrix.
//!
//! A task is (tile of consecutive rows of one sequence, query heads of one kv head): it walks the spans that the tile sees
//! and folds them from left to right. When that gives too few tasks for the threads (one row and a long past), tasks are
//! spans instead and their partial results are folded afterwards in the same order, which is the same arithmetic.
//!
//! A fold takes `M' = max(M, m)` and rescales both sides by `2^(M - M')` and `2^(m - M')` (0 below 2^-126) before it adds;
//! the first span that a row sees is taken as it is. In the end `o / l`.

use std::ops::Range;

use ucuz_tensor::backend::{AttentionCall, HeadShape, Limits};
use ucuz_tensor::buffer::Buffer;
use ucuz_tensor::numerics::{LOG2_E, bf16_round, exp2_integer};
use ucuz_tensor::{CacheSpec, KvDtype, TensorError, TensorResult, View, ViewMut};

use crate::arch::generic::attention::{
    HeadCache, SPAN_TOKENS, SpanInput, SpanOutput, SpanRow, TILE_ROWS,
};
use crate::arch::generic::attention_f32::attention_span_f32;
use crate::pool::{Disjoint, ThreadPool};
use crate::table::Kernels;

/// Widest head.
pub const HEAD_DIM_MAX: usize = 256;
/// Widest head whose tiles take all [`TILE_ROWS`]; wider ones take half, to stay near the first-level cache.
const NARROW_HEAD_DIM: usize = 128;
/// Vectors of 16 in `[TILE_ROWS, HEAD_DIM_MAX]`, and in the scores of a tile over a span.
const TILE_VECTORS: usize = TILE_ROWS * HEAD_DIM_MAX / 16;

type Vector = [f32; 16];

/// Whether attention here can run on a cache of this shape.
///
/// # Errors
/// [`TensorError::Unsupported`] for keys and values of different width, and for heads that are not a multiple of 16 up to
/// [`HEAD_DIM_MAX`].
pub fn check_cache(spec: &CacheSpec) -> TensorResult<()> {
    for group in &spec.groups {
        let (k_dim, v_dim) = (group.k_dim, group.v_dim);
        let shape_fits = k_dim == v_dim && k_dim.is_multiple_of(16) && k_dim <= HEAD_DIM_MAX;
        if !shape_fits || k_dim == 0 {
            return Err(TensorError::Unsupported {
                backend: "cpu",
                what: format!("keys of {k_dim} and values of {v_dim} numbers"),
                why: format!("both must be the same multiple of 16, at most {HEAD_DIM_MAX}"),
            });
        }
    }
    Ok(())
}

/// Consecutive rows of one sequence.
#[derive(Debug, Clone, Copy)]
struct Tile {
    sequence: usize,
    row: usize,
    rows: usize,
}

/// Memory of attention, made once per queue.
#[derive(Debug)]
pub struct AttentionScratch {
    tiles: Vec<Tile>,
    workers: Vec<Worker>,
    partials: Buffer,
}

/// What one thread computes in.
#[derive(Debug)]
struct Worker {
    /// Queries, scores, sums of a span, folded sums: `TILE_VECTORS` each.
    vectors: Buffer,
    rows: RowState,
}

/// Per row of a tile.
#[derive(Debug)]
struct RowState {
    visible: [(usize, usize); TILE_ROWS],
    span_m: [f32; TILE_ROWS],
    span_l: [f32; TILE_ROWS],
    total: [Total; TILE_ROWS],
}

/// What is folded beside the sums; `m` is `None` before the first span.
#[derive(Debug, Clone, Copy)]
struct Total {
    m: Option<f32>,
    l: f32,
}

const EMPTY: Total = Total { m: None, l: 0.0 };

impl AttentionScratch {
    /// Room for steps within `limits` on `threads` threads.
    ///
    /// # Errors
    /// [`TensorError::OutOfMemory`].
    pub fn new(limits: &Limits, threads: usize) -> TensorResult<Self> {
        let worker = || {
            Ok(Worker {
                vectors: Buffer::zeroed(4 * TILE_VECTORS * 64, "attention scratch")?,
                rows: RowState {
                    visible: [(0, 0); TILE_ROWS],
                    span_m: [0.0; TILE_ROWS],
                    span_l: [0.0; TILE_ROWS],
                    total: [EMPTY; TILE_ROWS],
                },
            })
        };
        Ok(Self {
            tiles: Vec::with_capacity(limits.step_rows),
            workers: (0..threads)
                .map(|_| worker())
                .collect::<TensorResult<_>>()?,
            partials: Buffer::zeroed(partial_bytes(limits), "partial attention")?,
        })
    }

    /// Bytes that [`AttentionScratch::new`] takes.
    pub fn len_bytes(limits: &Limits, threads: usize) -> usize {
        limits.step_rows * size_of::<Tile>()
            + threads * (size_of::<Worker>() + 4 * TILE_VECTORS * 64)
            + partial_bytes(limits)
    }
}

/// One row at the full context, or 64 short ones; more rows give enough tasks without splitting.
fn partial_bytes(limits: &Limits) -> usize {
    let spans = limits.context.div_ceil(SPAN_TOKENS).max(64);
    spans
        .saturating_mul(limits.cols_max.max(HEAD_DIM_MAX))
        .saturating_mul(4)
}

/// Causal attention of the queries in `qkv` over the pool: see [`ucuz_tensor::Queue::attention`].
pub fn attention(
    pool: &ThreadPool,
    kernels: &Kernels,
    scratch: &mut AttentionScratch,
    mut dst: ViewMut<'_>,
    qkv: View<'_>,
    call: &AttentionCall<'_>,
) {
    let job = Job::new(kernels, qkv, call);
    job.cut(pool.threads(), &mut scratch.tiles);
    let tiles = &scratch.tiles[..];
    let longest = tiles
        .iter()
        .map(|tile| job.spans(tile).len())
        .max()
        .unwrap_or(0);
    let total: usize = tiles.iter().map(|tile| job.spans(tile).len()).sum();
    let workers = Disjoint::new(&mut scratch.workers);
    let partials = scratch.partials.cast_mut::<Vector>();
    let uneven = 2 * pool.threads() * longest > total * job.units();
    let fits = qkv.num_rows() * longest * job.heads.heads * job.partial_len() <= partials.len();
    if pool.threads() > 1 && longest > 1 && uneven && fits {
        let split = Split {
            job: &job,
            tiles,
            spans: longest,
            partials: Disjoint::new(partials),
        };
        pool.run(tiles.len() * job.units() * longest, &|task, worker| {
            // SAFETY: no two tasks run at once on one worker.
            split.compute(task, unsafe { &mut workers.range(worker..worker + 1)[0] });
        });
        split.fold(pool, &Disjoint::new(dst.values_mut()));
    } else {
        let dst = Disjoint::new(dst.values_mut());
        pool.run(tiles.len() * job.units(), &|task, worker| {
            // The last tiles see most and come first, so that no long task is left for the end.
            let tile = &tiles[tiles.len() - 1 - task / job.units()];
            // SAFETY: no two tasks run at once on one worker.
            let worker = unsafe { &mut workers.range(worker..worker + 1)[0] };
            job.whole(tile, task % job.units(), worker, &dst);
        });
    }
}

/// One call, resolved.
struct Job<'a> {
    call: &'a AttentionCall<'a>,
    heads: HeadShape,
    qkv: View<'a>,
    layer: &'a [u32],
    block_words: usize,
    part_words: usize,
    kernel: fn(&SpanInput<'_>, &mut SpanOutput<'_>),
    rounded: bool,
    scale_log2: f32,
    /// Most heads of a tile.
    tile_heads: usize,
}

/// A worker's memory, cut up.
struct Parts<'a> {
    q: &'a mut [Vector],
    scores: &'a mut [SpanRow],
    span_o: &'a mut [Vector],
    o: &'a mut [Vector],
}

impl Worker {
    fn parts(&mut self) -> (Parts<'_>, &mut RowState) {
        let vectors = self.vectors.cast_mut::<Vector>();
        let (q, vectors) = vectors.split_at_mut(TILE_VECTORS);
        let (scores, vectors) = vectors.split_at_mut(TILE_VECTORS);
        let (span_o, o) = vectors.split_at_mut(TILE_VECTORS);
        (
            Parts {
                q,
                scores: scores.as_chunks_mut().0,
                span_o,
                o,
            },
            &mut self.rows,
        )
    }
}

impl<'a> Job<'a> {
    fn new(kernels: &Kernels, qkv: View<'a>, call: &'a AttentionCall<'a>) -> Self {
        let group = &call.pool.spec.groups[call.layer.group];
        let heads = call.heads;
        let block_words = group.layer_block_bytes() / 4;
        let kernel = match group.dtype {
            KvDtype::F32 => attention_span_f32,
            KvDtype::Bf16 => kernels.attention_span,
            KvDtype::Int8 => kernels.attention_span_int8,
        };
        Self {
            call,
            heads,
            qkv,
            layer: bytemuck::cast_slice(call.pool.layer(call.layer)),
            block_words,
            part_words: block_words / (2 * heads.kv_heads),
            kernel,
            rounded: group.dtype != KvDtype::F32,
            scale_log2: call.options.scale * LOG2_E,
            tile_heads: (heads.heads / heads.kv_heads).min(Self::tile_rows(heads.head_dim)),
        }
    }

    fn tile_rows(head_dim: usize) -> usize {
        if head_dim <= NARROW_HEAD_DIM {
            TILE_ROWS
        } else {
            TILE_ROWS / 2
        }
    }

    /// Head chunks of one kv head.
    fn chunks(&self) -> usize {
        (self.heads.heads / self.heads.kv_heads).div_ceil(self.tile_heads)
    }

    /// Tasks of a tile.
    fn units(&self) -> usize {
        self.heads.kv_heads * self.chunks()
    }

    /// The kv head of a unit and its query heads.
    fn unit(&self, unit: usize) -> (usize, Range<usize>) {
        let group = self.heads.heads / self.heads.kv_heads;
        let (kv_head, chunk) = (unit / self.chunks(), unit % self.chunks());
        let first = kv_head * group;
        let start = first + chunk * self.tile_heads;
        (kv_head, start..(start + self.tile_heads).min(first + group))
    }

    /// Cuts the step's rows into tiles, small enough that every thread has work.
    fn cut(&self, threads: usize, tiles: &mut Vec<Tile>) {
        let batch = self.call.inputs.batch;
        let share = batch.num_rows() * self.units() / (2 * threads);
        let most = Self::tile_rows(self.heads.head_dim) / self.tile_heads;
        let step = most.min(share).max(1);
        tiles.clear();
        for sequence in 0..batch.num_sequences() {
            let all = batch.sequence_rows(sequence);
            for row in all.clone().step_by(step) {
                tiles.push(Tile {
                    sequence,
                    row,
                    rows: step.min(all.end - row),
                });
            }
        }
    }

    /// First key that a row sees, and the one behind its last.
    fn visible(&self, row: usize) -> (usize, usize) {
        let end = self.call.inputs.batch.positions[row] as usize + 1;
        let start = self
            .call
            .options
            .window
            .map_or(0, |window| end.saturating_sub(window));
        (start, end)
    }

    /// Spans that any row of a tile sees; positions ascend within it.
    fn spans(&self, tile: &Tile) -> Range<usize> {
        let (start, _) = self.visible(tile.row);
        let (_, end) = self.visible(tile.row + tile.rows - 1);
        start / SPAN_TOKENS..end.div_ceil(SPAN_TOKENS)
    }

    /// Brings a tile's queries and ranges into the worker; returns the number of (row, head) pairs.
    fn load(
        &self,
        tile: &Tile,
        heads: &Range<usize>,
        q: &mut [Vector],
        rows: &mut RowState,
    ) -> usize {
        let dim = self.heads.head_dim;
        let mut index = 0;
        for row in tile.row..tile.row + tile.rows {
            for head in heads.clone() {
                let from = &self.qkv.row(row)[head * dim..(head + 1) * dim];
                let to = q[index * dim / 16..(index + 1) * dim / 16].as_flattened_mut();
                for (to, from) in to.iter_mut().zip(from) {
                    *to = if self.rounded {
                        bf16_round(*from)
                    } else {
                        *from
                    };
                }
                rows.visible[index] = self.visible(row);
                rows.total[index] = EMPTY;
                index += 1;
            }
        }
        index
    }

    /// Computes one span into the worker's `span_*`.
    fn span(
        &self,
        place: (&Tile, usize, usize),
        pairs: usize,
        parts: &mut Parts<'_>,
        rows: &mut RowState,
    ) {
        let (tile, kv_head, span) = place;
        let input = SpanInput {
            cache: HeadCache {
                layer: self.layer,
                table: self
                    .call
                    .inputs
                    .batch
                    .table(self.call.layer.group, tile.sequence),
                block_words: self.block_words,
                head_start: kv_head * 2 * self.part_words,
                part_words: self.part_words,
            },
            head_dim: self.heads.head_dim,
            q: parts.q,
            visible: &rows.visible[..pairs],
            span,
            scale_log2: self.scale_log2,
        };
        let mut output = SpanOutput {
            scores: parts.scores,
            o: parts.span_o,
            m: &mut rows.span_m,
            l: &mut rows.span_l,
        };
        (self.kernel)(&input, &mut output);
    }

    /// All spans of a tile, folded and written to `dst`.
    fn whole(&self, tile: &Tile, unit: usize, worker: &mut Worker, dst: &Disjoint<'_, f32>) {
        let (kv_head, heads) = self.unit(unit);
        let vectors = self.heads.head_dim / 16;
        let (mut parts, rows) = worker.parts();
        let pairs = self.load(tile, &heads, parts.q, rows);
        for span in self.spans(tile) {
            self.span((tile, kv_head, span), pairs, &mut parts, rows);
            for pair in 0..pairs {
                if !sees(rows.visible[pair], span) {
                    continue;
                }
                let place = pair * vectors..(pair + 1) * vectors;
                let part = (
                    rows.span_m[pair],
                    rows.span_l[pair],
                    &parts.span_o[place.clone()],
                );
                fold(&mut rows.total[pair], &mut parts.o[place], part);
            }
        }
        for pair in 0..pairs {
            let (row, head) = (
                tile.row + pair / heads.len(),
                heads.start + pair % heads.len(),
            );
            let o = &parts.o[pair * vectors..(pair + 1) * vectors];
            self.write(dst, (row, head), o, rows.total[pair].l);
        }
    }

    fn write(&self, dst: &Disjoint<'_, f32>, place: (usize, usize), o: &[Vector], l: f32) {
        let dim = self.heads.head_dim;
        let start = (place.0 * self.heads.heads + place.1) * dim;
        // SAFETY: each (row, head) belongs to one task.
        let dst = unsafe { dst.range(start..start + dim) };
        for (to, o) in dst.iter_mut().zip(o.as_flattened()) {
            *to = o / l;
        }
    }

    /// Vectors of one (row, span, head) partial: the sums, then `m` and `l`.
    fn partial_len(&self) -> usize {
        self.heads.head_dim / 16 + 1
    }
}

/// Whether a row that sees `visible` sees a key of the span.
fn sees(visible: (usize, usize), span: usize) -> bool {
    visible.0.max(span * SPAN_TOKENS) < visible.1.min((span + 1) * SPAN_TOKENS)
}

/// Adds the next span `(m, l, o)` to what is folded so far.
fn fold(total: &mut Total, o: &mut [Vector], (m, l, span_o): (f32, f32, &[Vector])) {
    let Some(before) = total.m else {
        *total = Total { m: Some(m), l };
        o.copy_from_slice(span_o);
        return;
    };
    let greatest = if m > before { m } else { before };
    let (old, new) = (power(before - greatest), power(m - greatest));
    *total = Total {
        m: Some(greatest),
        l: total.l * old + l * new,
    };
    for (o, span_o) in o.iter_mut().zip(span_o) {
        for (o, span_o) in o.iter_mut().zip(span_o) {
            *o = *o * old + span_o * new;
        }
    }
}

/// `2^n` for an integer `n <= 0`, 0 below -126.
fn power(n: f32) -> f32 {
    if n < -126.0 { 0.0 } else { exp2_integer(n) }
}

/// A call whose tasks are single spans.
struct Split<'a> {
    job: &'a Job<'a>,
    tiles: &'a [Tile],
    /// Most spans of a tile.
    spans: usize,
    /// `[rows, spans, heads]` partials; the first span is the first that the row's tile sees.
    partials: Disjoint<'a, Vector>,
}

impl Split<'_> {
    fn place(&self, row: usize, span: usize, head: usize) -> Range<usize> {
        let len = self.job.partial_len();
        let start = ((row * self.spans + span) * self.job.heads.heads + head) * len;
        start..start + len
    }

    fn compute(&self, task: usize, worker: &mut Worker) {
        let (index, span) = (task / self.spans, task % self.spans);
        let tile = &self.tiles[index / self.job.units()];
        let (kv_head, heads) = self.job.unit(index % self.job.units());
        let spans = self.job.spans(tile);
        if span >= spans.len() {
            return;
        }
        let (mut parts, rows) = worker.parts();
        let pairs = self.job.load(tile, &heads, parts.q, rows);
        self.job
            .span((tile, kv_head, spans.start + span), pairs, &mut parts, rows);
        let vectors = self.job.heads.head_dim / 16;
        for pair in 0..pairs {
            let (row, head) = (
                tile.row + pair / heads.len(),
                heads.start + pair % heads.len(),
            );
            // SAFETY: each (row, span, head) belongs to one task.
            let partial = unsafe { self.partials.range(self.place(row, span, head)) };
            partial[..vectors].copy_from_slice(&parts.span_o[pair * vectors..(pair + 1) * vectors]);
            partial[vectors][..2].copy_from_slice(&[rows.span_m[pair], rows.span_l[pair]]);
        }
    }

    /// Folds the partials of each (tile, head) and writes `dst`.
    fn fold(&self, pool: &ThreadPool, dst: &Disjoint<'_, f32>) {
        let heads = self.job.heads.heads;
        let small = self.tiles.len() * heads * self.spans * self.job.partial_len() < 4096;
        let tasks = if small { 1 } else { heads };
        pool.run(tasks, &|task, _| {
            for tile in self.tiles {
                for row in tile.row..tile.row + tile.rows {
                    for head in (task..heads).step_by(tasks) {
                        self.fold_row(tile, row, head, dst);
                    }
                }
            }
        });
    }

    fn fold_row(&self, tile: &Tile, row: usize, head: usize, dst: &Disjoint<'_, f32>) {
        let vectors = self.job.heads.head_dim / 16;
        let (mut total, mut o) = (EMPTY, [[0.0; 16]; HEAD_DIM_MAX / 16]);
        let visible = self.job.visible(row);
        for (index, span) in self.job.spans(tile).enumerate() {
            if sees(visible, span) {
                // SAFETY: the tasks that wrote it are done, and each (row, head) is read by one task.
                let partial = unsafe { self.partials.range(self.place(row, index, head)) };
                let (m, l) = (partial[vectors][0], partial[vectors][1]);
                fold(&mut total, &mut o[..vectors], (m, l, &partial[..vectors]));
            }
        }
        self.job.write(dst, (row, head), &o[..vectors], total.l);
    }
}
