//! Which KV blocks are free, and how many hold each other one.
//!
//! Here: counts and free lists of block ids, one pool a cache group. Not here: what is in a block (the backend's), who
//! holds it (each sequence's tables). A block released while a step in flight may still read it returns to the free list
//! when that step retires.

use std::collections::VecDeque;

use ucuz_tensor::cache::NO_BLOCK;

use crate::stats::GroupStats;

#[derive(Debug)]
struct GroupPool {
    /// Free ids; the last is given first.
    free: Vec<u32>,
    /// Holders of each block.
    references: Vec<u32>,
    /// Blocks without a holder that a step in flight may read.
    limbo: usize,
}

/// Free blocks and reference counts of all cache groups.
#[derive(Debug)]
pub struct BlockPool {
    groups: Vec<GroupPool>,
    /// Released blocks and the newest step that may read them: (step, group, block), oldest first.
    limbo: VecDeque<(u64, usize, u32)>,
    /// The newest step that was launched and the newest that retired.
    launched: u64,
    retired: u64,
}

/// Whether blocks can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// At once.
    Now,
    /// When the steps in flight retire.
    Soon,
    /// Only if somebody gives some up.
    None,
}

impl BlockPool {
    /// A pool of `blocks[group]` free blocks in each group.
    pub fn new(blocks: &[usize]) -> Self {
        let group = |&n: &usize| GroupPool {
            free: (0..n as u32).rev().collect(),
            references: vec![0; n],
            limbo: 0,
        };
        Self {
            groups: blocks.iter().map(group).collect(),
            limbo: VecDeque::new(),
            launched: 0,
            retired: 0,
        }
    }

    /// Whether `wanted` blocks of `group` can be had.
    pub(crate) fn room(&self, group: usize, wanted: usize) -> Room {
        let pool = &self.groups[group];
        if wanted <= pool.free.len() {
            Room::Now
        } else if wanted <= pool.free.len() + pool.limbo {
            Room::Soon
        } else {
            Room::None
        }
    }

    /// Free blocks of `group`.
    pub fn num_free(&self, group: usize) -> usize {
        self.groups[group].free.len()
    }

    /// Takes a free block with one holder.
    pub fn allocate(&mut self, group: usize) -> Option<u32> {
        let pool = &mut self.groups[group];
        let block = pool.free.pop()?;
        assert_eq!(pool.references[block as usize], 0, "block {block} was free");
        pool.references[block as usize] = 1;
        Some(block)
    }

    /// Adds a holder to a block that has one.
    pub fn retain(&mut self, group: usize, block: u32) {
        let references = &mut self.groups[group].references[block as usize];
        assert!(
            *references > 0,
            "block {block} of group {group} has no holder"
        );
        *references += 1;
    }

    /// Drops a holder; the last one frees the block.
    pub fn release(&mut self, group: usize, block: u32) {
        let pool = &mut self.groups[group];
        let references = &mut pool.references[block as usize];
        assert!(
            *references > 0,
            "block {block} of group {group} was released twice"
        );
        *references -= 1;
        if *references > 0 {
            return;
        }
        if self.launched > self.retired {
            pool.limbo += 1;
            self.limbo.push_back((self.launched, group, block));
        } else {
            pool.free.push(block);
        }
    }

    /// Step `step` is in flight.
    pub(crate) fn launched(&mut self, step: u64) {
        assert!(step > self.launched, "steps are numbered upwards");
        self.launched = step;
    }

    /// Step `step` and all before it have ended.
    pub(crate) fn retired(&mut self, step: u64) {
        assert!(
            step > self.retired && step <= self.launched,
            "a step retires once"
        );
        self.retired = step;
        while let Some(&(until, group, block)) = self.limbo.front() {
            if until > step {
                break;
            }
            self.limbo.pop_front();
            self.groups[group].limbo -= 1;
            self.groups[group].free.push(block);
        }
    }

    /// Counts of each group, given the bytes of its blocks.
    pub(crate) fn stats(&self, block_bytes: impl Iterator<Item = usize>) -> Vec<GroupStats> {
        let group = |(pool, block_bytes): (&GroupPool, usize)| GroupStats {
            total: pool.references.len(),
            used: pool.references.len() - pool.free.len(),
            free: pool.free.len(),
            block_bytes,
        };
        self.groups.iter().zip(block_bytes).map(group).collect()
    }

    /// Checks that `tables` (group and block table of every holder) account for every block.
    ///
    /// # Panics
    /// When a count differs from the number of holders, or a block is both free and held, or free twice.
    pub fn check_integrity<'a>(&self, tables: impl Iterator<Item = (usize, &'a [u32])>) {
        let mut held: Vec<Vec<u32>> = self
            .groups
            .iter()
            .map(|pool| vec![0; pool.references.len()])
            .collect();
        for (group, table) in tables {
            for &block in table.iter().filter(|&&block| block != NO_BLOCK) {
                held[group][block as usize] += 1;
            }
        }
        for (index, (pool, held)) in self.groups.iter().zip(&held).enumerate() {
            assert_eq!(&pool.references, held, "holders of group {index}");
            let mut is_free = vec![false; pool.references.len()];
            let limbo = self.limbo.iter().filter(|(_, group, _)| *group == index);
            let limbo: Vec<u32> = limbo.map(|&(_, _, block)| block).collect();
            assert_eq!(limbo.len(), pool.limbo, "limbo of group {index}");
            for &block in pool.free.iter().chain(&limbo) {
                let was_free = std::mem::replace(&mut is_free[block as usize], true);
                assert!(!was_free, "block {block} of group {index} is free twice");
                assert_eq!(
                    held[block as usize], 0,
                    "free block {block} of group {index}"
                );
            }
            let num_free = is_free.iter().filter(|&&free| free).count();
            let num_held = held.iter().filter(|&&holders| holders > 0).count();
            assert_eq!(
                num_free + num_held,
                pool.references.len(),
                "blocks of group {index}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_block_is_freed_by_its_last_holder() {
        let mut pool = BlockPool::new(&[2, 1]);
        let block = pool.allocate(0).unwrap();
        pool.retain(0, block);
        pool.check_integrity([(0, &[block][..]), (0, &[NO_BLOCK, block][..])].into_iter());
        pool.release(0, block);
        assert_eq!(pool.num_free(0), 1);
        pool.release(0, block);
        assert_eq!((pool.num_free(0), pool.num_free(1)), (2, 1));
        pool.check_integrity([].into_iter());
    }

    #[test]
    fn blocks_of_a_step_in_flight_return_when_it_retires() {
        let mut pool = BlockPool::new(&[1]);
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
}
