//! How many KV blocks fit, and how many a sequence may need: pure arithmetic.

use ucuz_tensor::CacheSpec;
use ucuz_tensor::backend::Limits;
use ucuz_tensor::cache::{BLOCK_TOKENS, PagedGroup};

/// The KV memory does not hold what one sequence needs to move at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "KV memory of {has} bytes is less than the {needs} bytes that one sequence needs; raise --kv-memory or lower --context"
)]
pub struct MemoryTooSmall {
    /// Bytes needed at least.
    pub needs: usize,
    /// Bytes given.
    pub has: usize,
}

/// Most blocks of `group` that a sequence of `tokens` holds at once, when a step computes up to `step_rows` of them.
///
/// Without a window all of them. With one, the blocks that the first query of a chunk sees and the chunk itself; one more
/// because neither end needs to stand on a block border.
pub fn sequence_blocks(group: &PagedGroup, tokens: usize, step_rows: usize) -> usize {
    let all = tokens.div_ceil(BLOCK_TOKENS);
    match group.window {
        None => all,
        Some(window) => all.min((window + step_rows).div_ceil(BLOCK_TOKENS) + 1),
    }
}

/// Blocks of each group for `kv_memory_bytes`: what `limits.sequences` sequences of `limits.context` tokens need, or the
/// largest equal share of that in every group which fits.
///
/// A window group never gets less than one sequence needs of it, another group never less than one block.
///
/// # Errors
/// [`MemoryTooSmall`] when not even that fits.
pub fn plan_blocks(
    spec: &CacheSpec,
    limits: &Limits,
    kv_memory_bytes: usize,
) -> Result<Vec<usize>, MemoryTooSmall> {
    let per_sequence: Vec<usize> = spec
        .groups
        .iter()
        .map(|group| sequence_blocks(group, limits.context, limits.step_rows))
        .collect();
    // `share` of `limits.context` blocks-steps: fine enough that one step is at most one block of any group a sequence.
    let steps = limits.context.div_ceil(BLOCK_TOKENS).max(1) * limits.sequences.max(1);
    let blocks = |share: usize| -> Vec<usize> {
        let group_blocks = |(group, &one): (&PagedGroup, &usize)| {
            let least = if group.window.is_some() { one } else { 1 };
            let all = one as u128 * limits.sequences.max(1) as u128;
            let part = all * share as u128 / steps as u128;
            usize::try_from(part).unwrap_or(usize::MAX).max(least)
        };
        spec.groups
            .iter()
            .zip(&per_sequence)
            .map(group_blocks)
            .collect()
    };
    let fits = |share: usize| bytes(spec, &blocks(share)) <= kv_memory_bytes as u128;
    if !fits(0) {
        return Err(MemoryTooSmall {
            needs: usize::try_from(bytes(spec, &blocks(0))).unwrap_or(usize::MAX),
            has: kv_memory_bytes,
        });
    }
    let (mut low, mut high) = (0, steps);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        match fits(middle) {
            true => low = middle,
            false => high = middle - 1,
        }
    }
    Ok(blocks(low))
}

/// Tokens that one sequence can hold when it has all `blocks` to itself, at most `limits.context`.
///
/// A group that sees everything holds 32 tokens a block; `plan_blocks` gives a window group enough for any length.
pub fn longest_sequence(spec: &CacheSpec, limits: &Limits, blocks: &[usize]) -> usize {
    let full = spec
        .groups
        .iter()
        .zip(blocks)
        .filter(|(group, _)| group.window.is_none());
    let tokens = full
        .map(|(_, blocks)| blocks.saturating_mul(BLOCK_TOKENS))
        .min();
    tokens.map_or(limits.context, |tokens| tokens.min(limits.context))
}

/// [`CacheSpec::bytes`] that cannot overflow.
fn bytes(spec: &CacheSpec, blocks: &[usize]) -> u128 {
    let sizes = spec.groups.iter().zip(blocks);
    sizes
        .map(|(group, &n)| group.block_bytes() as u128 * n as u128)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ucuz_tensor::KvDtype;

    fn group(layers: usize, window: Option<usize>) -> PagedGroup {
        PagedGroup {
            layers,
            kv_heads: 2,
            k_dim: 64,
            v_dim: 64,
            dtype: KvDtype::Bf16,
            window,
        }
    }

    fn limits(sequences: usize, context: usize, step_rows: usize) -> Limits {
        Limits {
            step_rows,
            sequences,
            logit_rows: 8,
            context,
            cols_max: 64,
            vocab: 100,
        }
    }

    #[test]
    fn a_window_group_needs_its_window_and_one_chunk() {
        assert_eq!(sequence_blocks(&group(1, None), 1000, 128), 32);
        assert_eq!(sequence_blocks(&group(1, Some(512)), 10_000, 128), 21);
        assert_eq!(sequence_blocks(&group(1, Some(512)), 100, 128), 4);
    }

    #[test]
    fn blocks_fill_the_memory_and_never_exceed_it() {
        for windows in [
            vec![None],
            vec![None, Some(512)],
            vec![Some(100)],
            vec![Some(64), Some(4096)],
        ] {
            let groups: Vec<_> = windows.iter().map(|&w| group(5, w)).collect();
            let spec = CacheSpec {
                groups,
                layers: Vec::new(),
            };
            let limits = limits(16, 8192, 256);
            let all = plan_blocks(&spec, &limits, usize::MAX).unwrap();
            for (group, &blocks) in spec.groups.iter().zip(&all) {
                assert_eq!(blocks, 16 * sequence_blocks(group, 8192, 256));
            }
            let whole = spec.bytes(&all);
            assert_eq!(plan_blocks(&spec, &limits, whole).unwrap(), all);
            let half = plan_blocks(&spec, &limits, whole / 2).unwrap();
            let largest = spec
                .groups
                .iter()
                .map(PagedGroup::block_bytes)
                .max()
                .unwrap();
            assert!(spec.bytes(&half) <= whole / 2);
            assert!(
                spec.bytes(&half) + 2 * 2 * largest > whole / 2,
                "{windows:?} {half:?}"
            );
        }
    }

    #[test]
    fn too_little_memory_says_how_much_is_needed() {
        let spec = CacheSpec {
            groups: vec![group(2, None), group(2, Some(64))],
            layers: Vec::new(),
        };
        let error = plan_blocks(&spec, &limits(4, 1024, 32), 1000).unwrap_err();
        assert_eq!(error.has, 1000);
        assert!(plan_blocks(&spec, &limits(4, 1024, 32), error.needs).is_ok());
        assert!(plan_blocks(&spec, &limits(4, 1024, 32), error.needs - 1).is_err());
    }
}
