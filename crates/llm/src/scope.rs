//! Who may share cached prefixes with whom, as a digest.

use sha2::{Digest, Sha256};
use ucuz_engine::CacheScope;

use crate::{LlmError, LlmResult};

/// Most bytes of a salt.
pub const SALT_BYTES_MAX: usize = 128;

/// The scope of requests of `owner` (a client's key, say; `None` for everybody) under `salt`.
///
/// Only the digest goes further than this: neither a key nor a salt is kept, and no text can be too long or too strange
/// for what is behind it. Each part is preceded by its length, so no two pairs have one digest.
///
/// # Errors
/// A salt that is empty or longer than [`SALT_BYTES_MAX`].
pub fn cache_scope(owner: Option<&[u8]>, salt: Option<&str>) -> LlmResult<CacheScope> {
    if owner.is_none() && salt.is_none() {
        return Ok(CacheScope::default());
    }
    if let Some(salt) = salt
        && !(1..=SALT_BYTES_MAX).contains(&salt.len())
    {
        let message = format!(
            "cache_salt has {} bytes, it must have 1 to {SALT_BYTES_MAX}",
            salt.len()
        );
        return Err(LlmError::invalid("cache_salt", message));
    }
    let mut digest = Sha256::new();
    for part in [owner, salt.map(str::as_bytes)] {
        digest.update([u8::from(part.is_some())]);
        let part = part.unwrap_or_default();
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    let mut scope = [0; 16];
    scope.copy_from_slice(&digest.finalize()[..16]);
    Ok(CacheScope(scope))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn different_owners_and_salts_have_different_scopes() {
        let pairs = [
            (None, None),
            (Some("a"), None),
            (None, Some("a")),
            (Some("a"), Some("b")),
            (Some("ab"), Some("c")),
            (Some("a"), Some("bc")),
            (Some(""), Some("a")),
        ];
        let scope = |(owner, salt): &(Option<&str>, Option<&str>)| {
            cache_scope(owner.map(str::as_bytes), *salt).unwrap()
        };
        let scopes: HashSet<_> = pairs.iter().map(scope).collect();
        assert_eq!(scopes.len(), pairs.len());
        assert_eq!(scope(&pairs[3]), scope(&pairs[3]));
    }

    #[test]
    fn salts_have_a_length() {
        for (bytes, is_good) in [(0, false), (1, true), (128, true), (129, false)] {
            let salt = "x".repeat(bytes);
            assert_eq!(cache_scope(None, Some(&salt)).is_ok(), is_good, "{bytes}");
        }
    }
}
