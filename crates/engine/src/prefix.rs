//! Names of cached prefixes: a keyed hash chain over blocks of tokens.
//!
//! The name of a block depends on all tokens up to its end and on the scope. Keys are drawn anew for each process, so no
//! client can prepare two prompts with one name; 128 bits make an accident as unlikely as a fault of the memory. Whoever
//! finds a block by its name still compares the tokens.
//!
//! Source: SipHash-2-4 with 128 bits (Aumasson, Bernstein 2012).

use siphasher::sip128::{Hasher128, SipHasher24};
use ucuz_tensor::cache::BLOCK_TOKENS;

/// Tokens of one whole block.
pub type BlockTokens = [u32; BLOCK_TOKENS];

/// Who may share cached prefixes: requests with equal scopes may, others never.
///
/// A digest of whatever separates them (key of the client, salt, adapter); made by the caller, since digests are the
/// business of floors above. Zeros are the scope of those who share with everybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CacheScope(pub [u8; 16]);

/// Name of a block and of all before it; for a root, of its scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockHash(pub u128);

impl BlockHash {
    /// The lower 63 bits: what other programs are told, since some of them read signed numbers.
    pub fn public(self) -> u64 {
        (self.0 as u64) & (u64::MAX >> 1)
    }
}

/// Makes names with one key.
#[derive(Clone, Copy)]
pub struct PrefixHasher {
    key: [u8; 16],
    /// Bits of a name that count.
    mask: u128,
}

impl std::fmt::Debug for PrefixHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PrefixHasher(secret)")
    }
}

impl PrefixHasher {
    /// A hasher with `key`, which should be drawn anew for each process.
    pub fn new(key: [u8; 16]) -> Self {
        Self {
            key,
            mask: u128::MAX,
        }
    }

    /// The same with names of `bits` bits, so that different blocks come to share them.
    #[cfg(test)]
    pub(crate) fn weak(self, bits: u32) -> Self {
        let mask = u128::MAX.checked_shr(128 - bits).unwrap_or(0);
        Self { mask, ..self }
    }

    /// Where the chains of `scope` begin.
    pub fn root(&self, scope: CacheScope) -> BlockHash {
        self.hash(b"root", &[&scope.0])
    }

    /// Name of the block with `tokens` after the block or root `parent`.
    pub fn next(&self, parent: BlockHash, tokens: &BlockTokens) -> BlockHash {
        let mut bytes = [0; 4 * BLOCK_TOKENS];
        for (chunk, token) in bytes.chunks_exact_mut(4).zip(tokens) {
            chunk.copy_from_slice(&token.to_le_bytes());
        }
        self.hash(b"next", &[&parent.0.to_le_bytes(), &bytes])
    }

    /// Extends `chain` by the names of all whole blocks of `tokens`; what is there already is kept.
    pub fn extend(&self, scope: CacheScope, chain: &mut Vec<BlockHash>, tokens: &[u32]) {
        let (blocks, _) = tokens.as_chunks::<BLOCK_TOKENS>();
        let mut parent = chain.last().copied().unwrap_or_else(|| self.root(scope));
        for block in blocks.iter().skip(chain.len()) {
            parent = self.next(parent, block);
            chain.push(parent);
        }
    }

    fn hash(&self, domain: &[u8; 4], parts: &[&[u8]]) -> BlockHash {
        use std::hash::Hasher;
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write(domain);
        for part in parts {
            hasher.write(part);
        }
        BlockHash(hasher.finish128().as_u128() & self.mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_name_depends_on_key_scope_and_every_token_before() {
        let tokens: Vec<u32> = (0..96).collect();
        let chain = |key: u8, scope: u8, tokens: &[u32]| {
            let mut chain = Vec::new();
            PrefixHasher::new([key; 16]).extend(CacheScope([scope; 16]), &mut chain, tokens);
            chain
        };
        let plain = chain(1, 0, &tokens);
        let mut other = tokens.clone();
        other[5] += 1;
        let names: HashSet<_> = [plain.clone(), chain(2, 0, &tokens), chain(1, 1, &tokens)]
            .into_iter()
            .chain([chain(1, 0, &other)])
            .flatten()
            .collect();
        assert_eq!((plain.len(), names.len()), (3, 12));
        other = tokens.clone();
        other[70] += 1;
        let late = chain(1, 0, &other);
        assert_eq!(late[..2], plain[..2]);
        assert_ne!(late[2], plain[2]);
    }

    #[test]
    fn a_chain_grows_block_by_block_to_the_same_names() {
        let hasher = PrefixHasher::new([7; 16]);
        let tokens: Vec<u32> = (0..200).map(|i| i * 7 % 31).collect();
        let (mut whole, mut grown) = (Vec::new(), Vec::new());
        hasher.extend(CacheScope::default(), &mut whole, &tokens);
        for end in 0..=tokens.len() {
            hasher.extend(CacheScope::default(), &mut grown, &tokens[..end]);
            assert_eq!(grown, whole[..end / BLOCK_TOKENS]);
        }
    }
}
