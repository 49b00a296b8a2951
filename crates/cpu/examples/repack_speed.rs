//! Speed of bringing stored weights into panels: the work of a first start.
//!
//! `cargo run --release -p ucuz-cpu --example repack_speed [format..]`. GB/s of stored bytes, best and median of the runs,
//! one and two threads, 1 MiB at a time into the same memory, as loading into a file does it.

#![allow(
    clippy::unwrap_used,
    reason = "a developer's tool: it stops at the first failure"
)]

use std::time::Instant;

use ucuz_cpu::{CpuBackend, CpuOptions};
use ucuz_tensor::Backend;
use ucuz_tensor::format::{FORMATS, FormatInfo};
use ucuz_tensor::layout::PanelLayout;

const COLS: usize = 2048;
const RUNS: usize = 60;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    println!("format     threads   GB/s best  median");
    for info in FORMATS.iter().filter(|info| info.gguf_id.is_some()) {
        if !wanted.is_empty() && !wanted.iter().any(|name| name == info.name) {
            continue;
        }
        for threads in [1, 2] {
            let (best, median) = speed(info, threads);
            println!("{:<10} {threads:>7} {best:>11.2} {median:>7.2}", info.name);
        }
    }
}

fn speed(info: &FormatInfo, threads: usize) -> (f64, f64) {
    let backend = CpuBackend::new(CpuOptions {
        tier: None,
        threads: Some(threads),
        pin: false,
        spin: true,
    });
    let backend = backend.unwrap();
    let row_bytes = info.format.row_bytes(COLS).unwrap();
    let rows = ((1 << 20) / row_bytes).max(1).next_multiple_of(16);
    let stored: Vec<u8> = (0..rows * row_bytes)
        .map(|i| (i * 7 + i / 256) as u8 & 0x3b)
        .collect();
    let layout = PanelLayout::new(info.format, rows, COLS).unwrap();
    let mut data = vec![0; backend.layout_bytes(&layout).unwrap()];
    let mut seconds: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            backend
                .repack(&mut data, &layout, &stored, 0..rows)
                .unwrap();
            start.elapsed().as_secs_f64()
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    let rate = |seconds: f64| stored.len() as f64 / seconds * 1e-9;
    (rate(seconds[0]), rate(seconds[RUNS / 2]))
}
