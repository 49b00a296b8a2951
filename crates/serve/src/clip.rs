//! Foreign text in error messages, cut to a harmless length.

use std::fmt;

use crate::json::Json;

/// Most bytes of a client's text that an error message repeats.
pub(crate) const MAX_ECHO_BYTES: usize = 64;

/// Shows at most [`MAX_ECHO_BYTES`] of a text, quoted and escaped.
pub(crate) struct Clip<'a>(pub &'a str);

impl fmt::Display for Clip<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.len() <= MAX_ECHO_BYTES {
            return write!(f, "{:?}", self.0);
        }
        let end = self.0.floor_char_boundary(MAX_ECHO_BYTES);
        write!(f, "{:?}...", &self.0[..end])
    }
}

/// A value as an error message names it: scalars as they are, the rest by kind.
pub(crate) fn shown(value: &Json) -> String {
    match value {
        Json::Null => "null".to_owned(),
        Json::Bool(value) => value.to_string(),
        Json::Number(value) => value.to_string(),
        Json::String(value) => Clip(value).to_string(),
        Json::Array(items) => format!("a list of {}", items.len()),
        Json::Object(_) => "an object".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_at_a_character_border() {
        let cases = [
            ("short", "\"short\"".to_owned()),
            ("a\nb", "\"a\\nb\"".to_owned()),
            (&"é".repeat(40), format!("\"{}\"...", "é".repeat(32))),
            (
                &format!("x{}", "é".repeat(40)),
                format!("\"x{}\"...", "é".repeat(31)),
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(Clip(text).to_string(), expected);
        }
    }
}
