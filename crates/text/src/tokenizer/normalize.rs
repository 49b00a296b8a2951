//! What happens to a stretch of text before it is cut into pieces.

use std::borrow::Cow;

use unicode_normalization::{UnicodeNormalization, is_nfc};

/// Where a space is put before the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prefix {
    /// Nowhere.
    Never,
    /// Before every stretch between added tokens (llama.cpp; the `Prepend` normalizer).
    Always,
    /// Before every stretch that does not start with one (`Metaspace` always, `add_prefix_space`).
    UnlessSpace,
    /// Before the text, if it does not start with one (`Metaspace` first).
    First,
}

/// The normalisation of a vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Normalizer {
    pub(super) nfc: bool,
    pub(super) prefix: Prefix,
    /// U+2581 in the text is a space, as SentencePiece has it.
    pub(super) visible_spaces: bool,
}

impl Normalizer {
    /// The normal form of a stretch of text; `at_start`: nothing comes before it.
    pub(super) fn apply<'t>(&self, text: &'t str, at_start: bool) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        if self.nfc && !is_nfc(&text) {
            text = Cow::Owned(text.nfc().collect());
        }
        if self.visible_spaces && text.contains('\u{2581}') {
            text = Cow::Owned(text.replace('\u{2581}', " "));
        }
        let add = match self.prefix {
            Prefix::Never => false,
            Prefix::Always => true,
            Prefix::UnlessSpace => !text.starts_with(' '),
            Prefix::First => at_start && !text.starts_with(' '),
        };
        if add {
            Cow::Owned(format!(" {text}"))
        } else {
            text
        }
    }

    pub(super) fn adds_space(&self) -> bool {
        self.prefix != Prefix::Never
    }
}
