//! Activations to integer codes: the columns of one scale at a time, of one row or of 16 rows.
//!
//! A row by itself waits for its largest magnitude, two divisions and two sums, one after the other: some 70 cycles (Zen 5).
//! Sixteen rows do each of these once, a row a lane, in some 320.

use core::arch::x86_64::*;

use ucuz_tensor::format::GROUP;
use ucuz_tensor::numerics::{CODE_ABSMAX_MIN, RowScale};

use crate::activations::{BLOCK_ROWS, Codes, clear_codes, clear_row};

/// Fewer rows than this are quantised one by one: together, sixteen cost as much as four or five alone.
const TOGETHER_MIN: usize = 5;

/// [`crate::activations::quantise_block`].
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vnni")]
pub fn quantise_block<X: Codes>(block: &mut [X], x: &[f32], cols: usize) {
    let rows = x.len() / cols;
    for (segment, groups) in block.chunks_mut(X::SEGMENT).enumerate() {
        let (start, len) = (segment * X::SEGMENT * GROUP, groups.len() * GROUP);
        let columns = |row: usize| x[row * cols + start..][..len].as_chunks().0;
        if rows >= TOGETHER_MIN {
            let rows = std::array::from_fn(|row| (row < rows).then(|| columns(row)));
            set_rows(groups, &rows);
            continue;
        }
        for row in 0..rows {
            set_row(groups, row, columns(row));
        }
        for row in rows..rows.next_power_of_two() {
            groups.iter_mut().for_each(|group| clear_row(group, row));
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

/// Magnitudes as integers, which are ordered as they are, infinity and NaN on top.
#[inline]
#[target_feature(enable = "avx512f")]
fn magnitudes(x: [__m512; 2]) -> [__m512i; 2] {
    x.map(|x| _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fff_ffff)))
}

/// Lane by lane the largest magnitude of some columns.
#[inline]
#[target_feature(enable = "avx512f")]
fn peaks(x: &[[f32; GROUP]]) -> __m512i {
    x.iter().fold(_mm512_setzero_si512(), |peak, x| {
        let [low, high] = magnitudes(load(x));
        _mm512_max_epu32(peak, _mm512_max_epu32(low, high))
    })
}

/// Quantises `x`, the columns of a segment, into row `row` of its groups.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl")]
fn set_row<X: Codes>(groups: &mut [X], row: usize, x: &[[f32; GROUP]]) {
    let scale = X::scale(RowScale::of_peak(_mm512_reduce_max_epu32(peaks(x))));
    let inverse = _mm512_set1_ps(scale.inverse);
    for (group, x) in groups.iter_mut().zip(x) {
        group.about_mut().scales[row] = scale.scale;
        if scale.is_zero() {
            clear_codes(group, row);
            continue;
        }
        // The default rounding of the conversion is half to even; see `set_rows` for the limit.
        let codes = load(x).map(|x| _mm512_cvtps_epi32(_mm512_mul_ps(x, inverse)));
        store(group, row, codes);
        let sums = codes.map(|codes| _mm512_reduce_add_epi32(codes));
        group.about_mut().set_sums(row, sums);
    }
}

/// Quantises 16 rows into the groups of a segment; a row that is not there is zero.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl,avx512vnni")]
fn set_rows<X: Codes>(groups: &mut [X], rows: &[Option<&[[f32; GROUP]]>; BLOCK_ROWS]) {
    let mut largest = [_mm512_setzero_si512(); BLOCK_ROWS];
    for (largest, x) in largest.iter_mut().zip(rows) {
        *largest = peaks(x.unwrap_or(&[]));
    }
    let Scales { scale, inverse } = Scales::of_peaks(max_of_each(&largest));
    let steps = _mm512_set1_ps(X::scale(RowScale::UNIT).inverse);
    let scale = _mm512_div_ps(scale, steps);
    let mut inverses = [0.0; BLOCK_ROWS];
    // SAFETY: sixteen floats.
    unsafe { _mm512_storeu_ps(inverses.as_mut_ptr(), _mm512_mul_ps(inverse, steps)) };
    for (index, group) in groups.iter_mut().enumerate() {
        for (row, (x, inverse)) in rows.iter().zip(inverses).enumerate() {
            // A row whose scale is zero or NaN has no codes.
            let mask = if inverse == 0.0 { 0 } else { !0 };
            let x = x.map_or([_mm512_setzero_ps(); 2], |x| load(&x[index]));
            // None exceeds its limit: |x| · (127 / absmax) is at most 127 and two roundings.
            let codes = x.map(|x| {
                let product = _mm512_mul_ps(x, _mm512_set1_ps(inverse));
                _mm512_maskz_cvtps_epi32(mask, product)
            });
            store(group, row, codes);
        }
        let [low, high] = half_sums(group);
        set_about(group, scale, [low, high, _mm512_add_epi32(low, high)]);
    }
}

/// Scales and sums of sixteen rows.
#[inline]
#[target_feature(enable = "avx512f")]
fn set_about<X: Codes>(group: &mut X, scale: __m512, sums: [__m512i; 3]) {
    let about = group.about_mut();
    // SAFETY: each place is one of sixteen numbers of four bytes.
    unsafe {
        _mm512_storeu_ps(about.scales.as_mut_ptr(), scale);
        for (which, sum) in sums.into_iter().enumerate() {
            let minus = _mm512_sub_epi32(_mm512_setzero_si512(), sum);
            _mm512_storeu_ps(about.sums[which].as_mut_ptr(), _mm512_cvtepi32_ps(sum));
            let minus_8 = about.minus_8_sums[which].as_mut_ptr();
            _mm512_storeu_si512(minus_8.cast(), _mm512_slli_epi32::<3>(minus));
            let minus_128 = about.minus_128_sums[which].as_mut_ptr();
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
#[target_feature(enable = "avx512f,avx512vl,avx512vnni")]
fn half_sums<X: Codes>(group: &X) -> [__m512i; 2] {
    let ones = _mm512_set1_epi8(1);
    // Two rows a vector; a lane has the sum of four columns.
    let quads: [__m512i; 8] = std::array::from_fn(|pair| {
        let rows = [group.digits(2 * pair), group.digits(2 * pair + 1)];
        (0..X::DIGITS).fold(_mm512_setzero_si512(), |sum, digit| {
            // SAFETY: 32 readable bytes each.
            let codes = rows.map(|row| unsafe { _mm256_loadu_si256(row[digit].as_ptr().cast()) });
            let codes = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(codes[0]), codes[1]);
            _mm512_dpbusd_epi32(_mm512_slli_epi32::<4>(sum), ones, codes)
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

/// Codes of one row as their digits, see [`crate::activations::split`].
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn store<X: Codes>(group: &mut X, row: usize, codes: [__m512i; 2]) {
    let write = |to: &mut [i8; GROUP], digits: [__m512i; 2]| {
        for (to, digits) in to.as_chunks_mut::<16>().0.iter_mut().zip(digits) {
            // SAFETY: 16 writable bytes.
            unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(digits)) };
        }
    };
    match group.digits_mut(row) {
        [only] => write(only, codes),
        [first, second, ..] => {
            let half = _mm512_set1_epi32(8);
            let high = codes.map(|code| _mm512_srai_epi32::<4>(_mm512_add_epi32(code, half)));
            write(first, high);
            let rest = |i: usize| _mm512_sub_epi32(codes[i], _mm512_slli_epi32::<4>(high[i]));
            write(second, [rest(0), rest(1)]);
        }
        [] => {}
    }
}
