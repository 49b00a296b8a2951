//! Stop strings over token borders.
//!
//! **The rule.** Of all occurrences of all stop strings, the one that *ends* first stops the text;
//! of several that end at the same byte, the one that starts first. The answer is the text before
//! it. The rule speaks of the text alone, so token borders change nothing. Text that may become a
//! stop string is held back and released when it cannot any more.
//!
//! Each stop string is followed by its own Knuth-Morris-Pratt automaton: a byte costs a step per
//! stop string, amortised, whatever the text.

use crate::Result;
use crate::error::{TextError, check_limit};
use crate::limits::{MAX_STOP_BYTES, MAX_STOPS};

/// What one token brought.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StopStep {
    /// Text that is now certain to be part of the answer.
    pub text: String,
    /// Which stop string (by its place in the list) ended the answer; `None`: it goes on.
    pub stopped: Option<usize>,
}

/// Follows one answer.
#[derive(Debug, Clone)]
pub struct StopMatcher {
    patterns: Vec<Pattern>,
    /// Text not yet given out: a prefix of some stop string.
    held: String,
    num_pushed: usize,
    stopped: bool,
}

impl StopMatcher {
    /// A matcher at the start of an answer; with no stop strings it passes everything.
    ///
    /// # Errors
    /// `BadRequest` for an empty stop string, `TooLarge` over [`MAX_STOPS`] or [`MAX_STOP_BYTES`].
    pub fn new<S: AsRef<str>>(stops: &[S]) -> Result<StopMatcher> {
        check_limit("stop strings", stops.len(), MAX_STOPS)?;
        let mut patterns = Vec::with_capacity(stops.len());
        for stop in stops.iter().map(AsRef::as_ref) {
            check_limit("stop string, bytes,", stop.len(), MAX_STOP_BYTES)?;
            if stop.is_empty() {
                return Err(TextError::request(
                    "stop",
                    "a stop string must not be empty",
                ));
            }
            patterns.push(Pattern::new(stop));
        }
        Ok(StopMatcher {
            patterns,
            held: String::new(),
            num_pushed: 0,
            stopped: false,
        })
    }

    /// Takes the text of the next token (which may be empty).
    ///
    /// After a stop nothing more comes out and nothing more is counted.
    pub fn push(&mut self, delta: &str) -> StopStep {
        if self.stopped {
            return StopStep::default();
        }
        self.num_pushed += 1;
        let before = self.held.len();
        self.held.push_str(delta);
        for (index, &byte) in delta.as_bytes().iter().enumerate() {
            if let Some((stop, len)) = self.advance(byte) {
                self.stopped = true;
                let mut text = std::mem::take(&mut self.held);
                text.truncate(before + index + 1 - len);
                return StopStep {
                    text,
                    stopped: Some(stop),
                };
            }
        }
        let keep = self
            .patterns
            .iter()
            .map(|pattern| pattern.matched)
            .max()
            .unwrap_or(0);
        let held = self.held.split_off(self.held.len() - keep);
        StopStep {
            text: std::mem::replace(&mut self.held, held),
            stopped: None,
        }
    }

    /// Ends the answer for another reason: what was held back is part of it.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Tokens that belong to the answer: those pushed so far, up to and with the one whose text
    /// completed a stop string. Tokens computed beyond it are not the client's.
    pub fn num_accepted(&self) -> usize {
        self.num_pushed
    }

    /// Moves every automaton by a byte; the longest stop string that is complete now.
    fn advance(&mut self, byte: u8) -> Option<(usize, usize)> {
        let mut best: Option<(usize, usize)> = None;
        for (index, pattern) in self.patterns.iter_mut().enumerate() {
            pattern.advance(byte);
            let len = pattern.text.len();
            if pattern.matched == len && best.is_none_or(|(_, longest)| len > longest) {
                best = Some((index, len));
            }
        }
        best
    }
}

/// A stop string and how much of it the text ends with.
#[derive(Debug, Clone)]
struct Pattern {
    text: Vec<u8>,
    /// `borders[n]`: the longest proper prefix of `text[..n]` that is also its suffix.
    borders: Vec<usize>,
    matched: usize,
}

impl Pattern {
    fn new(text: &str) -> Pattern {
        let text = text.as_bytes().to_vec();
        let mut borders = vec![0; text.len() + 1];
        let mut matched = 0;
        for end in 1..text.len() {
            while matched > 0 && text[matched] != text[end] {
                matched = borders[matched];
            }
            matched += usize::from(text[matched] == text[end]);
            borders[end + 1] = matched;
        }
        Pattern {
            text,
            borders,
            matched: 0,
        }
    }

    fn advance(&mut self, byte: u8) {
        while self.matched > 0 && self.text.get(self.matched) != Some(&byte) {
            self.matched = self.borders[self.matched];
        }
        self.matched += usize::from(self.text[self.matched] == byte);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(stops: &[&str], deltas: &[&str], shown: &[&str], rest: &str, accepted: usize) {
        let mut matcher = StopMatcher::new(stops).unwrap();
        let found: Vec<String> = deltas
            .iter()
            .map(|delta| matcher.push(delta).text)
            .collect();
        assert_eq!(found, shown, "{stops:?} {deltas:?}");
        assert_eq!(
            (matcher.finish().as_str(), matcher.num_accepted()),
            (rest, accepted)
        );
    }

    /// Serving edge case 2.
    #[test]
    fn rvllm_46113_stop_string_over_token_borders() {
        check(
            &["END", "ENDING"],
            &["a", "E", "NDI", "NG"],
            &["a", "", "", ""],
            "",
            3,
        );
        check(
            &["ENDING", "END"],
            &["aEN", "", "D", "x"],
            &["a", "", "", ""],
            "",
            3,
        );
    }

    #[test]
    fn held_text_is_released_when_the_match_fails() {
        check(
            &["abab"],
            &["a", "b", "a", "c", "ab"],
            &["", "", "", "abac", ""],
            "ab",
            5,
        );
        check(&["aab"], &["aaa", "b"], &["a", ""], "", 2);
        check(&["éa"], &["xé", "é", "b"], &["x", "é", "éb"], "", 3);
        check(&[], &["x", "y"], &["x", "y"], "", 2);
    }

    #[test]
    fn the_first_to_end_wins_then_the_first_to_start() {
        check(&["abcd", "bc"], &["abcd"], &["a"], "", 1);
        check(&["bc", "abc"], &["xabc"], &["x"], "", 1);
    }

    #[test]
    fn bad_stop_lists_are_refused() {
        assert!(StopMatcher::new(&[""]).is_err());
        assert!(StopMatcher::new(&vec!["x"; MAX_STOPS + 1]).is_err());
        assert!(StopMatcher::new(&["x".repeat(MAX_STOP_BYTES + 1)]).is_err());
    }

    /// The rule, said naively on the whole text.
    fn expected(stops: &[String], text: &str) -> String {
        for end in 0..=text.len() {
            let starts = stops
                .iter()
                .filter(|stop| text.as_bytes()[..end].ends_with(stop.as_bytes()));
            if let Some(longest) = starts.map(String::len).max() {
                return text[..end - longest].to_owned();
            }
        }
        text.to_owned()
    }

    proptest! {
        #[test]
        fn streamed_is_whole(
            stops in prop::collection::vec("[abé]{1,4}", 0..4),
            deltas in prop::collection::vec("[abcé]{0,3}", 0..16),
        ) {
            let mut matcher = StopMatcher::new(&stops).unwrap();
            let mut shown = String::new();
            for delta in &deltas {
                shown.push_str(&matcher.push(delta).text);
            }
            shown.push_str(&matcher.finish());
            prop_assert_eq!(shown, expected(&stops, &deltas.concat()));
        }
    }
}
