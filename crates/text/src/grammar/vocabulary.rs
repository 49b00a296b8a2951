//! The model's tokens as `llguidance` wants them: a trie of their bytes.

use std::sync::Arc;

use llguidance::api::ParserLimits;
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};
use llguidance::{ParserFactory, panic_utils};

use super::spelling::Spelling;
use crate::error::{TextError, check_limit};
use crate::limits::MAX_LEXER_STATES;
use crate::{Result, Tokenizer};

/// Longest token in the trie, bytes; its nodes count parents in 10 bits. Longer ones are never chosen.
const TOKEN_BYTES_MAX: usize = 512;

/// Most bytes of all tokens in the trie; its nodes count descendants in 22 bits.
const TRIE_BYTES_MAX: usize = (1 << 22) - 2;

/// What `llguidance` marks special tokens with; no UTF-8 text has it, and no token here.
const MARKER: u8 = TokTrie::SPECIAL_TOKEN_MARKER;

/// Tokens of one model, and what makes parsers over them.
pub(super) struct Vocabulary {
    pub factory: ParserFactory,
    /// Bits of the ids that stand for text; `llguidance`'s own masks may have others where a grammar names ids.
    pub text: Vec<u32>,
    /// What the tokens of text can write.
    pub spelling: Spelling,
    /// Ids that end a text, ascending.
    pub end_ids: Vec<u32>,
    /// The end of a text, to `llguidance`: one id past the tokenizer's.
    pub end: u32,
}

impl Vocabulary {
    /// Takes every token of `tokenizer` that stands for text; those of `end_ids` end it.
    pub(super) fn new(tokenizer: &Tokenizer, end_ids: &[u32]) -> Result<Self> {
        let size = tokenizer.vocab_size() as u32;
        let mut end_ids = end_ids.to_vec();
        end_ids.sort_unstable();
        end_ids.dedup();
        let word = |id: u32| {
            let bytes = tokenizer.token_bytes(id).unwrap_or_default();
            let is_text = !tokenizer.is_special(id) && end_ids.binary_search(&id).is_err();
            let fits = bytes.len() <= TOKEN_BYTES_MAX && !bytes.contains(&MARKER);
            if is_text && fits { bytes } else { &[] }.to_vec()
        };
        let mut words: Vec<Vec<u8>> = (0..size).map(word).collect();
        let bytes: usize = words.iter().map(Vec::len).sum();
        check_limit("vocabulary, bytes of text,", bytes, TRIE_BYTES_MAX)?;
        let mut text = vec![0u32; (size as usize).div_ceil(32)];
        for (id, word) in words.iter().enumerate() {
            text[id / 32] |= u32::from(!word.is_empty()) << (id % 32);
        }
        words.push(Vec::new());
        Ok(Self {
            factory: factory(size, &words)?,
            spelling: Spelling::new(&words),
            text,
            end_ids,
            end: size,
        })
    }

    /// Whether some tokens, one after another, are exactly this text.
    pub(super) fn writes(&self, text: &[u8]) -> bool {
        let trie = self.factory.tok_env().tok_trie();
        let mut is_end = vec![false; text.len() + 1];
        is_end[0] = true;
        for start in 0..text.len() {
            if is_end[start] {
                for id in trie.all_prefixes(&text[start..]) {
                    is_end[start + trie.token_len(id)] = true;
                }
            }
        }
        is_end[text.len()]
    }
}

fn factory(end: u32, words: &[Vec<u8>]) -> Result<ParserFactory> {
    let made = panic_utils::catch_unwind(|| {
        let trie = TokTrie::from(&TokRxInfo::new(words.len() as u32, end), words);
        // Not canonical: of the ways to cut a text into tokens the model may take any.
        let env: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let slices = SlicedBiasComputer::general_slices();
        let mut factory = ParserFactory::new(&env, InferenceCapabilities::default(), &slices)?;
        factory.quiet();
        *factory.limits_mut() = fuel();
        Ok(factory)
    });
    made.map_err(|error| TextError::vocabulary(format!("no trie can be made of it: {error}")))
}

/// What compiling a grammar and making a mask may cost.
pub(super) fn fuel() -> ParserLimits {
    ParserLimits {
        // 20 ms of building automata before the first token.
        initial_lexer_fuel: 1_000_000,
        // 14 ms of extending them in a mask.
        step_lexer_fuel: 200_000,
        step_max_items: 50_000,
        max_items_in_row: 2_000,
        max_lexer_states: MAX_LEXER_STATES,
        max_grammar_size: 500_000,
        precompute_large_lexemes: true,
        verbose_errors: false,
    }
}
