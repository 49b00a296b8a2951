//! Compiled grammars that were used lately, bounded in bytes, each owner's own.
//!
//! When it is full, the owner that holds most gives up what it used least recently: so an owner can push out others only
//! down to an even share, and one that is alone has all of it.

use std::collections::HashMap;
use std::sync::Arc;

/// Digest of kind and source.
pub(super) type Digest = [u8; 32];

struct Entry<T> {
    grammar: Arc<T>,
    bytes: usize,
    used: u64,
}

/// The cache; `T` is a compiled grammar.
pub(super) struct Cache<T> {
    limit_bytes: usize,
    bytes: usize,
    entries: HashMap<(u64, Digest), Entry<T>>,
    uses: u64,
}

impl<T> Cache<T> {
    pub(super) fn new(limit_bytes: usize) -> Self {
        Self {
            limit_bytes,
            bytes: 0,
            entries: HashMap::new(),
            uses: 0,
        }
    }

    /// The owner's grammar with this digest.
    pub(super) fn get(&mut self, owner: u64, digest: &Digest) -> Option<Arc<T>> {
        self.uses += 1;
        let entry = self.entries.get_mut(&(owner, *digest))?;
        entry.used = self.uses;
        Some(Arc::clone(&entry.grammar))
    }

    /// Keeps a grammar of `bytes`, unless it alone is too large.
    pub(super) fn put(&mut self, owner: u64, digest: Digest, grammar: Arc<T>, bytes: usize) {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A digest that is a number.
    fn digest(number: u8) -> Digest {
        [number; 32]
    }

    fn held(cache: &mut Cache<u8>, owner: u64) -> Vec<u8> {
        let numbers = 0..40u8;
        numbers
            .filter(|&number| cache.entries.contains_key(&(owner, digest(number))))
            .collect()
    }

    #[test]
    fn an_owner_alone_has_all_of_it_and_loses_what_it_used_least_recently() {
        let mut cache = Cache::new(100);
        for number in 0..10 {
            cache.put(1, digest(number), Arc::new(number), 10);
        }
        assert_eq!(cache.get(1, &digest(0)).as_deref(), Some(&0));
        cache.put(1, digest(10), Arc::new(10), 10);
        assert_eq!(held(&mut cache, 1), [0, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert_eq!(cache.bytes, 100);
    }

    #[test]
    fn an_owner_pushes_others_out_only_down_to_an_even_share() {
        let mut cache = Cache::new(100);
        for number in 0..10 {
            cache.put(1, digest(number), Arc::new(number), 10);
        }
        for number in 0..40 {
            cache.put(2, digest(number), Arc::new(number), 10);
        }
        assert_eq!(held(&mut cache, 1), [5, 6, 7, 8, 9]);
        assert_eq!(held(&mut cache, 2), [35, 36, 37, 38, 39]);
        assert_eq!(cache.get(3, &digest(5)), None, "nobody sees another's");
    }

    #[test]
    fn what_is_larger_than_all_of_it_is_not_kept_and_what_comes_again_counts_once() {
        let mut cache = Cache::new(100);
        cache.put(1, digest(1), Arc::new(1), 60);
        cache.put(1, digest(2), Arc::new(2), 101);
        cache.put(1, digest(1), Arc::new(3), 70);
        assert_eq!((held(&mut cache, 1), cache.bytes), (vec![1], 70));
    }
}
