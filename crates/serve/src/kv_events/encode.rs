//! Events as msgpack: a fixed schema, written only. Nothing is ever decoded.
//!
//! ```text
//! [ts, [event, ...], nil]
//! array: ["BlockStored", hashes, parent, tokens, block_size, lora_id, medium, lora_name, extra_keys]
//!        ["BlockRemoved", hashes, medium]   ["AllBlocksCleared"]
//! map:   {"type": "BlockStored", "block_hashes": hashes, ...}
//! ```
//! `medium` is nil, which routers take for the first tier of a worker's cache, the one it computes from; "CPU" is to some
//! a slower second tier, behind a GPU, that they count for less or not at all. The rank is nil: there is one.
//!
//! A block that not everybody may share says so by a digest: in `extra_keys` of each block in an array, as `cache_salt` in
//! a map. So a router never takes it for the same tokens of somebody else.

use rmp::encode::{write_array_len, write_f64, write_map_len, write_nil, write_str, write_uint};
use sha2::{Digest, Sha256};
use ucuz_llm::CacheScope;

use super::events::{Run, Told};
use super::options::KvEncoding;

/// Makes of a scope what others may know of it.
///
/// The scope is a digest of a client's key and salt, which could be guessed offline; with a key of this process it cannot.
#[derive(Clone, Copy)]
pub(super) struct Taint {
    pub key: [u8; 16],
}

impl std::fmt::Debug for Taint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Taint(secret)")
    }
}

impl Taint {
    /// 32 hexadecimal digits; none for the scope of those who share with everybody.
    pub(super) fn of(&self, scope: CacheScope) -> Option<String> {
        if scope == CacheScope::default() {
            return None;
        }
        let mut digest = Sha256::new();
        digest.update(b"kv events");
        digest.update(self.key);
        digest.update(scope.0);
        let digest = digest.finalize();
        Some(digest[..16].iter().map(|b| format!("{b:02x}")).collect())
    }
}

/// The last frame of a message.
pub(super) fn payload(
    encoding: KvEncoding,
    seconds: f64,
    events: &[Told],
    taint: &Taint,
) -> Vec<u8> {
    let mut out = Writer(Vec::with_capacity(128));
    out.array(3);
    out.float(seconds);
    out.array(events.len());
    for event in events {
        match encoding {
            KvEncoding::Array => out.event_array(event, taint),
            KvEncoding::Map => out.event_map(event, taint),
        }
    }
    out.nil();
    out.0
}

/// Writing to a vector does not fail, so no method looks at the result.
struct Writer(Vec<u8>);

impl Writer {
    fn event_array(&mut self, event: &Told, taint: &Taint) {
        match event {
            Told::Stored(run) => {
                self.array(9);
                self.text("BlockStored");
                self.numbers(&run.hashes);
                self.number_or_nil(run.parent);
                self.tokens(&run.tokens);
                self.number(run.block_size() as u64);
                (0..3).for_each(|_| self.nil());
                self.extra_keys(run, taint);
            }
            Told::Removed(hashes) => {
                self.array(3);
                self.text("BlockRemoved");
                self.numbers(hashes);
                self.nil();
            }
            Told::Cleared => {
                self.array(1);
                self.text("AllBlocksCleared");
            }
        }
    }

    fn event_map(&mut self, event: &Told, taint: &Taint) {
        match event {
            Told::Stored(run) => self.stored_map(run, taint.of(run.scope)),
            Told::Removed(hashes) => {
                self.map(3);
                self.kind("BlockRemoved");
                self.text("block_hashes");
                self.numbers(hashes);
                self.nothing("medium");
            }
            Told::Cleared => {
                self.map(1);
                self.kind("AllBlocksCleared");
            }
        }
    }

    fn stored_map(&mut self, run: &Run, salt: Option<String>) {
        self.map(9 + usize::from(salt.is_some()));
        self.kind("BlockStored");
        self.text("block_hashes");
        self.numbers(&run.hashes);
        self.text("parent_block_hash");
        self.number_or_nil(run.parent);
        self.text("token_ids");
        self.tokens(&run.tokens);
        self.text("block_size");
        self.number(run.block_size() as u64);
        for key in ["lora_id", "medium", "lora_name", "extra_keys"] {
            self.nothing(key);
        }
        if let Some(salt) = salt {
            self.text("cache_salt");
            self.text(&salt);
        }
    }

    /// One list a block.
    fn extra_keys(&mut self, run: &Run, taint: &Taint) {
        let Some(salt) = taint.of(run.scope) else {
            self.nil();
            return;
        };
        self.array(run.hashes.len());
        for _ in &run.hashes {
            self.array(1);
            self.text(&salt);
        }
    }

    fn kind(&mut self, name: &str) {
        self.text("type");
        self.text(name);
    }

    fn nothing(&mut self, key: &str) {
        self.text(key);
        self.nil();
    }

    fn array(&mut self, len: usize) {
        let _ = write_array_len(&mut self.0, len as u32);
    }

    fn map(&mut self, len: usize) {
        let _ = write_map_len(&mut self.0, len as u32);
    }

    fn text(&mut self, text: &str) {
        let _ = write_str(&mut self.0, text);
    }

    fn number(&mut self, number: u64) {
        let _ = write_uint(&mut self.0, number);
    }

    fn number_or_nil(&mut self, number: Option<u64>) {
        match number {
            Some(number) => self.number(number),
            None => self.nil(),
        }
    }

    fn numbers(&mut self, numbers: &[u64]) {
        self.array(numbers.len());
        numbers.iter().for_each(|&number| self.number(number));
    }

    fn tokens(&mut self, tokens: &[u32]) {
        self.array(tokens.len());
        tokens.iter().for_each(|&token| self.number(token.into()));
    }

    fn float(&mut self, number: f64) {
        let _ = write_f64(&mut self.0, number);
    }

    fn nil(&mut self) {
        let _ = write_nil(&mut self.0);
    }
}
