//! The one order of a long sum: 16 strided lanes, then a fixed tree.

/// Lanes of a long sum, whatever the vector width of the machine.
pub const STRIDED_LANES: usize = 16;

/// Sums 16 lanes: lane `j` takes lane `j + 8`, then `j + 4`, `j + 2`, `j + 1`.
#[inline(always)]
pub fn tree_sum16(lanes: &[f32; STRIDED_LANES]) -> f32 {
    let mut sums = *lanes;
    let mut half = STRIDED_LANES / 2;
    while half > 0 {
        for j in 0..half {
            sums[j] += sums[j + half];
        }
        half /= 2;
    }
    sums[0]
}

/// Sum of `x`: lane `j` adds `x[j], x[j + 16], ...` ascending, starting from `+0`; then [`tree_sum16`].
#[inline(always)]
pub fn strided_sum16(x: &[f32]) -> f32 {
    sum_of(x, |v| v)
}

/// Sum of the squares of `x`, each square rounded before it is added; order as [`strided_sum16`].
#[inline(always)]
pub fn square_sum16(x: &[f32]) -> f32 {
    sum_of(x, |v| v * v)
}

#[inline(always)]
fn sum_of(x: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0.0; STRIDED_LANES];
    let (whole, rest) = x.as_chunks::<STRIDED_LANES>();
    for chunk in whole {
        for (lane, &v) in lanes.iter_mut().zip(chunk) {
            *lane += term(v);
        }
    }
    for (lane, &v) in lanes.iter_mut().zip(rest) {
        *lane += term(v);
    }
    tree_sum16(&lanes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_strided_lanes_then_the_tree() {
        for n in [0, 1, 15, 16, 17, 31, 32, 33, 100, 576] {
            let x: Vec<f32> = (0..n).map(|i| (i as f32 * 0.731).sin() * 1e3).collect();
            let lane = |j: usize| {
                (j..n)
                    .step_by(16)
                    .fold(0.0, |sum: f32, i| sum + x[i] * x[i])
            };
            let pair = |j| lane(j) + lane(j + 8);
            let quad = |j| pair(j) + pair(j + 4);
            let expected = (quad(0) + quad(2)) + (quad(1) + quad(3));
            assert_eq!(square_sum16(&x), expected, "{n}");
            let exact: f64 = x.iter().map(|v| f64::from(*v)).sum();
            let bound = x.iter().map(|v| f64::from(v.abs())).sum::<f64>() * (n as f64 / 16.0 + 5.0);
            assert!((f64::from(strided_sum16(&x)) - exact).abs() <= bound * 2f64.powi(-24));
        }
    }
}
