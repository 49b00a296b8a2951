//! Token ids to text, whole or streamed, the same bytes either way.
//!
//! Tokens may end in the middle of a character; a delta never shows a part of one. Bytes that are
//! no UTF-8 become U+FFFD, one per maximal invalid sequence, as `String::from_utf8_lossy` does.
//! **A character still unfinished at the end** is replaced once by U+FFFD, by [`Detokenizer::finish`]
//! as by [`Tokenizer::decode`]: the deltas joined are always the whole text.

use std::sync::Arc;

use crate::tokenizer::Tokenizer;

/// Whether control tokens show in the output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SpecialText {
    /// They do not.
    #[default]
    Hide,
    /// By their text.
    Show,
}

/// What happens to the space a vocabulary puts before each text.
///
/// It concerns only tokenizers that add one ([`Tokenizer::adds_space`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LeadingSpace {
    /// It stays: a continuation of a text.
    #[default]
    Keep,
    /// It goes: a text of its own, such as a chat answer or the inverse of encoding.
    Strip,
}

/// How ids become text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DecodeOptions {
    /// Control tokens.
    pub special: SpecialText,
    /// The space before the text.
    pub leading_space: LeadingSpace,
}

/// The streaming state of one sequence.
#[derive(Debug, Clone)]
pub struct Detokenizer {
    tokenizer: Arc<Tokenizer>,
    options: DecodeOptions,
    /// Control tokens that show although the others are hidden, ascending.
    shown: Vec<u32>,
    /// The bytes of an unfinished character, at most three.
    pending: Vec<u8>,
    /// The next byte is the text's first and, if a space, goes.
    strip_next: bool,
}

impl Detokenizer {
    /// A stream at its start.
    pub fn new(tokenizer: Arc<Tokenizer>, options: DecodeOptions) -> Detokenizer {
        let strip_next = strips(&tokenizer, options);
        Detokenizer {
            tokenizer,
            options,
            shown: Vec::new(),
            pending: Vec::new(),
            strip_next,
        }
    }

    /// The same, with the control tokens of these texts shown by them: marks that a parser of the text looks for.
    pub fn showing<'t>(mut self, texts: impl Iterator<Item = &'t str>) -> Detokenizer {
        self.shown = texts
            .filter_map(|text| self.tokenizer.id_of(text))
            .collect();
        self.shown.sort_unstable();
        self
    }

    /// The text that `id` completes; empty while a character is unfinished, for a hidden token, and
    /// for an id past the vocabulary (padding columns of a model).
    pub fn push(&mut self, id: u32) -> String {
        let mut options = self.options;
        if self.shown.binary_search(&id).is_ok() {
            options.special = SpecialText::Show;
        }
        append_token(
            &self.tokenizer,
            options,
            id,
            &mut self.strip_next,
            &mut self.pending,
        );
        take_complete(&mut self.pending)
    }

    /// What is left at the end: U+FFFD for an unfinished character, else nothing.
    pub fn finish(&mut self) -> String {
        let rest = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending.clear();
        rest
    }

    /// Whether bytes of an unfinished character are held back.
    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }
}

impl Tokenizer {
    /// The whole text of `ids`; an unfinished character at the end becomes U+FFFD.
    pub fn decode(&self, ids: &[u32], options: DecodeOptions) -> String {
        String::from_utf8_lossy(&self.decode_bytes(ids, options)).into_owned()
    }

    /// The bytes of `ids`, which need not be UTF-8.
    pub fn decode_bytes(&self, ids: &[u32], options: DecodeOptions) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(ids.len() * 4);
        let mut strip_next = strips(self, options);
        for &id in ids {
            append_token(self, options, id, &mut strip_next, &mut bytes);
        }
        bytes
    }
}

fn strips(tokenizer: &Tokenizer, options: DecodeOptions) -> bool {
    options.leading_space == LeadingSpace::Strip && tokenizer.adds_space()
}

fn append_token(
    tokenizer: &Tokenizer,
    options: DecodeOptions,
    id: u32,
    strip_next: &mut bool,
    out: &mut Vec<u8>,
) {
    let special = tokenizer.is_special(id);
    if special && options.special == SpecialText::Hide {
        return;
    }
    let mut bytes = tokenizer.token_bytes(id).unwrap_or_default();
    if *strip_next && !special && !bytes.is_empty() {
        bytes = bytes.strip_prefix(b" ").unwrap_or(bytes);
        *strip_next = false;
    }
    out.extend_from_slice(bytes);
}

/// Takes all complete characters, invalid sequences replaced; an unfinished one stays.
fn take_complete(pending: &mut Vec<u8>) -> String {
    let mut text = String::new();
    let mut done = 0;
    for chunk in pending.utf8_chunks() {
        text.push_str(chunk.valid());
        done += chunk.valid().len();
        let invalid = chunk.invalid();
        if invalid.is_empty() || is_unfinished(&pending[done..]) {
            break;
        }
        text.push('\u{fffd}');
        done += invalid.len();
    }
    pending.drain(..done);
    text
}

/// Whether the bytes could become one character by more bytes.
fn is_unfinished(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes)
        .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Streams `chunks` as if each were a token; returns the deltas and the flush.
    fn stream(chunks: &[&[u8]]) -> (Vec<String>, String) {
        let mut pending = Vec::new();
        let mut deltas = Vec::new();
        for chunk in chunks {
            pending.extend_from_slice(chunk);
            deltas.push(take_complete(&mut pending));
        }
        (deltas, String::from_utf8_lossy(&pending).into_owned())
    }

    fn check(chunks: &[&[u8]], deltas: &[&str], rest: &str) {
        let (found, flushed) = stream(chunks);
        assert_eq!(
            (
                found.iter().map(String::as_str).collect::<Vec<_>>(),
                flushed.as_str()
            ),
            (deltas.to_vec(), rest)
        );
    }

    /// An emoji split over three tokens, also cut off in its middle (serving edge case 1).
    #[test]
    fn rferrox_124_split_characters_never_show() {
        check(
            &[b"a\xf0\x9f", b"\x99", b"\x82b"],
            &["a", "", "\u{1f642}b"],
            "",
        );
        check(&[b"a\xf0\x9f", b"\x99"], &["a", ""], "\u{fffd}");
        check(
            &[b"\xff", b"\xc3", b"x"],
            &["\u{fffd}", "", "\u{fffd}x"],
            "",
        );
        check(
            &[b"\xf0\x9f", b"\xf0\x9f\x99\x82"],
            &["", "\u{fffd}\u{1f642}"],
            "",
        );
        check(&[b"\xe2\x82", b"\xe2"], &["", "\u{fffd}"], "\u{fffd}");
    }

    proptest! {
        #[test]
        fn joined_deltas_are_the_whole(chunks in prop::collection::vec(
            prop::collection::vec(prop_oneof![any::<u8>(), 0x80u8..0xc0, 0xe0u8..0xf5], 0..4), 0..12)) {
            let parts: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
            let (deltas, rest) = stream(&parts);
            let whole = String::from_utf8_lossy(&chunks.concat()).into_owned();
            prop_assert_eq!(deltas.concat() + &rest, whole);
        }
    }
}
