//! What `ucuz bench kernels` cannot see from outside: an integer kernel on operands that stay in the first-level cache, on
//! one thread, and what it costs to share work among threads at all.
//!
//! `cargo run --release -p ucuz-cpu --example kernel_speed [tier]`. Best of the runs and median, in operations per second
//! beside the tier's ceiling on one thread.

#![allow(
    clippy::unwrap_used,
    reason = "a developer's tool: it stops at the first failure"
)]

use std::hint::black_box;
use std::time::Instant;

use ucuz_cpu::activations::{Codes, Tile};
use ucuz_cpu::detect::{CpuFeatures, default_threads};
use ucuz_cpu::pool::ThreadPool;
use ucuz_cpu::table::{CodedCall, Kernels};
use ucuz_cpu::{CpuBackend, CpuOptions, Tier};
use ucuz_tensor::format::FORMATS;
use ucuz_tensor::layout::{PanelKind, PanelLayout};
use ucuz_tensor::{Arithmetic, Backend, CeilingKind, Format};

const RUNS: usize = 101;
/// Groups of a panel: 16 rows of 512 columns stay in the first-level cache in any format.
const GROUPS: usize = 16;
/// Kernel calls of one run.
const CALLS: usize = 64;

/// Best and median of repeated runs, in seconds.
fn measure(mut run: impl FnMut()) -> (f64, f64) {
    let mut seconds: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64()
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    (seconds[0], seconds[RUNS / 2])
}

/// What quantises and what multiplies, for one kind of codes.
type Kind<X> = (
    fn(&mut [X], &[f32], usize),
    fn(&mut Tile, &CodedCall<'_, X>),
);

/// Best and median operations per second of one kernel with `rows` activation rows.
fn kernel<X: Codes>((quantise, linear): Kind<X>, format: Format, rows: usize) -> (f64, f64) {
    let layout = PanelLayout::new(format, 16, GROUPS * 32).unwrap();
    let PanelKind::Coded(coded) = layout.kind else {
        unreachable!("integer formats have coded panels");
    };
    let panel = vec![0x11; layout.panel_bytes()];
    let x = vec![1.0; rows * layout.cols];
    let mut groups = vec![X::zeroed(); GROUPS];
    quantise(&mut groups, &x, layout.cols);
    let mut tile = [[0.0; 16]; 16];
    let call = CodedCall {
        panel: &panel,
        coded,
        groups: &groups,
        rows,
        ahead: 0,
    };
    let (best, median) = measure(|| {
        for _ in 0..CALLS {
            linear(black_box(&mut tile), black_box(&call));
        }
    });
    let operations = (2 * CALLS * rows * 16 * layout.cols * X::DIGITS) as f64;
    (operations / best, operations / median)
}

fn fork_and_join() {
    for threads in 1..=default_threads() {
        let pool = ThreadPool::new(threads, false, true);
        pool.begin_step();
        let body = |task, _| {
            black_box(task);
        };
        let (best, median) = measure(|| pool.run(4 * threads, &body));
        println!(
            "fork and join, {threads} threads: best {:.1} us, median {:.1} us",
            best * 1e6,
            median * 1e6
        );
    }
}

fn main() {
    let named = std::env::args().nth(1).map(|name| name.parse().unwrap());
    let tier: Tier = named.unwrap_or_else(|| CpuFeatures::detect().best_tier());
    let options = CpuOptions {
        tier: Some(tier),
        threads: Some(1),
        pin: false,
        spin: true,
    };
    let backend = CpuBackend::new(options).unwrap();
    let ceiling = backend.ceiling(CeilingKind::Int8).unwrap().unwrap();
    fork_and_join();
    println!(
        "{tier}, one thread, int8 ceiling {:.0} GOP/s",
        ceiling.best / 1e9
    );
    let kernels = Kernels::for_tier(tier).unwrap();
    for info in FORMATS.iter().filter(|f| f.arithmetic == Arithmetic::I8) {
        let one_digit = (kernels.quantise_i8, kernels.linear_i8);
        let two_digits = (kernels.quantise_i12, kernels.linear_i12);
        for (rows, digits) in [(1, 1), (4, 1), (16, 1), (1, 2), (16, 2)] {
            let (best, median) = match digits {
                1 => kernel(one_digit, info.format, rows),
                _ => kernel(two_digits, info.format, rows),
            };
            println!(
                "{:6} {rows:2} rows of {digits} digits: best {:5.0} GOP/s, median {:5.0}, {:3.0} % of the ceiling",
                info.name,
                best / 1e9,
                median / 1e9,
                100.0 * best / ceiling.best
            );
        }
    }
}
