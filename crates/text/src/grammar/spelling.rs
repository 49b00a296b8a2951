//! Which characters the tokens of one model can write.
//!
//! A vocabulary need not have all 256 bytes: where a rule asks for a character with a byte that no token has, no text of the
//! rule can ever be completed. Known here by character; whether the tokens also fit together is known only as a text grows.

use std::collections::HashSet;
use std::fmt::Write as _;

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

/// Most bytes of a text that a message repeats.
const SHOWN_BYTES_MAX: usize = 60;

/// What the tokens of a vocabulary can write.
pub(super) struct Spelling {
    /// Bytes that are a token of their own, or of a token that begins or ends inside of a character: they serve any character.
    loose: [bool; 256],
    /// The characters that can be written; `None` when all can.
    characters: Option<ClassUnicode>,
}

impl Spelling {
    /// Of a vocabulary with these tokens.
    pub(super) fn new(words: &[Vec<u8>]) -> Self {
        let mut loose = [false; 256];
        for word in words {
            let chunks: Vec<_> = word.utf8_chunks().collect();
            let broken = chunks.iter().flat_map(|chunk| chunk.invalid());
            broken.for_each(|byte| loose[usize::from(*byte)] = true);
            if let [byte] = word[..] {
                loose[usize::from(byte)] = true;
            }
        }
        let characters = match lacks(&loose) {
            false => None,
            true => Some(writable(words, &loose)),
        };
        Self { loose, characters }
    }

    /// Whether every character can be written, so that nothing need be looked at.
    pub(super) fn is_whole(&self) -> bool {
        self.characters.is_none()
    }

    /// Whether a character of this class can be written, or it has none to begin with.
    pub(super) fn writes_one_of(&self, class: &ClassUnicode) -> bool {
        let Some(characters) = &self.characters else {
            return true;
        };
        let mut both = class.clone();
        both.intersect(characters);
        class.ranges().is_empty() || !both.ranges().is_empty()
    }

    /// Refuses a text that a rule has letter by letter.
    ///
    /// # Errors
    /// The first character that cannot be written, and its bytes that no token has.
    pub(super) fn check(&self, text: &str) -> Result<(), String> {
        match text.chars().find(|&letter| !self.writes(letter)) {
            None => Ok(()),
            Some(letter) => Err(format!(
                "{:?} needs {} of the character {letter:?}, which no token of this model spells; leave that character out",
                clipped(text),
                self.missing(letter)
            )),
        }
    }

    fn writes(&self, letter: char) -> bool {
        let Some(characters) = &self.characters else {
            return true;
        };
        let ranges = characters.ranges();
        let place = ranges.partition_point(|range| range.end() < letter);
        ranges
            .get(place)
            .is_some_and(|range| range.start() <= letter)
    }

    /// The bytes of a character that no token has where the character needs them.
    fn missing(&self, letter: char) -> String {
        let mut buffer = [0; 4];
        let bytes = letter.encode_utf8(&mut buffer).bytes();
        let missing = bytes.filter(|byte| !self.loose[usize::from(*byte)]);
        missing.fold("byte".to_owned(), |mut text, byte| {
            let _ = write!(text, " 0x{byte:02x}");
            text
        })
    }
}

/// Whether a byte that UTF-8 has is not loose.
fn lacks(loose: &[bool; 256]) -> bool {
    (0..=0xf4).any(|byte| !matches!(byte, 0xc0 | 0xc1) && !loose[byte])
}

/// Characters of loose bytes, and those that some token has whole.
fn writable(words: &[Vec<u8>], loose: &[bool; 256]) -> ClassUnicode {
    let whole = words.iter().flat_map(|word| word.utf8_chunks());
    let whole: HashSet<char> = whole.flat_map(|chunk| chunk.valid().chars()).collect();
    let is_writable = |letter: char| {
        let mut buffer = [0; 4];
        let mut bytes = letter.encode_utf8(&mut buffer).bytes();
        bytes.all(|byte| loose[usize::from(byte)]) || whole.contains(&letter)
    };
    let mut ranges: Vec<(char, char)> = Vec::new();
    for letter in ('\0'..=char::MAX).filter(|&letter| is_writable(letter)) {
        match ranges.last_mut() {
            Some((_, last)) if u32::from(*last) + 1 == u32::from(letter) => *last = letter,
            _ => ranges.push((letter, letter)),
        }
    }
    let ranges = ranges.into_iter();
    ClassUnicode::new(ranges.map(|(first, last)| ClassUnicodeRange::new(first, last)))
}

fn clipped(text: &str) -> &str {
    &text[..text.floor_char_boundary(SHOWN_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&[u8]]) -> Vec<Vec<u8>> {
        words.iter().map(|word| word.to_vec()).collect()
    }

    /// Every byte but these as a token of its own.
    fn without(missing: &[u8]) -> Vec<Vec<u8>> {
        let bytes = (0..=255).filter(|byte| !missing.contains(byte));
        bytes.map(|byte| vec![byte]).collect()
    }

    #[test]
    fn bytes_that_utf8_never_has_are_not_missed() {
        assert!(Spelling::new(&without(&[0xc0, 0xc1, 0xf5, 0xff])).is_whole());
        assert!(!Spelling::new(&without(&[0xf4])).is_whole());
    }

    #[test]
    fn characters_of_missing_bytes_cannot_be_written() {
        let spelling = Spelling::new(&without(&[0xf2, 0x04]));
        for (text, missing) in [
            ("a\u{4}", "byte 0x04 of the character '\\u{4}'"),
            ("\u{db}\u{a5878}", "byte 0xf2 of the character '\\u{a5878}'"),
        ] {
            let error = spelling.check(text).unwrap_err();
            assert!(error.contains(missing), "{error}");
        }
        for text in ["", "a\u{db}\u{92}", "\u{10ffff}", "\u{3}\u{5}"] {
            assert_eq!(spelling.check(text), Ok(()));
        }
    }

    /// A vocabulary of characters, without bytes to fall back on.
    #[test]
    fn characters_that_are_tokens_can_be_written() {
        let spelling = Spelling::new(&words(&[b"a", "\u{e9}".as_bytes(), "x\u{4e2d}".as_bytes()]));
        assert_eq!(spelling.check("\u{e9}a\u{4e2d}"), Ok(()));
        let error = spelling.check("\u{e8}").unwrap_err();
        assert!(error.contains("byte 0xc3 0xa8"), "{error}");
        // The last byte of the character is at hand, and a token ends with the others.
        let parts = Spelling::new(&words(&[b" \xe4\xb8", b"\xad", b"\xae"]));
        assert_eq!(parts.check("\u{4e2d}\u{4e2e}"), Ok(()));
        assert!(parts.check("\u{4e2f}").is_err());
    }

    #[test]
    fn a_class_needs_one_character_that_can_be_written() {
        let spelling = Spelling::new(&without(&[0xf2]));
        let class = |first, last| ClassUnicode::new([ClassUnicodeRange::new(first, last)]);
        assert!(spelling.writes_one_of(&class('a', 'z')));
        assert!(spelling.writes_one_of(&class('\u{7fffe}', '\u{80001}')));
        assert!(!spelling.writes_one_of(&class('\u{80000}', '\u{bffff}')));
        assert!(spelling.writes_one_of(&ClassUnicode::empty()));
    }
}
