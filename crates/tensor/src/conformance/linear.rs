//! Checks of products with weights and of the embedding lookup.

use super::bounds::{Expected, assert_same, assert_within, dot};
use super::data::{Exact, Noise, activations, formats, plain_batch, queue, stored_rows, weight};
use crate::backend::{Backend, Gate, gate_mul};
use crate::format::{Activations, Format, OnLoad};
use crate::quant::convert_row;
use crate::tensor::Tensor;
use crate::weight::{RawPart, Weight, WeightOptions};

/// Input rows of the full batch; smaller ones are cut from it.
const ROWS: usize = 33;
/// Row counts around the sizes of tiles and panels.
const ROW_COUNTS: [usize; 6] = [1, 2, 3, 7, 16, 17];
/// Output rows around the panel of 16.
const OUTPUTS: [usize; 5] = [1, 15, 16, 17, 48];
/// One group, two, one and two blocks of 256, and counts that only some formats store; 40 leaves a tail.
const COLS: [usize; 7] = [32, 40, 64, 256, 288, 512, 576];

fn run_linear(
    backend: &dyn Backend,
    x: &Tensor,
    rows: std::ops::Range<usize>,
    w: &Weight,
) -> Tensor {
    let mut dst = Tensor::zeroed(rows.len(), w.rows, "dst").unwrap();
    queue(backend)
        .linear(dst.view_mut(), x.rows(rows), w)
        .expect("linear with shapes that agree");
    dst
}

fn expect_linear(x: &Tensor, parts: &[Exact]) -> Vec<Expected> {
    let mut expected = Vec::new();
    for row in 0..x.num_rows() {
        let x = x.rows(row..row + 1).values();
        for part in parts {
            expected.extend((0..part.rows).map(|output| dot(x, part, output)));
        }
    }
    expected
}

/// Every format, output count and column count against sums in f64.
pub fn linear_stays_within_the_bound_of_its_arithmetic(backend: &dyn Backend) {
    for cols in COLS {
        for format in formats(cols) {
            for outputs in OUTPUTS {
                let mut noise = Noise::new((cols * 64 + outputs) as u64);
                let x = activations(&mut noise, ROWS, cols);
                let parts = [(format, outputs, outputs % 2 == 1)];
                let (w, exact) = weight(backend, &mut noise, cols, &parts);
                let got = run_linear(backend, &x, 0..ROWS, &w);
                let what = format!("linear {format} {outputs} x {cols}");
                assert_within(&what, got.values(), &expect_linear(&x, &exact));
            }
        }
    }
}

/// Parts of different formats, with and without bias, land side by side.
pub fn linear_computes_each_part_in_its_own_format(backend: &dyn Backend) {
    let cases: [&[(Format, usize, bool)]; 3] = [
        &[
            (Format::Q4_K, 32, true),
            (Format::Q4_K, 7, true),
            (Format::Q6_K, 7, true),
        ],
        &[
            (Format::Q8_0, 17, false),
            (Format::F32, 5, true),
            (Format::BF16, 33, false),
        ],
        &[
            (Format::IQ4_XS, 16, false),
            (Format::F16, 1, false),
            (Format::Q5_1, 48, true),
        ],
    ];
    for (case, parts) in cases.into_iter().enumerate() {
        let mut noise = Noise::new(900 + case as u64);
        let x = activations(&mut noise, ROWS, 256);
        let (w, exact) = weight(backend, &mut noise, 256, parts);
        let got = run_linear(backend, &x, 0..ROWS, &w);
        assert_within(
            &format!("linear {parts:?}"),
            got.values(),
            &expect_linear(&x, &exact),
        );
    }
}

/// Any number of rows, from any start, has the bits of the same rows in the full batch.
pub fn linear_row_alone_equals_row_in_a_batch(backend: &dyn Backend) {
    for (cols, outputs) in [(256, 48), (576, 17), (288, 33)] {
        for format in formats(cols) {
            let mut noise = Noise::new(40);
            let x = activations(&mut noise, ROWS, cols);
            let (w, _) = weight(backend, &mut noise, cols, &[(format, outputs, true)]);
            let whole = run_linear(backend, &x, 0..ROWS, &w);
            for rows in ROW_COUNTS {
                let first = (rows * 5) % (ROWS - rows);
                let got = run_linear(backend, &x, first..first + rows, &w);
                let expected = whole.rows(first..first + rows);
                let what = format!("{rows} rows from {first}, {format} {outputs} x {cols}");
                assert_same(&what, got.values(), expected.values());
            }
        }
    }
}

/// `linear_add` is `(x wᵀ + bias) + dst`, rounded like that.
pub fn linear_add_equals_linear_then_add(backend: &dyn Backend) {
    for format in formats(256) {
        for rows in [1, 3, 17] {
            let mut noise = Noise::new(50 + rows as u64);
            let x = activations(&mut noise, rows, 256);
            let parts = [(format, 17, true), (Format::Q8_0, 16, false)];
            let (w, _) = weight(backend, &mut noise, 256, &parts);
            let residual = noise.units(rows * w.rows);
            let mut dst = Tensor::from_values(&residual, w.rows, "residual").unwrap();
            queue(backend)
                .linear_add(dst.view_mut(), x.view(), &w)
                .expect("linear_add with shapes that agree");
            let plain = run_linear(backend, &x, 0..rows, &w);
            let expected: Vec<f32> = plain
                .values()
                .iter()
                .zip(&residual)
                .map(|(a, b)| a + b)
                .collect();
            assert_same(
                &format!("linear_add {format}, {rows} rows"),
                dst.values(),
                &expected,
            );
        }
    }
}

/// A gated product is the product and then the gate, for parts alike, of different formats, and not in whole panels.
pub fn linear_gated_equals_linear_then_gate(backend: &dyn Backend) {
    let formats = [
        (Format::Q4_1, Format::Q4_1),
        (Format::Q4_K, Format::Q6_K),
        (Format::BF16, Format::BF16),
        (Format::Int8Row, Format::Int8Row),
        (Format::Q8_0, Format::F32),
    ];
    for (case, (gate, up)) in formats.into_iter().enumerate() {
        for (half, rows) in [(64, 1), (48, 17), (17, 33), (16, 8)] {
            let mut noise = Noise::new(30 + case as u64);
            let x = activations(&mut noise, rows, 256);
            let parts = [(gate, half, true), (up, half, case % 2 == 0)];
            let (w, _) = weight(backend, &mut noise, 256, &parts);
            let both = run_linear(backend, &x, 0..rows, &w);
            for function in [Gate::Silu, Gate::GeluTanh] {
                let mut queue = queue(backend);
                let mut expected = Tensor::zeroed(rows, half, "expected").unwrap();
                gate_mul(&mut *queue, expected.view_mut(), both.view(), function)
                    .expect("a gate with shapes that agree");
                for room_rows in [rows, rows.min(5)] {
                    let mut dst = Tensor::zeroed(rows, half, "dst").unwrap();
                    let mut room = Tensor::zeroed(room_rows, 2 * half, "room").unwrap();
                    queue
                        .linear_gated(dst.view_mut(), room.view_mut(), x.view(), &w, function)
                        .expect("a gated product with shapes that agree");
                    let what = format!(
                        "{gate} and {up}, {half} outputs, {rows} rows, {function:?}, room for {room_rows}"
                    );
                    assert_same(&what, dst.values(), expected.values());
                }
            }
        }
    }
}

/// A row with a NaN or an infinity changes no bit of the other rows.
pub fn linear_keeps_a_bad_row_to_itself(backend: &dyn Backend) {
    for format in formats(256) {
        let mut noise = Noise::new(60);
        let good = activations(&mut noise, 18, 256);
        let (w, _) = weight(backend, &mut noise, 256, &[(format, 17, false)]);
        let whole = run_linear(backend, &good, 0..18, &w);
        let mut values = good.values().to_vec();
        values[3 * 256 + 9] = f32::NAN;
        values[16 * 256 + 200] = f32::INFINITY;
        let bad = Tensor::from_values(&values, 256, "x").unwrap();
        let got = run_linear(backend, &bad, 0..18, &w);
        for row in (0..18).filter(|row| ![3, 16].contains(row)) {
            let what = format!("{format}, row {row} beside bad rows");
            let rows = row..row + 1;
            assert_same(
                &what,
                got.rows(rows.clone()).values(),
                whole.rows(rows).values(),
            );
        }
    }
}

/// Rows converted while they are loaded are the rows that were stored in that format.
pub fn conversion_on_load_equals_stored_rows(backend: &dyn Backend) {
    let (rows, cols) = (37, 256);
    let options = |on_load| WeightOptions {
        activations: Activations::Int8,
        on_load,
    };
    for format in formats(cols) {
        let mut noise = Noise::new(80);
        let stored = stored_rows(&mut noise, format, rows, cols);
        let mut converted = vec![0; rows * (cols + 4)];
        let rows_of = |bytes| stored.chunks_exact(bytes);
        for (row, out) in rows_of(stored.len() / rows).zip(converted.chunks_exact_mut(cols + 4)) {
            convert_row((format, row), Format::Int8Row, &mut vec![0.0; cols], out);
        }
        let load = |format, bytes, on_load| {
            let raw = RawPart {
                name: "w".to_owned(),
                format,
                rows,
                cols,
                bytes,
                bias: None,
            };
            Weight::load(backend, "w", &[raw], options(on_load)).expect("a weight")
        };
        let x = activations(&mut noise, 5, cols);
        let on_load = load(format, &stored, OnLoad::W8A8);
        let before = load(Format::Int8Row, &converted, OnLoad::AsStored);
        assert_same(
            &format!("{format} to INT8_ROW"),
            run_linear(backend, &x, 0..5, &on_load).values(),
            run_linear(backend, &x, 0..5, &before).values(),
        );
    }
}

/// The lookup is the decoded row times the scale, rounded once.
pub fn embed_decodes_rows_exactly(backend: &dyn Backend) {
    for cols in [256, 288] {
        for format in formats(cols) {
            for scale in [1.0, 25.5] {
                let mut noise = Noise::new(70);
                let (table, exact) = weight(backend, &mut noise, cols, &[(format, 37, false)]);
                let mut step = plain_batch(7);
                step.tokens = vec![0, 36, 15, 16, 17, 16, 31];
                let mut queue = queue(backend);
                let mut dst = Tensor::zeroed(7, cols, "dst").unwrap();
                let inputs = queue.begin(&step).expect("a step within the limits");
                queue
                    .embed(dst.view_mut(), &table, scale, &inputs)
                    .expect("tokens of the table");
                for (row, id) in step.tokens.iter().enumerate() {
                    let start = *id as usize * cols;
                    let values = &exact[0].values[start..start + cols];
                    let expected: Vec<f32> = values.iter().map(|v| scale * v).collect();
                    let what = format!("embed {format}, token {id}, scale {scale}");
                    assert_same(&what, dst.rows(row..row + 1).values(), &expected);
                }
            }
        }
    }
}
