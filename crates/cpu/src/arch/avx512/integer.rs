//! Integer weights times integer codes with VNNI: stored codes are the unsigned side, activations the signed one.
//!
//! Cost of one group, 512 weights: 4 loads and 12 operations unpack 4-bit codes once for all rows of the block; a row takes 8
//! `vpdpbusd` (activations broadcast from memory) and 3 to 6 operations for the scales. At two vector operations a cycle
//! that is 6 cycles for a row of Q4_1, 170 operations a cycle; a single row takes 14 cycles for 320 bytes, more than
//! memory delivers.
//!
//! The bias of stored codes is undone by starting the dot at `-bias · sum`. With two digits the first dot, times 16, is where
//! the second one starts: 8 more `vpdpbusd`, a shift and at most one addition.

use core::arch::x86_64::*;

use ucuz_tensor::format::GROUP;

use crate::activations::{About, Codes, Tile};
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
pub fn linear<X: Codes>(tile: &mut Tile, call: &CodedCall<'_, X>) {
    assert!(
        call.panel.len() >= call.coded.panel_bytes(call.groups.len()),
        "a whole panel"
    );
    with_shape!(
        call.coded,
        S => match call.rows {
            1 => product::<S, X, 1>(tile, call),
            2 => product::<S, X, 2>(tile, call),
            3..=4 => product::<S, X, 4>(tile, call),
            5..=8 => product::<S, X, 8>(tile, call),
            _ => product::<S, X, 16>(tile, call),
        },
        generic::integer::linear(tile, call)
    );
}

/// Scales of one group, 16 weight rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scales {
    /// What all groups of a block share: scale and minimum.
    block: [__m512; 2],
    /// What a dot counts, of each half with two sub-scales.
    scale: [__m512; 2],
    /// What a sum of activation codes counts, likewise.
    minimum: [__m512; 2],
}

impl Scales {
    /// All zero.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn zero() -> Self {
        let zero = [_mm512_setzero_ps(); 2];
        Self {
            block: zero,
            scale: zero,
            minimum: zero,
        }
    }
}

/// Groups of a turn: a segment of twelve-bit codes, and a block of weights.
const TURN: usize = 8;

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
fn product<S: Shape, X: Codes, const R: usize>(tile: &mut Tile, call: &CodedCall<'_, X>) {
    const { assert!(TURN.is_multiple_of(S::GROUPS) && TURN.is_multiple_of(X::SEGMENT)) };
    let zero = _mm512_setzero_ps();
    let tile = &mut tile[..R];
    tile.fill([0.0; 16]);
    let mut panel = Cursor::new(call.panel);
    let mut scales = Scales::zero();
    let mut acc = [zero; R];
    for turn in call.groups.chunks(TURN) {
        for (index, x) in turn.iter().enumerate() {
            if index % S::GROUPS == 0 {
                panel.block_scales::<S>(&mut scales);
            }
            panel.subs::<S>(&mut scales);
            let codes = panel.codes::<S>();
            prefetch_weights(panel.next, call.ahead, 1 + usize::from(S::BITS));
            if X::SEGMENT == 1 {
                each_row!(R, row => {
                    let sum = add_group::<S, X>(zero, &codes, &scales, x, row);
                    acc[row] = _mm512_fmadd_ps(sum, _mm512_set1_ps(x.about().scales[row]), acc[row]);
                });
            } else {
                each_row!(R, row => acc[row] = add_group::<S, X>(acc[row], &codes, &scales, x, row));
            }
        }
        if X::SEGMENT > 1 {
            fold(tile, &mut acc, turn[0].about());
        }
    }
    if X::SEGMENT == 1 {
        for (row, acc) in tile.iter_mut().zip(acc) {
            // SAFETY: a row of the tile is 64 writable bytes.
            unsafe { _mm512_storeu_ps(row.as_mut_ptr(), acc) };
        }
    }
}

/// Adds the sums of a segment to the rows, each under its scale, and begins anew.
#[inline]
#[target_feature(enable = "avx512f")]
fn fold(rows: &mut [[f32; 16]], sums: &mut [__m512], about: &About) {
    for ((row, sum), scale) in rows.iter_mut().zip(sums).zip(about.scales) {
        // SAFETY: a row is 64 readable and writable bytes.
        unsafe {
            let acc = _mm512_fmadd_ps(*sum, _mm512_set1_ps(scale), _mm512_loadu_ps(row.as_ptr()));
            _mm512_storeu_ps(row.as_mut_ptr(), acc);
        }
        *sum = _mm512_setzero_ps();
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
        scales.block[0] = self.f16_lanes();
        if S::MINIMUM {
            scales.block[1] = self.f16_lanes();
        }
        if S::SUBS == 0 {
            [scales.scale[0], scales.minimum[0]] = scales.block;
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

    /// Sub-scales and, with a minimum, sub-minima of a group, times those of its block: exact in f32.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn subs<S: Shape>(&mut self, scales: &mut Scales) {
        let [scale, minimum] = scales.block;
        for sub in 0..S::SUBS {
            if S::PACKED_SUBS {
                let [low, high] = self.nibble_lanes();
                scales.scale[sub] = _mm512_mul_ps(scale, low);
                scales.minimum[sub] = _mm512_mul_ps(minimum, high);
            } else {
                scales.scale[sub] = _mm512_mul_ps(scale, self.i8_lanes());
            }
        }
        if S::MINIMUM && !S::PACKED_SUBS {
            for sub in 0..S::SUBS {
                scales.minimum[sub] = _mm512_mul_ps(minimum, self.i8_lanes());
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

/// `acc` plus the product of one group with activation row `row`, the row's scale left out.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
fn add_group<S: Shape, X: Codes>(
    acc: __m512,
    codes: &[__m512i; 8],
    scales: &Scales,
    x: &X,
    row: usize,
) -> __m512 {
    let dot = |which: usize, quads: std::ops::Range<usize>| {
        let start = start::<S>(x.about(), which, row);
        match x.digits(row) {
            [only] => dot(start, codes, only, quads),
            [first, second, ..] => {
                let high = dot(_mm512_setzero_si512(), codes, first, quads.clone());
                let low = dot(_mm512_slli_epi32::<4>(high), codes, second, quads);
                if S::BIAS == 0 {
                    low
                } else {
                    _mm512_add_epi32(low, start)
                }
            }
            [] => start,
        }
    };
    let dots = if S::SUBS == 2 {
        [dot(0, 0..4), dot(1, 4..8)]
    } else {
        [dot(2, 0..8), _mm512_setzero_si512()]
    };
    add_dots::<S>(acc, dots, scales, x.about(), row)
}

/// `acc` plus the scaled dots of one group with activation row `row`: of its halves with two sub-scales, else of the whole
/// group, first.
#[inline]
#[target_feature(enable = "avx512f,fma")]
pub(crate) fn add_dots<S: Shape>(
    acc: __m512,
    dots: [__m512i; 2],
    scales: &Scales,
    about: &About,
    row: usize,
) -> __m512 {
    let [first, second] = dots.map(|dot| _mm512_cvtepi32_ps(dot));
    let mut acc = _mm512_fmadd_ps(first, scales.scale[0], acc);
    if S::SUBS == 2 {
        acc = _mm512_fmadd_ps(second, scales.scale[1], acc);
    }
    if !S::MINIMUM {
        return acc;
    }
    let sum = |which: usize| _mm512_set1_ps(about.sums[which][row]);
    if S::SUBS == 2 {
        let acc = _mm512_fmadd_ps(sum(0), scales.minimum[0], acc);
        return _mm512_fmadd_ps(sum(1), scales.minimum[1], acc);
    }
    _mm512_fmadd_ps(sum(2), scales.minimum[0], acc)
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
fn start<S: Shape>(about: &About, which: usize, row: usize) -> __m512i {
    match undone::<S>() {
        0 => _mm512_setzero_si512(),
        8 => _mm512_set1_epi32(about.minus_8_sums[which][row]),
        _ => _mm512_set1_epi32(about.minus_128_sums[which][row]),
    }
}

/// `start` plus the dots of 16 weight rows with some quads of columns.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn dot(
    start: __m512i,
    codes: &[__m512i; 8],
    digits: &[i8; GROUP],
    quads: std::ops::Range<usize>,
) -> __m512i {
    let columns: &[[u8; 4]; 8] = bytemuck::cast_ref(digits);
    quads.fold(start, |sum, quad| {
        let columns = _mm512_set1_epi32(i32::from_le_bytes(columns[quad]));
        _mm512_dpbusd_epi32(sum, codes[quad], columns)
    })
}
