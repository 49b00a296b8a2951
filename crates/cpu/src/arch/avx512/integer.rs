//! Integer weights times int8 activations with VNNI: stored codes are the unsigned side, activations the signed one.
//!
//! Cost of one group, 512 weights: 4 loads and 12 operations unpack 4-bit codes once for all rows of the block; a row takes 8
//! `vpdpbusd` (activations broadcast from memory) and 3 to 10 operations for the scales. At two vector operations a cycle
//! that is 6.5 cycles for a row of Q4_1, 157 operations a cycle; a single row takes 14 cycles for 320 bytes, more than
//! memory delivers.
//!
//! The bias of stored codes is undone by starting the dot at `-bias · sum`. With two codes an activation the first dot, times 256,
//! is where the second one starts: 8 more `vpdpbusd`, a shift and at most one addition.

use core::arch::x86_64::*;

use crate::activations::{I8Group, Tile};
use crate::arch::shape::{Shape, with_shape};
use crate::arch::{generic, prefetch_weights};
use crate::table::CodedCall;

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

pub(crate) use each_row;

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
        panel.block_scales::<S>(&mut scales);
        for planes in block.chunks(call.planes) {
            panel.subs::<S>(&mut scales);
            let codes = panel.codes::<S>();
            prefetch_weights(panel.next, call.ahead, 1 + usize::from(S::BITS));
            if let [x] = planes {
                each_row!(R, row => acc[row] = add_group::<S>(acc[row], &codes, &scales, (x, None), row));
            } else if let [x, rest] = planes {
                each_row!(R, row => acc[row] = add_group::<S>(acc[row], &codes, &scales, (x, Some(rest)), row));
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
    pub(crate) fn block_scales<S: Shape>(&mut self, scales: &mut Scales) {
        scales.d = self.f16_lanes();
        if S::MINIMUM {
            scales.m = self.f16_lanes();
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

    /// Sub-scales and, with a minimum, sub-minima of a group, as f32.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn subs<S: Shape>(&mut self, scales: &mut Scales) {
        for sub in 0..S::SUBS {
            if S::PACKED_SUBS {
                [scales.sub_scales[sub], scales.sub_mins[sub]] = self.nibble_lanes();
            } else {
                scales.sub_scales[sub] = self.i8_lanes();
            }
        }
        if S::MINIMUM && !S::PACKED_SUBS {
            for sub in 0..S::SUBS {
                scales.sub_mins[sub] = self.i8_lanes();
            }
        }
    }

    /// Sixteen low nibbles and the sixteen high ones, as f32.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn nibble_lanes(&mut self) -> [__m512; 2] {
        // SAFETY: 16 bytes of the panel, see the type.
        let both = unsafe {
            let both = _mm512_cvtepu8_epi32(_mm_loadu_si128(self.next.cast()));
            self.next = self.next.add(16);
            both
        };
        let low = _mm512_and_si512(both, _mm512_set1_epi32(15));
        [low, _mm512_srli_epi32::<4>(both)].map(|lanes| _mm512_cvtepi32_ps(lanes))
    }

    /// The codes of a group as unsigned bytes, their bias [`undone`], one vector per four columns, ascending.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(crate) fn codes<S: Shape>(&mut self) -> [__m512i; 8] {
        let mut codes = [_mm512_setzero_si512(); 8];
        let lift = _mm512_set1_epi8((undone::<S>() - S::BIAS) as i8);
        for (quad, codes) in codes.iter_mut().enumerate() {
            *codes = self.plane::<S>(0, S::LOW_BITS, quad);
            if S::HIGH_BITS != 0 {
                let high = self.plane::<S>(S::LOW_BITS, S::HIGH_BITS, quad);
                *codes = _mm512_or_si512(*codes, high);
            }
            if undone::<S>() != S::BIAS {
                *codes = _mm512_add_epi8(*codes, lift);
            }
        }
        // SAFETY: at most one past the end of the panel.
        self.next = unsafe { self.next.add(S::PANEL.code_bytes()) };
        codes
    }

    /// `bits` bits of the codes of one quad, in their place above `below` bits.
    ///
    /// Planes begin one after the other, so `below` is also the number of vectors before this one. All but the loads is
    /// constant once compiled.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn plane<S: Shape>(&self, below: u8, bits: u8, quad: usize) -> __m512i {
        let (wide, below) = (usize::from(bits), usize::from(below));
        // SAFETY: 64 bytes of the panel: a group has `S::BITS` vectors, see the type.
        let stored =
            unsafe { _mm512_loadu_si512(self.next.add((below + quad % wide) * 64).cast()) };
        if bits == 8 {
            return stored;
        }
        let mask = _mm512_set1_epi8(((0xff_u8 >> (8 - bits)) << below) as i8);
        let shift = wide * (quad / wide);
        let moved = if shift >= below {
            _mm512_srlv_epi16(stored, _mm512_set1_epi16((shift - below) as i16))
        } else {
            _mm512_sllv_epi16(stored, _mm512_set1_epi16((below - shift) as i16))
        };
        _mm512_and_si512(moved, mask)
    }
}

/// `acc` plus the product of one group with activation row `row`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
fn add_group<S: Shape>(
    acc: __m512,
    codes: &[__m512i; 8],
    scales: &Scales,
    (x, rest): (&I8Group, Option<&I8Group>),
    row: usize,
) -> __m512 {
    let dot = |which: usize, quads: std::ops::Range<usize>| {
        let start = start::<S>(x, which, row);
        let Some(rest) = rest else {
            return dot(start, codes, x, row, quads);
        };
        let high = dot(_mm512_setzero_si512(), codes, x, row, quads.clone());
        let low = dot(_mm512_slli_epi32::<8>(high), codes, rest, row, quads);
        if S::BIAS == 0 {
            low
        } else {
            _mm512_add_epi32(low, start)
        }
    };
    let dots = if S::SUBS == 2 {
        [dot(0, 0..4), dot(1, 4..8)]
    } else {
        [dot(2, 0..8), _mm512_setzero_si512()]
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
    let [first, second] = dots.map(|dot| _mm512_cvtepi32_ps(dot));
    let total = match S::SUBS {
        0 => first,
        1 => _mm512_mul_ps(first, scales.sub_scales[0]),
        _ => {
            let low = _mm512_mul_ps(first, scales.sub_scales[0]);
            _mm512_fmadd_ps(second, scales.sub_scales[1], low)
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

/// The bias that unpacked codes have: one whose multiples the activations bring along.
pub(crate) const fn undone<S: Shape>() -> u8 {
    match S::BIAS {
        0 => 0,
        4 | 8 => 8,
        _ => 128,
    }
}

/// Where a dot starts so that the bias of the codes cancels.
#[inline]
#[target_feature(enable = "avx512f")]
fn start<S: Shape>(x: &I8Group, which: usize, row: usize) -> __m512i {
    match undone::<S>() {
        0 => _mm512_setzero_si512(),
        8 => _mm512_set1_epi32(x.minus_8_sums[which][row]),
        _ => _mm512_set1_epi32(x.minus_128_sums[which][row]),
    }
}

/// `start` plus the dots of 16 weight rows with some quads of columns.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn dot(
    start: __m512i,
    codes: &[__m512i; 8],
    x: &I8Group,
    row: usize,
    quads: std::ops::Range<usize>,
) -> __m512i {
    let columns: &[[u8; 4]; 8] = bytemuck::cast_ref(&x.codes[row]);
    quads.fold(start, |sum, quad| {
        let columns = _mm512_set1_epi32(i32::from_le_bytes(columns[quad]));
        _mm512_dpbusd_epi32(sum, codes[quad], columns)
    })
}
