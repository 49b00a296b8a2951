//! The likeliest ids of a row without sorting the vocabulary.
//!
//! All orders here are total: by logit downwards, then by id upwards. Probability masses are integers, so a sum does not
//! depend on who added first, and any algorithm finds the same ids.

use std::cmp::Ordering;

use super::noise::exp;

/// Buckets of the histogram over `(max - logit) / T`, 1/16 nat wide; the last one also takes all that is further away.
pub(super) const BUCKETS: usize = 512;
const BUCKETS_PER_NAT: f32 = 16.0;

/// A weight of 1, the likeliest id's: 2^40, so that 2^18 ids sum below 2^59 and 1e-12 of the likeliest still counts.
const ONE: f64 = 1_099_511_627_776.0;

/// Adding 2^52 to a smaller f64 leaves its integer part in the low mantissa bits.
const TWO_52: f64 = 4_503_599_627_370_496.0;

/// The same for an f32: 2^23.
const TWO_23: f32 = 8_388_608.0;

/// Order of likelihood: larger logit first, then lower id.
pub(super) fn likelier(values: &[f32], a: u32, b: u32) -> Ordering {
    // Adding zero makes both zeros one, so that this order and `==` agree.
    (values[b as usize] + 0.0)
        .total_cmp(&(values[a as usize] + 0.0))
        .then(a.cmp(&b))
}

/// How logits become probability masses.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    /// The largest logit.
    pub max: f32,
    /// 1 / T, finite.
    pub inverse_temperature: f32,
}

impl Scale {
    /// `(logit - max) / T`, at most 0.
    #[inline(always)]
    pub(super) fn nats(self, logit: f32) -> f32 {
        (logit - self.max) * self.inverse_temperature
    }

    /// Mass of a logit in units of 2^-40 of the likeliest.
    #[inline(always)]
    fn mass(self, logit: f32) -> u64 {
        (f64::from(exp(self.nats(logit))) * ONE + TWO_52).to_bits() & 0x000f_ffff_ffff_ffff
    }

    #[inline(always)]
    fn bucket(self, logit: f32) -> usize {
        let distance = -self.nats(logit) * BUCKETS_PER_NAT;
        let last = (BUCKETS - 1) as f32;
        let distance = if distance < last { distance } else { last };
        ((distance + TWO_23).to_bits() & 0x007f_ffff) as usize
    }
}

/// Puts the `n` likeliest ids into `ids`, in no order; ids whose value is -inf are left out.
///
/// One pass with a rising threshold: an id enters while it beats the `n`-th likeliest seen so far.
pub(super) fn top_n(values: &[f32], n: usize, ids: &mut Vec<u32>) {
    ids.clear();
    if n == 0 {
        return;
    }
    let full = n.saturating_mul(2).saturating_add(64).min(values.len());
    let mut threshold = f32::NEG_INFINITY;
    for (base, chunk) in (0u32..).step_by(64).zip(values.chunks(64)) {
        if !chunk.iter().any(|&v| v > threshold) {
            continue;
        }
        for (id, &value) in (base..).zip(chunk) {
            // Equal to the threshold loses: the ids that set it are lower.
            if value > threshold {
                if ids.len() == full && n < full {
                    threshold = keep_top(values, n, ids);
                    if value <= threshold {
                        continue;
                    }
                }
                ids.push(id);
            }
        }
    }
    if ids.len() > n {
        keep_top(values, n, ids);
    }
}

/// Keeps the `n` likeliest of `ids` and returns the value of the last of them.
fn keep_top(values: &[f32], n: usize, ids: &mut Vec<u32>) -> f32 {
    let (_, &mut last, _) = ids.select_nth_unstable_by(n - 1, |&a, &b| likelier(values, a, b));
    ids.truncate(n);
    values[last as usize]
}

/// The last id of the shortest prefix, in order of likelihood, of all ids whose share of the mass reaches `top_p`.
pub(super) fn nucleus(
    values: &[f32],
    scale: Scale,
    top_p: f32,
    ids: &mut Vec<u32>,
    histogram: &mut [u64],
) -> u32 {
    assert_eq!(histogram.len(), BUCKETS);
    histogram.fill(0);
    let (chunks, tail) = values.as_chunks::<64>();
    for chunk in chunks {
        let masses = chunk.map(|value| scale.mass(value));
        let buckets = chunk.map(|value| scale.bucket(value));
        for (&mass, &bucket) in masses.iter().zip(&buckets) {
            histogram[bucket] += mass;
        }
    }
    for &value in tail {
        histogram[scale.bucket(value)] += scale.mass(value);
    }
    let mut wanted = share(histogram.iter().sum(), top_p);
    let mut last = 0;
    while last + 1 < BUCKETS && histogram[last] < wanted {
        wanted -= histogram[last];
        last += 1;
    }
    ids.clear();
    for (base, chunk) in (0u32..).step_by(64).zip(values.chunks(64)) {
        if chunk.iter().any(|&v| scale.bucket(v) == last) {
            let inside = (base..)
                .zip(chunk)
                .filter(|&(_, &v)| scale.bucket(v) == last);
            ids.extend(inside.map(|(id, _)| id));
        }
    }
    reach(values, scale, wanted, ids)
}

/// [`nucleus`] among `ids` only.
pub(super) fn nucleus_of(values: &[f32], scale: Scale, top_p: f32, ids: &mut [u32]) -> u32 {
    let total = ids.iter().map(|&id| scale.mass(values[id as usize])).sum();
    reach(values, scale, share(total, top_p), ids)
}

/// Mass that must be reached: at least the likeliest id, at most everything.
fn share(total: u64, top_p: f32) -> u64 {
    ((total as f64 * f64::from(top_p)).ceil() as u64).clamp(1, total)
}

/// The id with which the mass of `ids`, likeliest first, reaches `wanted`: quickselect by mass.
fn reach(values: &[f32], scale: Scale, mut wanted: u64, mut ids: &mut [u32]) -> u32 {
    assert!(!ids.is_empty(), "a bucket that was reached holds an id");
    while ids.len() > 1 {
        let middle = ids.len() / 2;
        ids.select_nth_unstable_by(middle, |&a, &b| likelier(values, a, b));
        let (left, right) = ids.split_at_mut(middle);
        let mass: u64 = left.iter().map(|&id| scale.mass(values[id as usize])).sum();
        if mass >= wanted {
            ids = left;
        } else {
            wanted -= mass;
            ids = right;
        }
    }
    ids[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Logits with many ties and some masked ids.
    fn row(seed: u64, len: usize) -> Vec<f32> {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        (0..len)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(99);
                match (state >> 33) % 50 {
                    0 => f32::NEG_INFINITY,
                    v => (v as f32 - 25.0) * 0.25,
                }
            })
            .collect()
    }

    fn sorted(values: &[f32]) -> Vec<u32> {
        let mut ids: Vec<u32> = (0..values.len() as u32)
            .filter(|&id| values[id as usize] > f32::NEG_INFINITY)
            .collect();
        ids.sort_by(|&a, &b| likelier(values, a, b));
        ids
    }

    #[test]
    fn top_n_is_the_head_of_the_sorted_row() {
        for len in [1, 2, 63, 64, 65, 1000, 5000] {
            for n in [0, 1, 2, 7, 40, 900, 5000, 9000] {
                let values = row(len as u64 + n as u64, len);
                let mut ids = Vec::new();
                top_n(&values, n, &mut ids);
                ids.sort_by(|&a, &b| likelier(&values, a, b));
                let expected = sorted(&values);
                assert_eq!(ids, expected[..n.min(expected.len())], "{len} {n}");
            }
        }
    }

    #[test]
    fn nucleus_is_the_shortest_prefix_of_the_sorted_row() {
        for len in [1usize, 2, 65, 1000, 5000] {
            for top_p in [0.0, 0.1, 0.5, 0.95, 0.999_999] {
                let mut values = row(7 + len as u64, len);
                values[0] = 3.0;
                let scale = Scale {
                    max: values.iter().copied().fold(f32::MIN, f32::max),
                    inverse_temperature: 1.25,
                };
                let order = sorted(&values);
                let masses: Vec<u64> = order
                    .iter()
                    .map(|&id| scale.mass(values[id as usize]))
                    .collect();
                let wanted = share(masses.iter().sum(), top_p);
                let mut sum = 0;
                let cut = masses.iter().position(|mass| {
                    sum += mass;
                    sum >= wanted
                });
                let mut ids = Vec::new();
                let got = nucleus(&values, scale, top_p, &mut ids, &mut [0; BUCKETS]);
                assert_eq!(got, order[cut.unwrap()], "{len} {top_p}");
                assert_eq!(nucleus_of(&values, scale, top_p, &mut order.clone()), got);
            }
        }
    }
}
