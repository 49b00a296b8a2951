//! Tile products that touch no memory: what the unit is measured with.

use super::unit::{TileConfig, Tiles, WHOLE};

/// Independent sums: a product is done after some 52 cycles, and one begins every 16.
const CHAINS: usize = 6;
/// Operations of one [`int8`] round.
pub const INT8_OPERATIONS: usize = CHAINS * 16 * 16 * 64 * 2;
/// Operations of one [`bf16`] round.
pub const BF16_OPERATIONS: usize = CHAINS * 16 * 16 * 32 * 2;

const CONFIG: TileConfig = TileConfig::new([WHOLE; 8]);
/// Registers of operands; those before them are sums.
const A: u8 = 6;
const B: u8 = 7;
/// Small bytes, and small bf16 numbers alike.
const OPERAND: [[u8; 64]; 16] = [[0x3d; 64]; 16];

/// A configured unit with zero sums and both operands loaded.
#[inline]
#[target_feature(enable = "avx512f")]
fn loaded() -> Tiles {
    // SAFETY: the table with this loop is handed out where tile instructions execute; kernels do not nest. The operand is 16
    // rows of 64 bytes.
    unsafe {
        let tiles = Tiles::configure(&CONFIG);
        tiles.load::<A>(OPERAND.as_ptr().cast(), 64);
        tiles.load::<B>(OPERAND.as_ptr().cast(), 64);
        tiles
    }
}

/// `tdpbsud`: 16,384 products of bytes added up in 32 bits.
#[target_feature(enable = "avx512f")]
pub fn int8(rounds: usize) {
    let tiles = loaded();
    for _ in 0..rounds {
        tiles.dot_i8_u8::<0, A, B>();
        tiles.dot_i8_u8::<1, A, B>();
        tiles.dot_i8_u8::<2, A, B>();
        tiles.dot_i8_u8::<3, A, B>();
        tiles.dot_i8_u8::<4, A, B>();
        tiles.dot_i8_u8::<5, A, B>();
    }
}

/// `tdpbf16ps`: 8,192 products of bf16 numbers added up in f32.
#[target_feature(enable = "avx512f")]
pub fn bf16(rounds: usize) {
    let tiles = loaded();
    for _ in 0..rounds {
        tiles.dot_bf16::<0, A, B>();
        tiles.dot_bf16::<1, A, B>();
        tiles.dot_bf16::<2, A, B>();
        tiles.dot_bf16::<3, A, B>();
        tiles.dot_bf16::<4, A, B>();
        tiles.dot_bf16::<5, A, B>();
    }
}
