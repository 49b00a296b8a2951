//! Sequences of random rows, run through the cache in any steps, and two plain statements of what must come out.

use std::ops::Range;

use ucuz_cpu::detect::Tier;
use ucuz_cpu::emulator;
use ucuz_cpu::ops::attention::{AttentionScratch, attention};
use ucuz_cpu::ops::kv::kv_store;
use ucuz_cpu::pool::ThreadPool;
use ucuz_tensor::backend::{AttentionCall, AttentionOptions, HeadShape, Limits, StepInputs};
use ucuz_tensor::cache::{BLOCK_TOKENS, LayerCache, NO_BLOCK, PagedGroup};
use ucuz_tensor::numerics::{LOG2_E, bf16_round, exp2_fraction};
use ucuz_tensor::{Batch, CacheSpec, KvDtype, KvPool, SeqSlot, Tensor};

/// A model's layer and what its sequences hold.
pub struct World {
    pub heads: HeadShape,
    pub dtype: KvDtype,
    pub window: Option<usize>,
    /// Every byte of the cache before it is written; 0xff makes NaN.
    pub fresh: u8,
    /// `[tokens, qkv_cols]` of each sequence.
    pub sequences: Vec<Tensor>,
}

fn random(seed: &mut u64) -> f32 {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 40) as f32 / (1u64 << 23) as f32 - 1.0
}

impl World {
    pub fn new(shape: (usize, usize, usize), lens: &[usize]) -> Self {
        let (heads, kv_heads, head_dim) = shape;
        let heads = HeadShape {
            heads,
            kv_heads,
            head_dim,
        };
        let mut seed = (heads.qkv_cols() * 31 + lens.len()) as u64;
        let mut sequence = |len: &usize| {
            let values: Vec<f32> = (0..len * heads.qkv_cols())
                .map(|_| random(&mut seed) * (2.0 + random(&mut seed)))
                .collect();
            Tensor::from_values(&values, heads.qkv_cols(), "qkv").unwrap()
        };
        let sequences = lens.iter().map(&mut sequence).collect();
        Self {
            heads,
            dtype: KvDtype::Bf16,
            window: None,
            fresh: 0xff,
            sequences,
        }
    }

    fn scale(&self) -> f32 {
        1.0 / (self.heads.head_dim as f32).sqrt()
    }

    pub fn group(&self) -> PagedGroup {
        PagedGroup {
            layers: 2,
            kv_heads: self.heads.kv_heads,
            k_dim: self.heads.head_dim,
            v_dim: self.heads.head_dim,
            dtype: self.dtype,
            window: self.window,
        }
    }

    /// One step with everything: each sequence whole.
    pub fn all(&self) -> Vec<Vec<(usize, Range<usize>)>> {
        vec![
            self.sequences
                .iter()
                .enumerate()
                .map(|(i, s)| (i, 0..s.num_rows()))
                .collect(),
        ]
    }

    /// Each sequence in chunks, interleaved with the others.
    pub fn chunks(&self, size: usize) -> Vec<Vec<(usize, Range<usize>)>> {
        let longest = self
            .sequences
            .iter()
            .map(Tensor::num_rows)
            .max()
            .unwrap_or(0);
        (0..longest.div_ceil(size))
            .map(|step| {
                let range = |len: usize| (step * size).min(len)..((step + 1) * size).min(len);
                let parts = self
                    .sequences
                    .iter()
                    .map(|s| range(s.num_rows()))
                    .enumerate();
                parts.filter(|(_, range)| !range.is_empty()).collect()
            })
            .collect()
    }

    /// Runs the steps; outputs `[tokens, heads · head_dim]` of each sequence, rows never run being 0.
    pub fn run(
        &self,
        tier: Tier,
        threads: usize,
        steps: &[Vec<(usize, Range<usize>)>],
    ) -> Vec<Vec<f32>> {
        let kernels = emulator::kernels(tier).expect("a tier of this machine");
        let pool = ThreadPool::new(threads, false, false);
        let spec = CacheSpec {
            groups: vec![self.group()],
            layers: vec![
                LayerCache { group: 0, index: 0 },
                LayerCache { group: 0, index: 1 },
            ],
        };
        let (tables, blocks) = self.scrambled_tables();
        let mut cache = KvPool::zeroed(&spec, &[blocks]).unwrap();
        cache.buffers[0].bytes_mut().fill(self.fresh);
        let cols = self.heads.heads * self.heads.head_dim;
        let limits = Limits {
            step_rows: 4096,
            sequences: 64,
            logit_rows: 1,
            context: 4096,
            cols_max: cols,
            vocab: 1,
        };
        let mut scratch = AttentionScratch::new(&limits, threads).unwrap();
        let mut outputs: Vec<Vec<f32>> = self
            .sequences
            .iter()
            .map(|s| vec![0.0; s.num_rows() * cols])
            .collect();
        for step in steps {
            let (batch, qkv) = self.batch(step, &tables);
            let layer = LayerCache { group: 0, index: 1 };
            kv_store(&pool, &mut cache, layer, qkv.view(), &self.heads, &batch);
            let inputs = StepInputs { batch: &batch };
            let call = AttentionCall {
                pool: &cache,
                layer,
                heads: self.heads,
                options: AttentionOptions {
                    scale: self.scale(),
                    window: self.window,
                },
                inputs: &inputs,
            };
            let mut dst = Tensor::zeroed(batch.num_rows(), cols, "output").unwrap();
            attention(
                &pool,
                kernels,
                &mut scratch,
                dst.view_mut(),
                qkv.view(),
                &call,
            );
            let mut rows = dst.values().chunks_exact(cols);
            for (sequence, range) in step {
                for position in range.clone() {
                    outputs[*sequence][position * cols..(position + 1) * cols]
                        .copy_from_slice(rows.next().unwrap());
                }
            }
        }
        outputs
    }

    /// Block tables in which neighbours lie apart, and the number of blocks.
    fn scrambled_tables(&self) -> (Vec<Vec<u32>>, usize) {
        let counts: Vec<usize> = self
            .sequences
            .iter()
            .map(|s| s.num_rows().div_ceil(BLOCK_TOKENS))
            .collect();
        let blocks = counts.iter().sum::<usize>() + 3;
        let step = (1..)
            .map(|i| 7 * i + 4)
            .find(|step| gcd(*step, blocks) == 1)
            .unwrap();
        let mut ids = (0..).map(|i| (i * step % blocks) as u32);
        let tables = counts
            .iter()
            .map(|n| ids.by_ref().take(*n).collect())
            .collect();
        (tables, blocks)
    }

    fn batch(&self, step: &[(usize, Range<usize>)], tables: &[Vec<u32>]) -> (Batch, Tensor) {
        let mut batch = Batch {
            groups: vec![Default::default()],
            ..Batch::default()
        };
        let mut values = Vec::new();
        batch.seq_starts.push(0);
        batch.groups[0].starts.push(0);
        for (sequence, range) in step {
            values.extend_from_slice(self.sequences[*sequence].rows(range.clone()).values());
            batch.tokens.extend(range.clone().map(|_| 0));
            batch.positions.extend(range.clone().map(|p| p as u32));
            batch.seq_starts.push(batch.tokens.len() as u32);
            batch.kv_lens.push(range.end as u32);
            batch.slots.push(SeqSlot(*sequence as u32));
            let gone = self
                .window
                .map_or(0, |w| (range.start + 1).saturating_sub(w) / BLOCK_TOKENS);
            let table = tables[*sequence].iter().enumerate();
            batch.groups[0]
                .blocks
                .extend(table.map(|(i, block)| if i < gone { NO_BLOCK } else { *block }));
            let end = batch.groups[0].blocks.len() as u32;
            batch.groups[0].starts.push(end);
        }
        (
            batch,
            Tensor::from_values(&values, self.heads.qkv_cols(), "qkv").unwrap(),
        )
    }

    fn head(&self, sequence: usize, position: usize, index: usize) -> Vec<f32> {
        let row = self.sequences[sequence].rows(position..position + 1);
        let dim = self.heads.head_dim;
        row.values()[index * dim..(index + 1) * dim].to_vec()
    }

    /// A query as it enters the products.
    fn query(&self, sequence: usize, position: usize, head: usize) -> Vec<f32> {
        let mut q = self.head(sequence, position, head);
        if self.dtype != KvDtype::F32 {
            q.iter_mut().for_each(|v| *v = bf16_round(*v));
        }
        q
    }

    /// A key or value as the cache holds it: numbers, and what they are to be multiplied by.
    fn cached(&self, sequence: usize, position: usize, head: usize) -> (Vec<f32>, f32) {
        let x = self.head(sequence, position, head);
        let absmax = x.iter().fold(0f32, |max, v| max.max(v.abs()));
        match self.dtype {
            KvDtype::F32 => (x, 1.0),
            KvDtype::Bf16 => (x.into_iter().map(bf16_round).collect(), 1.0),
            KvDtype::Int8 if absmax < 2f32.powi(-100) => (vec![0.0; x.len()], 0.0),
            KvDtype::Int8 => {
                let code = |v: f32| {
                    (v * (127.0 / absmax))
                        .round_ties_even()
                        .clamp(-127.0, 127.0)
                };
                (x.into_iter().map(code).collect(), absmax / 127.0)
            }
        }
    }

    fn sees(&self, position: usize) -> Range<usize> {
        self.window.map_or(0, |w| (position + 1).saturating_sub(w))..position + 1
    }

    /// The contract, written as plainly as possible: one query head at one position.
    pub fn oracle(&self, sequence: usize, position: usize, head: usize) -> Vec<f32> {
        let HeadShape {
            heads,
            kv_heads,
            head_dim,
        } = self.heads;
        let kv = heads + head / (heads / kv_heads);
        let q = self.query(sequence, position, head);
        let sees = self.sees(position);
        let scale = self.scale() * LOG2_E;
        let mut folded: Option<(f32, f32, Vec<f32>)> = None;
        for span in (0..sees.end).step_by(256) {
            let visible = sees.start.max(span)..sees.end.min(span + 256);
            if visible.is_empty() {
                continue;
            }
            let scores: Vec<f32> = visible
                .clone()
                .map(|key| {
                    let (k, k_scale) = self.cached(sequence, key, kv);
                    paired(head_dim, |d| q[d] * k[d]) * k_scale * scale
                })
                .collect();
            let m = scores
                .iter()
                .fold(f32::NEG_INFINITY, |m, s| m.max(*s))
                .ceil();
            let weight = |key: usize| {
                let t = scores[key - visible.start] - m;
                let n = t.floor();
                let p = exp2_fraction(t - n);
                let p = if self.dtype == KvDtype::Bf16 {
                    bf16_round(p)
                } else {
                    p
                };
                if n < -64.0 {
                    0.0
                } else {
                    p * 2f32.powi(n as i32)
                }
            };
            let sum = |term: &dyn Fn(usize) -> f32| {
                paired(256, |i| {
                    let key = span + i;
                    if visible.contains(&key) {
                        term(key)
                    } else {
                        0.0
                    }
                })
            };
            let l = sum(&weight);
            let values: Vec<(Vec<f32>, f32)> = visible
                .clone()
                .map(|key| self.cached(sequence, key, kv + kv_heads))
                .collect();
            let operand = |key: usize| match self.dtype {
                KvDtype::Int8 => {
                    let p = half::bf16::from_f32(weight(key) * values[key - visible.start].1);
                    let p = p.to_f32();
                    if p < 2f32.powi(-119) { 0.0 } else { p }
                }
                KvDtype::F32 | KvDtype::Bf16 => weight(key),
            };
            let o: Vec<f32> = (0..head_dim)
                .map(|d| sum(&|key| operand(key) * values[key - visible.start].0[d]))
                .collect();
            folded = Some(match folded {
                None => (m, l, o),
                Some((before, l0, o0)) => {
                    let greatest = m.max(before);
                    let power = |n: f32| if n < -126.0 { 0.0 } else { 2f32.powi(n as i32) };
                    let (old, new) = (power(before - greatest), power(m - greatest));
                    let o = o0.iter().zip(&o).map(|(a, b)| a * old + b * new).collect();
                    (greatest, l0 * old + l * new, o)
                }
            });
        }
        let (_, l, o) = folded.unwrap();
        o.into_iter().map(|o| o / l).collect()
    }

    /// Softmax attention in f64 over the numbers as cached.
    pub fn softmax(&self, sequence: usize, position: usize, head: usize) -> (Vec<f64>, f64, f64) {
        let HeadShape {
            heads,
            kv_heads,
            head_dim,
        } = self.heads;
        let kv = heads + head / (heads / kv_heads);
        let q = self.query(sequence, position, head);
        let (mut top, mut products) = (f64::NEG_INFINITY, 0f64);
        let mut scores = Vec::new();
        for key in self.sees(position) {
            let (k, k_scale) = self.cached(sequence, key, kv);
            let k_scale = f64::from(k_scale);
            let pairs = || {
                q.iter()
                    .zip(&k)
                    .map(|(a, b)| f64::from(*a) * f64::from(*b) * k_scale)
            };
            let s = pairs().sum::<f64>() * f64::from(self.scale());
            products = products.max(pairs().map(f64::abs).sum::<f64>() * f64::from(self.scale()));
            top = top.max(s);
            scores.push(s);
        }
        let weights: Vec<f64> = scores.iter().map(|s| (s - top).exp()).collect();
        let total: f64 = weights.iter().sum();
        let (mut o, mut largest) = (vec![0.0; head_dim], 0f64);
        for (key, weight) in self.sees(position).zip(&weights) {
            let (v, v_scale) = self.cached(sequence, key, kv + kv_heads);
            for (o, v) in o.iter_mut().zip(&v) {
                let v = f64::from(*v) * f64::from(v_scale);
                *o += weight / total * v;
                largest = largest.max(v.abs());
            }
        }
        (o, products, largest)
    }
}

/// Sums of 32: even and odd places ascending, then `sum + (even + odd)`.
fn paired(len: usize, term: impl Fn(usize) -> f32) -> f32 {
    (0..len).step_by(32).fold(0.0, |sum, start| {
        let places = start..(start + 32).min(len);
        let part = |parity| {
            let mine = places.clone().filter(|p| p % 2 == parity);
            mine.fold(0.0f32, |sum, p| sum + term(p))
        };
        sum + (part(0) + part(1))
    })
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
