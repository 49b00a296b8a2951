//! Decoders and encoders against the bytes and values of gguf-py, bit for bit.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests; a failure is a failed test"
)]

use std::path::Path;

use serde_json::Value;
use ucuz_tensor::format::{CodebookScale, Coding, FORMATS, Format, GROUP};
use ucuz_tensor::layout::PanelLayout;
use ucuz_tensor::quant::{self, Group, mxfp4};

fn bytes_of(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap())
        .collect()
}

/// Eight hex digits a number, most significant first.
fn bits_of(hex: &str) -> Vec<u32> {
    (0..hex.len())
        .step_by(8)
        .map(|i| u32::from_str_radix(&hex[i..i + 8], 16).unwrap())
        .collect()
}

fn decode(format: Format, stored: &[u8]) -> Vec<f32> {
    let info = format.info();
    let mut out = vec![0.0; stored.len() / info.block_bytes * info.block_elements];
    quant::decode_row(format, stored, &mut out);
    out
}

fn encode(format: Format, row: &[f32]) -> Vec<u8> {
    let mut out = vec![0; format.row_bytes(row.len()).unwrap()];
    match format {
        Format::Q8_0 => quant::encode_q8_0(row, &mut out),
        Format::Q4_0 => quant::encode_q4_0(row, &mut out),
        _ => unreachable!("no encoder for {format}"),
    }
    out
}

fn golden(format: Format) -> Value {
    let name = format!("{}.json", format.to_string().to_lowercase());
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/golden/formats")
        .join(name);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn quantised() -> impl Iterator<Item = Format> {
    FORMATS
        .iter()
        .filter(|row| row.unpack.is_some())
        .map(|row| row.format)
}

#[test]
fn every_quantised_format_decodes_as_gguf_py() {
    for format in quantised() {
        let golden = golden(format);
        assert_eq!(
            golden["ggml_type"].as_u64(),
            format.info().gguf_id.map(u64::from),
            "{format}"
        );
        assert_eq!(golden["block_bytes"], format.info().block_bytes, "{format}");
        let blocks = golden["decode"].as_array().unwrap();
        let mut row = Vec::new();
        let mut expected = Vec::new();
        for block in blocks {
            row.extend(bytes_of(block["bytes"].as_str().unwrap()));
            expected.extend(bits_of(block["values"].as_str().unwrap()));
        }
        let got: Vec<u32> = decode(format, &row).iter().map(|v| v.to_bits()).collect();
        assert_eq!(got, expected, "{format}");
    }
}

#[test]
fn encoders_write_the_bytes_of_gguf_py() {
    for format in [Format::Q4_0, Format::Q8_0] {
        for case in golden(format)["encode"].as_array().unwrap() {
            let values = bits_of(case["values"].as_str().unwrap());
            let row: Vec<f32> = values.into_iter().map(f32::from_bits).collect();
            let expected = bytes_of(case["bytes"].as_str().unwrap());
            assert_eq!(encode(format, &row), expected, "{format} {}", case["name"]);
        }
    }
}

/// `x[i] = (((i · 37) mod 101) - 50) / 16`, its encoded block and the largest error of decoding it.
#[test]
fn known_blocks_decode_within_their_error() {
    let x: Vec<f32> = (0..32)
        .map(|i| ((i * 37 % 101) as f32 - 50.0) / 16.0)
        .collect();
    let cases = [
        (
            Format::Q8_0,
            "4d2681df3d9af856b41270cd2b89e745a2005ebb1977d53390ee4caa0866c3217fdc",
            0.01105,
        ),
        (
            Format::Q4_0,
            "4036e046acf258bd1379df358be046acf268",
            0.39063,
        ),
        (
            Format::Q4_1,
            "ab3640c2d0369bf257bd1369ce258ae0469cf258",
            0.20947,
        ),
        (
            Format::Q5_0,
            "4032a4a52d6dc07c38f3bf6b26e2ae5a15d18d49f4c0",
            0.19531,
        ),
        (
            Format::Q5_1,
            "743240c2a4a52d6db07b37e3af6a26d29d5905c18c48f4b0",
            0.10156,
        ),
        (Format::MXFP4, "7e6fdb257ec946fea267ec146fda357eb0", 0.5),
    ];
    for (format, block, error_max) in cases {
        let block = bytes_of(block);
        let error = x
            .iter()
            .zip(decode(format, &block))
            .map(|(x, y)| (x - y).abs())
            .fold(0.0, f32::max);
        assert!((error - error_max).abs() < 5.1e-6, "{format}: {error}");
        if matches!(format, Format::Q8_0 | Format::Q4_0) {
            assert_eq!(encode(format, &x), block, "{format}");
        }
    }
}

#[test]
fn known_super_blocks_decode_to_their_values() {
    let fill = |n: usize| (0..n).map(|k| (29 * k + 7) as u8).collect::<Vec<_>>();
    let f16 = |v: f32| half::f16::from_f32(v).to_le_bytes();
    let mut q4_k = fill(144);
    q4_k[..2].copy_from_slice(&f16(0.01));
    q4_k[2..4].copy_from_slice(&f16(0.02));
    let mut q6_k = fill(210);
    q6_k[208..].copy_from_slice(&f16(0.01));
    type Case = (Format, Vec<u8>, &'static [(usize, [f32; 4])], f64);
    let first: [Case; 2] = [
        (
            Format::Q4_K,
            q4_k,
            &[
                (0, [3.1906815, 1.4203033, -0.35007477, 7.3215637]),
                (32, [2.8806152, 3.3607178, 0.0, 0.24005127]),
                (128, [0.2500534, -0.32006836, -0.8901901, 1.5803375]),
                (252, [7.5816193, -0.54011536, 0.04000854, 1.2002563]),
            ],
            609.1701049804688,
        ),
        (
            Format::Q6_K,
            q6_k,
            &[
                (0, [-13.112801, 15.963409, 8.5518265, -7.9817047]),
                (128, [-18.63398, 22.684845, 12.1525955, -11.3424225]),
                (252, [-18.30391, -15.863388, 4.8810425, 7.3215637]),
            ],
            -14.843170166015625,
        ),
    ];
    for (format, block, places, sum) in first {
        let values = decode(format, &block);
        for (start, expected) in places {
            for (got, expected) in values[*start..].iter().zip(expected) {
                // The expected values are printed with seven digits or more.
                let near = (got - expected).abs() <= expected.abs() * 2e-7;
                assert!(near, "{format} at {start}: {got} for {expected}");
            }
        }
        assert_eq!(
            values.iter().map(|v| f64::from(*v)).sum::<f64>(),
            sum,
            "{format}"
        );
    }
}

#[test]
fn floats_decode_to_themselves() {
    let values = [0.0f32, -0.0, 1.5, -3.25, 65504.0, f32::INFINITY];
    let f32s: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let f16s: Vec<u8> = values
        .iter()
        .flat_map(|v| half::f16::from_f32(*v).to_le_bytes())
        .collect();
    let bf16s: Vec<u8> = values
        .iter()
        .flat_map(|v| half::bf16::from_f32(*v).to_le_bytes())
        .collect();
    assert_eq!(decode(Format::F32, &f32s), values);
    assert_eq!(decode(Format::F16, &f16s), values);
    // 65504 needs 11 bits; bf16 rounds it to 65536.
    assert_eq!(decode(Format::BF16, &bf16s)[..4], values[..4]);
    assert_eq!(decode(Format::BF16, &bf16s)[4], 65536.0);
}

/// Seeded bytes: xorshift64*.
fn noise(seed: u64) -> impl FnMut() -> u8 {
    let mut state = seed;
    move || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 56) as u8
    }
}

#[test]
fn any_bytes_decode_to_codes_within_their_coding() {
    for format in quantised() {
        let info = format.info();
        let (low, high) = match info.coding {
            Coding::Integer { bits, signed, .. } => {
                let half = 1 << (bits - 1);
                if signed {
                    (-half, half - 1)
                } else {
                    (0, 2 * half - 1)
                }
            }
            _ => (-128, 127),
        };
        let mut byte = noise(format as u64 + 1);
        let mut groups = vec![Group::ZERO; info.block_elements / GROUP];
        for round in 0..2000 {
            let block: Vec<u8> = match round {
                0 => vec![0; info.block_bytes],
                1 => vec![255; info.block_bytes],
                _ => (0..info.block_bytes).map(|_| byte()).collect(),
            };
            info.unpack.unwrap()(&block, &mut groups);
            let codes = groups.iter().flat_map(|g| g.codes);
            assert!(
                codes.clone().all(|c| (low..=high).contains(&i32::from(c))),
                "{format}"
            );
            if let Coding::Codebook { levels, .. } = info.coding {
                assert!(codes.clone().all(|c| levels.contains(&c)), "{format}");
            }
            decode(format, &block);
        }
    }
}

#[test]
fn groups_say_only_what_their_coding_declares() {
    for format in quantised() {
        let info = format.info();
        let (sub_scales, minimum, shared) = match info.coding {
            Coding::Integer {
                sub_scales,
                minimum,
                groups_per_scale,
                ..
            } => (sub_scales, minimum, usize::from(groups_per_scale)),
            Coding::Codebook {
                scale: CodebookScale::F16Sub,
                ..
            } => (1, false, 8),
            _ => (0, false, 1),
        };
        let mut byte = noise(77);
        let block: Vec<u8> = (0..info.block_bytes).map(|_| byte() & 0x7b).collect();
        let mut groups = vec![Group::ZERO; info.block_elements / GROUP];
        info.unpack.unwrap()(&block, &mut groups);
        for group in &groups {
            assert!(sub_scales > 0 || group.sub_scales == [1, 1], "{format}");
            assert!(
                sub_scales != 1 || group.sub_scales[0] == group.sub_scales[1],
                "{format}"
            );
            assert!(minimum || group.m == 0.0, "{format}");
        }
        for block in groups.chunks(shared) {
            assert!(
                block.iter().all(|g| g.d == block[0].d && g.m == block[0].m),
                "{format}"
            );
        }
    }
}

#[test]
fn any_floats_encode_without_a_panic() {
    let mut byte = noise(5);
    for _ in 0..5000 {
        let row: Vec<f32> = (0..32)
            .map(|_| f32::from_le_bytes([byte(), byte(), byte(), byte()]))
            .collect();
        for format in [Format::Q8_0, Format::Q4_0] {
            encode(format, &row);
        }
    }
}

#[test]
fn compute_layouts_take_at_most_a_twentieth_more_than_the_file() {
    for format in FORMATS.iter().map(|info| info.format) {
        let layout = PanelLayout::new(format, 48, 1536).unwrap();
        let stored = 48 * format.row_bytes(1536).unwrap();
        let resident = layout.checked_bytes().unwrap();
        assert!(
            resident * 20 <= stored * 21,
            "{format}: {resident} bytes of {stored}"
        );
    }
}

#[test]
fn exponents_of_mxfp4_go_there_and_back() {
    for e in 0..=255 {
        assert_eq!(mxfp4::exponent(mxfp4::half_scale(e)), e);
    }
}
