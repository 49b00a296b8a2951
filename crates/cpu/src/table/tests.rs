//! Packing of every tier against the portable one, and both AVX2 kernels of integers.

use ucuz_tensor::format::{Arithmetic, FORMATS, GROUP};
use ucuz_tensor::layout::{PanelKind, PanelLayout};

use super::*;
use crate::activations::{BLOCK_ROWS, Codes};
use crate::arch::AHEAD_BYTES;

const COLS: usize = 512;

fn noise(state: &mut u64) -> u32 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 40) as u32
}

/// Any codes and sub-scales under finite scales.
fn panel(coded: &CodedPanel, bytes: usize, state: &mut u64) -> Vec<u8> {
    let mut panel: Vec<u8> = (0..bytes).map(|_| noise(state) as u8).collect();
    for group in (0..COLS / GROUP).step_by(coded.groups_per_scale) {
        let header = &mut panel[coded.block_offset(group)..][..coded.header_bytes()];
        header
            .iter_mut()
            .skip(1)
            .step_by(2)
            .for_each(|high| *high &= 0x3b);
    }
    panel
}

/// Rows of noise; some all zero, nearly zero, with an infinity or a NaN, and some that stand just between codes.
fn rows_with_extremes(rows: usize, state: &mut u64) -> Vec<f32> {
    let mut x: Vec<f32> = (0..rows * COLS)
        .map(|_| (noise(state) as f32 / 8e6 - 1.0).powi(3))
        .collect();
    for (row, x) in x.chunks_mut(COLS).enumerate() {
        match row % 8 {
            1 => x[..GROUP].fill(-0.0),
            2 => x[GROUP..2 * GROUP].fill(1e-35),
            3 => x[GROUP + 5] = f32::NAN,
            4 => x[2 * GROUP] = f32::NEG_INFINITY,
            5 => x[0] = f32::MAX,
            6 => {
                x[..2 * GROUP].fill(0.0);
                x[..6].copy_from_slice(&[127.0, 0.5, 1.5, -0.5, -2.5, 126.5]);
                // The same for codes of two digits.
                x[GROUP..GROUP + 5].copy_from_slice(&[
                    127.0,
                    0.5 / 16.0,
                    1.5 / 16.0,
                    -2.5 / 16.0,
                    126.5,
                ]);
            }
            _ => {}
        }
    }
    x
}

/// A function of both kinds of codes.
trait Kind: Codes {
    fn quantise(kernels: &Kernels) -> fn(&mut [Self], &[f32], usize);
    fn linear(kernels: &Kernels) -> fn(&mut Tile, &CodedCall<'_, Self>);
}

impl Kind for I8Group {
    fn quantise(kernels: &Kernels) -> fn(&mut [Self], &[f32], usize) {
        kernels.quantise_i8
    }
    fn linear(kernels: &Kernels) -> fn(&mut Tile, &CodedCall<'_, Self>) {
        kernels.linear_i8
    }
}

impl Kind for I12Group {
    fn quantise(kernels: &Kernels) -> fn(&mut [Self], &[f32], usize) {
        kernels.quantise_i12
    }
    fn linear(kernels: &Kernels) -> fn(&mut Tile, &CodedCall<'_, Self>) {
        kernels.linear_i12
    }
}

#[test]
fn every_tier_quantises_as_the_portable_one() {
    let mut state = 3;
    for rows in 1..=BLOCK_ROWS {
        let x = rows_with_extremes(rows, &mut state);
        check_quantise::<I8Group>(rows, &x);
        check_quantise::<I12Group>(rows, &x);
    }
}

fn check_quantise<X: Kind>(rows: usize, x: &[f32]) {
    let quantised = |kernels: &Kernels| {
        // What was there before must not stay in any row that is read.
        let junk = vec![0x55u8; COLS / GROUP * size_of::<X>()];
        let junk = junk.chunks(size_of::<X>());
        let mut groups: Vec<X> = junk.map(bytemuck::pod_read_unaligned).collect();
        X::quantise(kernels)(&mut groups, x, COLS);
        groups
    };
    let expected = quantised(&GENERIC);
    for tier in Tier::ALL {
        let Some(kernels) = Kernels::for_tier(tier) else {
            eprintln!("skipped: this processor lacks the {tier} tier");
            continue;
        };
        for (g, (got, expected)) in quantised(kernels).iter().zip(&expected).enumerate() {
            let what = format!("{tier}, {rows} rows, {} digits, group {g}", X::DIGITS);
            for row in 0..rows.next_power_of_two() {
                assert_eq!(got.digits(row), expected.digits(row), "{what}");
                assert_eq!(about(got, row), about(expected, row), "{what}");
            }
        }
    }
}

/// Scale and sums of a row, as bits.
fn about<X: Codes>(group: &X, row: usize) -> (u32, [(u32, i32, i32); 3]) {
    let about = group.about();
    let sums = std::array::from_fn(|which| {
        (
            about.sums[which][row].to_bits(),
            about.minus_8_sums[which][row],
            about.minus_128_sums[which][row],
        )
    });
    (about.scales[row].to_bits(), sums)
}

/// A processor with AVX-VNNI takes one of the two, so both are held to the portable one here.
#[test]
fn both_avx2_kernels_of_integers_equal_the_portable_one() {
    let mut tables = vec![&AVX2, &AVX2_VNNI];
    if !CpuFeatures::detect().has("avxvnni") {
        eprintln!("skipped: this processor lacks AVX-VNNI");
        tables.pop();
    }
    if Kernels::for_tier(Tier::Avx2).is_none() {
        return eprintln!("skipped: this processor lacks the avx2 tier");
    }
    let mut state = 7;
    for info in FORMATS {
        let layout = PanelLayout::new(info.format, PANEL_ROWS, COLS).unwrap();
        let (PanelKind::Coded(coded), Arithmetic::I8) = (layout.kind, info.arithmetic) else {
            continue;
        };
        let panel = panel(&coded, layout.panel_bytes(), &mut state);
        let x: Vec<f32> = (0..BLOCK_ROWS * COLS)
            .map(|_| (noise(&mut state) as f32 / 8e6 - 1.0).powi(3))
            .collect();
        for rows in [1, 2, 3, 16] {
            check_linear::<I8Group>(&tables, info.name, (&panel, coded), &x[..rows * COLS]);
            check_linear::<I12Group>(&tables, info.name, (&panel, coded), &x[..rows * COLS]);
        }
    }
}

fn check_linear<X: Kind>(
    tables: &[&Kernels],
    name: &str,
    (panel, coded): (&[u8], CodedPanel),
    x: &[f32],
) {
    let rows = x.len() / COLS;
    let mut groups = vec![X::zeroed(); COLS / GROUP];
    X::quantise(&GENERIC)(&mut groups, x, COLS);
    let call = CodedCall {
        panel,
        coded,
        groups: &groups,
        rows,
        ahead: AHEAD_BYTES,
    };
    let mut expected: Tile = [[0.0; PANEL_ROWS]; BLOCK_ROWS];
    X::linear(&GENERIC)(&mut expected, &call);
    for table in tables {
        let mut tile: Tile = [[0.0; PANEL_ROWS]; BLOCK_ROWS];
        X::linear(table)(&mut tile, &call);
        let same = tile[..rows] == expected[..rows];
        assert!(same, "{name}, {} digits, {rows} rows", X::DIGITS);
    }
}
