//! The bytes of prepared weights are those that their version names, so files on disk are never read in another layout.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use ucuz_cpu::{CpuBackend, CpuOptions, Tier};
use ucuz_tensor::format::{Coding, FORMATS};
use ucuz_tensor::layout::{LAYOUT_VERSION, PanelLayout};
use ucuz_tensor::{Backend, Format};

const ROWS: usize = 37;
const COLS: usize = 512;

/// A hash of what `repack` makes of fixed rows of each format. Where one changes, raise `LAYOUT_VERSION` and put the printed
/// table here.
const VERSION: u32 = 1;
const HASHES: &[(&str, u64)] = &[
    ("F32", 0x75cd3c1f38e97e9e),
    ("F16", 0x655e52fb683ac8f0),
    ("BF16", 0x1c57602d208155ea),
    ("Q4_0", 0xc723fa4631b990fd),
    ("Q4_1", 0x7bb7a30b0ee5eaaf),
    ("Q5_0", 0x9ad8075cc7d38eb3),
    ("Q5_1", 0x2c12a0e3a6611663),
    ("Q8_0", 0xd68b98457c95f6cb),
    ("Q2_K", 0x840221f55f963e3a),
    ("Q3_K", 0x72bada8190b9c6cc),
    ("Q4_K", 0xea4f273de09f57ca),
    ("Q5_K", 0x7496315021605fab),
    ("Q6_K", 0x55f58fbf4a86df5b),
    ("IQ4_NL", 0x6c8a37237bd422dd),
    ("IQ4_XS", 0xdc4cb1e6a6015284),
    ("MXFP4", 0x8c40f450f6fef41f),
    ("INT8_ROW", 0xfd070a3da17c2dbf),
];

/// Fixed bytes; those of floats are finite, so that no format depends on what a NaN becomes.
fn stored(format: Format) -> Vec<u8> {
    let mut state = 1u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    let bytes = ROWS * format.row_bytes(COLS).unwrap();
    // Exponents of f16, bf16 and f32 stay below their largest.
    (0..bytes).map(|_| next() & 0xfb).collect()
}

/// FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn repacked(backend: &CpuBackend, from: Format, to: Format) -> Vec<u8> {
    let layout = PanelLayout::converted(from, to, ROWS, COLS).unwrap();
    let mut data = vec![0; backend.layout_bytes(&layout).unwrap()];
    backend
        .repack(&mut data, &layout, &stored(from), 0..ROWS)
        .unwrap();
    data
}

#[test]
fn layouts_are_those_of_their_version() {
    let backend = CpuBackend::new(CpuOptions::quiet(Tier::Generic, 1)).unwrap();
    let hashes: Vec<(&str, u64)> = FORMATS
        .iter()
        .map(|row| {
            // Rows of this kind come from no file: they are converted.
            let from = match row.coding {
                Coding::RowScaled => Format::Q8_0,
                _ => row.format,
            };
            (row.name, hash(&repacked(&backend, from, row.format)))
        })
        .collect();
    for (name, hash) in &hashes {
        println!("    (\"{name}\", {hash:#018x}),");
    }
    assert_eq!(
        (VERSION, HASHES),
        (LAYOUT_VERSION, &hashes[..]),
        "the layout changed: raise LAYOUT_VERSION and put the table above here"
    );
}

#[test]
fn rows_in_pieces_are_the_rows_together() {
    let backend = CpuBackend::new(CpuOptions::quiet(Tier::Generic, 1)).unwrap();
    for row in FORMATS.iter().filter(|row| row.gguf_id.is_some()) {
        let whole = repacked(&backend, row.format, row.format);
        let layout = PanelLayout::new(row.format, ROWS, COLS).unwrap();
        let (row_bytes, stored) = (row.format.row_bytes(COLS).unwrap(), stored(row.format));
        let mut pieces = Vec::new();
        for rows in [0..16, 16..32, 32..ROWS] {
            let piece = layout.with_rows(rows.len());
            let source = &stored[rows.start * row_bytes..rows.end * row_bytes];
            let mut data = vec![0; backend.layout_bytes(&piece).unwrap()];
            backend
                .repack(&mut data, &piece, source, 0..rows.len())
                .unwrap();
            pieces.extend(data);
        }
        assert!(pieces == whole, "{}", row.name);
    }
}
