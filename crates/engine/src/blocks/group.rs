//! The blocks of one cache group: held, idle or free.
//!
//! ```text
//! free ── allocate ──> held, written ── publish ──> held, visible ── last release ──> idle, visible
//!  ^                        │                            ^                                  │
//!  └──── last release ──────┘                            └─────────── retain ───────────────┤
//!                             held, written  <────────── allocate: the idlest is evicted ───┘
//! ```
//! Idle blocks are given away least recently released first. A sequence releases its blocks last to first, and whoever
//! holds a block holds all before it, so a block is always evicted before those that its name builds on.

use std::collections::{BTreeMap, HashMap};

use crate::prefix::{BlockHash, BlockTokens, CacheScope};

/// What a visible block holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Content {
    pub hash: BlockHash,
    /// Name of the block before, or of the scope's root.
    pub parent: BlockHash,
    pub scope: CacheScope,
    /// Number of blocks before it.
    pub depth: u32,
    pub tokens: BlockTokens,
}

/// What became of a block that was to be visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Published {
    /// It can be found.
    Visible,
    /// Another block with the same content can be found already.
    Equal(u32),
    /// Another content has the same name: this block, and all that build on it, must stay invisible.
    Taken,
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

/// The newest step that was launched and the newest that retired.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Steps {
    pub launched: u64,
    pub retired: u64,
}

/// Rank of an idle block: the newest step that may read it, then the order of release.
type IdleRank = (u64, u64);

#[derive(Debug)]
pub(super) struct GroupPool {
    /// Free ids; the last is given first.
    pub free: Vec<u32>,
    /// Holders of each block.
    pub references: Vec<u32>,
    /// Blocks without holder and content that a step in flight may read.
    pub limbo: usize,
    contents: Vec<Option<Box<Content>>>,
    index: HashMap<BlockHash, u32>,
    idle: BTreeMap<IdleRank, u32>,
    ranks: Vec<IdleRank>,
    releases: u64,
}

impl GroupPool {
    pub(super) fn new(blocks: usize) -> Self {
        Self {
            free: (0..blocks as u32).rev().collect(),
            references: vec![0; blocks],
            limbo: 0,
            contents: vec![None; blocks],
            index: HashMap::new(),
            idle: BTreeMap::new(),
            ranks: vec![(0, 0); blocks],
            releases: 0,
        }
    }

    /// Idle blocks that no step in flight reads.
    fn num_evictable(&self, steps: Steps) -> usize {
        let busy = self.idle.range((steps.retired + 1, 0)..).count();
        self.idle.len() - busy
    }

    /// Blocks without a holder whose content can be found.
    pub(super) fn num_idle(&self) -> usize {
        self.idle.len()
    }

    /// Blocks that can be had now.
    pub(super) fn num_available(&self, steps: Steps) -> usize {
        self.free.len() + self.num_evictable(steps)
    }

    pub(super) fn room(&self, wanted: usize, steps: Steps) -> Room {
        if wanted <= self.free.len() || wanted <= self.num_available(steps) {
            Room::Now
        } else if wanted <= self.free.len() + self.idle.len() + self.limbo {
            Room::Soon
        } else {
            Room::None
        }
    }

    /// A block with one holder and no content, and the content that was evicted for it.
    pub(super) fn allocate(&mut self, steps: Steps) -> Option<(u32, Option<Box<Content>>)> {
        let (block, evicted) = match self.free.pop() {
            Some(block) => (block, None),
            None => {
                let (&rank, &block) = self.idle.first_key_value()?;
                if rank.0 > steps.retired {
                    return None;
                }
                self.idle.remove(&rank);
                (block, self.forget(block))
            }
        };
        let index = block as usize;
        assert_eq!(self.references[index], 0, "block {block} has no holder");
        assert!(self.contents[index].is_none(), "block {block} was visible");
        self.references[index] = 1;
        Some((block, evicted))
    }

    /// Adds a holder to a block that has one or is idle.
    pub(super) fn retain(&mut self, block: u32) {
        let references = &mut self.references[block as usize];
        if *references == 0 {
            let was_idle = self.idle.remove(&self.ranks[block as usize]);
            assert_eq!(was_idle, Some(block), "block {block} has no holder");
        }
        *references += 1;
    }

    /// Drops a holder; whether the block is now nobody's and has no content.
    pub(super) fn release(&mut self, block: u32, steps: Steps) -> bool {
        let index = block as usize;
        let references = &mut self.references[index];
        assert!(*references > 0, "block {block} was released twice");
        *references -= 1;
        if *references > 0 {
            return false;
        }
        if self.contents[index].is_none() {
            return true;
        }
        self.releases += 1;
        self.ranks[index] = (steps.launched, self.releases);
        self.idle.insert(self.ranks[index], block);
        false
    }

    /// Makes a held, written block visible, unless its name is taken.
    pub(super) fn publish(&mut self, block: u32, content: &Content) -> Published {
        assert!(
            self.references[block as usize] > 0,
            "block {block} has a holder"
        );
        if let Some(&other) = self.index.get(&content.hash) {
            let is_equal = self.contents[other as usize].as_deref() == Some(content);
            return match is_equal {
                true => Published::Equal(other),
                false => Published::Taken,
            };
        }
        let slot = &mut self.contents[block as usize];
        assert!(slot.is_none(), "block {block} is published once");
        self.index.insert(content.hash, block);
        *slot = Some(Box::new(content.clone()));
        Published::Visible
    }

    /// The visible block that holds `content`: the name alone is not believed.
    pub(super) fn find(&self, content: &Content) -> Option<u32> {
        let block = *self.index.get(&content.hash)?;
        let found = self.contents[block as usize].as_deref()?;
        (found == content).then_some(block)
    }

    /// Whether nobody holds this block, which is visible.
    pub(super) fn is_idle(&self, block: u32) -> bool {
        self.references[block as usize] == 0
    }

    /// Whether the block's content can be found.
    pub(super) fn is_visible(&self, block: u32) -> bool {
        self.contents[block as usize].is_some()
    }

    fn forget(&mut self, block: u32) -> Option<Box<Content>> {
        let content = self.contents[block as usize].take();
        if let Some(content) = &content {
            let was = self.index.remove(&content.hash);
            assert_eq!(was, Some(block), "a visible block is in the index");
        }
        content
    }

    /// Asserts that counts, index, contents and lists agree; `held[block]` are the entries in tables, `limbo` the blocks
    /// that wait for a step, `is_chained` whether a visible block needs the one before it.
    pub(super) fn check(&self, held: &[u32], limbo: &[u32], is_chained: bool) {
        assert_eq!(self.references, held, "holders");
        assert_eq!(limbo.len(), self.limbo, "limbo");
        let mut seen = vec![false; held.len()];
        let unheld = self.free.iter().chain(limbo);
        for &block in unheld.chain(self.idle.values()) {
            let twice = std::mem::replace(&mut seen[block as usize], true);
            assert!(!twice, "block {block} is free twice");
            assert_eq!(held[block as usize], 0, "free block {block} is held");
        }
        for (index, (&is_unheld, &holders)) in seen.iter().zip(held).enumerate() {
            assert!(is_unheld != (holders > 0), "block {index} is lost");
        }
        for &block in self.free.iter().chain(limbo) {
            assert!(
                self.contents[block as usize].is_none(),
                "free block {block} is visible"
            );
        }
        for (rank, &block) in &self.idle {
            assert_eq!(self.ranks[block as usize], *rank, "rank of {block}");
            assert!(self.is_visible(block), "idle block {block} is not visible");
        }
        self.check_index(is_chained);
    }

    fn check_index(&self, is_chained: bool) {
        let visible = self.contents.iter().flatten().count();
        assert_eq!(visible, self.index.len(), "visible blocks are in the index");
        let is_parent = |hash: &BlockHash| self.index.contains_key(hash);
        for (hash, &block) in &self.index {
            let content = self.contents[block as usize].as_deref();
            assert_eq!(content.map(|c| c.hash), Some(*hash), "name of {block}");
        }
        if is_chained {
            let orphans = self.contents.iter().flatten();
            let orphans = orphans.filter(|c| c.depth > 0 && !is_parent(&c.parent));
            assert_eq!(orphans.count(), 0, "a visible block's parent is visible");
        }
    }
}
