//! The AMX tier: tiles for many rows, everything else as the AVX-512 tier has it. Needs AVX-512, AMX-TILE, AMX-INT8, AMX-BF16.
//!
//! A tile register holds up to 16 rows of 64 bytes. One instruction multiplies an activation tile `[16 rows][K]` with a weight
//! tile `[K / 2 or K / 4][16 weight rows][2 or 4]`, which is what panels, key blocks and value blocks are made of, and adds
//! to `[16 rows][16 weight rows]`. With fewer than [`ROWS_MIN`] rows the AVX-512 kernels serve: their bits are the same.
//!
//! Figures in the headers are counted from published ones unless they say that they were measured. Where the processor has no
//! tiles, tests execute each tile instruction in software (the crate's `emulator`), which proves the arithmetic and no speed.

pub mod attention;
pub mod attention_int8;
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
/// The same for integer codes, whose sums leave the unit once a group, of one and of two digits. Measured on Sapphire and Emerald
/// Rapids, tokens a second of a small model with vectors and with tiles: one digit, 32 rows 820-1160, 840-960, 64 rows 820-1240,
/// 1090-1140; two, 16 rows 660-700, 610-740, 32 rows 570-620, 770-1000; with a few hundred rows tiles have 1.4 times the speed.
pub const CODED_ROWS_MIN: [usize; 2] = [64, 24];
