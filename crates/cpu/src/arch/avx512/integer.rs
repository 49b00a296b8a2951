//! Integer weights times int8 activations with VNNI: stored codes are the unsigned side, activations the signed one.
//!
//! Cost of one group, 512 weights: 4 loads and 12 operations unpack 4-bit codes once for all rows of the block; a row takes 8
//! `vpdpbusd` (activations broadcast from memory) and 3 to 9 operations for the scales. At two vector operations a cycle
//! that is 6.5 cycles for a row of Q4_1, 157 operations a cycle; a single row takes 14 cycles for 320 bytes, more than
//! memory delivers.
//!
//! The bias of stored codes is undone by starting the dot at `-bias · sum`. Sub-scales multiply as f32: dots, sums and their
//! multiples stay below 2^24 in every format (a test checks it), so the result is the integer one, exactly.

use core::arch::x86_64::*;

use ucuz_tensor::format::GROUP;

use crate::activations::{I8Group, Tile};
use crate::arch::generic;
use crate::arch::shape::{Shape, with_shape};
use crate::table::CodedCall;

/// How far ahead of the codes in use memory is asked for, in bytes.
const PREFETCH_BYTES: usize = 2048;

/// Repeats a statement for the first `$R` of 16 rows as straight code; left to itself the compiler keeps a loop, and with it
/// the accumulators in memory.
macro_rules! each_row {
    ($R:expr, $row:ident => $body:expr) => {
        each_row!(@ $R, $row => $body; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (@ $R:expr, $row:ident => $body:expr; $($index:literal)*) => {
        $(
            if $index < $R {
                let $row = $index;
                $body;
            }
        )*
    };
}

/// Products of one panel with `call.rows` activation rows.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub fn linear_i8(tile: &mut Tile, call: &CodedCall<'_>) {
    assert!(
        call.panel.len() >= call.coded.panel_bytes(call.groups.len() / call.planes),
        "a whole panel"
    );
    with_shape!(
        call.coded,
        S => match call.rows {
            1 => product::<S, 1>(tile, call),
            2 => product::<S, 2>(tile, call),
            3..=4 => product::<S, 4>(tile, call),
            5..=8 => product::<S, 8>(tile, call),
            _ => product::<S, 16>(tile, call),
        },
        generic::integer::linear_i8(tile, call)
    );
}

pub(crate) use each_row;

/// Scales of one group, 16 weight rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scales {
    d: __m512,
    m: __m512,
    sub_scales: [__m512; 2],
    sub_mins: [__m512; 2],
}

impl Scales {
    /// All zero.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn zero() -> Self {
        let zero = _mm512_setzero_ps();
        Self {
            d: zero,
            m: zero,
            sub_scales: [zero; 2],
            sub_mins: [zero; 2],
        }
    }
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
fn product<S: Shape, const R: usize>(tile: &mut Tile, call: &CodedCall<'_>) {
    let mut acc = [_mm512_setzero_ps(); R];
    let mut panel = Cursor::new(call.panel);
    let mut scales = Scales::zero();
    for block in call.groups.chunks(S::GROUPS * call.planes) {
        panel.read_block::<S>(&mut scales);
        for planes in block.chunks(call.planes) {
            panel.read_group::<S>(&mut scales);
            let codes = panel.codes::<S>();
            if R == 1 {
                panel.prefetch::<S>();
            }
            for x in planes {
                each_row!(R, row => acc[row] = add_group::<S>(acc[row], &codes, &scales, x, row));
            }
        }
    }
    for (row, acc) in tile.iter_mut().zip(acc) {
        // SAFETY: a row of the tile is 64 writable bytes.
        unsafe { _mm512_storeu_ps(row.as_mut_ptr(), acc) };
    }
}

/// Reads a panel from front to back; every method takes the bytes it names and moves on.
///
/// Who makes one has checked that the bytes hold the geometry of the shape that is read, so no read leaves them.
pub(crate) struct Cursor {
    next: *const u8,
}

impl Cursor {
    /// Starts at a block's header or at a group.
    #[inline(always)]
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self {
            next: bytes.as_ptr(),
        }
    }

    /// What all groups of a block share.
    #[inline]
    #[target_feature(enable = "avx512f,f16c")]
    pub(crate) fn read_block<S: Shape>(&mut self, scales: &mut Scales) {
        scales.d = self.f16_lanes();
        if S::MINIMUM {
            scales.m = self.f16_lanes();
        }
    }

    /// What precedes the codes of a group.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn read_group<S: Shape>(&mut self, scales: &mut Scales) {
        for sub in 0..S::SUBS {
            scales.sub_scales[sub] = self.i8_lanes();
        }
        if S::MINIMUM {
            for sub in 0..S::SUBS {
                scales.sub_mins[sub] = self.i8_lanes();
            }
        }
    }

    /// Sixteen f16 numbers.
    #[inline]
    #[target_feature(enable = "avx512f,f16c")]
    fn f16_lanes(&mut self) -> __m512 {
        // SAFETY: 32 bytes of the panel, see the type.
        unsafe {
            let lanes = _mm512_cvtph_ps(_mm256_loadu_si256(self.next.cast()));
            self.next = self.next.add(32);
            lanes
        }
    }

    /// Sixteen small integers as f32.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn i8_lanes(&mut self) -> __m512 {
        // SAFETY: 16 bytes of the panel, see the type.
        unsafe {
            let lanes = _mm512_cvtepi8_epi32(_mm_loadu_si128(self.next.cast()));
            self.next = self.next.add(16);
            _mm512_cvtepi32_ps(lanes)
        }
    }

    /// The codes of a group as unsigned bytes, one vector per four columns, ascending.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(crate) fn codes<S: Shape>(&mut self) -> [__m512i; 8] {
        let mut codes = [_mm512_setzero_si512(); 8];
        let low = _mm512_set1_epi8(15);
        let vectors = usize::from(S::BITS);
        for quad in 0..vectors {
            // SAFETY: 64 bytes of the panel, see the type.
            let stored = unsafe { _mm512_loadu_si512(self.next.add(quad * 64).cast()) };
            if S::BITS == 8 {
                codes[quad] = stored;
            } else {
                codes[quad] = _mm512_and_si512(stored, low);
                codes[quad + 4] = _mm512_and_si512(_mm512_srli_epi16::<4>(stored), low);
            }
        }
        // SAFETY: at most one past the end of the panel.
        self.next = unsafe { self.next.add(vectors * 64) };
        codes
    }

    /// Asks for the codes some groups ahead; they may lie past the panel, in the next one, or nowhere.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn prefetch<S: Shape>(&self) {
        for line in 0..=usize::from(S::BITS) {
            let ahead = self.next.wrapping_add(PREFETCH_BYTES + line * 64);
            _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
        }
    }
}

/// `acc` plus the product of one group with activation row `row`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
fn add_group<S: Shape>(
    acc: __m512,
    codes: &[__m512i; 8],
    scales: &Scales,
    x: &I8Group,
    row: usize,
) -> __m512 {
    let columns = &x.codes[row];
    let dots = if S::SUBS == 2 {
        [
            dot(start::<S>(x, 0, row), &codes[..4], &columns[..16]),
            dot(start::<S>(x, 1, row), &codes[4..], &columns[16..]),
        ]
    } else {
        [
            dot(start::<S>(x, 2, row), codes, columns),
            _mm512_setzero_si512(),
        ]
    };
    scale_and_add::<S>(acc, dots, scales, x, row)
}

/// `acc` plus the scaled dots of one group with activation row `row`: of its halves with two sub-scales, else of the whole
/// group, first.
#[inline]
#[target_feature(enable = "avx512f,fma")]
pub(crate) fn scale_and_add<S: Shape>(
    acc: __m512,
    dots: [__m512i; 2],
    scales: &Scales,
    x: &I8Group,
    row: usize,
) -> __m512 {
    let s = _mm512_set1_ps(x.scales[row]);
    let sum = |which: usize| _mm512_set1_ps(x.sums[which][row]);
    let first = _mm512_cvtepi32_ps(dots[0]);
    let total = match S::SUBS {
        0 => first,
        1 => _mm512_mul_ps(first, scales.sub_scales[0]),
        _ => {
            let low = _mm512_mul_ps(first, scales.sub_scales[0]);
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[1]), scales.sub_scales[1], low)
        }
    };
    let acc = _mm512_fmadd_ps(total, _mm512_mul_ps(s, scales.d), acc);
    if !S::MINIMUM {
        return acc;
    }
    let total = match S::SUBS {
        0 => sum(2),
        1 => _mm512_mul_ps(sum(2), scales.sub_mins[0]),
        _ => _mm512_fmadd_ps(
            sum(1),
            scales.sub_mins[1],
            _mm512_mul_ps(sum(0), scales.sub_mins[0]),
        ),
    };
    _mm512_fmadd_ps(total, _mm512_mul_ps(s, scales.m), acc)
}

/// Where a dot starts so that the bias of the codes cancels.
#[inline]
#[target_feature(enable = "avx512f")]
fn start<S: Shape>(x: &I8Group, which: usize, row: usize) -> __m512i {
    match S::BIAS {
        0 => _mm512_setzero_si512(),
        8 => _mm512_set1_epi32(x.minus_8_sums[which][row]),
        _ => _mm512_set1_epi32(x.minus_128_sums[which][row]),
    }
}

/// `start` plus the dots of 16 weight rows with four columns per vector of `codes`.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn dot(start: __m512i, codes: &[__m512i], columns: &[i8]) -> __m512i {
    debug_assert!(columns.len() == codes.len() * 4 && columns.len() <= GROUP);
    let quads: &[[u8; 4]] = bytemuck::cast_slice(columns);
    codes.iter().zip(quads).fold(start, |sum, (codes, quad)| {
        _mm512_dpbusd_epi32(sum, *codes, _mm512_set1_epi32(i32::from_le_bytes(*quad)))
    })
}
