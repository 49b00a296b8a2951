//! Products of the tile unit on operands that stay in the second-level cache, on one thread.
//!
//! `cargo run --release -p ucuz-cpu --example tile_speed`. Best of the runs and median, beside the unit's ceiling on one thread.

#![allow(
    clippy::unwrap_used,
    reason = "a developer's tool: it stops at the first failure"
)]

use std::hint::black_box;
use std::time::Instant;

use bytemuck::Zeroable;
use ucuz_cpu::activations::{Bf16Group, I8Group, RowHead, RowSpan};
use ucuz_cpu::pool::Disjoint;
use ucuz_cpu::table::{Kernels, TileCall, TileCodes, TileKernels, TileOutput, TileStore};
use ucuz_cpu::{CpuBackend, CpuOptions, Tier};
use ucuz_tensor::layout::{PanelKind, PanelLayout};
use ucuz_tensor::{Backend, CeilingKind, Format};

const RUNS: usize = 41;
/// Activation rows and weight rows.
const ROWS: usize = 256;

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

/// Times `kernel` on `ROWS` activation rows of `len` entries a block and `ROWS` rows of weights.
fn time<X: Zeroable + Copy>(
    format: Format,
    cols: usize,
    len: usize,
    kernel: impl Fn(&TileCall<'_, X>, &PanelLayout, &TileOutput<'_>),
) -> (f64, f64) {
    let layout = PanelLayout::new(format, ROWS, cols).unwrap();
    let panels = vec![0x11; layout.panels() * layout.panel_bytes()];
    let x = vec![X::zeroed(); ROWS / 16 * len];
    let call = TileCall {
        panels: &panels,
        panel_bytes: layout.panel_bytes(),
        x: &x,
        block_len: len,
    };
    let mut dst = vec![0.0; ROWS * ROWS];
    let dst = Disjoint::new(&mut dst);
    let output = TileOutput {
        dst: &dst,
        start: 0,
        stride: ROWS,
        rows: ROWS,
        lanes: ROWS,
        bias: None,
        store: TileStore::Replace,
    };
    measure(|| kernel(&call, &layout, black_box(&output)))
}

fn main() {
    let options = CpuOptions {
        tier: Some(Tier::Amx),
        threads: Some(1),
        pin: false,
        spin: true,
    };
    let backend = CpuBackend::new(options).unwrap();
    let ceiling = |kind| backend.ceiling(kind).unwrap().unwrap().median / 1e9;
    let (int8, bf16) = (ceiling(CeilingKind::Int8), ceiling(CeilingKind::Bf16));
    println!("one thread: int8 ceiling {int8:.0} GOP/s, bf16 {bf16:.0} GOP/s");
    let unit: &TileKernels = Kernels::for_tier(Tier::Amx).unwrap().tiles.unwrap();
    for cols in [576, 1536] {
        let show = |name: &str, (best, median): (f64, f64), ceiling: f64| {
            let operations = (2 * ROWS * ROWS * cols) as f64 / 1e9;
            println!(
                "{name:16} {cols:5} columns: best {:5.0} GOP/s, median {:5.0}, {:3.0} %",
                operations / best,
                operations / median,
                100.0 * operations / median / ceiling
            );
        };
        let heads = vec![RowHead::zeroed(); ROWS / 16];
        let rows = |call: &TileCall<'_, RowSpan>, _: &PanelLayout, to: &TileOutput<'_>| {
            // SAFETY: one thread, one destination.
            unsafe { (unit.linear_rows)(call, &heads, to) };
        };
        show(
            "INT8_ROW",
            time(Format::Int8Row, cols, cols / 64, rows),
            int8,
        );
        let floats = |call: &TileCall<'_, Bf16Group>, _: &PanelLayout, to: &TileOutput<'_>| {
            // SAFETY: as above.
            unsafe { (unit.linear_bf16)(call, to) };
        };
        show("BF16", time(Format::BF16, cols, cols / 32, floats), bf16);
        for (name, format) in [
            ("Q4_1", Format::Q4_1),
            ("Q8_0", Format::Q8_0),
            ("Q4_K", Format::Q4_K),
            ("Q6_K", Format::Q6_K),
        ] {
            if cols % 256 != 0 && name.ends_with('K') {
                continue;
            }
            for planes in [1, 2] {
                let codes =
                    |call: &TileCall<'_, I8Group>, layout: &PanelLayout, to: &TileOutput<'_>| {
                        let PanelKind::Coded(coded) = layout.kind else {
                            unreachable!("integer formats have coded panels");
                        };
                        // SAFETY: as above.
                        unsafe { (unit.linear_i8)(call, TileCodes { coded, planes }, to) };
                    };
                let name = format!("{name} {planes} code(s)");
                show(&name, time(format, cols, cols / 32 * planes, codes), int8);
            }
        }
    }
}
