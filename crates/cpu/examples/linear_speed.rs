//! Speed of `linear` beside what memory delivers: bytes and operations per second, one and two threads.
//!
//! `cargo run --release -p ucuz-cpu --example linear_speed [tier] [format..]`. Best of the runs and median: on a machine that
//! others use, only the best says something about the kernel (`cpu`: time of
//! all threads together, spinning included). A run of one row cycles through copies of the weight so that
//! it comes from memory, not from a cache that a real model would not fit.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a developer's tool: it stops at the first failure"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use bytemuck::Zeroable;
use ucuz_cpu::activations::I8Group;
use ucuz_cpu::pool::ThreadPool;
use ucuz_cpu::table::{CodedCall, Kernels};
use ucuz_cpu::{CpuBackend, CpuOptions, Tier};
use ucuz_tensor::backend::Limits;
use ucuz_tensor::layout::{PanelKind, PanelLayout};
use ucuz_tensor::weight::RawPart;
use ucuz_tensor::{Activations, Backend, Format, Tensor, Weight, WeightOptions};

const RUNS: usize = 15;
/// Seconds spent on one line.
const SECONDS: f64 = 0.4;
/// Bytes of weights that a one-row run walks through.
const COLD_BYTES: usize = 256 << 20;

/// Seconds that this process's threads have computed.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Best and median of repeated runs, in seconds.
fn measure(mut run: impl FnMut() -> f64) -> (f64, f64) {
    let start = Instant::now();
    let mut seconds = Vec::new();
    while seconds.len() < RUNS || start.elapsed().as_secs_f64() < SECONDS {
        seconds.push(run());
    }
    seconds.sort_by(f64::total_cmp);
    (seconds[0], seconds[seconds.len() / 2])
}

/// Bytes per second of plain reading.
fn memory_speed(threads: usize) -> f64 {
    let data = vec![1u64; COLD_BYTES / 8];
    let pool = ThreadPool::new(threads, false, true);
    let parts = 64;
    let chunk = data.len() / parts;
    let run = || {
        let start = Instant::now();
        pool.run(parts, &|part, _| {
            let mut sums = [0u64; 16];
            for values in data[part * chunk..(part + 1) * chunk].as_chunks::<16>().0 {
                for (sum, value) in sums.iter_mut().zip(values) {
                    *sum = sum.wrapping_add(*value);
                }
            }
            black_box(sums);
        });
        start.elapsed().as_secs_f64()
    };
    COLD_BYTES as f64 / measure(run).0
}

/// Plausible stored rows: random codes under small scales.
fn stored(format: Format, rows: usize, cols: usize) -> Vec<u8> {
    let bytes = format.row_bytes(cols).unwrap() * rows;
    let mut state = 1u64;
    let mut data: Vec<u8> = (0..bytes)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    let small = half::f16::from_f32(0.01).to_le_bytes();
    let info = format.info();
    if info.block_bytes > 4 {
        for block in data.chunks_exact_mut(info.block_bytes) {
            block[..2].copy_from_slice(&small);
            block[2..4].copy_from_slice(&small);
            let end = info.block_bytes - 2;
            block[end..].copy_from_slice(&small);
        }
    } else {
        // Exponents in the middle of the range, for any float format.
        for number in data.chunks_exact_mut(info.block_bytes) {
            number[info.block_bytes - 1] = 0x3c;
        }
    }
    data
}

fn weight(backend: &dyn Backend, format: Format, rows: usize, cols: usize) -> (Arc<Weight>, f64) {
    let bytes = stored(format, rows, cols);
    let part = RawPart {
        name: "w".to_owned(),
        format,
        rows,
        cols,
        bytes: &bytes,
        bias: None,
    };
    let start = Instant::now();
    let weight = Weight::load(
        backend,
        "w",
        &[part],
        WeightOptions {
            activations: Activations::Int8,
            on_load: Default::default(),
        },
    )
    .unwrap();
    (weight, bytes.len() as f64 / start.elapsed().as_secs_f64())
}

struct Speed {
    bytes: f64,
    operations: f64,
    micros: f64,
    median_micros: f64,
    cpu_micros: f64,
}

/// Median speed of products of `rows` activation rows.
fn speed(backend: &dyn Backend, format: Format, shape: (usize, usize), rows: usize) -> Speed {
    let (out, cols) = shape;
    let limits = Limits {
        step_rows: rows,
        sequences: 1,
        logit_rows: rows,
        context: 32,
        cols_max: cols,
        vocab: 32,
    };
    let mut queue = backend.queue(&limits).unwrap();
    let (first, _) = weight(backend, format, out, cols);
    let copies = if rows == 1 {
        (COLD_BYTES / first.len_bytes()).clamp(1, 400)
    } else {
        1
    };
    let mut weights = vec![first];
    weights.extend((1..copies).map(|_| weight(backend, format, out, cols).0));
    let values: Vec<f32> = (0..rows * cols)
        .map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0)
        .collect();
    let x = Tensor::from_values(&values, cols, "x").unwrap();
    let mut dst = Tensor::zeroed(rows, out, "dst").unwrap();
    let mut cpu_best = f64::INFINITY;
    let mut run = || {
        let (start, start_cpu) = (Instant::now(), cpu_seconds());
        for w in &weights {
            queue.linear(dst.view_mut(), x.view(), w).unwrap();
        }
        cpu_best = cpu_best.min((cpu_seconds() - start_cpu) / weights.len() as f64);
        start.elapsed().as_secs_f64() / weights.len() as f64
    };
    run();
    let (seconds, median) = measure(run);
    let operations = 2.0 * (rows * out * cols) as f64;
    Speed {
        bytes: weights[0].len_bytes() as f64 / seconds,
        operations: operations / seconds,
        micros: seconds * 1e6,
        median_micros: median * 1e6,
        cpu_micros: cpu_best * 1e6,
    }
}

/// Operations per second of one kernel call on a panel and a block that stay in the first-level cache.
fn kernel_speed(tier: Tier, format: Format, rows: usize) -> f64 {
    const GROUPS: usize = 16;
    let Some(kernels) = Kernels::for_tier(tier) else {
        return 0.0;
    };
    let layout = PanelLayout::new(format, 16, GROUPS * 32).unwrap();
    let PanelKind::Coded(coded) = layout.kind else {
        return 0.0;
    };
    let panel = vec![0x11; layout.panel_bytes()];
    let x = vec![1.0; rows * layout.cols];
    let mut groups = vec![I8Group::zeroed(); GROUPS];
    (kernels.quantise_block)(&mut groups, &x, layout.cols, 1);
    let mut tile = [[0.0; 16]; 16];
    let calls = 64;
    let seconds = measure(|| {
        let start = Instant::now();
        for _ in 0..calls {
            let call = CodedCall {
                planes: 1,
                panel: &panel,
                coded,
                groups: &groups,
                rows,
            };
            (kernels.linear_i8)(black_box(&mut tile), black_box(&call));
        }
        start.elapsed().as_secs_f64()
    });
    (2 * calls * rows * 16 * layout.cols) as f64 / seconds.0
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let tier = arguments.next().map(|name| name.parse().expect("a tier"));
    let wanted: Vec<String> = arguments.collect();
    println!(
        "format shape            rows threads   us best  median cpu best     GB/s  of memory    GOP/s"
    );
    for threads in [1, 2] {
        let options = CpuOptions {
            tier,
            threads: Some(threads),
            pin: false,
            spin: true,
        };
        let backend = CpuBackend::new(options).unwrap();
        let memory = memory_speed(threads);
        println!(
            "{} memory, {threads} threads: {:.1} GB/s",
            backend.describe().device,
            memory / 1e9
        );
        let pool = ThreadPool::new(threads, false, true);
        pool.begin_step();
        let fork = measure(|| {
            let start = Instant::now();
            pool.run(4 * threads, &|task, _| {
                black_box(task);
            });
            start.elapsed().as_secs_f64()
        });
        println!(
            "fork and join: best {:.1} us, median {:.1} us",
            fork.0 * 1e6,
            fork.1 * 1e6
        );
        let formats = [
            Format::Q4_1,
            Format::Q8_0,
            Format::Q4_0,
            Format::Q4_K,
            Format::Q5_0,
            Format::Q6_K,
            Format::Int8Row,
            Format::IQ4_NL,
            Format::BF16,
            Format::F16,
            Format::F32,
        ];
        for format in formats {
            if !wanted.is_empty() && !wanted.contains(&format.to_string()) {
                continue;
            }
            for shape in [(576, 1536), (49152, 576), (1536, 576), (4096, 4096)] {
                if format.row_bytes(shape.1).is_none() {
                    continue;
                }
                for rows in [1, 512] {
                    if rows == 512 && shape.0 == 49152 {
                        continue;
                    }
                    let speed = speed(&backend, format, shape, rows);
                    println!(
                        "{:6} {:5} x {:5} {rows:9} {threads:7} {:9.0} {:7.0} {:8.0} {:8.2} {:9.0}% {:8.0}",
                        format.to_string(),
                        shape.0,
                        shape.1,
                        speed.micros,
                        speed.median_micros,
                        speed.cpu_micros,
                        speed.bytes / 1e9,
                        100.0 * speed.bytes / memory,
                        speed.operations / 1e9
                    );
                }
            }
            for rows in [1, 4, 16] {
                let speed = kernel_speed(backend.tier(), format, rows);
                println!(
                    "{format:6} kernel alone, {rows} rows: {:.0} GOP/s",
                    speed / 1e9
                );
            }
            let (_, load) = weight(&backend, format, 4096, 2048);
            println!("{format:6} load: {:.0} MB/s of stored bytes", load / 1e6);
        }
    }
}
