//! Values that ask for nothing, of fields that this server does not act on.

use crate::fields::as_f32;
use crate::json::Json;

/// Which values of a field change nothing; `null` never does.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Neutral {
    /// None.
    Never,
    /// A list or an object without entries.
    Empty,
    /// One of these words.
    Words(&'static [&'static str]),
    /// A list of this word alone.
    Only(&'static str),
    /// This switch.
    Switch(bool),
    /// This number.
    Number(f32),
}

impl Neutral {
    /// Whether `value` is one of them.
    pub(super) fn has(self, value: &Json) -> bool {
        match (self, value) {
            (_, Json::Null) => true,
            (Self::Empty, Json::Array(items)) => items.is_empty(),
            (Self::Empty, Json::Object(entries)) => entries.is_empty(),
            (Self::Words(words), Json::String(text)) => words.contains(&text.as_str()),
            (Self::Only(word), Json::Array(items)) => {
                matches!(items.as_slice(), [Json::String(text)] if text == word)
            }
            (Self::Switch(neutral), Json::Bool(value)) => neutral == *value,
            (Self::Number(neutral), value) => as_f32(value) == Some(neutral),
            _ => false,
        }
    }
}
