//! Events as they are told: neighbours of one chain in one event, names as 63 bits.

use ucuz_llm::{BlockHash, CacheEvent, CacheScope};

/// What one event says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Told {
    /// Blocks of one chain came, each the next one's parent.
    Stored(Run),
    /// Blocks went.
    Removed(Vec<u64>),
    /// Nothing can be found any more.
    Cleared,
}

/// Neighbouring blocks of one chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    pub hashes: Vec<u64>,
    /// The block before the first.
    pub parent: Option<u64>,
    pub scope: CacheScope,
    /// Tokens of all blocks.
    pub tokens: Vec<u32>,
    last: BlockHash,
}

impl Run {
    /// Tokens of one block.
    pub(super) fn block_size(&self) -> usize {
        self.tokens.len() / self.hashes.len().max(1)
    }
}

/// The events of one batch, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Events(Vec<Told>);

impl Events {
    /// That nothing can be found any more.
    pub(super) fn cleared() -> Self {
        Self(vec![Told::Cleared])
    }

    /// What the engine says.
    pub(super) fn of(batch: &[CacheEvent]) -> Self {
        let mut events = Self::default();
        for event in batch {
            match event {
                CacheEvent::Removed { hash } => events.removed(*hash),
                CacheEvent::Stored {
                    hash,
                    parent,
                    scope,
                    tokens,
                } => events.stored(*hash, *parent, *scope, &tokens[..]),
            }
        }
        events
    }

    pub(super) fn as_slice(&self) -> &[Told] {
        &self.0
    }

    /// A block came; it lengthens the last run if it is the next of its chain.
    pub(super) fn stored(
        &mut self,
        hash: BlockHash,
        parent: Option<BlockHash>,
        scope: CacheScope,
        tokens: &[u32],
    ) {
        if let Some(Told::Stored(run)) = self.0.last_mut()
            && parent == Some(run.last)
            && scope == run.scope
        {
            run.hashes.push(hash.public());
            run.tokens.extend_from_slice(tokens);
            run.last = hash;
            return;
        }
        self.0.push(Told::Stored(Run {
            hashes: vec![hash.public()],
            parent: parent.map(BlockHash::public),
            scope,
            tokens: tokens.to_vec(),
            last: hash,
        }));
    }

    fn removed(&mut self, hash: BlockHash) {
        match self.0.last_mut() {
            Some(Told::Removed(hashes)) => hashes.push(hash.public()),
            _ => self.0.push(Told::Removed(vec![hash.public()])),
        }
    }
}
