//! Keeps special tokens forged by a message apart from those the template writes.
//!
//! **Mechanism.** Before a template is compiled, every special-token text in its *source* is
//! replaced by one private character (U+100000 and up), and so are the values of `bos_token` and
//! its like. Everything a client sends (messages, tools, arguments; keys too) is scrubbed of
//! these private characters, each swapped for a free one and back after rendering. So after
//! rendering a private character can only have come from the template: it is expanded to the token
//! text, and that range alone is trusted. All other text, whatever it spells, is plain.
//!
//! **Why it survives filters.** Nothing is added to message text: `trim`, `split`, `==`, `in`,
//! slices, `+`, `~`, `replace` see exactly what Hugging Face's Jinja sees. A filter can move or
//! drop a private character, but not make one, and one character cannot be cut in two.
//!
//! **What it can't see** is a template that composes a token from pieces, such as
//! `'<|' + role + '|>'`. That is never silently wrong: special-token text that is neither the
//! template's nor within any string the client sent is the error `AssembledSpecial`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::{Map, Value};

use crate::Result;
use crate::error::{TextError, check_limit};
use crate::limits::{MAX_TEMPLATE_SPECIALS, MAX_VALUE_DEPTH};
use crate::tokenizer::Tokenizer;

/// The first private character; the rest follow.
const FIRST: u32 = 0x10_0000;
/// Where free characters for scrubbing are looked for.
const FREE: std::ops::RangeInclusive<u32> = 0xF_0000..=0xF_FFFD;

/// The private characters of one template.
#[derive(Debug)]
pub(super) struct Guard {
    /// `texts[k]` is the token of character `FIRST + k`.
    texts: Vec<String>,
}

/// A prompt with its private characters expanded.
pub(super) struct Expanded {
    pub(super) text: String,
    pub(super) trusted: Vec<Range<usize>>,
}

impl Guard {
    /// Marks the special tokens in a template source.
    ///
    /// # Errors
    /// `TemplateSyntax` if the source has private characters itself, `TooLarge`.
    pub(super) fn mark(source: &str, tokenizer: &Tokenizer) -> Result<(Guard, String)> {
        if let Some(at) = source.find(|letter| letter as u32 >= FIRST) {
            let line = source[..at].matches('\n').count() + 1;
            let reason = "characters above U+FFFFF are reserved here".to_owned();
            return Err(TextError::TemplateSyntax { line, reason });
        }
        let ids = tokenizer.special_ids();
        let named = [ids.bos, ids.eos, ids.unk, ids.pad].into_iter().flatten();
        let named = named.filter(|&id| tokenizer.is_special(id));
        let named = named.filter_map(|id| std::str::from_utf8(tokenizer.token_bytes(id)?).ok());
        let mut texts: BTreeSet<&str> = named.collect();
        tokenizer.find_controls(source, |range| {
            texts.insert(&source[range]);
        });
        // A token that strips white space matches more than its own text.
        let own: BTreeSet<&str> = tokenizer.control_texts().collect();
        let texts: Vec<String> = texts
            .into_iter()
            .map(str::trim)
            .filter(|text| own.contains(text))
            .map(str::to_owned)
            .collect();
        check_limit(
            "special tokens in the chat template",
            texts.len(),
            MAX_TEMPLATE_SPECIALS,
        )?;
        let guard = Guard { texts };
        let marked = guard.mark_text(source);
        Ok((guard, marked))
    }

    /// `text` with each special token of this template as its private character.
    pub(super) fn mark_text(&self, text: &str) -> String {
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(&self.texts);
        let Ok(automaton) = automaton else {
            return text.to_owned();
        };
        let mut marked = String::with_capacity(text.len());
        automaton.replace_all_with(text, &mut marked, |hit, _, out| {
            out.extend(char::from_u32(FIRST + hit.pattern().as_u32()));
            true
        });
        marked
    }

    /// `text` with private characters as the tokens they stand for; for error texts.
    pub(super) fn expand(&self, text: &str) -> String {
        let mut expanded = String::with_capacity(text.len());
        for letter in text.chars() {
            match self.token_of(letter) {
                Some(token) => expanded.push_str(token),
                None => expanded.push(letter),
            }
        }
        expanded
    }

    fn token_of(&self, letter: char) -> Option<&str> {
        let index = (letter as u32).checked_sub(FIRST)?;
        self.texts.get(index as usize).map(String::as_str)
    }
}

/// What a client sent for one rendering, and what was swapped in it.
pub(super) struct Untrusted<'g> {
    guard: &'g Guard,
    tokenizer: &'g Tokenizer,
    /// Special-token texts that the client's strings contain.
    spelled: BTreeSet<String>,
    /// Private character to the free one in its place.
    swaps: BTreeMap<char, char>,
}

impl<'g> Untrusted<'g> {
    pub(super) fn new(guard: &'g Guard, tokenizer: &'g Tokenizer) -> Untrusted<'g> {
        Untrusted {
            guard,
            tokenizer,
            spelled: BTreeSet::new(),
            swaps: BTreeMap::new(),
        }
    }

    /// The value with no private character in it.
    ///
    /// # Errors
    /// `TooLarge` for nesting over the limit, `BadRequest` if no free character is left.
    pub(super) fn scrub(&mut self, value: Value) -> Result<Value> {
        let mut used = BTreeSet::new();
        self.inspect(&value, 0, &mut used)?;
        let clashes = used
            .iter()
            .filter(|&&letter| self.guard.token_of(letter).is_some());
        let mut free = FREE
            .filter_map(char::from_u32)
            .filter(|letter| !used.contains(letter));
        for &clash in clashes {
            let swap = free.next().ok_or_else(|| {
                TextError::request("messages", "every private-use character of Unicode is used")
            })?;
            self.swaps.insert(clash, swap);
        }
        Ok(if self.swaps.is_empty() {
            value
        } else {
            self.swap_value(value)
        })
    }

    /// Notes special-token texts and high private-use characters of all strings.
    fn inspect(&mut self, value: &Value, depth: usize, used: &mut BTreeSet<char>) -> Result<()> {
        check_limit("nesting of a message or argument", depth, MAX_VALUE_DEPTH)?;
        match value {
            Value::String(text) => self.inspect_text(text, used),
            Value::Array(list) => {
                for value in list {
                    self.inspect(value, depth + 1, used)?;
                }
            }
            Value::Object(map) => {
                for (key, value) in map {
                    self.inspect_text(key, used);
                    self.inspect(value, depth + 1, used)?;
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        Ok(())
    }

    fn inspect_text(&mut self, text: &str, used: &mut BTreeSet<char>) {
        used.extend(
            text.chars()
                .filter(|&letter| letter as u32 >= *FREE.start()),
        );
        let Untrusted {
            tokenizer, spelled, ..
        } = self;
        tokenizer.find_controls(text, |range| {
            if !spelled.contains(&text[range.clone()]) {
                spelled.insert(text[range].to_owned());
            }
        });
    }

    fn swap_value(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.swap_text(&text)),
            Value::Array(list) => list
                .into_iter()
                .map(|value| self.swap_value(value))
                .collect(),
            Value::Object(map) => {
                let swapped = map.into_iter();
                let swapped =
                    swapped.map(|(key, value)| (self.swap_text(&key), self.swap_value(value)));
                Value::Object(swapped.collect::<Map<_, _>>())
            }
            other => other,
        }
    }

    fn swap_text(&self, text: &str) -> String {
        text.chars()
            .map(|letter| *self.swaps.get(&letter).unwrap_or(&letter))
            .collect()
    }

    /// Private characters to trusted token text, swapped ones back to what they were.
    ///
    /// Stops once the text is longer than `limit` bytes: one character may stand for a token of thousands.
    pub(super) fn expand(&self, marked: &str, limit: usize) -> Expanded {
        let back: BTreeMap<char, char> = self.swaps.iter().map(|(&from, &to)| (to, from)).collect();
        let mut expanded = Expanded {
            text: String::with_capacity(marked.len()),
            trusted: Vec::new(),
        };
        for letter in marked.chars() {
            if expanded.text.len() > limit {
                break;
            }
            if let Some(token) = self.guard.token_of(letter) {
                let start = expanded.text.len();
                expanded.text.push_str(token);
                expanded.trusted.push(start..expanded.text.len());
            } else {
                expanded.text.push(*back.get(&letter).unwrap_or(&letter));
            }
        }
        expanded
    }

    /// Refuses special-token text that neither the template nor the client wrote in one piece.
    pub(super) fn check_assembled(&self, text: &str, trusted: &[Range<usize>]) -> Result<()> {
        let mut done = 0;
        let mut found: Option<String> = None;
        let ends = trusted
            .iter()
            .cloned()
            .chain(std::iter::once(text.len()..text.len()));
        for range in ends {
            let gap = &text[done..range.start];
            self.tokenizer.find_controls(gap, |hit| {
                if !self.spelled.contains(&gap[hit.clone()]) {
                    found.get_or_insert_with(|| gap[hit].to_owned());
                }
            });
            done = range.end;
        }
        found.map_or(Ok(()), |token| Err(TextError::AssembledSpecial { token }))
    }
}
