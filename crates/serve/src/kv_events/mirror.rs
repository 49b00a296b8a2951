//! What can be found in the prefix cache, as the events say: as many blocks as the engine's pool has at most.

use std::collections::HashMap;

use ucuz_llm::{BlockHash, CacheEvent, CacheScope};

use super::events::Events;
use super::queue::Net;

/// Tokens of one whole block.
pub(super) type Tokens = Box<[u32; 32]>;

/// A block that can be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    /// The block before it.
    pub parent: Option<BlockHash>,
    /// Who may share it.
    pub scope: CacheScope,
    pub tokens: Tokens,
}

/// All blocks that can be found.
#[derive(Debug, Default)]
pub(super) struct Mirror {
    blocks: HashMap<BlockHash, Block>,
}

impl Mirror {
    pub(super) fn apply(&mut self, batch: Vec<CacheEvent>) {
        let mut net = Net::default();
        net.fold(batch);
        self.apply_net(net);
    }

    pub(super) fn apply_net(&mut self, net: Net) {
        for hash in &net.removed {
            self.blocks.remove(hash);
        }
        self.blocks.extend(net.stored);
    }

    /// Every block, each after the one before it, in batches of at most `blocks_max`.
    pub(super) fn announcement(&self, blocks_max: usize) -> Vec<Events> {
        let in_order = self.parents_first();
        let batch = |hashes: &[BlockHash]| {
            let mut events = Events::default();
            for hash in hashes {
                if let Some(block) = self.blocks.get(hash) {
                    events.stored(*hash, block.parent, block.scope, &block.tokens[..]);
                }
            }
            events
        };
        in_order.chunks(blocks_max.max(1)).map(batch).collect()
    }

    /// All names, depth first. A block whose parent cannot be found, as behind a window, begins a chain.
    fn parents_first(&self) -> Vec<BlockHash> {
        let mut children: HashMap<BlockHash, Vec<BlockHash>> = HashMap::new();
        let mut pending = Vec::new();
        for (&hash, block) in &self.blocks {
            match block.parent {
                Some(parent) if self.blocks.contains_key(&parent) => {
                    children.entry(parent).or_default().push(hash);
                }
                _ => pending.push(hash),
            }
        }
        pending.sort_unstable();
        let mut order = Vec::with_capacity(self.blocks.len());
        while let Some(hash) = pending.pop() {
            order.push(hash);
            let mut next = children.remove(&hash).unwrap_or_default();
            next.sort_unstable();
            pending.append(&mut next);
        }
        order
    }

    #[cfg(test)]
    pub(super) fn blocks(&self) -> &HashMap<BlockHash, Block> {
        &self.blocks
    }
}
