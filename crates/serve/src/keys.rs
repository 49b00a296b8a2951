//! Keys of clients: who may ask, and who shares the engine with whom.
//!
//! A file has one line a key, `NAME KEY`; empty lines and lines that begin with `#` are skipped. Only digests are kept.

use sha2::{Digest, Sha256};
use ucuz_llm::TenantId;

/// Most keys of a server.
const KEYS_MAX: usize = 4096;
/// Shortest key, in bytes: 16 random characters cannot be guessed.
const KEY_BYTES_MIN: usize = 16;
/// Longest key and longest name.
const BYTES_MAX: usize = 256;

/// SHA-256 of a key.
type KeyDigest = [u8; 32];

/// Why a file of keys is refused. Never says a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    /// A line is not a name and a key.
    #[error("line {line} of the keys is not \"NAME KEY\", separated by a space")]
    Line {
        /// From 1.
        line: usize,
    },
    /// A key or name has the wrong length.
    #[error(
        "line {line} of the keys: a key has {KEY_BYTES_MIN} to {BYTES_MAX} bytes and a name 1 to {BYTES_MAX}"
    )]
    Length {
        /// From 1.
        line: usize,
    },
    /// A key could not be sent in a header.
    #[error("line {line} of the keys: a key has visible ASCII characters only")]
    Characters {
        /// From 1.
        line: usize,
    },
    /// A name or key is there twice.
    #[error("line {line} of the keys repeats a name or a key; each client needs its own")]
    Twice {
        /// From 1.
        line: usize,
    },
    /// There is no key, or there are too many.
    #[error("there are {found} keys; give 1 to {KEYS_MAX}")]
    Count {
        /// Keys in the file.
        found: usize,
    },
}

#[derive(Debug, Clone)]
struct Key {
    name: String,
    digest: KeyDigest,
}

/// The keys that open a server.
#[derive(Debug, Clone)]
pub struct ApiKeys {
    keys: Vec<Key>,
}

/// A client that showed its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Client<'a> {
    pub tenant: TenantId,
    pub name: &'a str,
    /// Names the client where the key itself must not go.
    pub digest: &'a KeyDigest,
}

impl ApiKeys {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// [`KeysError`] with the line.
    pub fn parse(text: &str) -> Result<Self, KeysError> {
        let mut keys: Vec<Key> = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let mut words = text.split_whitespace();
            let (Some(name), Some(key), None) = (words.next(), words.next(), words.next()) else {
                return Err(KeysError::Line { line });
            };
            if !(KEY_BYTES_MIN..=BYTES_MAX).contains(&key.len()) || name.len() > BYTES_MAX {
                return Err(KeysError::Length { line });
            }
            if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(KeysError::Characters { line });
            }
            let digest = digest(key);
            if keys.iter().any(|k| k.name == name || k.digest == digest) {
                return Err(KeysError::Twice { line });
            }
            keys.push(Key {
                name: name.to_owned(),
                digest,
            });
        }
        match keys.len() {
            1..=KEYS_MAX => Ok(Self { keys }),
            found => Err(KeysError::Count { found }),
        }
    }

    /// One key for everybody.
    ///
    /// # Errors
    /// Its length.
    pub fn single(key: &str) -> Result<Self, KeysError> {
        Self::parse(&format!("default {key}"))
    }

    /// Whose key this is. Takes as long for a wrong key as for a right one.
    pub(crate) fn find(&self, key: &str) -> Option<Client<'_>> {
        let asked = digest(key);
        let mut found = None;
        for (tenant, key) in (1..).map(TenantId).zip(&self.keys) {
            if is_equal(&asked, &key.digest) {
                found = Some(Client {
                    tenant,
                    name: &key.name,
                    digest: &key.digest,
                });
            }
        }
        found
    }

    /// Name of a tenant, for its own operator.
    pub(crate) fn name(&self, tenant: TenantId) -> Option<&str> {
        let index = (tenant.0 as usize).checked_sub(1)?;
        self.keys.get(index).map(|key| key.name.as_str())
    }
}

fn digest(key: &str) -> KeyDigest {
    Sha256::digest(key.as_bytes()).into()
}

/// Compares without stopping at the first difference.
fn is_equal(a: &KeyDigest, b: &KeyDigest) -> bool {
    a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbb";

    #[test]
    fn each_key_is_a_tenant_of_its_own() {
        let keys = ApiKeys::parse(&format!("# two\nalice {A}\n\n  bob\t{B} \n")).unwrap();
        let (alice, bob) = (keys.find(A).unwrap(), keys.find(B).unwrap());
        assert_eq!((alice.name, bob.name), ("alice", "bob"));
        assert_ne!(alice.tenant, bob.tenant);
        assert_eq!(keys.name(bob.tenant), Some("bob"));
        assert!([alice.tenant, bob.tenant].iter().all(|t| *t != TenantId(0)));
        for wrong in ["", "alice", &A[1..], &format!("{A}a")] {
            assert_eq!(keys.find(wrong), None);
        }
    }

    #[test]
    fn bad_files_are_refused_with_the_line() {
        let cases = [
            (format!("alice {A} x"), KeysError::Line { line: 1 }),
            (format!("# x\n{A}"), KeysError::Line { line: 2 }),
            ("alice short".to_owned(), KeysError::Length { line: 1 }),
            (format!("a {A}é"), KeysError::Characters { line: 1 }),
            (format!("a {A}\nb {A}"), KeysError::Twice { line: 2 }),
            (format!("a {A}\na {B}"), KeysError::Twice { line: 2 }),
            ("# none".to_owned(), KeysError::Count { found: 0 }),
        ];
        for (text, expected) in cases {
            assert_eq!(ApiKeys::parse(&text).unwrap_err(), expected, "{text}");
        }
    }
}
