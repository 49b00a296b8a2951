//! The AMX tier: tiles for many rows, everything else as the AVX-512 tier has it. Needs AVX-512, AMX-TILE, AMX-INT8, AMX-BF16.
//!
//! A tile register holds up to 16 rows of 64 bytes. One instruction multiplies an activation tile `[16 rows][K]` with a weight
//! tile `[K / 2 or K / 4][16 weight rows][2 or 4]`, which is what panels, key blocks and value blocks are made of, and adds
//! to `[16 rows][16 weight rows]`. With fewer than [`ROWS_MIN`] rows the AVX-512 kernels serve: their bits are the same.
//!
//! No machine with AMX was at hand: the figures in the headers are counted from published ones, and the bits are checked by
//! executing each tile instruction in software (the crate's `emulator`), which proves the arithmetic and no speed.

pub mod attention;
pub mod ceiling;
pub mod codebook;
pub mod float;
mod grouped;
pub mod integer;
mod long;
mod output;
pub mod portable;
pub mod row_scaled;
pub mod state;
pub(crate) mod unit;

/// Fewest activation rows for which tiles are used: a tile product takes the time of 16 rows, a vector product that of its own.
pub const ROWS_MIN: usize = 8;
