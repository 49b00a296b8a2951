//! The tile unit of this thread: its configuration and its instructions.
//!
//! The compiler knows nothing of tile registers, so a value lives in them from one statement to the next. Every statement is
//! volatile and may read and write all memory that its pointers reach, so none moves past another or past the memory it uses.

use core::arch::asm;
use core::marker::PhantomData;

/// Rows of a tile, and bytes of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TileShape {
    /// 1 to 16.
    pub rows: u8,
    /// 4 to 64, a multiple of 4.
    pub row_bytes: u16,
}

/// 16 rows of 64 bytes.
pub const WHOLE: TileShape = TileShape {
    rows: 16,
    row_bytes: 64,
};

/// Shapes of the eight tile registers as `ldtilecfg` reads them. Source: Intel SDM volume 1, "Intel AMX: TILECFG".
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct TileConfig {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

const _: () = assert!(size_of::<TileConfig>() == 64);

impl TileConfig {
    /// The eight registers in order.
    pub const fn new(shapes: [TileShape; 8]) -> Self {
        let mut config = Self {
            palette: 1,
            start_row: 0,
            reserved: [0; 14],
            row_bytes: [0; 16],
            rows: [0; 16],
        };
        let mut register = 0;
        while register < shapes.len() {
            config.row_bytes[register] = shapes[register].row_bytes;
            config.rows[register] = shapes[register].rows;
            register += 1;
        }
        config
    }
}

/// One tile statement; all tile registers count as changed.
macro_rules! tile_asm {
    ($($argument:tt)*) => {
        asm!(
            $($argument)*,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack, preserves_flags)
        )
    };
}

/// A configured tile unit; released when dropped, so that a thread that does other things carries no tile state.
///
/// Neither configuration nor products read or change MXCSR. A value belongs to its thread and is neither sent nor shared.
/// Tile registers are named by number; each method's register must have the shape that the call implies.
#[derive(Debug)]
pub struct Tiles(PhantomData<*mut ()>);

impl Tiles {
    /// Configures this thread's unit; all tiles become zero.
    ///
    /// # Safety
    /// Tile instructions execute here: the processor has them and the system lets the process use them (see
    /// [`super::state`]), or an emulator is installed. No other `Tiles` is alive on this thread.
    #[inline(always)]
    pub unsafe fn configure(config: &TileConfig) -> Self {
        // SAFETY: reads the 64 bytes of `config`, all of which are written before, since the statement may read any memory.
        unsafe { tile_asm!("ldtilecfg [{}]", in(reg) &raw const *config) };
        Self(PhantomData)
    }

    /// Fills register `T` from rows that lie `stride` bytes apart.
    ///
    /// # Safety
    /// Every row of the register's shape is readable.
    #[inline(always)]
    pub unsafe fn load<const T: u8>(&self, from: *const u8, stride: usize) {
        // SAFETY: the caller's promise; `self` says that the unit is configured.
        unsafe {
            tile_asm!(
                "tileloadd tmm{t}, [{from} + {stride}*1]",
                t = const T, from = in(reg) from, stride = in(reg) stride
            );
        }
    }

    /// Writes register `T` to rows that lie `stride` bytes apart.
    ///
    /// # Safety
    /// Every row of the register's shape is writable.
    #[inline(always)]
    pub unsafe fn store<const T: u8>(&self, to: *mut u8, stride: usize) {
        // SAFETY: the caller's promise; `self` says that the unit is configured.
        unsafe {
            tile_asm!(
                "tilestored [{to} + {stride}*1], tmm{t}",
                t = const T, to = in(reg) to, stride = in(reg) stride
            );
        }
    }

    /// Makes register `T` zero.
    #[inline(always)]
    pub fn zero<const T: u8>(&self) {
        // SAFETY: the unit is configured; no memory is touched.
        unsafe { tile_asm!("tilezero tmm{t}", t = const T) };
    }

    /// `C += A · B` with signed bytes and i32 sums.
    #[inline(always)]
    pub fn dot_i8<const C: u8, const A: u8, const B: u8>(&self) {
        // SAFETY: the unit is configured; no memory is touched.
        unsafe {
            tile_asm!("tdpbssd tmm{c}, tmm{a}, tmm{b}", c = const C, a = const A, b = const B);
        }
    }

    /// `C += A · B` with signed bytes in `A`, unsigned ones in `B`, and i32 sums.
    #[inline(always)]
    pub fn dot_i8_u8<const C: u8, const A: u8, const B: u8>(&self) {
        // SAFETY: the unit is configured; no memory is touched.
        unsafe {
            tile_asm!("tdpbsud tmm{c}, tmm{a}, tmm{b}", c = const C, a = const A, b = const B);
        }
    }

    /// `C += A · B` with bf16 pairs: `c + (sum of even k + sum of odd k)` in f32.
    #[inline(always)]
    pub fn dot_bf16<const C: u8, const A: u8, const B: u8>(&self) {
        // SAFETY: the unit is configured; no memory is touched.
        unsafe {
            tile_asm!("tdpbf16ps tmm{c}, tmm{a}, tmm{b}", c = const C, a = const A, b = const B);
        }
    }
}

impl Drop for Tiles {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: tile instructions execute here, as `configure` was promised.
        unsafe { tile_asm!("tilerelease") };
    }
}
