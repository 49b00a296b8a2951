//! What other programs may know of the prefix cache: which blocks can be found, and which no longer.

use crate::blocks::Content;
use crate::prefix::{BlockHash, BlockTokens, CacheScope};

/// One change of what can be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheEvent {
    /// A block became visible.
    Stored {
        /// Its name.
        hash: BlockHash,
        /// Name of the block before it; `None` for the first of a chain.
        parent: Option<BlockHash>,
        /// Who may share it.
        scope: CacheScope,
        /// Its tokens.
        tokens: Box<BlockTokens>,
    },
    /// A block was evicted.
    Removed {
        /// Its name.
        hash: BlockHash,
    },
}

impl CacheEvent {
    pub(crate) fn stored(content: &Content) -> Self {
        Self::Stored {
            hash: content.hash,
            parent: (content.depth > 0).then_some(content.parent),
            scope: content.scope,
            tokens: Box::new(content.tokens),
        }
    }
}

/// Hears of changes of the prefix cache, on the engine thread, once a turn and in order; must not wait.
pub trait CacheListener: Send {
    /// `events` happened since the last call; never empty.
    fn changed(&mut self, events: Vec<CacheEvent>);
}
