//! Integer weights times integer codes in tiles: exact i32 sums of a group, then the scales of the AVX-512 tier.
//!
//! Codes of two digits and weights of up to four bits meet in one product of all 64 columns of a tile: an activation row is its
//! 32 first digits and its 32 second ones, and below the weights times 16, which still fit a byte, are the weights themselves.
//! Wider weights take a product for each digit, of half a tile; with two sub-scales, products for each half of a group.
//! What leaves the unit once a group is the bound, see `grouped.rs`: 16 stores, and beside them 16 rows of one conversion
//! and one multiply-addition, two with a minimum; AVX-512 takes 16 more for each row. Unpacking costs some 40 operations a group
//! for up to 128 rows.
//!
//! Stored codes become signed bytes when unpacked, or stay unsigned where they have no bias, so no correction is needed.

use core::arch::x86_64::*;

use super::grouped::{CHUNK_GROUPS, Dots, NoEnd, Steps, Sums, hand_out, products};
use super::unit::{TileConfig, TileShape, Tiles, WHOLE};
use ucuz_tensor::format::GROUP;
use ucuz_tensor::layout::CodedPanel;

use crate::activations::Codes;
use crate::arch::avx512::integer::{Cursor, Scales, add_dots, undone};
use crate::arch::generic;
use crate::arch::shape::{Shape, with_shape};
use crate::table::{CodedCall, TileCall, TileOutput};

/// Register of sums.
const C: u8 = 0;
/// Registers of operands that hold a whole group's 32 columns.
const A: u8 = 1;
const B: u8 = 2;
/// Registers of operands that hold half a group's 16 columns.
const A_HALF: u8 = 3;
const B_LOW: u8 = 4;
const B_HIGH: u8 = 5;
/// Registers of operands that hold both digits of a group.
const A_BOTH: u8 = 6;
const B_BOTH: u8 = 7;

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
struct Weights<const V: usize> {
    /// `[four columns][weight row][column]`; tiles that meet both digits come one after the other.
    codes: [__m512i; V],
    scales: Scales,
}

/// Whether one product meets both digits: weights times 16 fit a byte.
const fn joined<S: Shape, X: Codes>() -> bool {
    X::DIGITS == 2 && S::BITS <= 4
}

/// Halves of a group that have their own sums.
const fn halves<S: Shape>() -> usize {
    if S::SUBS == 2 { 2 } else { 1 }
}

/// Products of all panels with all blocks of `call`.
///
/// # Safety
/// The destination belongs to the calling task.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub unsafe fn linear<X: Codes>(
    call: &TileCall<'_, X>,
    coded: &CodedPanel,
    output: &TileOutput<'_>,
) {
    assert!(
        call.panel_bytes >= coded.panel_bytes(call.block_len),
        "whole panels"
    );
    // SAFETY: the caller's promise.
    unsafe {
        with_shape!(
            coded,
            S => match (joined::<S, X>(), halves::<S>(), X::DIGITS) {
                (true, 1, _) => shaped::<S, X, 1, 16>(call, coded, output),
                (true, _, _) => shaped::<S, X, 2, 32>(call, coded, output),
                (false, 1, 1) => shaped::<S, X, 1, 8>(call, coded, output),
                (false, 1, _) | (false, _, 1) => shaped::<S, X, 2, 8>(call, coded, output),
                (false, _, _) => shaped::<S, X, 4, 8>(call, coded, output),
            },
            plain(call, coded, output)
        );
    }
}

/// # Safety
/// As for [`linear`].
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
unsafe fn shaped<S: Shape, X: Codes, const PARTS: usize, const V: usize>(
    call: &TileCall<'_, X>,
    coded: &CodedPanel,
    output: &TileOutput<'_>,
) {
    const {
        assert!(
            X::SEGMENT == 1 || X::SEGMENT == CHUNK_GROUPS,
            "a chunk is a segment"
        )
    };
    // SAFETY: the table with this kernel is handed out where tile instructions execute; kernels do not nest.
    let tiles = unsafe { Tiles::configure(&CONFIG) };
    let unpack = |panel: &[u8], group: usize| unpack::<S, V>(coded, panel, group);
    let issue = |w: &Weights<V>, x: &X, dots: &mut Dots<PARTS>| match joined::<S, X>() {
        true => issue_joined::<S, X, PARTS, V>(&tiles, w, x, dots),
        false => issue_digits::<S, X, PARTS, V>(&tiles, w, x, dots),
    };
    let add = |acc, w: &Weights<V>, x: &X, dots: &Dots<PARTS>, row: usize| {
        add_dots::<S>(
            acc,
            whole_dots::<S, X, PARTS>(dots, row),
            &w.scales,
            x.about(),
            row,
        )
    };
    let scaled = |acc, sum, x: &X, row: usize| {
        _mm512_fmadd_ps(sum, _mm512_set1_ps(x.about().scales[row]), acc)
    };
    // SAFETY: the caller's promise.
    unsafe {
        if X::SEGMENT == 1 {
            let finish = |acc, w: &Weights<V>, x: &X, dots: &Dots<PARTS>, row: usize| {
                scaled(acc, add(_mm512_setzero_ps(), w, x, dots, row), x, row)
            };
            let end = None::<NoEnd<X>>;
            let steps = Steps {
                unpack,
                issue,
                finish,
                end,
            };
            products(call, &steps, output);
        } else {
            let end = Some(scaled);
            let steps = Steps {
                unpack,
                issue,
                finish: add,
                end,
            };
            products(call, &steps, output);
        }
    }
}

/// Shapes that no kernel is compiled for.
///
/// # Safety
/// As for [`linear`].
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
unsafe fn plain<X: Codes>(call: &TileCall<'_, X>, coded: &CodedPanel, output: &TileOutput<'_>) {
    for panel in 0..call.num_panels() {
        for block in 0..call.num_blocks() {
            let mut sums = Sums::ZERO;
            let call = CodedCall {
                panel: call.panel(panel),
                coded: *coded,
                groups: call.block(block),
                rows: sums.0.len(),
                ahead: 0,
            };
            generic::integer::linear(&mut sums.0, &call);
            // SAFETY: the caller's promise.
            unsafe { hand_out(output, panel, block, &sums) };
        }
    }
}

/// Scales and codes of one group: one tile of `V` = 8 vectors, two of 16 for both digits and for each half, or one of 16.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
fn unpack<S: Shape, const V: usize>(coded: &CodedPanel, panel: &[u8], group: usize) -> Weights<V> {
    let mut scales = Scales::zero();
    let mut header = Cursor::new(&panel[coded.block_offset(group)..][..coded.header_bytes()]);
    header.block_scales::<S>(&mut scales);
    let mut cursor = Cursor::new(&panel[coded.group_offset(group)..][..coded.group_bytes()]);
    cursor.subs::<S>(&mut scales);
    let bias = _mm512_set1_epi8(undone::<S>() as i8);
    let quads = cursor
        .codes::<S>()
        .map(|codes| _mm512_sub_epi8(codes, bias));
    let mut codes = [_mm512_setzero_si512(); V];
    if V == 8 {
        codes.copy_from_slice(&quads);
    } else {
        let upper = _mm512_set1_epi8(0xf0_u8 as i8);
        let times_16 = quads.map(|quad| _mm512_and_si512(_mm512_slli_epi16::<4>(quad), upper));
        for (index, (quad, times_16)) in quads.into_iter().zip(times_16).enumerate() {
            // With halves, the columns of the other one meet zeros.
            let tile = if V == 32 { index / 4 * 16 } else { 0 };
            codes[tile + index] = times_16;
            codes[tile + 8 + index] = quad;
        }
    }
    Weights { codes, scales }
}

/// `C += A · B`, weights unsigned where they have no bias.
#[inline(always)]
fn dot<S: Shape, const A: u8, const B: u8>(tiles: &Tiles) {
    if S::BIAS == 0 {
        tiles.dot_i8_u8::<C, A, B>();
    } else {
        tiles.dot_i8::<C, A, B>();
    }
}

/// The dots of one group or of its halves, both digits at once.
#[inline]
#[target_feature(enable = "avx512f")]
fn issue_joined<S: Shape, X: Codes, const PARTS: usize, const V: usize>(
    tiles: &Tiles,
    w: &Weights<V>,
    x: &X,
    dots: &mut Dots<PARTS>,
) {
    // SAFETY: activations are 16 rows of 64 bytes, a digit after the other, as each weight tile is; each part of `dots` is 16
    // rows of 64 bytes.
    unsafe {
        tiles.load::<A_BOTH>(x.all_digits().as_ptr(), 64);
        for half in 0..halves::<S>() {
            tiles.zero::<C>();
            tiles.load::<B_BOTH>(w.codes.as_ptr().add(16 * half).cast(), 64);
            dot::<S, A_BOTH, B_BOTH>(tiles);
            tiles.store::<C>(dots.part_mut(half), 64);
        }
    }
}

/// The dots of one group or of its halves, digit by digit.
#[inline]
#[target_feature(enable = "avx512f")]
fn issue_digits<S: Shape, X: Codes, const PARTS: usize, const V: usize>(
    tiles: &Tiles,
    w: &Weights<V>,
    x: &X,
    dots: &mut Dots<PARTS>,
) {
    let weights = w.codes.as_ptr();
    let stride = X::DIGITS * GROUP;
    // SAFETY: activations are 16 rows of a digit after the other, 32 bytes each, weights 8 rows of 64, of which the half
    // shapes take 16 and 4; each part of `dots` is 16 rows of 64 bytes.
    unsafe {
        if S::SUBS == 2 {
            tiles.load::<B_LOW>(weights.cast(), 64);
            tiles.load::<B_HIGH>(weights.add(4).cast(), 64);
        } else {
            tiles.load::<B>(weights.cast(), 64);
        }
        for digit in 0..X::DIGITS {
            let codes = x.all_digits().as_ptr().add(GROUP * digit);
            tiles.zero::<C>();
            if S::SUBS == 2 {
                tiles.load::<A_HALF>(codes, stride);
                dot::<S, A_HALF, B_LOW>(tiles);
                tiles.store::<C>(dots.part_mut(2 * digit), 64);
                tiles.zero::<C>();
                tiles.load::<A_HALF>(codes.add(16), stride);
                dot::<S, A_HALF, B_HIGH>(tiles);
                tiles.store::<C>(dots.part_mut(2 * digit + 1), 64);
            } else {
                tiles.load::<A>(codes, stride);
                dot::<S, A, B>(tiles);
                tiles.store::<C>(dots.part_mut(digit), 64);
            }
        }
    }
}

/// A row's dots over both digits: of a whole group, or of each half.
#[inline]
#[target_feature(enable = "avx512f")]
fn whole_dots<S: Shape, X: Codes, const PARTS: usize>(
    dots: &Dots<PARTS>,
    row: usize,
) -> [__m512i; 2] {
    let mut whole = [_mm512_setzero_si512(); 2];
    for (part, whole) in whole[..halves::<S>()].iter_mut().enumerate() {
        *whole = dots.integers(part, row);
        if X::DIGITS == 2 && !joined::<S, X>() {
            let second = dots.integers(halves::<S>() + part, row);
            *whole = _mm512_add_epi32(_mm512_slli_epi32::<4>(*whole), second);
        }
    }
    whole
}
