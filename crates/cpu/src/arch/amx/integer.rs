//! Integer weights times int8 activations in tiles: exact i32 sums of a group, then the scales of the AVX-512 tier.
//!
//! Cost of one group of 16 weight rows, 16 activation rows and one code a number, 16,384 operations, in cycles: the tile
//! product 16 (64 where the unit is throttled), two with two sub-scales; beside it on two vector ports the scales, 3
//! operations a row and so 24 for a scale alone (Q8_0), 40 with a minimum (Q4_1), 48 to 80 with sub-scales; and 16 stores
//! of sums. AVX-512 takes 104 for Q4_1. With two codes a number the unit has twice the products, 32 (128), and a row two
//! operations more for each sum, while scales act once: 56 for Q4_1, of which AVX-512 takes 176. So the scales bound it where
//! the unit runs free, and the unit where it is throttled: half of a tile stays unused, as a group has 32 of the 64 columns
//! that a product can take. Unpacking costs some 36 operations a group for up to 128 rows.
//!
//! Stored codes become signed bytes when unpacked, so no correction for their bias is needed; with two sub-scales the two
//! halves of a group are two products.

use core::arch::x86_64::*;

use super::grouped::{Dots, Steps, Sums, hand_out, products};
use super::unit::{TileConfig, TileShape, Tiles, WHOLE};
use crate::activations::I8Group;
use crate::arch::avx512::integer::{Cursor, Scales, scale_and_add, undone};
use crate::arch::generic;
use crate::arch::shape::{Shape, with_shape};
use crate::table::{CodedCall, TileCall, TileCodes, TileOutput};

/// Register of sums.
const C: u8 = 0;
/// Registers of operands that hold a whole group's 32 columns.
const A: u8 = 1;
const B: u8 = 2;
/// Registers of operands that hold half a group's 16 columns.
const A_HALF: u8 = 3;
const B_LOW: u8 = 4;
const B_HIGH: u8 = 5;

const CONFIG: TileConfig = {
    /// Sixteen activation rows of so many columns.
    const fn a(columns: u16) -> TileShape {
        TileShape {
            rows: 16,
            row_bytes: columns,
        }
    }
    /// Sixteen weight rows, four columns a tile row.
    const fn b(columns: u8) -> TileShape {
        TileShape {
            rows: columns / 4,
            row_bytes: 64,
        }
    }
    TileConfig::new([WHOLE, a(32), b(32), a(16), b(16), b(16), WHOLE, WHOLE])
};

/// A group of one panel, unpacked.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Weights {
    /// `[four columns][weight row][column]`, signed.
    codes: [__m512i; 8],
    scales: Scales,
}

/// Products of all panels with all blocks of `call`.
///
/// # Safety
/// The destination belongs to the calling task.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub unsafe fn linear_i8(call: &TileCall<'_, I8Group>, codes: TileCodes, output: &TileOutput<'_>) {
    let groups = call.block_len / codes.planes;
    assert!(
        call.panel_bytes >= codes.coded.panel_bytes(groups),
        "whole panels"
    );
    // SAFETY: the caller's promise.
    unsafe {
        with_shape!(
            codes.coded,
            S => match (S::SUBS == 2, codes.planes) {
                (false, 1) => linear::<S, 1, 1>(call, codes, output),
                (false, _) => linear::<S, 2, 2>(call, codes, output),
                (true, 1) => linear::<S, 1, 2>(call, codes, output),
                (true, _) => linear::<S, 2, 4>(call, codes, output),
            },
            plain(call, codes, output)
        );
    }
}

/// # Safety
/// As for [`linear_i8`].
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
unsafe fn linear<S: Shape, const PLANES: usize, const PARTS: usize>(
    call: &TileCall<'_, I8Group>,
    codes: TileCodes,
    output: &TileOutput<'_>,
) {
    // SAFETY: the table with this kernel is handed out where tile instructions execute; kernels do not nest.
    let tiles = unsafe { Tiles::configure(&CONFIG) };
    let steps = Steps {
        unpack: |panel: &[u8], group: usize| unpack::<S>(&codes, panel, group),
        issue: |w: &Weights, x: &[I8Group], dots: &mut Dots<PARTS>| {
            issue::<S, PARTS>(&tiles, w, x, dots);
        },
        finish: |acc, w: &Weights, x: &[I8Group], dots: &Dots<PARTS>, row: usize| {
            let halves = whole_dots::<S, PARTS>(dots, x.len(), row);
            scale_and_add::<S>(acc, halves, &w.scales, &x[0], row)
        },
    };
    // SAFETY: the caller's promise.
    unsafe { products::<PLANES, PARTS, _, _, _, _, _>(call, &steps, output) };
}

/// Shapes that no kernel is compiled for.
///
/// # Safety
/// As for [`linear_i8`].
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
unsafe fn plain(call: &TileCall<'_, I8Group>, codes: TileCodes, output: &TileOutput<'_>) {
    for panel in 0..call.num_panels() {
        for block in 0..call.num_blocks() {
            let mut sums = Sums::ZERO;
            let call = CodedCall {
                panel: call.panel(panel),
                coded: codes.coded,
                groups: call.block(block),
                planes: codes.planes,
                rows: sums.0.len(),
                ahead: 0,
            };
            generic::integer::linear_i8(&mut sums.0, &call);
            // SAFETY: the caller's promise.
            unsafe { hand_out(output, panel, block, &sums) };
        }
    }
}

/// Scales and codes of one group.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
fn unpack<S: Shape>(codes: &TileCodes, panel: &[u8], group: usize) -> Weights {
    let coded = &codes.coded;
    let mut scales = Scales::zero();
    let mut header = Cursor::new(&panel[coded.block_offset(group)..][..coded.header_bytes()]);
    header.block_scales::<S>(&mut scales);
    let mut cursor = Cursor::new(&panel[coded.group_offset(group)..][..coded.group_bytes()]);
    cursor.subs::<S>(&mut scales);
    let bias = _mm512_set1_epi8(undone::<S>() as i8);
    Weights {
        codes: cursor
            .codes::<S>()
            .map(|codes| _mm512_sub_epi8(codes, bias)),
        scales,
    }
}

/// Parts of [`Dots`] that a plane has: the halves of a group where they have sub-scales of their own.
const fn parts<S: Shape>() -> usize {
    if S::SUBS == 2 { 2 } else { 1 }
}

/// The dots of one group or of its halves, plane by plane.
#[inline]
#[target_feature(enable = "avx512f")]
fn issue<S: Shape, const PARTS: usize>(
    tiles: &Tiles,
    w: &Weights,
    planes: &[I8Group],
    dots: &mut Dots<PARTS>,
) {
    let weights = w.codes.as_ptr();
    // SAFETY: activations are 16 rows of 32 bytes, weights 8 rows of 64, of which the half shapes take 16 and 4; each part of
    // `dots` is 16 rows of 64 bytes.
    unsafe {
        if S::SUBS == 2 {
            tiles.load::<B_LOW>(weights.cast(), 64);
            tiles.load::<B_HIGH>(weights.add(4).cast(), 64);
        } else {
            tiles.load::<B>(weights.cast(), 64);
        }
        for (plane, x) in planes.iter().enumerate() {
            let codes = x.codes.as_ptr().cast::<u8>();
            if S::SUBS == 2 {
                tiles.zero::<C>();
                tiles.load::<A_HALF>(codes, 32);
                tiles.dot_i8::<C, A_HALF, B_LOW>();
                tiles.store::<C>(dots.part_mut(2 * plane), 64);
                tiles.zero::<C>();
                tiles.load::<A_HALF>(codes.add(16), 32);
                tiles.dot_i8::<C, A_HALF, B_HIGH>();
                tiles.store::<C>(dots.part_mut(2 * plane + 1), 64);
            } else {
                tiles.zero::<C>();
                tiles.load::<A>(codes, 32);
                tiles.dot_i8::<C, A, B>();
                tiles.store::<C>(dots.part_mut(plane), 64);
            }
        }
    }
}

/// A row's dots over all planes: `256 · first + second` where there are two.
#[inline]
#[target_feature(enable = "avx512f")]
fn whole_dots<S: Shape, const PARTS: usize>(
    dots: &Dots<PARTS>,
    planes: usize,
    row: usize,
) -> [__m512i; 2] {
    let mut whole = [_mm512_setzero_si512(); 2];
    for (part, whole) in whole[..parts::<S>()].iter_mut().enumerate() {
        *whole = dots.integers(part, row);
        if planes == 2 {
            let second = dots.integers(parts::<S>() + part, row);
            *whole = _mm512_add_epi32(_mm512_slli_epi32::<8>(*whole), second);
        }
    }
    whole
}
