//! Which KV blocks are free, how many hold each other one, and which can be found by what they hold.
//!
//! Here: counts, free lists and names of block ids, one pool a cache group. Not here: keys and values (the backend's), who
//! holds a block (each sequence's tables), when one is completely written (`publish.rs` of the scheduler). A block released
//! while a step in flight may still read it is given away when that step has retired.

mod group;
#[cfg(test)]
mod model;

use std::collections::VecDeque;

use ucuz_tensor::cache::{BLOCK_TOKENS, NO_BLOCK, PagedGroup};

pub(crate) use group::{Content, Published, Room};
use group::{GroupPool, Steps};

use crate::cache_event::CacheEvent;
use crate::prefix::{BlockHash, CacheScope};
use crate::stats::GroupStats;
use crate::view::BlockMark;

/// Free blocks, reference counts and visible contents of all cache groups.
#[derive(Debug)]
pub struct BlockPool {
    shapes: Vec<PagedGroup>,
    groups: Vec<GroupPool>,
    /// Released blocks without content and the newest step that may read them: (step, group, block), oldest first.
    limbo: VecDeque<(u64, usize, u32)>,
    steps: Steps,
    /// The group whose changes are told to others: one that sees everything if there is one.
    told: usize,
    /// What became visible and what was evicted since the last [`BlockPool::take_events`]; `None` when nobody asks.
    events: Option<Vec<CacheEvent>>,
}

/// A prefix that is there: its leading whole blocks, named and compared.
pub(crate) struct Prefix<'a> {
    /// Who may share it.
    pub scope: CacheScope,
    /// Name of the scope's root.
    pub root: BlockHash,
    /// Names of the blocks.
    pub chain: &'a [BlockHash],
    /// Their tokens, and perhaps more.
    pub tokens: &'a [u32],
}

impl Prefix<'_> {
    /// What block `block` of it holds.
    pub(crate) fn content(&self, block: usize) -> Content {
        let (blocks, _) = self.tokens.as_chunks();
        Content {
            hash: self.chain[block],
            parent: match block {
                0 => self.root,
                _ => self.chain[block - 1],
            },
            scope: self.scope,
            depth: block as u32,
            tokens: blocks[block],
        }
    }
}

/// First block that a query after `blocks` whole blocks sees.
fn first_seen(shape: &PagedGroup, blocks: usize) -> usize {
    let query = blocks * BLOCK_TOKENS;
    shape.window.map_or(0, |window| {
        (query + 1).saturating_sub(window) / BLOCK_TOKENS
    })
}

impl BlockPool {
    /// A pool of `blocks[group]` free blocks of the shape `shapes[group]` in each group.
    pub fn new(shapes: Vec<PagedGroup>, blocks: &[usize]) -> Self {
        assert_eq!(shapes.len(), blocks.len(), "one count a group");
        let told = shapes.iter().position(|shape| shape.window.is_none());
        Self {
            shapes,
            groups: blocks.iter().map(|&n| GroupPool::new(n)).collect(),
            limbo: VecDeque::new(),
            steps: Steps::default(),
            told: told.unwrap_or(0),
            events: None,
        }
    }

    /// Records from now on what becomes visible and what is evicted.
    pub(crate) fn record_events(&mut self) {
        self.events = Some(Vec::new());
    }

    /// What changed since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<CacheEvent> {
        self.events.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Whether `wanted` blocks of `group` can be had.
    pub(crate) fn room(&self, group: usize, wanted: usize) -> Room {
        self.groups[group].room(wanted, self.steps)
    }

    /// Blocks of `group` that can be had now: free ones and idle ones.
    pub fn num_available(&self, group: usize) -> usize {
        self.groups[group].num_available(self.steps)
    }

    /// Takes a block with one holder, evicting an idle one when none is free.
    pub fn allocate(&mut self, group: usize) -> Option<u32> {
        let (block, evicted) = self.groups[group].allocate(self.steps)?;
        if let (Some(content), Some(events)) = (evicted, &mut self.events)
            && group == self.told
        {
            events.push(CacheEvent::Removed { hash: content.hash });
        }
        Some(block)
    }

    /// Adds a holder to a block that has one or is idle.
    pub fn retain(&mut self, group: usize, block: u32) {
        self.groups[group].retain(block);
    }

    /// Drops a holder; the last one frees the block, or leaves it idle when its content can be found.
    pub fn release(&mut self, group: usize, block: u32) {
        let pool = &mut self.groups[group];
        if !pool.release(block, self.steps) {
            return;
        }
        if self.steps.launched > self.steps.retired {
            pool.limbo += 1;
            self.limbo.push_back((self.steps.launched, group, block));
        } else {
            pool.free.push(block);
        }
    }

    /// Leading blocks of `prefix` that are visible in all groups, as far as a query after them sees.
    pub(crate) fn longest(&self, prefix: &Prefix<'_>) -> usize {
        let (windows, whole): (Vec<usize>, Vec<usize>) =
            (0..self.groups.len()).partition(|&group| self.shapes[group].window.is_some());
        let leading = |most: usize, &group: &usize| {
            let mut blocks = 0..most;
            blocks
                .find(|&block| self.find(group, prefix, block).is_none())
                .unwrap_or(most)
        };
        let most = whole.iter().fold(prefix.chain.len(), leading);
        let is_valid = |&blocks: &usize| {
            windows.iter().all(|&group| {
                (first_seen(&self.shapes[group], blocks)..blocks)
                    .all(|block| self.find(group, prefix, block).is_some())
            })
        };
        (0..=most).rev().find(is_valid).unwrap_or(0)
    }

    /// How many of the first `blocks` blocks of `prefix` are idle in `group`, and how many there are to adopt.
    pub(crate) fn adoptable(
        &self,
        group: usize,
        prefix: &Prefix<'_>,
        blocks: usize,
    ) -> (usize, usize) {
        let seen = first_seen(&self.shapes[group], blocks)..blocks;
        let found = seen.filter_map(|block| self.find(group, prefix, block));
        found.fold((0, 0), |(idle, all), block| {
            (
                idle + usize::from(self.groups[group].is_idle(block)),
                all + 1,
            )
        })
    }

    /// Holds the first `blocks` blocks of `prefix`: `group`'s table, without those that no query sees any more.
    ///
    /// # Panics
    /// When they are not visible; see [`BlockPool::longest`].
    pub(crate) fn adopt(&mut self, group: usize, prefix: &Prefix<'_>, blocks: usize) -> Vec<u32> {
        let first = first_seen(&self.shapes[group], blocks);
        let mut table = vec![NO_BLOCK; first];
        for block in first..blocks {
            let found = self.find(group, prefix, block);
            assert!(found.is_some(), "block {block} of the prefix is visible");
            table.extend(found);
        }
        for &block in &table[first..] {
            self.groups[group].retain(block);
        }
        table
    }

    /// Makes a held, completely written block visible.
    pub(crate) fn publish(&mut self, group: usize, block: u32, content: &Content) -> Published {
        let published = self.groups[group].publish(block, content);
        if let Some(events) = &mut self.events
            && published == Published::Visible
            && group == self.told
        {
            events.push(CacheEvent::stored(content));
        }
        published
    }

    fn find(&self, group: usize, prefix: &Prefix<'_>, block: usize) -> Option<u32> {
        self.groups[group].find(&prefix.content(block))
    }

    /// Whether a block's content can be found; such a block is never written.
    pub(crate) fn is_visible(&self, group: usize, block: u32) -> bool {
        self.groups[group].is_visible(block)
    }

    /// Step `step` is in flight.
    pub(crate) fn launched(&mut self, step: u64) {
        assert!(step > self.steps.launched, "steps are numbered upwards");
        self.steps.launched = step;
    }

    /// Step `step` and all before it have ended.
    pub(crate) fn retired(&mut self, step: u64) {
        assert!(
            step > self.steps.retired && step <= self.steps.launched,
            "a step retires once"
        );
        self.steps.retired = step;
        while let Some(&(until, group, block)) = self.limbo.front() {
            if until > step {
                break;
            }
            self.limbo.pop_front();
            self.groups[group].limbo -= 1;
            self.groups[group].free.push(block);
        }
    }

    /// Counts of each group.
    pub(crate) fn stats(&self) -> Vec<GroupStats> {
        let group = |(pool, shape): (&GroupPool, &PagedGroup)| {
            let total = pool.references.len();
            let free = pool.free.len() + pool.num_idle();
            GroupStats {
                total,
                used: total - free,
                free,
                cached: pool.num_idle(),
                block_bytes: shape.block_bytes(),
            }
        };
        self.groups.iter().zip(&self.shapes).map(group).collect()
    }

    /// What each block of `group` is; `tables` are the slots and block tables of all who hold some.
    pub(crate) fn marks<'a>(
        &self,
        group: usize,
        tables: impl Iterator<Item = (u32, &'a [u32])>,
    ) -> Vec<BlockMark> {
        let pool = &self.groups[group];
        let blocks = 0..pool.references.len() as u32;
        let unheld = |block| match pool.is_visible(block) {
            true => BlockMark::Cached,
            false => BlockMark::Free,
        };
        let mut marks: Vec<_> = blocks.map(unheld).collect();
        for (_, _, block) in self.limbo.iter().filter(|(_, of, _)| *of == group) {
            marks[*block as usize] = BlockMark::Leaving;
        }
        for (slot, table) in tables {
            for &block in table.iter().filter(|&&block| block != NO_BLOCK) {
                marks[block as usize] = match pool.references[block as usize] {
                    1 => BlockMark::Held(slot),
                    _ => BlockMark::Shared,
                };
            }
        }
        marks
    }

    /// Checks that `tables` (group and block table of every holder) account for every block.
    ///
    /// # Panics
    /// When a count differs from the number of holders, a block is free and held or free twice, a visible block cannot be
    /// found or one that its name builds on cannot.
    pub fn check_integrity<'a>(&self, tables: impl Iterator<Item = (usize, &'a [u32])>) {
        let counts = |pool: &GroupPool| vec![0; pool.references.len()];
        let mut held: Vec<Vec<u32>> = self.groups.iter().map(counts).collect();
        for (group, table) in tables {
            for &block in table.iter().filter(|&&block| block != NO_BLOCK) {
                held[group][block as usize] += 1;
            }
        }
        for (index, (pool, held)) in self.groups.iter().zip(&held).enumerate() {
            let limbo = self.limbo.iter().filter(|(_, group, _)| *group == index);
            let limbo: Vec<u32> = limbo.map(|&(_, _, block)| block).collect();
            pool.check(held, &limbo, self.shapes[index].window.is_none());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prefix::PrefixHasher;
    use ucuz_tensor::KvDtype;

    fn shape(window: Option<usize>) -> PagedGroup {
        PagedGroup {
            layers: 1,
            kv_heads: 1,
            k_dim: 4,
            v_dim: 4,
            dtype: KvDtype::Bf16,
            window,
        }
    }

    fn pool(windows: &[Option<usize>], blocks: usize) -> BlockPool {
        let shapes: Vec<_> = windows.iter().map(|&window| shape(window)).collect();
        BlockPool::new(shapes, &vec![blocks; windows.len()])
    }

    /// Names and tokens of `blocks` blocks that begin with `seed`.
    struct Chain {
        root: BlockHash,
        chain: Vec<BlockHash>,
        tokens: Vec<u32>,
    }

    impl Chain {
        fn new(seed: u32, blocks: usize) -> Self {
            let hasher = PrefixHasher::new([3; 16]);
            let tokens: Vec<u32> = (0..(blocks * BLOCK_TOKENS) as u32)
                .map(|i| i + seed)
                .collect();
            let mut chain = Vec::new();
            hasher.extend(CacheScope::default(), &mut chain, &tokens);
            let root = hasher.root(CacheScope::default());
            Self {
                root,
                chain,
                tokens,
            }
        }

        fn prefix(&self) -> Prefix<'_> {
            Prefix {
                scope: CacheScope::default(),
                root: self.root,
                chain: &self.chain,
                tokens: &self.tokens,
            }
        }

        fn content(&self, block: usize) -> Content {
            self.prefix().content(block)
        }

        /// Allocates, publishes and releases all blocks, last first.
        fn store(&self, pool: &mut BlockPool, group: usize) {
            let table: Vec<u32> = (0..self.chain.len())
                .map(|_| pool.allocate(group).unwrap())
                .collect();
            for (index, &block) in table.iter().enumerate() {
                assert_eq!(
                    pool.publish(group, block, &self.content(index)),
                    Published::Visible
                );
            }
            for &block in table.iter().rev() {
                pool.release(group, block);
            }
        }
    }

    #[test]
    fn a_shared_block_is_freed_by_its_last_holder() {
        let mut pool = pool(&[None, None], 2);
        let block = pool.allocate(0).unwrap();
        pool.retain(0, block);
        pool.check_integrity([(0, &[block][..]), (0, &[NO_BLOCK, block][..])].into_iter());
        pool.release(0, block);
        assert_eq!(pool.num_available(0), 1);
        pool.release(0, block);
        assert_eq!((pool.num_available(0), pool.num_available(1)), (2, 2));
        pool.check_integrity([].into_iter());
    }

    #[test]
    fn blocks_of_a_step_in_flight_return_when_it_retires() {
        let mut pool = pool(&[None], 1);
        let block = pool.allocate(0).unwrap();
        pool.launched(1);
        pool.launched(2);
        pool.release(0, block);
        assert_eq!(pool.room(0, 1), Room::Soon);
        pool.retired(1);
        assert_eq!(pool.allocate(0), None);
        pool.check_integrity([].into_iter());
        pool.retired(2);
        assert_eq!(pool.room(0, 1), Room::Now);
        assert_eq!(pool.room(0, 2), Room::None);
        assert_eq!(pool.allocate(0), Some(block));
    }

    #[test]
    fn an_idle_block_that_a_step_reads_is_found_but_not_given_away() {
        let mut pool = pool(&[None], 1);
        let chain = Chain::new(0, 1);
        pool.launched(1);
        chain.store(&mut pool, 0);
        assert_eq!(pool.longest(&chain.prefix()), 1);
        assert_eq!((pool.room(0, 1), pool.allocate(0)), (Room::Soon, None));
        pool.retired(1);
        assert!(pool.allocate(0).is_some());
        assert_eq!(pool.longest(&chain.prefix()), 0);
    }

    #[test]
    fn the_least_recently_used_chain_goes_first_and_from_its_end() {
        let mut pool = pool(&[None], 6);
        let (old, new) = (Chain::new(0, 3), Chain::new(1000, 3));
        old.store(&mut pool, 0);
        new.store(&mut pool, 0);
        let mut held = Vec::new();
        for (used, new_blocks, old_blocks) in [(false, 3, 2), (true, 2, 2), (true, 1, 2)] {
            if used {
                let table = pool.adopt(0, &old.prefix(), 2);
                table.iter().rev().for_each(|&block| pool.release(0, block));
            }
            held.extend(pool.allocate(0));
            pool.check_integrity([(0, &held[..])].into_iter());
            assert_eq!(pool.longest(&new.prefix()), new_blocks);
            assert_eq!(pool.longest(&old.prefix()), old_blocks);
        }
        assert_eq!(held.len(), 3);
    }

    #[test]
    fn a_window_needs_only_what_the_next_query_sees() {
        // A query at 96 sees 57 to 96: blocks 1 and 2, not 0.
        let mut pool = pool(&[None, Some(40)], 4);
        let chain = Chain::new(0, 3);
        chain.store(&mut pool, 0);
        let table: Vec<u32> = (0..3).map(|_| pool.allocate(1).unwrap()).collect();
        for index in [1, 2] {
            pool.publish(1, table[index], &chain.content(index));
        }
        assert_eq!(pool.longest(&chain.prefix()), 3);
        let adopted = pool.adopt(1, &chain.prefix(), 3);
        assert_eq!(adopted, [NO_BLOCK, table[1], table[2]]);
        let one = Prefix {
            chain: &chain.chain[..1],
            ..chain.prefix()
        };
        assert_eq!(pool.longest(&one), 0);
    }

    #[test]
    fn tokens_are_compared_under_one_name() {
        let mut pool = pool(&[None], 3);
        let (stored, mut forged) = (Chain::new(0, 2), Chain::new(0, 2));
        stored.store(&mut pool, 0);
        forged.tokens[40] += 1;
        assert_eq!(pool.longest(&stored.prefix()), 2);
        assert_eq!(pool.longest(&forged.prefix()), 1);
        let block = pool.allocate(0).unwrap();
        assert_eq!(pool.publish(0, block, &forged.content(1)), Published::Taken);
        assert!(matches!(
            pool.publish(0, block, &stored.content(1)),
            Published::Equal(other) if other != block
        ));
    }

    #[test]
    fn what_others_are_told_is_what_can_be_found() {
        let mut pool = pool(&[Some(40), None], 2);
        pool.record_events();
        let chain = Chain::new(0, 2);
        chain.store(&mut pool, 1);
        chain.store(&mut pool, 0);
        let stored = [0, 1].map(|block| CacheEvent::stored(&chain.content(block)));
        assert_eq!(pool.take_events(), stored);
        pool.allocate(1);
        let hash = chain.chain[1];
        assert_eq!(pool.take_events(), [CacheEvent::Removed { hash }]);
    }
}
