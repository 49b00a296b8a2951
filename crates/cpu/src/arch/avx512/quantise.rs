//! Activations to int8: 32 columns of a row at a time, or of 16 rows.
//!
//! A row by itself waits for its largest magnitude, two divisions and two sums, one after the other: some 70 cycles (Zen 5).
//! Sixteen rows do each of these once, a row a lane, in some 320.

use core::arch::x86_64::*;

use ucuz_tensor::format::GROUP;
use ucuz_tensor::numerics::{CODE_ABSMAX_MIN, RowScale};

use crate::activations::{BLOCK_ROWS, I8Group, PAIR_MAX};

/// Fewer rows than this are quantised one by one: together, sixteen cost as much as four or five alone.
const TOGETHER_MIN: usize = 5;

/// [`crate::activations::quantise_block`].
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub fn quantise_block(block: &mut [I8Group], x: &[f32], cols: usize, planes: usize) {
    let rows = x.len() / cols;
    for (g, group) in block.chunks_exact_mut(planes).enumerate() {
        if rows >= TOGETHER_MIN {
            let columns = |row: usize| x.get(row * cols + g * GROUP..)?.first_chunk();
            set_rows(group, &std::array::from_fn(columns));
            continue;
        }
        for row in 0..rows {
            if let Some(columns) = x[row * cols + g * GROUP..].first_chunk() {
                set_row(group, row, load(columns));
            }
        }
        for row in rows..rows.next_power_of_two() {
            group.iter_mut().for_each(|plane| plane.clear_row(row));
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(x: &[f32; GROUP]) -> [__m512; 2] {
    // SAFETY: two halves of 32 floats.
    unsafe {
        [
            _mm512_loadu_ps(x.as_ptr()),
            _mm512_loadu_ps(x.as_ptr().add(16)),
        ]
    }
}

/// Quantises `x` into row `row` of a group of one or two planes.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl")]
fn set_row(planes: &mut [I8Group], row: usize, x: [__m512; 2]) {
    let [low, high] =
        x.map(|x| _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fff_ffff)));
    let peak = _mm512_reduce_max_epu32(_mm512_max_epu32(low, high));
    let (scale, most) = match planes.len() {
        1 => (RowScale::of_peak(peak), 127),
        _ => (RowScale::of_peak(peak).in_256_steps(), PAIR_MAX),
    };
    if scale.is_zero() {
        for plane in planes {
            plane.clear_codes(row);
            plane.scales[row] = scale.scale;
        }
        return;
    }
    let inverse = _mm512_set1_ps(scale.inverse);
    let codes = x.map(|x| {
        // The default rounding of the conversion is half to even.
        let rounded = _mm512_cvtps_epi32(_mm512_mul_ps(x, inverse));
        _mm512_max_epi32(
            _mm512_min_epi32(rounded, _mm512_set1_epi32(most)),
            _mm512_set1_epi32(-most),
        )
    });
    let [first, rest @ ..] = planes else { return };
    first.scales[row] = scale.scale;
    let [second] = rest else {
        store(&mut first.codes[row], codes);
        return first.set_sums(row, codes.map(|codes| _mm512_reduce_add_epi32(codes)));
    };
    let (high, rest) = split(codes);
    store(&mut first.codes[row], high);
    store(&mut second.codes[row], rest);
    let sums = std::array::from_fn(|half| {
        let both = _mm512_add_epi32(_mm512_slli_epi32::<8>(high[half]), rest[half]);
        _mm512_reduce_add_epi32(both)
    });
    first.set_sums(row, sums);
}

/// Quantises 16 rows into a group of one or two planes; a row that is not there is zero.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl,avx512vnni")]
fn set_rows(planes: &mut [I8Group], rows: &[Option<&[f32; GROUP]>; BLOCK_ROWS]) {
    let magnitude = |x| _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fff_ffff));
    let mut peaks = [_mm512_setzero_si512(); BLOCK_ROWS];
    for (peak, x) in peaks.iter_mut().zip(rows) {
        if let Some(x) = x {
            let [low, high] = load(x).map(magnitude);
            *peak = _mm512_max_epu32(low, high);
        }
    }
    let Scales { scale, inverse } = Scales::of_peaks(max_of_each(&peaks));
    let steps = _mm512_set1_ps(if planes.len() == 1 { 1.0 } else { 256.0 });
    let mut inverses = [0.0; BLOCK_ROWS];
    // SAFETY: sixteen floats.
    unsafe { _mm512_storeu_ps(inverses.as_mut_ptr(), _mm512_mul_ps(inverse, steps)) };
    for (row, (x, inverse)) in rows.iter().zip(inverses).enumerate() {
        // A row whose scale is zero or NaN has no codes.
        let mask = if inverse == 0.0 { 0 } else { !0 };
        let x = x.map_or([_mm512_setzero_ps(); 2], |x| load(x));
        // None exceeds its limit: |x| · (127 / absmax) is at most 127 and two roundings.
        let codes = x.map(|x| {
            let product = _mm512_mul_ps(x, _mm512_set1_ps(inverse));
            _mm512_maskz_cvtps_epi32(mask, product)
        });
        match planes {
            [first] => store(&mut first.codes[row], codes),
            [first, second] => {
                let (high, rest) = split(codes);
                store(&mut first.codes[row], high);
                store(&mut second.codes[row], rest);
            }
            _ => {}
        }
    }
    let [low, high] = half_sums(planes);
    let Some(first) = planes.first_mut() else {
        return;
    };
    // SAFETY: each place is one of sixteen numbers of four bytes.
    unsafe {
        _mm512_storeu_ps(first.scales.as_mut_ptr(), _mm512_div_ps(scale, steps));
        for (which, sum) in [low, high, _mm512_add_epi32(low, high)]
            .into_iter()
            .enumerate()
        {
            let minus = _mm512_sub_epi32(_mm512_setzero_si512(), sum);
            _mm512_storeu_ps(first.sums[which].as_mut_ptr(), _mm512_cvtepi32_ps(sum));
            let minus_8 = first.minus_8_sums[which].as_mut_ptr();
            _mm512_storeu_si512(minus_8.cast(), _mm512_slli_epi32::<3>(minus));
            let minus_128 = first.minus_128_sums[which].as_mut_ptr();
            _mm512_storeu_si512(minus_128.cast(), _mm512_slli_epi32::<7>(minus));
        }
    }
}

/// [`RowScale`] of sixteen rows.
struct Scales {
    scale: __m512,
    inverse: __m512,
}

impl Scales {
    /// [`RowScale::of_peak`] of each lane.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn of_peaks(peaks: __m512i) -> Self {
        let (absmax, most) = (_mm512_castsi512_ps(peaks), _mm512_set1_ps(127.0));
        let infinity = _mm512_set1_epi32(f32::INFINITY.to_bits() as i32);
        let finite = _mm512_cmplt_epu32_mask(peaks, infinity);
        let large = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(absmax, _mm512_set1_ps(CODE_ABSMAX_MIN));
        let scale = _mm512_maskz_div_ps(large, absmax, most);
        Self {
            scale: _mm512_mask_mov_ps(_mm512_set1_ps(f32::NAN), finite, scale),
            inverse: _mm512_maskz_div_ps(large & finite, most, absmax),
        }
    }
}

/// Lane `i` is the largest of vector `i`.
#[inline]
#[target_feature(enable = "avx512f")]
fn max_of_each(vectors: &[__m512i; 16]) -> __m512i {
    let max = |a, b| _mm512_max_epu32(a, b);
    // Of each four lanes: two vectors in turns, then four.
    let pairs: [__m512i; 8] = std::array::from_fn(|i| {
        let (a, b) = (vectors[2 * i], vectors[2 * i + 1]);
        max(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b))
    });
    let fours: [__m512i; 4] = std::array::from_fn(|i| {
        let (a, b) = (pairs[2 * i], pairs[2 * i + 1]);
        max(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b))
    });
    let eights: [__m512i; 2] = std::array::from_fn(|i| {
        let (a, b) = (fours[2 * i], fours[2 * i + 1]);
        max(
            _mm512_shuffle_i32x4::<0b01_00_01_00>(a, b),
            _mm512_shuffle_i32x4::<0b11_10_11_10>(a, b),
        )
    });
    let [a, b] = eights;
    max(
        _mm512_shuffle_i32x4::<0b10_00_10_00>(a, b),
        _mm512_shuffle_i32x4::<0b11_01_11_01>(a, b),
    )
}

/// The sums of both halves of sixteen rows of stored codes, a row a lane.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn half_sums(planes: &[I8Group]) -> [__m512i; 2] {
    let ones = _mm512_set1_epi8(1);
    // Two rows a vector; a lane has the sum of four columns.
    let quads: [__m512i; 8] = std::array::from_fn(|pair| {
        planes.iter().fold(_mm512_setzero_si512(), |sum, plane| {
            let codes: &[[i8; 64]; 8] = bytemuck::cast_ref(&plane.codes);
            // SAFETY: 64 readable bytes.
            let codes = unsafe { _mm512_loadu_si512(codes[pair].as_ptr().cast()) };
            _mm512_dpbusd_epi32(_mm512_slli_epi32::<8>(sum), ones, codes)
        })
    });
    // A group of four lanes sums up one half of four even or four odd rows.
    let [upper, lower] = std::array::from_fn(|i| {
        let add = |a, b| _mm512_add_epi32(a, b);
        let pair = |a, b| add(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        let (a, b) = (
            pair(quads[4 * i], quads[4 * i + 1]),
            pair(quads[4 * i + 2], quads[4 * i + 3]),
        );
        add(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b))
    });
    // Vectors hold: low halves of rows 0 2 4 6, high halves of these, low halves of 1 3 5 7, high halves of these.
    let low = _mm512_set_epi32(27, 19, 26, 18, 25, 17, 24, 16, 11, 3, 10, 2, 9, 1, 8, 0);
    let high = _mm512_add_epi32(low, _mm512_set1_epi32(4));
    [low, high].map(|order| _mm512_permutex2var_epi32(upper, order, lower))
}

/// Codes of a pair as their two bytes, see [`crate::activations::split_pair`].
#[inline]
#[target_feature(enable = "avx512f")]
fn split(codes: [__m512i; 2]) -> ([__m512i; 2], [__m512i; 2]) {
    let high =
        codes.map(|code| _mm512_srai_epi32::<8>(_mm512_add_epi32(code, _mm512_set1_epi32(128))));
    let rest = std::array::from_fn(|half| {
        let rest = _mm512_sub_epi32(codes[half], _mm512_slli_epi32::<8>(high[half]));
        _mm512_max_epi32(rest, _mm512_set1_epi32(-127))
    });
    (high, rest)
}

/// Codes of one row as bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn store(row: &mut [i8; GROUP], codes: [__m512i; 2]) {
    for (half, codes) in codes.into_iter().enumerate() {
        let bytes = _mm512_cvtepi32_epi8(codes);
        // SAFETY: 16 of the row's 32 bytes.
        unsafe { _mm_storeu_si128(row.as_mut_ptr().add(16 * half).cast(), bytes) };
    }
}
