//! Integer weights times integer codes, 8 weight rows at a time: with `maddubs`, or with `vpdpbusd` where AVX-VNNI is present.
//!
//! Codes of up to 6 bits are the unsigned side as they are: a pair of products is at most 2·31·127 = 7,874 for 5 bits, and four of
//! them stay inside 16 bits; for 6 bits it is two. 8-bit codes become `|w|` and the activation takes their sign: 2·128·127 = 32,512 fits, 255·127·2 would not.
//! Each f32 operation of the epilogue rounds as `Arithmetic::I8` says.

use core::arch::x86_64::*;

use ucuz_tensor::format::GROUP;

use crate::activations::{About, Codes, Tile};
use crate::arch::shape::{Shape, with_shape};
use crate::arch::{generic, prefetch_weights};
use crate::table::CodedCall;

/// Activation rows that share an unpacked group; more would not fit 16 registers.
const ROWS: usize = 4;

/// The kernel for one set of instructions: `$dots` says how codes meet activations, `$undone` which bias it leaves in.
macro_rules! kernel {
    ($(#[$doc:meta])* $name:ident, $features:literal, $dots:ident, $undone:expr) => {
        $(#[$doc])*
        #[target_feature(enable = $features)]
        pub fn $name<X: Codes>(tile: &mut Tile, call: &CodedCall<'_, X>) {
            #[target_feature(enable = $features)]
            fn product<S: Shape, X: Codes, const R: usize>(
                tile: &mut Tile,
                call: &CodedCall<'_, X>,
                first: usize,
                half: usize,
            ) {
                const { assert!(TURN.is_multiple_of(S::GROUPS) && TURN.is_multiple_of(X::SEGMENT)) };
                let zero = _mm256_setzero_ps();
                let mut acc = [zero; R];
                let mut sums = [zero; R];
                let mut panel = Cursor {
                    next: call.panel.as_ptr(),
                    half,
                };
                let mut scales = Scales {
                    block: [zero; 2],
                    scale: [zero; 2],
                    minimum: [zero; 2],
                };
                for turn in call.groups.chunks(TURN) {
                    for (index, x) in turn.iter().enumerate() {
                        if index % S::GROUPS == 0 {
                            panel.block_scales::<S>(&mut scales);
                        }
                        panel.subs::<S>(&mut scales);
                        if half == 0 && first == 0 {
                            prefetch_weights(panel.next, call.ahead, 1 + usize::from(S::BITS));
                        }
                        let mut dots = panel.$dots::<S, X, R>(x, first);
                        undo_bias::<R>(&mut dots, $undone(S::BITS, S::BIAS), x.about(), first);
                        for row in 0..R {
                            let at = first + row;
                            sums[row] = add_group::<S>(sums[row], dots[row], &scales, x.about(), at);
                        }
                        if (index + 1) % X::SEGMENT == 0 || index + 1 == turn.len() {
                            for row in 0..R {
                                let scale = _mm256_set1_ps(x.about().scales[first + row]);
                                acc[row] = _mm256_fmadd_ps(sums[row], scale, acc[row]);
                                sums[row] = zero;
                            }
                        }
                        panel.pass_codes::<S>();
                    }
                }
                for (row, acc) in tile[first..].iter_mut().zip(acc) {
                    // SAFETY: half a row of the tile is 32 writable bytes.
                    unsafe { _mm256_storeu_ps(row.as_mut_ptr().add(8 * half), acc) };
                }
            }

            assert!(
                call.panel.len() >= call.coded.panel_bytes(call.groups.len()),
                "a whole panel"
            );
            for first in (0..call.rows).step_by(ROWS) {
                for half in 0..2 {
                    with_shape!(
                        call.coded,
                        S => match call.rows - first {
                            1 => product::<S, X, 1>(tile, call, first, half),
                            2 => product::<S, X, 2>(tile, call, first, half),
                            _ => product::<S, X, ROWS>(tile, call, first, half),
                        },
                        return generic::integer::linear(tile, call)
                    );
                }
            }
        }
    };
}

kernel!(
    /// Products of one panel with `call.rows` activation rows, by `maddubs`.
    linear, "avx2,fma,f16c", pair_dots, |bits, bias| if bits == 8 { 0 } else { bias }
);
kernel!(
    /// Products of one panel with `call.rows` activation rows, by `vpdpbusd` in its AVX form.
    linear_vnni, "avx2,fma,f16c,avxvnni", vnni_dots, |_, bias| bias
);

/// Groups of a turn: a segment of twelve-bit codes, and a block of weights.
const TURN: usize = 8;

/// Scales of one group, 8 weight rows.
#[derive(Clone, Copy)]
struct Scales {
    /// What all groups of a block share: scale and minimum.
    block: [__m256; 2],
    /// What a dot counts, of each half with two sub-scales.
    scale: [__m256; 2],
    /// What a sum of activation codes counts, likewise.
    minimum: [__m256; 2],
}

/// Dots with the two halves of a group of columns.
type Dots = [__m256i; 2];

/// Reads one half of a panel's lanes from front to back; every method takes the bytes it names and moves on.
///
/// The panel's length was asserted against its geometry, and `product` reads exactly that geometry, so no read leaves it.
struct Cursor {
    next: *const u8,
    half: usize,
}

impl Cursor {
    /// Eight of sixteen f16 numbers.
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    fn f16_lanes(&mut self) -> __m256 {
        // SAFETY: 16 of 32 bytes of the panel, see the type.
        unsafe {
            let lanes = _mm_loadu_si128(self.next.add(16 * self.half).cast());
            self.next = self.next.add(32);
            _mm256_cvtph_ps(lanes)
        }
    }

    /// Eight of sixteen small integers as f32.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn i8_lanes(&mut self) -> __m256 {
        // SAFETY: 8 of 16 bytes of the panel, see the type.
        unsafe {
            let lanes = _mm_loadl_epi64(self.next.add(8 * self.half).cast());
            self.next = self.next.add(16);
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(lanes))
        }
    }

    /// What all groups of a block share.
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    fn block_scales<S: Shape>(&mut self, scales: &mut Scales) {
        scales.block[0] = self.f16_lanes();
        if S::MINIMUM {
            scales.block[1] = self.f16_lanes();
        }
        if S::SUBS == 0 {
            [scales.scale[0], scales.minimum[0]] = scales.block;
        }
    }

    /// Sub-scales and, with a minimum, sub-minima of a group, times those of its block: exact in f32.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn subs<S: Shape>(&mut self, scales: &mut Scales) {
        let [scale, minimum] = scales.block;
        for sub in 0..S::SUBS {
            if S::PACKED_SUBS {
                let [low, high] = self.nibble_lanes();
                scales.scale[sub] = _mm256_mul_ps(scale, low);
                scales.minimum[sub] = _mm256_mul_ps(minimum, high);
            } else {
                scales.scale[sub] = _mm256_mul_ps(scale, self.i8_lanes());
            }
        }
        if S::MINIMUM && !S::PACKED_SUBS {
            for sub in 0..S::SUBS {
                scales.minimum[sub] = _mm256_mul_ps(minimum, self.i8_lanes());
            }
        }
    }

    /// Eight of sixteen low nibbles and of the high ones, as f32.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn nibble_lanes(&mut self) -> [__m256; 2] {
        // SAFETY: 8 of 16 bytes of the panel, see the type.
        let both = unsafe {
            let both = _mm_loadl_epi64(self.next.add(8 * self.half).cast());
            self.next = self.next.add(16);
            _mm256_cvtepu8_epi32(both)
        };
        let low = _mm256_and_si256(both, _mm256_set1_epi32(15));
        [low, _mm256_srli_epi32::<4>(both)].map(|lanes| _mm256_cvtepi32_ps(lanes))
    }

    /// Goes on to what follows the codes of a group.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn pass_codes<S: Shape>(&mut self) {
        // SAFETY: at most one past the end of the panel.
        self.next = unsafe { self.next.add(S::PANEL.code_bytes()) };
    }

    /// Four columns of eight weight rows as stored: unsigned bytes, bias and all.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn codes<S: Shape>(&self, quad: usize) -> __m256i {
        let low = self.plane(0, S::LOW_BITS, quad);
        if S::HIGH_BITS == 0 {
            return low;
        }
        _mm256_or_si256(low, self.plane(S::LOW_BITS, S::HIGH_BITS, quad))
    }

    /// `bits` bits of the codes of one quad, in their place above `below` bits.
    ///
    /// Planes begin one after the other, so `below` is also the number of vectors before this one. All but the loads is
    /// constant once compiled.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn plane(&self, below: u8, bits: u8, quad: usize) -> __m256i {
        let (wide, below) = (usize::from(bits), usize::from(below));
        // SAFETY: 32 of 64 bytes of the panel: a group has as many vectors as codes have bits, see the type.
        let stored = unsafe {
            let vector = self.next.add((below + quad % wide) * 64 + 32 * self.half);
            _mm256_loadu_si256(vector.cast())
        };
        if bits == 8 {
            return stored;
        }
        let mask = _mm256_set1_epi8(((0xff_u8 >> (8 - bits)) << below) as i8);
        let shift = (wide * (quad / wide)) as i32 - below as i32;
        let count = _mm_cvtsi32_si128(shift.abs());
        let moved = if shift >= 0 {
            _mm256_srl_epi16(stored, count)
        } else {
            _mm256_sll_epi16(stored, count)
        };
        _mm256_and_si256(moved, mask)
    }

    /// Dots of stored codes with `R` activation rows; 8-bit codes come without their bias.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn pair_dots<S: Shape, X: Codes, const R: usize>(&self, x: &X, first: usize) -> [Dots; R] {
        let (mut dots, low) = match X::DIGITS {
            1 if S::BITS == 8 => return self.byte_dots::<S, X, R>(x, 0, first),
            1 => {
                let [dots] = self.small_dots::<S, X, R, 1>(x, 0, first);
                return dots;
            }
            _ if S::BITS == 8 => (
                self.byte_dots::<S, X, R>(x, 0, first),
                self.byte_dots::<S, X, R>(x, 1, first),
            ),
            // Both digits of few rows fit the registers beside each unpacked vector.
            _ if R <= 2 => self.small_dots::<S, X, R, 2>(x, 0, first).into(),
            _ => {
                let [high] = self.small_dots::<S, X, R, 1>(x, 0, first);
                let [low] = self.small_dots::<S, X, R, 1>(x, 1, first);
                (high, low)
            }
        };
        for (high, low) in dots.as_flattened_mut().iter_mut().zip(low.as_flattened()) {
            *high = _mm256_add_epi32(_mm256_slli_epi32::<4>(*high), *low);
        }
        dots
    }

    /// As [`Cursor::pair_dots`] with `vpdpbusd`; every bias stays in. Without sub-scales per half the sum is all in the first.
    #[inline]
    #[target_feature(enable = "avx2,avxvnni")]
    fn vnni_dots<S: Shape, X: Codes, const R: usize>(&self, x: &X, first: usize) -> [Dots; R] {
        let mut dots = [[_mm256_setzero_si256(); 2]; R];
        for digit in 0..X::DIGITS {
            if digit == 1 {
                for dot in dots.as_flattened_mut() {
                    *dot = _mm256_slli_epi32::<4>(*dot);
                }
            }
            for quad in 0..8 {
                let codes = self.codes::<S>(quad);
                for (row, dots) in dots.iter_mut().enumerate() {
                    let dot = &mut dots[if S::SUBS == 2 { quad / 4 } else { 0 }];
                    let columns = broadcast(&x.digits(first + row)[digit], quad);
                    *dot = _mm256_dpbusd_avx_epi32(*dot, codes, columns);
                }
            }
        }
        dots
    }

    /// Dots of 8-bit codes with a digit of `R` activation rows.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn byte_dots<S: Shape, X: Codes, const R: usize>(
        &self,
        x: &X,
        digit: usize,
        first: usize,
    ) -> [Dots; R] {
        let mut dots = [[_mm256_setzero_si256(); 2]; R];
        let ones = _mm256_set1_epi16(1);
        for quad in 0..8 {
            let w = _mm256_xor_si256(self.codes::<S>(quad), _mm256_set1_epi8(-128));
            let magnitude = _mm256_abs_epi8(w);
            for (row, dots) in dots.iter_mut().enumerate() {
                let columns = broadcast(&x.digits(first + row)[digit], quad);
                let signed = _mm256_sign_epi8(columns, w);
                let pairs = _mm256_maddubs_epi16(magnitude, signed);
                let sum = &mut dots[quad / 4];
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pairs, ones));
            }
        }
        dots
    }

    /// Dots of codes of up to six bits with `D` digits, from `digit` on, of `R` activation rows.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn small_dots<S: Shape, X: Codes, const R: usize, const D: usize>(
        &self,
        x: &X,
        digit: usize,
        first: usize,
    ) -> [[Dots; R]; D] {
        let mut pairs = [[[_mm256_setzero_si256(); 2]; R]; D];
        let mut dots = pairs;
        let ones = _mm256_set1_epi16(1);
        for quad in 0..4 {
            let (low, high) = (self.codes::<S>(quad), self.codes::<S>(quad + 4));
            for (index, pairs) in pairs.iter_mut().enumerate() {
                for (row, [a, b]) in pairs.iter_mut().enumerate() {
                    let columns = &x.digits(first + row)[digit + index];
                    let (x_low, x_high) = (broadcast(columns, quad), broadcast(columns, quad + 4));
                    *a = _mm256_add_epi16(*a, _mm256_maddubs_epi16(low, x_low));
                    *b = _mm256_add_epi16(*b, _mm256_maddubs_epi16(high, x_high));
                }
            }
            // Of six-bit codes, two quads are what 16 bits hold.
            if quad == 3 || (S::BITS == 6 && quad == 1) {
                let pairs = pairs.as_flattened_mut().as_flattened_mut();
                let dots = dots.as_flattened_mut().as_flattened_mut();
                for (dot, pairs) in dots.iter_mut().zip(pairs) {
                    *dot = _mm256_add_epi32(*dot, _mm256_madd_epi16(*pairs, ones));
                    *pairs = _mm256_setzero_si256();
                }
            }
        }
        dots
    }
}

/// Takes away what a bias of stored codes added.
#[inline]
#[target_feature(enable = "avx2")]
fn undo_bias<const R: usize>(dots: &mut [Dots; R], bias: u8, about: &About, first: usize) {
    if bias == 0 {
        return;
    }
    for (row, dots) in dots.iter_mut().enumerate() {
        for (which, dot) in dots.iter_mut().enumerate() {
            let undo = -(about.sums[which][first + row] as i32) * i32::from(bias);
            *dot = _mm256_add_epi32(*dot, _mm256_set1_epi32(undo));
        }
    }
}

/// Four columns of an activation row in every lane.
#[inline]
#[target_feature(enable = "avx2")]
fn broadcast(digits: &[i8; GROUP], quad: usize) -> __m256i {
    let quads: &[[u8; 4]; 8] = bytemuck::cast_ref(digits);
    _mm256_set1_epi32(i32::from_le_bytes(quads[quad]))
}

/// `acc` plus the scaled dots of one group with activation row `row`, the row's scale left out.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn add_group<S: Shape>(
    acc: __m256,
    dots: Dots,
    scales: &Scales,
    about: &About,
    row: usize,
) -> __m256 {
    let sum = |which: usize| _mm256_set1_ps(about.sums[which][row]);
    if S::SUBS == 2 {
        let [low, high] = dots.map(|dot| _mm256_cvtepi32_ps(dot));
        let acc = _mm256_fmadd_ps(low, scales.scale[0], acc);
        let acc = _mm256_fmadd_ps(high, scales.scale[1], acc);
        if !S::MINIMUM {
            return acc;
        }
        let acc = _mm256_fmadd_ps(sum(0), scales.minimum[0], acc);
        return _mm256_fmadd_ps(sum(1), scales.minimum[1], acc);
    }
    let whole = _mm256_cvtepi32_ps(_mm256_add_epi32(dots[0], dots[1]));
    let acc = _mm256_fmadd_ps(whole, scales.scale[0], acc);
    if !S::MINIMUM {
        return acc;
    }
    _mm256_fmadd_ps(sum(2), scales.minimum[0], acc)
}
