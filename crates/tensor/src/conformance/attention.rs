//! Checks of the KV cache and attention.
//!
//! Every pool starts as NaN in every precision: whatever is read that was not stored shows.

use std::ops::Range;

use super::bounds::{BF16, EPS, Expected, assert_same, assert_within};
use super::data::{Noise, Share, batch, queue};
use crate::backend::{AttentionCall, AttentionOptions, Backend, HeadShape};
use crate::cache::{BLOCK_TOKENS, CacheSpec, KvDtype, KvPool, LayerCache, NO_BLOCK, PagedGroup};
use crate::error::TensorError;
use crate::tensor::Tensor;

/// Blocks of a pool here.
const BLOCKS: usize = 48;
/// Two layers, so that a layer's place matters.
const LAYER: LayerCache = LayerCache { group: 0, index: 1 };

/// MHA, GQA, MQA.
const HEADS: [(usize, usize); 3] = [(4, 4), (6, 2), (4, 1)];
const DIMS: [usize; 6] = [16, 32, 48, 64, 128, 256];
const WINDOWS: [Option<usize>; 4] = [None, Some(1), Some(20), Some(64)];

/// Sequences with their queries, keys and values: `[tokens, qkv_cols]` each.
struct Scene {
    heads: HeadShape,
    window: Option<usize>,
    dtype: KvDtype,
    sequences: Vec<Vec<f32>>,
}

/// Rows of a sequence that run in one step.
type Piece = (usize, Range<usize>);

impl Scene {
    fn new(
        (heads, kv_heads): (usize, usize),
        head_dim: usize,
        window: Option<usize>,
        dtype: KvDtype,
        tokens: &[usize],
    ) -> Self {
        let heads = HeadShape {
            heads,
            kv_heads,
            head_dim,
        };
        let mut noise = Noise::new((head_dim * 8 + kv_heads) as u64);
        let row = |noise: &mut Noise| {
            let mut row = noise.units(heads.qkv_cols());
            row[..heads.heads * head_dim]
                .iter_mut()
                .for_each(|q| *q *= 3.0);
            row
        };
        let sequences = tokens
            .iter()
            .map(|n| (0..*n).flat_map(|_| row(&mut noise)).collect())
            .collect();
        Self {
            heads,
            window,
            dtype,
            sequences,
        }
    }

    fn tokens(&self, sequence: usize) -> usize {
        self.sequences[sequence].len() / self.heads.qkv_cols()
    }

    fn scale(&self) -> f32 {
        1.0 / (self.heads.head_dim as f32).sqrt()
    }

    /// A pool full of NaN; `None` (and a line that says so) when the backend has no such cache.
    fn pool(&self, backend: &dyn Backend) -> Option<KvPool> {
        let spec = CacheSpec {
            groups: vec![PagedGroup {
                layers: 2,
                kv_heads: self.heads.kv_heads,
                k_dim: self.heads.head_dim,
                v_dim: self.heads.head_dim,
                dtype: self.dtype,
                window: self.window,
            }],
            layers: vec![LayerCache { group: 0, index: 0 }, LAYER],
        };
        match backend.kv_pool(&spec, &[BLOCKS]) {
            Ok(mut pool) => {
                pool.buffers[0].bytes_mut().fill(0xFF);
                Some(pool)
            }
            Err(TensorError::Unsupported { why, .. }) if self.dtype != KvDtype::Bf16 => {
                eprintln!("skipped: no {} cache: {why}", self.dtype.name());
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Block tables with blocks of all sequences mixed, in the order of `numbers`.
    fn tables(&self, numbers: &[u32]) -> Vec<Vec<u32>> {
        let mut numbers = numbers.iter();
        (0..self.sequences.len())
            .map(|s| {
                let blocks = self.tokens(s).div_ceil(BLOCK_TOKENS);
                numbers.by_ref().take(blocks).copied().collect()
            })
            .collect()
    }

    /// Runs the steps and returns each sequence's `[tokens, heads · head_dim]`.
    fn run(
        &self,
        backend: &dyn Backend,
        steps: &[Vec<Piece>],
        tables: &[Vec<u32>],
    ) -> Option<Vec<Vec<f32>>> {
        let mut pool = self.pool(backend)?;
        let width = self.heads.heads * self.heads.head_dim;
        let mut results: Vec<Vec<f32>> = (0..self.sequences.len())
            .map(|s| vec![0.0; self.tokens(s) * width])
            .collect();
        for pieces in steps {
            let out = self.step(backend, &mut pool, pieces, tables);
            let mut out = out.values();
            for (sequence, rows) in pieces {
                let (mine, rest) = out.split_at(rows.len() * width);
                results[*sequence][rows.start * width..rows.end * width].copy_from_slice(mine);
                out = rest;
            }
        }
        Some(results)
    }

    fn step(
        &self,
        backend: &dyn Backend,
        pool: &mut KvPool,
        pieces: &[Piece],
        tables: &[Vec<u32>],
    ) -> Tensor {
        let cols = self.heads.qkv_cols();
        let mut values = Vec::new();
        let mut shares = Vec::new();
        for (sequence, rows) in pieces {
            values.extend(&self.sequences[*sequence][rows.start * cols..rows.end * cols]);
            let blocks = rows.end.div_ceil(BLOCK_TOKENS);
            shares.push(Share {
                first: rows.start,
                rows: rows.len(),
                table: tables[*sequence][..blocks].to_vec(),
            });
        }
        let qkv = Tensor::from_values(&values, cols, "qkv").unwrap();
        let step = batch(&shares);
        let mut dst = Tensor::zeroed(
            qkv.num_rows(),
            self.heads.heads * self.heads.head_dim,
            "dst",
        )
        .unwrap();
        let mut queue = queue(backend);
        let inputs = queue.begin(&step).expect("a step within the limits");
        queue
            .kv_store(pool, LAYER, qkv.view(), &self.heads, &inputs)
            .expect("keys and values of the pool's shape");
        let options = AttentionOptions {
            scale: self.scale(),
            window: self.window,
        };
        let call = AttentionCall {
            pool,
            layer: LAYER,
            heads: self.heads,
            options,
            inputs: &inputs,
        };
        queue
            .attention(dst.view_mut(), qkv.view(), &call)
            .expect("queries of the pool's shape");
        dst
    }

    /// All of every sequence in one step.
    fn whole(&self) -> Vec<Vec<Piece>> {
        vec![
            (0..self.sequences.len())
                .map(|s| (s, 0..self.tokens(s)))
                .collect(),
        ]
    }

    fn name(&self) -> String {
        let HeadShape {
            heads,
            kv_heads,
            head_dim,
        } = self.heads;
        let dtype = self.dtype.name();
        format!(
            "attention {heads}:{kv_heads} x {head_dim}, window {:?}, {dtype}",
            self.window
        )
    }

    /// Head `head` of part 0 (q), 1 (k) or 2 (v) of a token.
    fn vector(&self, sequence: usize, token: usize, part: usize, head: usize) -> &[f32] {
        &self.sequences[sequence][self.place(token, part, head)]
    }

    /// Where a vector lies in its sequence.
    fn place(&self, token: usize, part: usize, head: usize) -> Range<usize> {
        let HeadShape {
            heads,
            kv_heads,
            head_dim,
        } = self.heads;
        let before = [0, heads, heads + kv_heads][part] + head;
        let start = token * self.heads.qkv_cols() + before * head_dim;
        start..start + head_dim
    }

    fn expect(&self, sequence: usize) -> Vec<Expected> {
        let mut expected = Vec::new();
        for token in 0..self.tokens(sequence) {
            for head in 0..self.heads.heads {
                self.expect_query(sequence, token, head, &mut expected);
            }
        }
        expected
    }

    /// Softmax in f64, with what the cache's precision may do to scores, weights and values.
    ///
    /// A score that is off by `delta` changes its weight by the factor `exp(delta)`; a bf16 weight is off by `2^-8` more.
    /// With relative errors `e_j` of the weights the result moves by at most `sum p_j e_j (|v_j| + |out|) / (1 - e)`.
    fn expect_query(&self, sequence: usize, token: usize, head: usize, out: &mut Vec<Expected>) {
        let dim = self.heads.head_dim;
        let (operand, stored) = match self.dtype {
            KvDtype::F32 => (0.0, 0.0),
            KvDtype::Bf16 => (BF16, BF16),
            KvDtype::Int8 => (BF16, 0.0),
        };
        let kv_head = head * self.heads.kv_heads / self.heads.heads;
        let first = self
            .window
            .map_or(0, |window| (token + 1).saturating_sub(window));
        let q = self.vector(sequence, token, 0, head);
        let q_sum: f64 = q.iter().map(|q| f64::from(q.abs())).sum();
        let (mut scores, mut deltas) = (Vec::new(), Vec::new());
        for key in first..=token {
            let k = self.vector(sequence, key, 1, kv_head);
            let products = q.iter().zip(k).map(|(q, k)| f64::from(*q) * f64::from(*k));
            let magnitude: f64 = products.clone().map(f64::abs).sum();
            let score: f64 = products.sum::<f64>() * f64::from(self.scale());
            let off = magnitude * (1.01 * (operand + stored) + (dim + 8) as f64 * EPS)
                + 1.01 * self.code_step(k) * q_sum;
            deltas.push(off * f64::from(self.scale()) + 4.0 * EPS * (score.abs() + 2.0));
            scores.push(score);
        }
        let max = scores.iter().fold(f64::NEG_INFINITY, |max, s| max.max(*s));
        let weights: Vec<f64> = scores.iter().map(|s| (s - max).exp()).collect();
        let total: f64 = weights.iter().sum();
        let errors: Vec<f64> = deltas
            .iter()
            .map(|d| d.exp() * (1.0 + operand) - 1.0)
            .collect();
        let worst = errors.iter().fold(0.0, |max: f64, e| max.max(*e));
        assert!(worst < 0.5, "the scene is too coarse for a bound");
        for column in 0..dim {
            let mut value = 0.0;
            let (mut moved, mut moved_total, mut rounded) = (0.0, 0.0, 0.0);
            for (i, key) in (first..=token).enumerate() {
                let v = self.vector(sequence, key, 2, kv_head);
                let (p, x) = (weights[i] / total, f64::from(v[column]));
                value += p * x;
                moved += p * errors[i] * x.abs();
                moved_total += p * errors[i];
                rounded += p * (stored * x.abs() + self.code_step(v));
                rounded += p * x.abs() * (token + 64) as f64 * EPS;
            }
            let bound = (moved + moved_total * value.abs() + 1.5 * rounded) / (1.0 - worst) + 1e-18;
            out.push(Expected { value, bound });
        }
    }

    /// Half a step of an int8 cache, with the rounding of its scale.
    fn code_step(&self, x: &[f32]) -> f64 {
        if self.dtype != KvDtype::Int8 {
            return 0.0;
        }
        let absmax = x.iter().fold(0.0f32, |max, v| max.max(v.abs()));
        f64::from(absmax) / 127.0 * 0.5001
    }
}

fn check_accuracy(backend: &dyn Backend, scene: &Scene) {
    let tables = scene.tables(&Noise::new(3).shuffled(BLOCKS));
    let Some(results) = scene.run(backend, &scene.whole(), &tables) else {
        return;
    };
    for (sequence, got) in results.iter().enumerate() {
        let what = format!("{}, {} tokens", scene.name(), scene.tokens(sequence));
        assert_within(&what, got, &scene.expect(sequence));
    }
}

/// Every head shape, head size, window and cache precision, lengths around the block of 32.
pub fn attention_stays_within_the_bound_of_its_cache(backend: &dyn Backend) {
    for heads in HEADS {
        for dim in DIMS {
            for window in WINDOWS {
                for dtype in KvDtype::ALL {
                    let scene = Scene::new(heads, dim, window, dtype, &[1, 5, 31, 32, 33, 77]);
                    check_accuracy(backend, &scene);
                }
            }
        }
    }
}

/// Lengths around 256 and 512 keys, where partial results meet.
pub fn attention_over_many_blocks_stays_within_its_bound(backend: &dyn Backend) {
    for window in [None, Some(100), Some(300)] {
        for dtype in KvDtype::ALL {
            for tokens in [256, 257, 530] {
                check_accuracy(backend, &Scene::new((4, 2), 64, window, dtype, &[tokens]));
            }
        }
    }
}

/// Scenes for the promises of exactness: each precision, window, an even and an odd head size.
fn exact_scenes(tokens: &[usize]) -> Vec<Scene> {
    let mut scenes = Vec::new();
    for dtype in KvDtype::ALL {
        for window in [None, Some(20), Some(64)] {
            for (heads, dim) in [((6, 2), 64), ((4, 1), 48)] {
                scenes.push(Scene::new(heads, dim, window, dtype, tokens));
            }
        }
    }
    scenes
}

/// A prompt cut anywhere has the bits of the whole prompt.
pub fn attention_in_chunks_equals_whole(backend: &dyn Backend) {
    for scene in exact_scenes(&[300]) {
        let tables = scene.tables(&Noise::new(4).shuffled(BLOCKS));
        let Some(whole) = scene.run(backend, &scene.whole(), &tables) else {
            continue;
        };
        for cuts in [&[1, 32, 64, 77, 256, 257][..], &[150], &[255, 256, 299]] {
            let starts = [0].into_iter().chain(cuts.iter().copied());
            let ends = cuts.iter().copied().chain([300]);
            let steps: Vec<_> = starts.zip(ends).map(|(a, b)| vec![(0, a..b)]).collect();
            let got = scene.run(backend, &steps, &tables).unwrap();
            let what = format!("{} cut at {cuts:?}", scene.name());
            assert_same(&what, &got[0], &whole[0]);
        }
    }
}

/// A sequence among others, prompts beside single tokens, has the bits of the sequence alone.
pub fn attention_alone_equals_in_a_batch(backend: &dyn Backend) {
    let tokens = [77, 33, 1, 40];
    for scene in exact_scenes(&tokens) {
        let tables = scene.tables(&Noise::new(5).shuffled(BLOCKS));
        let steps = [
            vec![(0, 0..76), (1, 0..33)],
            vec![(2, 0..1), (0, 76..77), (3, 0..40)],
        ];
        let Some(together) = scene.run(backend, &steps, &tables) else {
            continue;
        };
        for (sequence, tokens) in tokens.iter().enumerate() {
            let alone = scene
                .run(backend, &[vec![(sequence, 0..*tokens)]], &tables)
                .unwrap();
            let what = format!("{}, sequence {sequence} alone", scene.name());
            assert_same(&what, &alone[sequence], &together[sequence]);
        }
    }
}

/// Which blocks hold a sequence, and in which order, changes no bit.
pub fn attention_does_not_depend_on_block_numbers(backend: &dyn Backend) {
    for scene in exact_scenes(&[77, 100]) {
        let ascending: Vec<u32> = (0..BLOCKS as u32).collect();
        let Some(expected) = scene.run(backend, &scene.whole(), &scene.tables(&ascending)) else {
            continue;
        };
        for seed in 0..3 {
            let tables = scene.tables(&Noise::new(seed).shuffled(BLOCKS));
            let got = scene.run(backend, &scene.whole(), &tables).unwrap();
            let what = format!("{}, tables {tables:?}", scene.name());
            assert_same(&what, &got.concat(), &expected.concat());
        }
    }
}

/// Blocks behind the window may be gone: [`NO_BLOCK`] there changes no bit.
pub fn attention_never_reads_behind_the_window(backend: &dyn Backend) {
    for scene in exact_scenes(&[300]) {
        let Some(window) = scene.window else { continue };
        let tables = scene.tables(&Noise::new(6).shuffled(BLOCKS));
        let Some(whole) = scene.run(backend, &scene.whole(), &tables) else {
            continue;
        };
        let Some(mut pool) = scene.pool(backend) else {
            continue;
        };
        let width = scene.heads.heads * scene.heads.head_dim;
        for (start, end) in [(0, 100), (100, 101), (101, 200), (200, 299), (299, 300)] {
            let mut tables = tables.clone();
            let gone = (start + 1usize).saturating_sub(window) / BLOCK_TOKENS;
            tables[0][..gone].fill(NO_BLOCK);
            let got = scene.step(backend, &mut pool, &[(0, start..end)], &tables);
            let what = format!("{}, rows {start}..{end}, {gone} blocks gone", scene.name());
            assert_same(&what, got.values(), &whole[0][start * width..end * width]);
        }
    }
}

/// A key or value that is not finite shows in every row that sees it, so that the sampler finds a row fault, and changes no
/// bit of the others. Infinities are only held to that in int8: among float keys one may weigh nothing.
pub fn attention_keeps_a_bad_token_to_the_rows_that_see_it(backend: &dyn Backend) {
    const BAD: usize = 30;
    for dtype in KvDtype::ALL {
        let mut scene = Scene::new((6, 2), 64, Some(20), dtype, &[60]);
        let tables = scene.tables(&Noise::new(7).shuffled(BLOCKS));
        let Some(expected) = scene.run(backend, &scene.whole(), &tables) else {
            continue;
        };
        let values = match dtype {
            KvDtype::Int8 => &[f32::NAN, f32::INFINITY, f32::NEG_INFINITY][..],
            KvDtype::F32 | KvDtype::Bf16 => &[f32::NAN],
        };
        for (part, bad) in [1, 2]
            .into_iter()
            .flat_map(|p| values.iter().map(move |v| (p, v)))
        {
            let place = scene.place(BAD, part, 1).start + 5;
            let good = std::mem::replace(&mut scene.sequences[0][place], *bad);
            let got = scene.run(backend, &scene.whole(), &tables).unwrap();
            scene.sequences[0][place] = good;
            let heads = got[0].chunks_exact(64).zip(expected[0].chunks_exact(64));
            for (i, (got, expected)) in heads.enumerate() {
                let (token, head) = (i / 6, i % 6);
                let what = format!("{}, {bad} in part {part}, token {token}", scene.name());
                if head >= 3 && (BAD..BAD + 20).contains(&token) {
                    assert!(got.iter().any(|v| !v.is_finite()), "{what}: no trace of it");
                } else {
                    assert_same(&what, got, expected);
                }
            }
        }
    }
}
