//! Milliseconds of attention, KV store and the element-wise operations of all layers at the shapes of SmolLM2-135M: the
//! median, and the least in brackets.
//!
//! `cargo run --release -p ucuz-cpu --example attention_speed [threads] [tier] [bf16|int8|f32] [context]`

use std::time::Instant;

use ucuz_cpu::detect::Tier;
use ucuz_cpu::ops::activation::silu_mul;
use ucuz_cpu::ops::attention::{AttentionScratch, attention};
use ucuz_cpu::ops::kv::kv_store;
use ucuz_cpu::ops::norm::rms_norm;
use ucuz_cpu::pool::ThreadPool;
use ucuz_cpu::table::Kernels;
use ucuz_tensor::backend::{AttentionCall, AttentionOptions, HeadShape, Limits, StepInputs};
use ucuz_tensor::batch::GroupTables;
use ucuz_tensor::cache::{BLOCK_TOKENS, LayerCache, PagedGroup};
use ucuz_tensor::{Batch, CacheSpec, KvDtype, KvPool, SeqSlot, Tensor};

const LAYERS: usize = 30;
/// Tokens that the cache holds, in as many sequences as the context leaves.
const TOKENS: usize = 8192;

/// Milliseconds of all layers, from those of one layer at a time.
struct Times {
    median_ms: f64,
    least_ms: f64,
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:8.3} ({:.3})", self.median_ms, self.least_ms)
    }
}

/// Calls `body` for every layer in turn, nine times after one to warm up. A layer is short enough to run undisturbed now
/// and then on a busy machine; the layers together leave the caches.
fn time(mut body: impl FnMut(usize)) -> Times {
    (0..LAYERS).for_each(&mut body);
    let mut times: Vec<f64> = (0..9 * LAYERS)
        .map(|i| {
            let start = Instant::now();
            body(i % LAYERS);
            start.elapsed().as_secs_f64() * 1e3 * LAYERS as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    Times {
        median_ms: times[times.len() / 2],
        least_ms: times[0],
    }
}

fn batch(rows: usize, sequences: usize, context: usize) -> Batch {
    let blocks = context / BLOCK_TOKENS;
    let each = rows / sequences;
    Batch {
        tokens: vec![0; rows],
        positions: (0..rows)
            .map(|row| (context - each + row % each) as u32)
            .collect(),
        seq_starts: (0..=sequences).map(|s| (s * each) as u32).collect(),
        kv_lens: vec![context as u32; sequences],
        slots: (0..sequences).map(|s| SeqSlot(s as u32)).collect(),
        groups: vec![GroupTables {
            blocks: (0..sequences * blocks).map(|b| b as u32).collect(),
            starts: (0..=sequences).map(|s| (s * blocks) as u32).collect(),
        }],
        logit_rows: Vec::new(),
    }
}

fn noise(rows: usize, cols: usize) -> Result<Tensor, ucuz_tensor::TensorError> {
    let values: Vec<f32> = (0..rows * cols).map(|i| (i as f32 * 0.7).sin()).collect();
    Tensor::from_values(&values, cols, "noise")
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let threads = arguments.next().map_or(Ok(2), |text| text.parse())?;
    let tier: Tier = arguments
        .next()
        .map_or(Ok(Tier::Avx512), |text| text.parse())?;
    let dtype = arguments.next().unwrap_or_else(|| "bf16".to_owned());
    let dtype = KvDtype::ALL
        .into_iter()
        .find(|known| known.name() == dtype)
        .ok_or("no such precision")?;
    let context: usize = arguments.next().map_or(Ok(1024), |text| text.parse())?;
    if context % BLOCK_TOKENS != 0 || !(1..=TOKENS).contains(&context) {
        return Err("the context must be a multiple of 32, at most 8192".into());
    }
    let kernels = Kernels::for_tier(tier).ok_or("this processor lacks the tier")?;
    let pool = ThreadPool::new(threads, false, true);
    pool.begin_step();
    let heads = HeadShape {
        heads: 9,
        kv_heads: 3,
        head_dim: 64,
    };
    let group = PagedGroup {
        layers: LAYERS,
        kv_heads: 3,
        k_dim: 64,
        v_dim: 64,
        dtype,
        window: None,
    };
    let layers = (0..LAYERS)
        .map(|index| LayerCache { group: 0, index })
        .collect();
    let spec = CacheSpec {
        groups: vec![group],
        layers,
    };
    let mut cache = KvPool::zeroed(&spec, &[TOKENS / BLOCK_TOKENS])?;
    // Pages that were never written share one page of zeros and would come from the first-level cache. 0.0115 in every
    // precision.
    cache.buffers[0].bytes_mut().fill(0x3c);
    let limits = Limits {
        step_rows: 1024,
        sequences: 8,
        logit_rows: 1,
        context,
        cols_max: 1536,
        vocab: 1,
    };
    let mut scratch = AttentionScratch::new(&limits, threads)?;
    println!(
        "{tier}, {threads} threads, {LAYERS} layers, 9 heads, 3 kv heads, dim 64, context {context}, {} cache; ms",
        dtype.name()
    );
    for (what, rows, sequences) in [
        ("decode", 1, 1),
        ("decode of 8", 8, 8),
        ("chunk 256", 256, 1),
        ("prefill", 1024, 1),
    ] {
        if sequences * context > TOKENS || rows / sequences > context || rows * context > 1 << 20 {
            continue;
        }
        let batch = batch(rows, sequences, context);
        let qkv = noise(rows, heads.qkv_cols())?;
        let mut dst = Tensor::zeroed(rows, 576, "output")?;
        let gate_up = noise(rows, 3072)?;
        let mut gated = Tensor::zeroed(rows, 1536, "output")?;
        let inputs = StepInputs { batch: &batch };
        let store = time(|layer| {
            let layer = spec.layers[layer];
            kv_store(&pool, &mut cache, layer, qkv.view(), &heads, &batch);
        });
        let attend = time(|layer| {
            let call = AttentionCall {
                pool: &cache,
                layer: spec.layers[layer],
                heads,
                options: AttentionOptions {
                    scale: 0.125,
                    window: None,
                },
                inputs: &inputs,
            };
            attention(
                &pool,
                kernels,
                &mut scratch,
                dst.view_mut(),
                qkv.view(),
                &call,
            );
        });
        let silu = time(|_| silu_mul(&pool, kernels, gated.view_mut(), gate_up.view()));
        let weight = [1.0; 1536];
        let source = noise(rows, 1536)?;
        let norm = time(|_| {
            rms_norm(
                &pool,
                kernels,
                gated.view_mut(),
                source.view(),
                &weight,
                1e-5,
            );
        });
        println!(
            "{what:12} attention {attend}   kv_store {store}   silu_mul {silu}   rms_norm(1536) {norm}"
        );
    }
    Ok(())
}
