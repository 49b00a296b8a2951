//! What tile instructions do, against plain statements of it: on the processor where it has them, else in the emulator that
//! the kernels' tests rely on. That the kernels of the tier have the right bits is for `tiers.rs`, `attention` and the rest.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test stops at the first surprise"
)]

use core::arch::asm;

use ucuz_cpu::{Tier, emulator};
use ucuz_tensor::backend::Limits;
use ucuz_tensor::format::{Activations, OnLoad};
use ucuz_tensor::weight::RawPart;
use ucuz_tensor::{Backend, Format, Tensor, Weight, WeightOptions};

/// A tile as bytes.
type TileBytes = [[u8; 64]; 16];

/// `c += a · b` of one kind, under a configuration of `tmm0` to `tmm2`.
type Product = fn(&[u8; 64], &mut TileBytes, &TileBytes, &TileBytes);

macro_rules! product {
    ($mnemonic:literal) => {
        |config, c, a, b| {
            // SAFETY: `products` calls this only where tile instructions execute; the configuration is 64 bytes, and each tile
            // 16 rows of 64.
            unsafe {
                asm!(
                    "ldtilecfg [{config}]",
                    "tileloadd tmm0, [{c} + {stride}*1]",
                    "tileloadd tmm1, [{a} + {stride}*1]",
                    "tileloaddt1 tmm2, [{b} + {stride}*1]",
                    concat!($mnemonic, " tmm0, tmm1, tmm2"),
                    "tilestored [{c} + {stride}*1], tmm0",
                    "tilerelease",
                    config = in(reg) config,
                    c = in(reg) c.as_mut_ptr(),
                    a = in(reg) a.as_ptr(),
                    b = in(reg) b.as_ptr(),
                    stride = in(reg) 64usize,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _,
                    options(nostack, preserves_flags)
                );
            }
        }
    };
}

/// Whether tile instructions execute here, one way or the other.
fn have_tiles() -> bool {
    let have = emulator::kernels(Tier::Amx).is_some();
    if !have {
        println!("skipped: neither AMX nor AVX-512 on this machine");
    }
    have
}

/// Activation rows, columns in bytes, weight rows of a product.
const SHAPES: [(usize, usize, usize); 5] = [
    (16, 64, 16),
    (16, 32, 16),
    (16, 16, 16),
    (5, 20, 9),
    (1, 4, 1),
];

fn config((rows, depth, cells): (usize, usize, usize)) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[0] = 1;
    let shapes = [(rows, 4 * cells), (rows, depth), (depth / 4, 4 * cells)];
    for (tile, (rows, row_bytes)) in shapes.into_iter().enumerate() {
        bytes[16 + 2 * tile] = row_bytes as u8;
        bytes[48 + tile] = rows as u8;
    }
    bytes
}

struct Noise(u64);

impl Noise {
    fn word(&mut self) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }

    fn tile(&mut self, mut word: impl FnMut(&mut Self) -> u32) -> TileBytes {
        let words: [[u32; 16]; 16] = std::array::from_fn(|_| std::array::from_fn(|_| word(self)));
        bytemuck::cast(words)
    }

    /// A number of magnitude 2^-20 to 2^20, at times a zero, at times a denormal.
    fn bf16(&mut self) -> u32 {
        let word = self.word();
        let exponent = match word % 32 {
            0 | 1 => 0,
            _ => 107 + word / 32 % 40,
        };
        word >> 16 & 0x8000
            | exponent << 7
            | if word.is_multiple_of(32) {
                0
            } else {
                word >> 24 & 0x7f
            }
    }
}

/// Cells of a tile, row by row, in so many rows and columns.
fn cells(tile: &TileBytes, rows: usize, cells: usize) -> Vec<u32> {
    let words: &[[u32; 16]; 16] = bytemuck::cast_ref(tile);
    let rows = words[..rows].iter();
    rows.flat_map(|row| row[..cells].iter().copied()).collect()
}

/// The product of one cell by `add(sum, pair or quad of a, pair or quad of b)`.
fn expected(
    (rows, depth, cells): (usize, usize, usize),
    tiles: [&TileBytes; 3],
    cell: impl Fn(u32, &[([u8; 4], [u8; 4])]) -> u32,
) -> Vec<u32> {
    let [c, a, b] = tiles;
    let word = |tile: &TileBytes, row: usize, word: usize| {
        *tile[row].as_chunks::<4>().0[word..].first().unwrap()
    };
    let mut all = Vec::new();
    for m in 0..rows {
        for n in 0..cells {
            let pairs: Vec<_> = (0..depth / 4)
                .map(|k| (word(a, m, k), word(b, k, n)))
                .collect();
            all.push(cell(u32::from_le_bytes(word(c, m, n)), &pairs));
        }
    }
    all
}

#[test]
fn byte_products_are_exact_integer_dots() {
    if !have_tiles() {
        return;
    }
    let signed = |byte: u8| i64::from(byte as i8);
    let unsigned = |byte: u8| i64::from(byte);
    type Value = fn(u8) -> i64;
    let kinds: [(Product, Value, Value); 4] = [
        (product!("tdpbssd"), signed, signed),
        (product!("tdpbsud"), signed, unsigned),
        (product!("tdpbusd"), unsigned, signed),
        (product!("tdpbuud"), unsigned, unsigned),
    ];
    let mut noise = Noise(1);
    for shape in SHAPES {
        for (kind, (product, of_a, of_b)) in kinds.into_iter().enumerate() {
            let [mut c, a, b] = [0; 3].map(|_| noise.tile(Noise::word));
            let sums = expected(shape, [&c, &a, &b], |c, pairs| {
                let dot: i64 = pairs
                    .iter()
                    .flat_map(|(a, b)| a.iter().zip(b))
                    .map(|(a, b)| of_a(*a) * of_b(*b))
                    .sum();
                c.wrapping_add(dot as u32)
            });
            product(&config(shape), &mut c, &a, &b);
            assert_eq!(cells(&c, shape.0, shape.2), sums, "{shape:?}, kind {kind}");
        }
    }
}

fn flush(x: f32) -> f32 {
    if x.is_subnormal() { 0.0 } else { x }
}

/// `c + (even + odd)`; denormal operands and results are zeros.
fn bf16_cell(c: u32, pairs: &[([u8; 4], [u8; 4])]) -> u32 {
    let value = |bytes: &[u8; 4], side: usize| {
        let bits = u16::from_le_bytes([bytes[2 * side], bytes[2 * side + 1]]);
        flush(f32::from_bits(u32::from(bits) << 16))
    };
    let side = |side: usize| {
        pairs.iter().fold(0.0, |sum, (a, b)| {
            flush(sum + value(a, side) * value(b, side))
        })
    };
    flush(flush(f32::from_bits(c)) + flush(side(0) + side(1))).to_bits()
}

#[test]
fn bf16_products_keep_even_and_odd_sums_apart() {
    if !have_tiles() {
        return;
    }
    let product: Product = product!("tdpbf16ps");
    let mut noise = Noise(2);
    for shape in SHAPES {
        for _ in 0..20 {
            let pair = |noise: &mut Noise| noise.bf16() | noise.bf16() << 16;
            let [a, b] = [0; 2].map(|_| noise.tile(pair));
            let mut c = noise.tile(|noise| noise.bf16() << 16 | noise.word() >> 16);
            let sums = expected(shape, [&c, &a, &b], bf16_cell);
            product(&config(shape), &mut c, &a, &b);
            let value =
                |bits: Vec<u32>| -> Vec<f32> { bits.into_iter().map(f32::from_bits).collect() };
            assert_eq!(value(cells(&c, shape.0, shape.2)), value(sums), "{shape:?}");
        }
    }
}

#[test]
fn the_order_that_detection_asks_for_is_this_one() {
    if have_tiles() {
        assert!(emulator::adds_in_canonical_order());
    }
}

/// Tile instructions that products of `rows` rows took, on one thread; `None` where they are not counted.
fn instructions(format: Format, rows: usize) -> Option<u64> {
    let backend = emulator::backend(Tier::Amx, 1)?;
    let cols = 64;
    let raw = RawPart {
        name: format.to_string(),
        format,
        rows: 16,
        cols,
        bytes: &vec![0; 16 * format.row_bytes(cols).unwrap()],
        bias: None,
    };
    let options = WeightOptions {
        activations: Activations::Int8Pair,
        on_load: OnLoad::AsStored,
    };
    let w = Weight::load(&backend, "w", &[raw], options).unwrap();
    let limits = Limits {
        step_rows: rows,
        sequences: 1,
        logit_rows: 1,
        context: 64,
        cols_max: cols,
        vocab: 8,
    };
    let mut queue = backend.queue(&limits).unwrap();
    let x = Tensor::zeroed(rows, cols, "x").unwrap();
    let mut dst = Tensor::zeroed(rows, 16, "dst").unwrap();
    let before = emulator::instructions_of_this_thread()?;
    queue.linear(dst.view_mut(), x.view(), &w).unwrap();
    Some(emulator::instructions_of_this_thread()? - before)
}

/// Configure and release, and per product: zero or not, two loads, dot, store.
#[test]
fn tiles_compute_products_of_enough_rows_and_no_others() {
    let groups = 2;
    // Four-bit weights meet both digits of a group in one product; wider ones are loaded once for both. A block that is not
    // whole is left to vectors.
    let codes = |of_block: u64| [(16, 0), (23, 0), (24, 2 + of_block), (32, 2 + 2 * of_block)];
    let floats = |of_block: u64| [(1, 0), (7, 0), (8, of_block), (16, of_block)];
    for (format, counts) in [
        (Format::Q4_1, codes(groups * 5)),
        (Format::Q8_0, codes(groups * (1 + 2 * 4))),
        (Format::IQ4_NL, floats(2 + groups * 5)),
        // Four registers of sums are cleared and stored whatever the shape.
        (Format::BF16, floats(2 + 4 + groups * 3 + 4)),
        // The same with one span of 64 columns.
        (Format::Int8Row, floats(2 + 4 + 3 + 4)),
        (Format::F32, floats(0)),
    ] {
        for (rows, expected) in counts {
            match instructions(format, rows) {
                Some(count) => assert_eq!(count, expected, "{format}, {rows} rows"),
                None => println!("skipped: instructions are counted in the emulator alone"),
            }
        }
    }
}

#[test]
fn ceiling_loops_execute_the_products_they_are_counted_as() {
    let Some(kernels) = emulator::kernels(Tier::Amx).filter(|_| have_tiles()) else {
        return;
    };
    let count = |run: fn(usize), rounds: usize| {
        let before = emulator::instructions_of_this_thread()?;
        run(rounds);
        Some(emulator::instructions_of_this_thread()? - before)
    };
    for (work, depth) in [(kernels.ceiling.int8, 64), (kernels.ceiling.bf16, 32)] {
        match (count(work.run, 1), count(work.run, 4)) {
            (Some(one), Some(four)) => {
                let products = (four - one) as usize / 3;
                assert_eq!(work.operations, products * 2 * 16 * 16 * depth);
            }
            _ => println!("skipped: instructions are counted in the emulator alone"),
        }
    }
}
