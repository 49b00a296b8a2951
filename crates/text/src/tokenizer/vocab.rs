//! The table of tokens: id to bytes and kind, bytes to id. No algorithm, no special-token matching.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::spec::TokenKind;
use crate::Result;
use crate::error::{TextError, check_limit};
use crate::limits::{MAX_TOKEN_BYTES, MAX_TOKENS, MAX_VOCAB_BYTES};

/// No token.
pub(super) const NONE: u32 = u32::MAX;

/// Token texts in one buffer, in order of id.
#[derive(Debug, Clone)]
pub(super) struct Vocab {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    kinds: Vec<TokenKind>,
    by_bytes: HashTable<u32>,
    hasher: DefaultHashBuilder,
    byte_ids: Box<[u32; 256]>,
    max_token_bytes: usize,
}

impl Vocab {
    /// Room for `num_tokens`, already checked against the limit by the caller's own count.
    pub(super) fn new(num_tokens: usize) -> Result<Vocab> {
        check_limit("vocabulary, tokens,", num_tokens, MAX_TOKENS)?;
        Ok(Vocab {
            bytes: Vec::with_capacity(num_tokens * 8),
            ends: Vec::with_capacity(num_tokens),
            kinds: Vec::with_capacity(num_tokens),
            by_bytes: HashTable::with_capacity(num_tokens),
            hasher: DefaultHashBuilder::default(),
            byte_ids: Box::new([NONE; 256]),
            max_token_bytes: 0,
        })
    }

    /// Appends the next token. Of several encodable tokens with one text, the first wins.
    pub(super) fn push(&mut self, text: &[u8], kind: TokenKind) -> Result<()> {
        check_limit("vocabulary, tokens,", self.ends.len() + 1, MAX_TOKENS)?;
        check_limit("token, bytes,", text.len(), MAX_TOKEN_BYTES)?;
        check_limit(
            "vocabulary, bytes,",
            self.bytes.len() + text.len(),
            MAX_VOCAB_BYTES,
        )?;
        let id = self.ends.len() as u32;
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len() as u32);
        self.kinds.push(kind);
        match kind {
            TokenKind::Byte => {
                if let [byte] = text
                    && self.byte_ids[usize::from(*byte)] == NONE
                {
                    self.byte_ids[usize::from(*byte)] = id;
                }
            }
            TokenKind::Control | TokenKind::Unknown => {}
            // What a message must not write, no merge may make.
            TokenKind::UserDefined if std::str::from_utf8(text).is_ok_and(looks_like_control) => {}
            _ if text.is_empty() => {}
            _ => self.index(id, text),
        }
        Ok(())
    }

    fn index(&mut self, id: u32, text: &[u8]) {
        let Vocab {
            bytes,
            ends,
            kinds,
            by_bytes,
            hasher,
            max_token_bytes,
            ..
        } = self;
        let hash = hasher.hash_one(text);
        *max_token_bytes = text.len().max(*max_token_bytes);
        let held = by_bytes.find_mut(hash, |&other| slice(bytes, ends, other) == text);
        match held {
            // An ordinary token wins over an added one of the same text.
            Some(other) if kinds[*other as usize] == TokenKind::UserDefined => *other = id,
            Some(_) => {}
            None => {
                by_bytes.insert_unique(hash, id, |&other| {
                    hasher.hash_one(slice(bytes, ends, other))
                });
            }
        }
    }

    /// Number of tokens.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The token's bytes.
    pub(super) fn get(&self, id: u32) -> Option<&[u8]> {
        ((id as usize) < self.ends.len()).then(|| slice(&self.bytes, &self.ends, id))
    }

    /// The token's kind.
    pub(super) fn kind(&self, id: u32) -> Option<TokenKind> {
        self.kinds.get(id as usize).copied()
    }

    /// The encodable token with exactly these bytes: never a control, unknown or byte token.
    pub(super) fn find(&self, text: &[u8]) -> Option<u32> {
        if text.len() > self.max_token_bytes {
            return None;
        }
        let hash = self.hasher.hash_one(text);
        self.by_bytes
            .find(hash, |&id| slice(&self.bytes, &self.ends, id) == text)
            .copied()
    }

    /// The token for one byte, or [`NONE`].
    pub(super) fn byte_id(&self, byte: u8) -> u32 {
        self.byte_ids[usize::from(byte)]
    }

    /// Takes the one-byte texts as the byte tokens: the alphabet of byte-level vocabularies.
    pub(super) fn use_texts_as_bytes(&mut self) {
        for byte in 0..=255u8 {
            self.byte_ids[usize::from(byte)] = self.find(&[byte]).unwrap_or(NONE);
        }
    }
}

fn slice<'a>(bytes: &'a [u8], ends: &[u32], id: u32) -> &'a [u8] {
    let id = id as usize;
    let start = if id == 0 { 0 } else { ends[id - 1] as usize };
    &bytes[start..ends[id] as usize]
}

/// `<0xNN>` names one byte.
pub(super) fn parse_byte_token(text: &[u8]) -> Option<u8> {
    let digits = text.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    if digits.len() != 2 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Undoes the byte-to-letter table of byte-level vocabularies; text outside it stays as it is.
///
/// Source: `bytes_to_unicode` of the GPT-2 encoder.
pub(super) fn decode_byte_letters(text: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let Ok(letters) = std::str::from_utf8(text) else {
        return out.extend_from_slice(text);
    };
    for letter in letters.chars() {
        match letter_to_byte(letter) {
            Some(byte) => out.push(byte),
            None => {
                out.clear();
                return out.extend_from_slice(text);
            }
        }
    }
}

fn letter_to_byte(letter: char) -> Option<u8> {
    let code = letter as u32;
    let byte = match code {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => code,
        0x100..=0x120 => code - 0x100,
        0x121..=0x142 => code - 0x121 + 0x7f,
        0x143 => 0xad,
        _ => return None,
    };
    u8::try_from(byte).ok()
}

/// Replaces SentencePiece's visible space (U+2581) by a space.
pub(super) fn decode_spaces(text: &[u8], out: &mut Vec<u8>) {
    const SPACE: &[u8] = "\u{2581}".as_bytes();
    out.clear();
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(SPACE) {
            out.push(b' ');
            rest = after;
        } else {
            out.push(first);
            rest = tail;
        }
    }
}

/// Turn markers of model families that write them as `<...>` or `[...]`, and the commonest others.
const TURN_MARKERS: [&str; 16] = [
    "<start_of_turn>",
    "<end_of_turn>",
    "<bos>",
    "<eos>",
    "[INST]",
    "[/INST]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "<|im_start|>",
    "<|im_end|>",
    "<|begin_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
];

/// Whether the text is a known turn marker.
pub(super) fn is_turn_marker(text: &str) -> bool {
    TURN_MARKERS.contains(&text)
}

/// Text that looks like a control token whatever the file calls it: a known turn marker, `<|...|>`
/// or its full-width form. Files that list these as harmless exist, and a message must not be able
/// to write them.
pub(super) fn looks_like_control(text: &str) -> bool {
    let within = |open: &str, close: &str| {
        text.len() > open.len() + close.len() && text.starts_with(open) && text.ends_with(close)
    };
    within("<|", "|>") || within("<\u{ff5c}", "\u{ff5c}>") || is_turn_marker(text)
}

/// A vocabulary that lacks what it must have.
pub(super) fn check_id(name: &str, id: Option<u32>, len: usize) -> Result<()> {
    match id {
        Some(id) if id as usize >= len => Err(TextError::vocabulary(format!(
            "{name} id is {id}, but there are {len} tokens"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_letters_are_a_bijection() {
        let mut seen = [false; 256];
        for code in 0..0x200u32 {
            if let Some(byte) = char::from_u32(code).and_then(letter_to_byte) {
                assert!(!seen[usize::from(byte)], "{code:x}");
                seen[usize::from(byte)] = true;
            }
        }
        assert!(seen.iter().all(|&hit| hit));
        assert_eq!(letter_to_byte('\u{120}'), Some(b' '));
        assert_eq!(letter_to_byte('\u{10a}'), Some(b'\n'));
    }

    #[test]
    fn byte_tokens_are_read() {
        for (text, expected) in [
            ("<0x0A>", Some(10)),
            ("<0xff>", Some(255)),
            ("<0x0>", None),
            ("<0x+1>", None),
            ("x", None),
        ] {
            assert_eq!(parse_byte_token(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn first_token_of_a_text_wins_but_control_never_matches() {
        let mut vocab = Vocab::new(4).unwrap();
        vocab.push(b"<s>", TokenKind::Control).unwrap();
        vocab.push(b"a", TokenKind::Normal).unwrap();
        vocab.push(b"a", TokenKind::Normal).unwrap();
        assert_eq!(vocab.find(b"a"), Some(1));
        assert_eq!(vocab.find(b"<s>"), None);
        assert_eq!(vocab.get(0), Some(&b"<s>"[..]));
        assert_eq!(vocab.get(3), None);
    }
}
