//! Prompts of any length: token ids drawn by a fixed rule, the same in every run.

/// `count` ids below `vocab`, spread over the vocabulary; `stream` names one of many such prompts.
///
/// Which ids they are does not change what a dense model computes; that neighbours differ keeps embedding rows out of the
/// same cache lines.
///
/// Source: the output function of SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, OOPSLA 2014).
pub fn ids(stream: u64, count: usize, vocab: usize) -> Vec<u32> {
    (0..count as u64)
        .map(|i| {
            let mut z = (stream << 32 | i).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            ((z ^ (z >> 31)) % vocab.max(1) as u64) as u32
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::ids;

    #[test]
    fn prompts_repeat_themselves_and_differ_from_each_other() {
        let a = ids(1, 100, 50);
        assert_eq!(a, ids(1, 100, 50));
        assert_eq!(
            a[..40],
            ids(1, 40, 50),
            "a longer prompt begins like a shorter one"
        );
        assert_ne!(a, ids(2, 100, 50));
        assert!(a.iter().all(|id| *id < 50));
    }
}
