//! Pre-tokenizers: cut text into pieces that tokens never cross.
//!
//! A pre-tokenizer is a list of splits; each split cuts every piece of the one before. A split is
//! a pattern whose matches, and the text between them, become pieces. Registry: [`SPLITS`].
//! The `regex` crate has no look-ahead, so the common last alternatives `\s+(?!\S)|\s+` are taken
//! off the pattern and done by hand (see [`Stage::gap`]); in return finding one match
//! is linear. A file's own pattern may look far ahead at every match, so that a text costs its
//! square; the qwen2 pattern took at most 0.1 s for a megabyte of any of thirteen repeated strings.

use regex::{Regex, RegexBuilder};

use crate::Result;
use crate::error::{TextError, check_limit};
use crate::limits::{MAX_PATTERN_BYTES, MAX_STAGES};

/// A named pre-tokenizer and what its name implies.
#[derive(Debug)]
pub(super) struct NamedSplit {
    /// Names in `tokenizer.ggml.pre`.
    pub(super) names: &'static [&'static str],
    /// Patterns, applied in order.
    pub(super) patterns: &'static [&'static str],
    /// A piece that is a token is that token, whatever the merges say.
    pub(super) whole_pieces_first: bool,
    /// The begin token is added unless the file says otherwise.
    pub(super) add_bos: bool,
    /// Text is brought to Unicode NFC first.
    pub(super) nfc: bool,
}

pub(super) const GPT2: &str =
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;
// Escaped, so that no editor can change it into its Unicode normal form.
const DEEPSEEK_LETTERS: &str = concat!(
    r"\s?[A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}",
    r"\x{1c4}-\x{293}\x{295}-\x{2af}\x{370}-\x{373}\x{376}\x{377}\x{37b}-\x{37d}",
    r"\x{37f}\x{386}\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1}\x{3a3}-\x{3f5}",
    r"\x{3f7}-\x{481}\x{48a}-\x{52f}\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5}",
    r"\x{13f8}-\x{13fd}\x{1c90}-\x{1cba}\x{1cbd}-\x{1cbf}\x{1d00}-\x{1d2b}",
    r"\x{1d6b}-\x{1d77}\x{1d79}-\x{1d9a}\x{1e00}-\x{1f15}\x{1f18}-\x{1f1d}",
    r"\x{1f20}-\x{1f45}\x{1f48}-\x{1f4d}\x{1f50}-\x{1f57}\x{1f59}\x{1f5b}\x{1f5d}",
    r"\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe}\x{1fc2}-\x{1fc4}",
    r"\x{1fc6}-\x{1fcc}\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec}",
    r"\x{1ff2}-\x{1ff4}\x{1ff6}-\x{1ffc}\x{2102}\x{2107}\x{210a}-\x{2113}\x{2115}",
    r"\x{2119}-\x{211d}\x{2124}\x{2126}\x{2128}\x{212a}-\x{212d}\x{212f}-\x{2134}",
    r"\x{2139}\x{213c}-\x{213f}\x{2145}-\x{2149}\x{214e}\x{2183}\x{2184}",
    r"\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4}\x{2ceb}-\x{2cee}\x{2cf2}\x{2cf3}",
    r"\x{a640}-\x{a66d}\x{a680}-\x{a69b}\x{a722}-\x{a76f}\x{a771}-\x{a787}",
    r"\x{a78b}-\x{a78e}\x{ab70}-\x{abbf}\x{fb00}-\x{fb06}\x{fb13}-\x{fb17}",
    r"\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a}\x{10400}-\x{1044f}\x{104b0}-\x{104d3}",
    r"\x{104d8}-\x{104fb}\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2}\x{118a0}-\x{118df}",
    r"\x{1e900}-\x{1e943}]+",
);
const DEEPSEEK_CJK: &str = r"[\x{0800}-\x{9fa5}\x{ac00}-\x{d7ff}]+";

/// Every pre-tokenizer known by name.
///
/// Source: the models' own `tokenizer.json`; names as llama.cpp's `llama-vocab.cpp` reads them.
pub(super) static SPLITS: [NamedSplit; 8] = [
    NamedSplit {
        names: &[
            "llama-bpe",
            "llama3",
            "llama-v3",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "midm-2.0",
            "lfm2",
        ],
        patterns: &[LLAMA3],
        whole_pieces_first: true,
        add_bos: true,
        nfc: false,
    },
    NamedSplit {
        names: &["qwen2", "deepseek-r1-qwen"],
        patterns: &[QWEN2],
        whole_pieces_first: false,
        add_bos: false,
        nfc: true,
    },
    NamedSplit {
        names: &["smollm", "starcoder", "refact", "command-r", "codeshell"],
        patterns: &[r"\p{N}", GPT2],
        whole_pieces_first: false,
        add_bos: false,
        nfc: false,
    },
    NamedSplit {
        names: &["gpt-2", "gpt2", "phi-2", "olmo", "mpt"],
        patterns: &[GPT2],
        whole_pieces_first: false,
        add_bos: false,
        nfc: false,
    },
    NamedSplit {
        names: &["deepseek-llm"],
        patterns: &[
            r"[\r\n]",
            DEEPSEEK_LETTERS,
            r"\s?[!-/:-~\x{ff01}-\x{ff0f}\x{ff1a}-\x{ff5e}\x{2018}-\x{201f}\x{3000}-\x{3002}]+",
            r"\s+$",
            DEEPSEEK_CJK,
            r"\p{N}+",
        ],
        whole_pieces_first: false,
        add_bos: false,
        nfc: false,
    },
    NamedSplit {
        names: &["deepseek-coder"],
        patterns: &[
            r"[\r\n]",
            r"\s?\p{L}+",
            r"\s?\p{P}+",
            DEEPSEEK_CJK,
            r"\p{N}",
        ],
        whole_pieces_first: false,
        add_bos: false,
        nfc: false,
    },
    NamedSplit {
        names: &["deepseek-v3"],
        patterns: &[
            r"\p{N}{1,3}",
            r"[\x{4e00}-\x{9fa5}\x{3040}-\x{30ff}]+",
            DEEPSEEK3,
        ],
        whole_pieces_first: false,
        add_bos: false,
        nfc: false,
    },
    NamedSplit {
        names: &["tekken"],
        patterns: &[TEKKEN],
        whole_pieces_first: true,
        add_bos: true,
        nfc: false,
    },
];

/// The pre-tokenizer of that name.
///
/// # Errors
/// `UnknownPreTokenizer`, listing the names known; also for "default", which stands for a guess.
pub(super) fn named(name: Option<&str>) -> Result<&'static NamedSplit> {
    let found = name.unwrap_or("(none)");
    SPLITS
        .iter()
        .find(|split| split.names.contains(&found))
        .ok_or_else(|| {
            let known: Vec<&str> = SPLITS
                .iter()
                .flat_map(|split| split.names)
                .copied()
                .collect();
            TextError::UnknownPreTokenizer {
                found: found.to_owned(),
                known: known.join(", "),
            }
        })
}

/// Cuts text into pieces.
#[derive(Debug, Clone, Default)]
pub(super) struct PreTokenizer {
    stages: Vec<Stage>,
}

impl PreTokenizer {
    /// Compiles the patterns, to be applied in order.
    ///
    /// # Errors
    /// A pattern with look-around other than the usual ending, possessive repeats, or a bad one.
    pub(super) fn new<S: AsRef<str>>(patterns: &[S]) -> Result<PreTokenizer> {
        check_limit("pre-tokenizer, splits,", patterns.len(), MAX_STAGES)?;
        let stages = patterns.iter().map(|pattern| Stage::new(pattern.as_ref()));
        Ok(PreTokenizer {
            stages: stages.collect::<Result<_>>()?,
        })
    }

    /// Calls `each` for every piece of `text`, in order; together they are the text.
    pub(super) fn split(&self, text: &str, each: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
        run(&self.stages, text, each)
    }
}

fn run(stages: &[Stage], text: &str, each: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
    let Some((stage, rest)) = stages.split_first() else {
        return if text.is_empty() { Ok(()) } else { each(text) };
    };
    let mut done = 0;
    for hit in stage.regex.find_iter(text) {
        if hit.is_empty() {
            continue;
        }
        stage.gap(text, done..hit.start(), &mut |piece| run(rest, piece, each))?;
        run(rest, hit.as_str(), each)?;
        done = hit.end();
    }
    stage.gap(text, done..text.len(), &mut |piece| run(rest, piece, each))
}

#[derive(Debug, Clone)]
struct Stage {
    regex: Regex,
    /// The pattern ended in `\s+(?!\S)|\s+`.
    spaces_by_hand: bool,
}

impl Stage {
    fn new(pattern: &str) -> Result<Stage> {
        check_limit(
            "pre-tokenizer pattern, bytes,",
            pattern.len(),
            MAX_PATTERN_BYTES,
        )?;
        let refuse = || TextError::UnsupportedPart {
            part: "pattern",
            found: pattern.to_owned(),
            known: r"patterns without look-around but for a last \s+(?!\S)|\s+, and without possessive repeats",
        };
        let cut = [r"|\s+(?!\S)|\s+", r"|\s+(?!\S)"]
            .iter()
            .find_map(|end| pattern.strip_suffix(end));
        let body = cut.unwrap_or(pattern);
        if has_possessive(body) {
            return Err(refuse());
        }
        let regex = RegexBuilder::new(body).build().map_err(|_| refuse())?;
        Ok(Stage {
            regex,
            spaces_by_hand: cut.is_some(),
        })
    }

    /// Text between matches. With the usual ending, a run of white space before something else
    /// leaves its last character to stand alone: `\s+(?!\S)` gives one back, `\s+` takes it.
    fn gap(
        &self,
        text: &str,
        range: std::ops::Range<usize>,
        each: &mut dyn FnMut(&str) -> Result<()>,
    ) -> Result<()> {
        let gap = &text[range.clone()];
        if gap.is_empty() {
            return Ok(());
        }
        let before_word = text[range.end..]
            .chars()
            .next()
            .is_some_and(|c| !c.is_whitespace());
        let last = gap.chars().next_back().filter(|c| c.is_whitespace());
        let (true, true, Some(last)) = (self.spaces_by_hand, before_word, last) else {
            return each(gap);
        };
        let cut = gap.len() - last.len_utf8();
        if cut > 0 {
            each(&gap[..cut])?;
        }
        each(&gap[cut..])
    }
}

/// `a++`, `a?+`, `a*+` mean something else to the `regex` crate, which would guess silently.
fn has_possessive(pattern: &str) -> bool {
    let mut class_depth = 0usize;
    let mut after_repeat = false;
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        let was_repeat = std::mem::take(&mut after_repeat);
        match letter {
            // An escape is one unit, `\p{...}` and `\x{...}` with their braces.
            '\\' => {
                let named = matches!(letters.next(), Some('p' | 'P' | 'x' | 'u'));
                if named && letters.as_str().starts_with('{') {
                    letters.find(|&letter| letter == '}');
                }
            }
            '[' => class_depth += 1,
            ']' => class_depth = class_depth.saturating_sub(1),
            '+' if class_depth == 0 && was_repeat => return true,
            '+' | '*' | '?' | '}' if class_depth == 0 => after_repeat = true,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, text: &str, expected: &[&str]) {
        let split = PreTokenizer::new(named(Some(name)).unwrap().patterns).unwrap();
        let mut pieces = Vec::new();
        split
            .split(text, &mut |piece| {
                pieces.push(piece.to_owned());
                Ok(())
            })
            .unwrap();
        assert_eq!(pieces, expected, "{name}: {text:?}");
    }

    #[test]
    fn every_named_pattern_compiles_and_loses_no_text() {
        let text =
            "Hi  there, I'LL be\t\n\n 12345 ok?!  \r\n漢字かな हिन्दी e\u{301} 🙂\u{200d}  end  ";
        for split in &SPLITS {
            let compiled = PreTokenizer::new(split.patterns).unwrap();
            let mut whole = String::new();
            compiled
                .split(text, &mut |piece| {
                    whole.push_str(piece);
                    Ok(())
                })
                .unwrap();
            assert_eq!(whole, text, "{:?}", split.names);
        }
    }

    #[test]
    fn pieces_are_as_the_patterns_say() {
        check("gpt-2", "a  b", &["a", " ", " b"]);
        check("gpt-2", "a   1x  ", &["a", "  ", " 1", "x", "  "]);
        check(
            "gpt-2",
            "it's 'S\n\n\nx",
            &["it", "'s", " '", "S", "\n\n", "\n", "x"],
        );
        check(
            "llama-bpe",
            "it'S 12345  7\n\n x",
            &["it", "'S", " ", "123", "45", " ", " ", "7", "\n\n", " x"],
        );
        check("qwen2", "a   1", &["a", "  ", " ", "1"]);
        check("qwen2", "(foo) bar\n", &["(foo", ")", " bar", "\n"]);
        check("smollm", "a  12", &["a", "  ", "1", "2"]);
        check(
            "deepseek-llm",
            "ab  cd 123\n。",
            &["ab", " ", " cd", " ", "123", "\n", "。"],
        );
        check(
            "deepseek-v3",
            "x1234漢字 .foo",
            &["x", "123", "4", "漢字", " .", "foo"],
        );
    }

    #[test]
    fn unknown_names_and_patterns_are_refused_by_name() {
        for name in [None, Some("default"), Some("rwkv")] {
            let error = named(name).unwrap_err().to_string();
            assert!(
                error.contains(name.unwrap_or("(none)")) && error.contains("qwen2"),
                "{error}"
            );
        }
        for pattern in [r"a(?=b)", r"\p{L}++", "(", r"(?<!x)a", r"(a)\1"] {
            let error = PreTokenizer::new(&[pattern]).unwrap_err().to_string();
            assert!(error.contains(pattern), "{error}");
        }
        assert!(PreTokenizer::new(&[r"[*+?]+|\++"]).is_ok());
    }
}
