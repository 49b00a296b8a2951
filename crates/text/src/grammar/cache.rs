//! Compiled grammars that were used lately, bounded in bytes, each owner's own.
//!
//! When it is full, the owner that holds most gives up what it used least recently: so an owner can push out others only
//! down to an even share, and one that is alone has all of it.

use std::collections::HashMap;
use std::sync::Arc;

use super::compile::Grammar;

/// Digest of kind and source.
pub(super) type Digest = [u8; 32];

struct Entry {
    grammar: Arc<Grammar>,
    bytes: usize,
    used: u64,
}

/// The cache.
pub(super) struct Cache {
    limit_bytes: usize,
    bytes: usize,
    entries: HashMap<(u64, Digest), Entry>,
    uses: u64,
}

impl Cache {
    pub(super) fn new(limit_bytes: usize) -> Self {
        Self {
            limit_bytes,
            bytes: 0,
            entries: HashMap::new(),
            uses: 0,
        }
    }

    /// The owner's grammar with this digest.
    pub(super) fn get(&mut self, owner: u64, digest: &Digest) -> Option<Arc<Grammar>> {
        self.uses += 1;
        let entry = self.entries.get_mut(&(owner, *digest))?;
        entry.used = self.uses;
        Some(Arc::clone(&entry.grammar))
    }

    /// Keeps a grammar of `bytes`, unless it alone is too large.
    pub(super) fn put(&mut self, owner: u64, digest: Digest, grammar: Arc<Grammar>, bytes: usize) {
        if bytes > self.limit_bytes {
            return;
        }
        self.uses += 1;
        let entry = Entry {
            grammar,
            bytes,
            used: self.uses,
        };
        self.bytes += bytes;
        if let Some(old) = self.entries.insert((owner, digest), entry) {
            self.bytes -= old.bytes;
        }
        while self.bytes > self.limit_bytes {
            self.evict();
        }
    }

    fn evict(&mut self) {
        let mut held: HashMap<u64, usize> = HashMap::new();
        for ((owner, _), entry) in &self.entries {
            *held.entry(*owner).or_default() += entry.bytes;
        }
        let most = held
            .into_iter()
            .max_by_key(|&(owner, bytes)| (bytes, owner));
        let owned = self
            .entries
            .iter()
            .filter(|((owner, _), _)| Some(*owner) == most.map(|m| m.0));
        let oldest = owned
            .min_by_key(|(_, entry)| entry.used)
            .map(|(key, _)| *key);
        let entry = oldest.and_then(|key| self.entries.remove(&key));
        self.bytes -= entry.map_or(self.bytes, |entry| entry.bytes);
    }

    #[cfg(test)]
    pub(super) fn holds(&self, owner: u64) -> usize {
        self.entries.keys().filter(|key| key.0 == owner).count()
    }
}
