//! All tiers, all splits of rows and all numbers of threads compute the same bits.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use ucuz_cpu::activations::{Codes, I12Group};
use ucuz_cpu::{CpuBackend, Tier, emulator};
use ucuz_tensor::backend::Limits;
use ucuz_tensor::batch::{Batch, SeqSlot};
use ucuz_tensor::format::{Activations, Coding, FORMATS, OnLoad};
use ucuz_tensor::weight::RawPart;
use ucuz_tensor::{Backend, Format, Tensor, Weight, WeightOptions};

const ROWS_MAX: usize = 65;
/// Rows and outputs of a product that takes a tile unit several passes.
const ROWS_MANY: usize = 150;
const OUT_MANY: usize = 71;
/// Not a multiple of 16: the last panel is padded.
const OUT: usize = 37;

struct Noise(u64);

impl Noise {
    fn byte(&mut self) -> u8 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 56) as u8
    }

    /// Magnitudes from 2^-60 to 2^40, both signs, zeros among them.
    fn number(&mut self) -> f32 {
        let exponent = i32::from(self.byte() % 12) - 6;
        let value = (f32::from(self.byte()) - 127.5) / 64.0 * 2f32.powi(exponent);
        match self.byte() {
            0..=9 => 0.0,
            10 => value * 2f32.powi(40),
            11 => value * 2f32.powi(-60),
            _ => value,
        }
    }
}

fn backend(tier: Tier, threads: usize) -> Option<CpuBackend> {
    let backend = emulator::backend(tier, threads);
    if backend.is_none() {
        eprintln!("skipped: this processor lacks the {tier} tier");
    }
    backend
}

/// Any codes under finite scales.
fn stored(noise: &mut Noise, format: Format, rows: usize, cols: usize) -> Vec<u8> {
    let info = format.info();
    let bytes = rows * format.row_bytes(cols).unwrap();
    match format {
        Format::F32 => (0..bytes / 4)
            .flat_map(|_| noise.number().to_le_bytes())
            .collect(),
        Format::F16 => (0..bytes / 2)
            .flat_map(|_| half::f16::from_f32(noise.number().clamp(-6e4, 6e4)).to_le_bytes())
            .collect(),
        Format::BF16 => (0..bytes / 2)
            .flat_map(|_| half::bf16::from_f32(noise.number()).to_le_bytes())
            .collect(),
        Format::Int8Row => (0..rows)
            .flat_map(|_| {
                let codes = (0..cols).map(|_| noise.byte()).collect::<Vec<_>>();
                codes.into_iter().chain(noise.number().to_le_bytes())
            })
            .collect(),
        _ => {
            let mut bytes: Vec<u8> = (0..bytes).map(|_| noise.byte()).collect();
            for block in bytes.chunks_exact_mut(info.block_bytes) {
                finite_scales(format, block);
            }
            bytes
        }
    }
}

/// Clears the top exponent bit of every f16 in a block, so that none is infinite.
fn finite_scales(format: Format, block: &mut [u8]) {
    let places: &[usize] = match format {
        Format::Q4_1 | Format::Q5_1 | Format::Q4_K | Format::Q5_K => &[0, 2],
        Format::Q2_K => &[80, 82],
        Format::Q3_K => &[108],
        Format::Q6_K => &[208],
        Format::MXFP4 => &[],
        _ => &[0],
    };
    for place in places {
        block[place + 1] &= 0xbf;
    }
    if format == Format::MXFP4 {
        block[0] = 100 + block[0] % 50;
    }
}

fn weight(
    backend: &dyn Backend,
    parts: &[(Format, Vec<u8>)],
    cols: usize,
    activations: Activations,
) -> Arc<Weight> {
    let raw: Vec<RawPart<'_>> = parts
        .iter()
        .map(|(format, bytes)| RawPart {
            name: format.to_string(),
            format: *format,
            rows: bytes.len() / format.row_bytes(cols).unwrap(),
            cols,
            bytes,
            bias: Some(
                (0..bytes.len() / format.row_bytes(cols).unwrap())
                    .map(|i| i as f32 * 0.25 - 4.0)
                    .collect(),
            ),
        })
        .collect();
    let options = WeightOptions {
        activations,
        on_load: OnLoad::AsStored,
    };
    Weight::load(backend, "w", &raw, options).unwrap()
}

fn limits(cols: usize) -> Limits {
    Limits {
        step_rows: ROWS_MANY,
        sequences: 1,
        logit_rows: 1,
        context: 64,
        cols_max: cols,
        vocab: 8,
    }
}

fn product(backend: &dyn Backend, w: &Weight, x: &[f32]) -> Vec<f32> {
    let rows = x.len() / w.cols;
    let x = Tensor::from_values(x, w.cols, "x").unwrap();
    let mut dst = Tensor::zeroed(rows, w.rows, "dst").unwrap();
    let mut queue = backend.queue(&limits(w.cols)).unwrap();
    queue.linear(dst.view_mut(), x.view(), w).unwrap();
    dst.values().to_vec()
}

/// NaN is NaN; everything else is compared by value.
fn assert_same(what: &str, got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len());
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        let same = got == expected || got.is_nan() && expected.is_nan();
        assert!(same, "{what}: number {i} is {got:e}, expected {expected:e}");
    }
}

/// Columns that give an odd number of groups, of blocks for the 256-column formats.
fn cols_of(format: Format) -> usize {
    match format.info().block_elements {
        256 => 768,
        32 => 7 * 32,
        _ => 75,
    }
}

/// Checks one weight on every tier, for all numbers of rows, against the generic tier on one thread.
fn check_tiers(parts: &[(Format, Vec<u8>)], cols: usize, x: &[f32]) {
    for activations in [Activations::Int8, Activations::Int8Pair] {
        check_tiers_with(parts, cols, x, activations);
    }
}

fn check_tiers_with(parts: &[(Format, Vec<u8>)], cols: usize, x: &[f32], activations: Activations) {
    let generic = backend(Tier::Generic, 1).unwrap();
    let expected = product(&generic, &weight(&generic, parts, cols, activations), x);
    let name = parts
        .iter()
        .map(|part| part.0.to_string())
        .collect::<Vec<_>>()
        .join("+");
    let width = parts.len() * OUT;
    for (tier, threads) in Tier::ALL
        .into_iter()
        .flat_map(|tier| [(tier, 1), (tier, 2)])
    {
        let Some(backend) = backend(tier, threads) else {
            continue;
        };
        let w = weight(&backend, parts, cols, activations);
        let most = x.len() / cols;
        for rows in (1..=most).filter(|rows| *rows <= 33 || rows + 2 > most) {
            let got = product(&backend, &w, &x[..rows * cols]);
            let what = format!("{name}, {activations:?}, {tier}, {threads} threads, {rows} rows");
            assert_same(&what, &got, &expected[..rows * width]);
        }
        for row in [0, 1, 17, 32] {
            let got = product(&backend, &w, &x[row * cols..(row + 1) * cols]);
            let what = format!("{name}, {tier}, row {row} alone");
            assert_same(&what, &got, &expected[row * width..(row + 1) * width]);
        }
    }
}

#[test]
fn every_format_has_the_same_bits_on_every_tier_for_any_number_of_rows() {
    let mut noise = Noise(1);
    for info in FORMATS {
        let cols = cols_of(info.format);
        let bytes = stored(&mut noise, info.format, OUT, cols);
        let x: Vec<f32> = (0..ROWS_MAX * cols).map(|_| noise.number()).collect();
        check_tiers(&[(info.format, bytes)], cols, &x);
    }
}

#[test]
fn many_panels_and_rows_have_the_same_bits_as_few() {
    let mut noise = Noise(5);
    for info in FORMATS {
        // Nine groups where blocks allow it: one more than a tile unit unpacks at a time.
        let cols = match info.format.info().block_elements {
            256 => 512,
            _ => 9 * 32,
        };
        let parts = [(info.format, stored(&mut noise, info.format, OUT_MANY, cols))];
        let x: Vec<f32> = (0..ROWS_MANY * cols).map(|_| noise.number()).collect();
        for activations in [Activations::Int8, Activations::Int8Pair] {
            // One thread: with more, each would get a panel at a time.
            let generic = backend(Tier::Generic, 1).unwrap();
            let expected = product(&generic, &weight(&generic, &parts, cols, activations), &x);
            for tier in Tier::ALL {
                let Some(backend) = backend(tier, 1) else {
                    continue;
                };
                let got = product(&backend, &weight(&backend, &parts, cols, activations), &x);
                let what = format!("{}, {activations:?}, {tier}", info.name);
                assert_same(&what, &got, &expected);
            }
        }
    }
}

#[test]
fn parts_of_different_arithmetic_share_one_call() {
    let mut noise = Noise(2);
    let formats = [
        Format::Q6_K,
        Format::BF16,
        Format::Q4_K,
        Format::F32,
        Format::IQ4_NL,
    ];
    let parts = formats.map(|format| (format, stored(&mut noise, format, OUT, 256)));
    let x: Vec<f32> = (0..ROWS_MAX * 256).map(|_| noise.number()).collect();
    check_tiers(&parts, 256, &x);
}

#[test]
fn extreme_codes_and_activations_neither_saturate_nor_differ() {
    for info in FORMATS.iter().filter(|info| info.unpack.is_some()) {
        let cols = cols_of(info.format);
        for fill in [0x00, 0x80, 0xff, 0x7f, 0x88] {
            let mut bytes = vec![fill; OUT * info.format.row_bytes(cols).unwrap()];
            for block in bytes.chunks_exact_mut(info.block_bytes) {
                finite_scales(info.format, block);
            }
            let mut x: Vec<f32> = vec![1.0; ROWS_MAX * cols];
            for (row, values) in x.chunks_exact_mut(cols).enumerate() {
                let signs: [fn(usize) -> f32; 4] = [
                    |_| 1.0,
                    |_| -1.0,
                    |k| if k % 2 == 0 { 1.0 } else { -1.0 },
                    |_| 0.0,
                ];
                for (k, value) in values.iter_mut().enumerate() {
                    *value = signs[row % 4](k);
                }
            }
            check_tiers(&[(info.format, bytes)], cols, &x);
        }
    }
}

#[test]
fn a_row_that_is_not_finite_becomes_nan_and_leaves_the_others_alone() {
    let mut noise = Noise(3);
    for info in FORMATS {
        let cols = cols_of(info.format);
        let parts = [(info.format, stored(&mut noise, info.format, OUT, cols))];
        let clean: Vec<f32> = (0..9 * cols).map(|_| noise.number()).collect();
        for tier in Tier::ALL {
            let Some(backend) = backend(tier, 2) else {
                continue;
            };
            let w = weight(&backend, &parts, cols, Activations::Int8Pair);
            let expected = product(&backend, &w, &clean);
            for bad in [f32::NAN, f32::INFINITY] {
                let mut x = clean.clone();
                x[4 * cols + 40] = bad;
                let got = product(&backend, &w, &x);
                let what = format!("{}, {tier}, {bad}", info.name);
                assert_same(&what, &got[..4 * OUT], &expected[..4 * OUT]);
                assert_same(&what, &got[5 * OUT..], &expected[5 * OUT..]);
                assert!(
                    got[4 * OUT..5 * OUT].iter().any(|v| !v.is_finite()),
                    "{what}"
                );
            }
        }
    }
}

#[test]
fn embedding_rows_equal_the_formats_own_decoder() {
    const TOKENS: u32 = 33;
    let mut noise = Noise(4);
    for info in FORMATS {
        let cols = cols_of(info.format);
        let bytes = stored(&mut noise, info.format, OUT, cols);
        let mut expected = vec![0.0; OUT * cols];
        for (row, dst) in bytes
            .chunks_exact(bytes.len() / OUT)
            .zip(expected.chunks_exact_mut(cols))
        {
            ucuz_tensor::quant::decode_row(info.format, row, dst);
        }
        if info.format == Format::BF16 {
            expected
                .iter_mut()
                .for_each(|v| *v = ucuz_tensor::numerics::bf16_round(*v));
        }
        let backend = backend(Tier::Generic, 2).unwrap();
        let w = weight(&backend, &[(info.format, bytes)], cols, Activations::Int8);
        let tokens: Vec<u32> = (0..TOKENS).rev().collect();
        let batch = Batch {
            positions: (0..TOKENS).collect(),
            seq_starts: vec![0, TOKENS],
            kv_lens: vec![TOKENS],
            slots: vec![SeqSlot(0)],
            tokens: tokens.clone(),
            ..Batch::default()
        };
        let mut queue = backend.queue(&limits(cols)).unwrap();
        let mut dst = Tensor::zeroed(TOKENS as usize, cols, "dst").unwrap();
        let inputs = queue.begin(&batch).unwrap();
        queue.embed(dst.view_mut(), &w, 3.0, &inputs).unwrap();
        for (i, token) in tokens.iter().enumerate() {
            let row = &expected[*token as usize * cols..][..cols];
            let scaled: Vec<f32> = row.iter().map(|v| v * 3.0).collect();
            assert_same(info.name, dst.rows(i..i + 1).values(), &scaled);
        }
    }
}

#[test]
fn scratch_is_what_the_backend_says_and_a_larger_call_is_refused() {
    let backend = backend(Tier::Generic, 1).unwrap();
    let parts = [(Format::Q8_0, vec![0; OUT * 34 * 2])];
    let w = weight(&backend, &parts, 64, Activations::Int8);
    let mut queue = backend.queue(&limits(32)).unwrap();
    let x = Tensor::zeroed(1, 64, "x").unwrap();
    let mut dst = Tensor::zeroed(1, OUT, "dst").unwrap();
    let error = queue.linear(dst.view_mut(), x.view(), &w).unwrap_err();
    assert_eq!(
        error.to_string(),
        "columns of a product: expected 0..=32, got 64"
    );
    assert!(backend.scratch_bytes(&limits(64)) > backend.scratch_bytes(&limits(32)));
}

#[test]
fn dots_of_stored_codes_fit_32_bits_for_every_format() {
    for info in FORMATS {
        let Coding::Integer { bits, .. } = info.coding else {
            continue;
        };
        // Codes with their bias, as the kernels multiply them, lifted to 128 at most.
        let stored = (1i64 << bits) - 1 + 128;
        let most = 32 * stored.min(255) * i64::from(I12Group::MOST);
        let undone = 32 * 128 * i64::from(I12Group::MOST);
        assert!(most + undone < 1 << 31, "{}", info.name);
    }
}
