//! Text to token ids, and the facts about a vocabulary.
//!
//! Two ways in: [`Tokenizer::from_vocab`] (GGUF metadata) and [`Tokenizer::from_json`]
//! (`tokenizer.json`); both end in the same pipeline: control tokens where trusted, user-defined
//! tokens everywhere, normalisation, pre-tokenizer, merges, byte fallback. Files are read by the
//! caller; ids to text is [`crate::Detokenizer`].
//!
//! Cost: loading hashes each token twice (about 40 ms for 150k tokens and merges); encoding is
//! n log n in the text.

mod added;
mod gguf;
mod json;
mod merge;
mod model;
mod normalize;
mod pretokenize;
mod spec;
mod vocab;

use std::borrow::Cow;
use std::ops::Range;

use hashbrown::HashMap;
use sha2::{Digest, Sha256};

pub use self::spec::{Special, SpecialIds, TokenKind, TokenizerConfig, VocabSpec};

use self::added::{AddedToken, AddedTokens, Found};
use self::merge::Merger;
use self::model::{Algorithm, Model};
use self::normalize::Normalizer;
use self::pretokenize::PreTokenizer;
use self::vocab::{Vocab, check_id, is_turn_marker, looks_like_control};
use crate::Result;
use crate::error::check_limit;
use crate::limits::MAX_TEXT_BYTES;

/// Texts of tokens that end a generation wherever they exist as control tokens.
///
/// Source: the turn ends of the model families' own templates and generation configs.
const END_TEXTS: [&str; 13] = [
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_turn>",
    "<EOT>",
    "<|return|>",
    "<|call|>",
    "<\u{ff5c}end\u{2581}of\u{2581}sentence\u{ff5c}>",
    "<|eos|>",
    "<|end_of_role|>",
];

/// Everything a constructor finds out; [`Tokenizer::assemble`] checks and derives the rest.
struct Parts {
    vocab: Vocab,
    /// Control, unknown and user-defined tokens by their text in the input.
    added: Vec<AddedToken>,
    normalizer: Normalizer,
    pre: PreTokenizer,
    model: Model,
    ids: SpecialIds,
    add_bos: bool,
    add_eos: bool,
    extra_eog: Vec<u32>,
}

/// A vocabulary and its rules: text to ids.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    vocab: Vocab,
    control: AddedTokens,
    user_defined: AddedTokens,
    by_text: HashMap<String, u32>,
    normalizer: Normalizer,
    pre: PreTokenizer,
    model: Model,
    ids: SpecialIds,
    add_bos: bool,
    add_eos: bool,
    eog: Vec<u32>,
    fingerprint: String,
}

impl Tokenizer {
    /// Rebuilds the tokenizer from GGUF metadata.
    ///
    /// # Errors
    /// `UnknownModel` or `UnknownPreTokenizer` for a name that is not implemented, `BadVocabulary`
    /// for contradictions (lengths, ids, merges), `TooLarge` over a limit.
    pub fn from_vocab(spec: &VocabSpec<'_>) -> Result<Tokenizer> {
        Tokenizer::assemble(gguf::parts(spec)?)
    }

    /// Reads a Hugging Face `tokenizer.json` with byte-pair merges.
    ///
    /// # Errors
    /// `BadJson` if it is none, `UnsupportedPart` for a model, normalizer, pre-tokenizer or pattern
    /// that is not implemented, `BadVocabulary` for contradictions, `TooLarge` over a limit.
    pub fn from_json(tokenizer_json: &[u8], config: &TokenizerConfig) -> Result<Tokenizer> {
        Tokenizer::assemble(json::parts(tokenizer_json, config)?)
    }

    fn assemble(parts: Parts) -> Result<Tokenizer> {
        let Parts {
            vocab, added, ids, ..
        } = &parts;
        for (name, id) in [
            ("begin", ids.bos),
            ("end", ids.eos),
            ("end-of-turn", ids.eot),
            ("unknown", ids.unk),
            ("padding", ids.pad),
        ] {
            check_id(name, id, vocab.len())?;
        }
        let is_control = |token: &AddedToken| {
            is_control_kind(vocab.kind(token.id)) || looks_like_control(&token.text)
        };
        let by_text = added
            .iter()
            .map(|token| (token.text.clone(), token.id))
            .collect();
        let (control, user): (Vec<_>, Vec<_>) = added.iter().cloned().partition(is_control);
        let eog = find_eog(&parts, &control);
        Ok(Tokenizer {
            control: AddedTokens::new(control)?,
            user_defined: AddedTokens::new(user)?,
            by_text,
            eog,
            fingerprint: fingerprint(&parts),
            ids: parts.ids,
            vocab: parts.vocab,
            normalizer: parts.normalizer,
            pre: parts.pre,
            model: parts.model,
            add_bos: parts.add_bos,
            add_eos: parts.add_eos,
        })
    }

    /// The ids of `text`, no begin or end token added.
    ///
    /// # Errors
    /// `TooLarge` over [`MAX_TEXT_BYTES`], `Unencodable` if the vocabulary is incomplete.
    pub fn encode(&self, text: &str, special: Special) -> Result<Vec<u32>> {
        match special {
            Special::Parse => self.encode_trusting(text, std::slice::from_ref(&(0..text.len()))),
            Special::Plain => self.encode_trusting(text, &[]),
        }
    }

    /// As [`Self::encode`], with the begin token in front exactly once, if this tokenizer adds one.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn encode_prompt(&self, text: &str, special: Special) -> Result<Vec<u32>> {
        Ok(self.with_bos(self.encode(text, special)?))
    }

    /// Puts the begin token in front, if this tokenizer adds one and it is not there yet.
    pub fn with_bos(&self, mut ids: Vec<u32>) -> Vec<u32> {
        if let Some(bos) = self.ids.bos
            && self.add_bos
            && ids.first() != Some(&bos)
        {
            ids.insert(0, bos);
        }
        ids
    }

    /// The ids of `text`, control tokens parsed only where they lie within a `trusted` range.
    ///
    /// Merges do cross the borders of ranges: trust decides about control tokens, nothing else.
    /// `trusted`: ascending, disjoint, at character borders.
    pub(crate) fn encode_trusting(&self, text: &str, trusted: &[Range<usize>]) -> Result<Vec<u32>> {
        check_limit("text, bytes,", text.len(), MAX_TEXT_BYTES)?;
        let mut controls = Vec::new();
        for range in trusted {
            self.control
                .find(text, range.clone(), |found| controls.push(found));
        }
        let mut work = Merger::default();
        let mut ids = Vec::with_capacity(text.len() / 3 + 1);
        self.around(text, 0..text.len(), controls, &mut |stretch, id| {
            let mut users = Vec::new();
            self.user_defined
                .find(text, stretch.clone(), |found| users.push(found));
            self.around(text, stretch, users, &mut |gap, id| {
                self.encode_gap(text, gap, &mut work, &mut ids)?;
                ids.extend(id);
                Ok(())
            })?;
            ids.extend(id);
            Ok(())
        })?;
        Ok(ids)
    }

    /// Calls `each` with every gap between `found` tokens and the token after it.
    fn around(
        &self,
        text: &str,
        range: Range<usize>,
        found: Vec<Found>,
        each: &mut dyn FnMut(Range<usize>, Option<u32>) -> Result<()>,
    ) -> Result<()> {
        debug_assert!(range.end <= text.len());
        let mut done = range.start;
        for token in found {
            // A token that strips white space may reach past a trusted range into the next one.
            if token.range.start < done {
                continue;
            }
            each(done..token.range.start, Some(token.id))?;
            done = token.range.end.min(range.end);
        }
        each(done..range.end, None)
    }

    fn encode_gap(
        &self,
        text: &str,
        gap: Range<usize>,
        work: &mut Merger,
        ids: &mut Vec<u32>,
    ) -> Result<()> {
        if gap.is_empty() {
            return Ok(());
        }
        let at_start = gap.start == 0;
        let normal: Cow<'_, str> = self.normalizer.apply(&text[gap], at_start);
        self.pre.split(&normal, &mut |piece| {
            self.model.encode(&self.vocab, piece, work, ids)
        })
    }

    /// The bytes a token stands for; `None` past the vocabulary.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        self.vocab.get(id)
    }

    /// The kind of a token; `None` past the vocabulary.
    pub fn kind(&self, id: u32) -> Option<TokenKind> {
        self.vocab.kind(id)
    }

    /// Whether the token steers the model and is hidden in output: control tokens and ends.
    pub fn is_special(&self, id: u32) -> bool {
        is_control_kind(self.vocab.kind(id)) || self.is_eog(id)
    }

    /// Number of tokens; ids are below it. The model's output may have more columns.
    pub fn vocab_size(&self) -> usize {
        self.vocab.len()
    }

    /// Ids of the tokens with a named job.
    pub fn special_ids(&self) -> SpecialIds {
        self.ids
    }

    /// The begin token.
    pub fn bos(&self) -> Option<u32> {
        self.ids.bos
    }

    /// The end token.
    pub fn eos(&self) -> Option<u32> {
        self.ids.eos
    }

    /// The unknown token.
    pub fn unk(&self) -> Option<u32> {
        self.ids.unk
    }

    /// Whether prompts get a begin token.
    pub fn adds_bos(&self) -> bool {
        self.add_bos && self.ids.bos.is_some()
    }

    /// Whether training texts got an end token; prompts never do.
    pub fn adds_eos(&self) -> bool {
        self.add_eos && self.ids.eos.is_some()
    }

    /// Whether encoding puts a space before the text, so that whole decoding takes it off.
    pub fn adds_space(&self) -> bool {
        self.normalizer.adds_space()
    }

    /// Ids that end a generation, ascending: the end tokens the file names and the turn ends
    /// known by their text.
    pub fn eog_ids(&self) -> &[u32] {
        &self.eog
    }

    /// Whether the id ends a generation.
    pub fn is_eog(&self, id: u32) -> bool {
        self.eog.binary_search(&id).is_ok()
    }

    /// The id of an added token by its text, else of the ordinary token with exactly these bytes.
    pub fn id_of(&self, text: &str) -> Option<u32> {
        self.by_text
            .get(text)
            .copied()
            .or_else(|| self.vocab.find(text.as_bytes()))
    }

    /// sha256 of tokens, kinds and joining rules, in hex: equal for equal vocabularies.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Texts of the control tokens, in no order.
    pub(crate) fn control_texts(&self) -> impl Iterator<Item = &str> {
        self.control
            .tokens()
            .iter()
            .map(|token| token.text.as_str())
    }

    /// The control token texts that `text` contains.
    pub(crate) fn find_controls(&self, text: &str, mut each: impl FnMut(Range<usize>)) {
        self.control
            .find(text, 0..text.len(), |found| each(found.range));
    }
}

fn is_control_kind(kind: Option<TokenKind>) -> bool {
    matches!(kind, Some(TokenKind::Control | TokenKind::Unknown))
}

fn find_eog(parts: &Parts, control: &[AddedToken]) -> Vec<u32> {
    let len = parts.vocab.len();
    let by_text = control
        .iter()
        .filter(|token| END_TEXTS.contains(&token.text.as_str()));
    let mut eog: Vec<u32> = by_text.map(|token| token.id).collect();
    eog.extend(parts.ids.eos);
    eog.extend(parts.ids.eot);
    eog.extend(parts.extra_eog.iter().filter(|&&id| (id as usize) < len));
    eog.sort_unstable();
    eog.dedup();
    eog
}

fn fingerprint(parts: &Parts) -> String {
    let mut hash = Sha256::new();
    let mut block = Vec::with_capacity(1 << 16);
    let mut add = |bytes: &[u8], flush_at: usize| {
        block.extend_from_slice(bytes);
        if block.len() >= flush_at {
            hash.update(&block);
            block.clear();
        }
    };
    for id in 0..parts.vocab.len() as u32 {
        let bytes = parts.vocab.get(id).unwrap_or_default();
        add(&(bytes.len() as u32).to_le_bytes(), usize::MAX);
        add(
            &[u8::from(is_control_kind(parts.vocab.kind(id)))],
            usize::MAX,
        );
        add(bytes, 1 << 15);
    }
    match &parts.model.algorithm {
        Algorithm::Scores { ranks } => {
            ranks
                .iter()
                .for_each(|rank| add(&rank.to_le_bytes(), 1 << 15));
        }
        Algorithm::Pairs { table, .. } => {
            let mut rules: Vec<_> = table
                .iter()
                .map(|(&(l, r), &(rank, id))| [rank, l, r, id])
                .collect();
            rules.sort_unstable();
            rules
                .iter()
                .flatten()
                .for_each(|field| add(&field.to_le_bytes(), 1 << 15));
        }
    }
    add(&[], 0);
    hash.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// A turn marker that the file calls ordinary text is a control token all the same.
///
/// Only by a list, not by looks: a token that merges make must stay what it is.
fn effective_kind(kind: TokenKind, text: &str) -> TokenKind {
    let steers = is_turn_marker(text) || END_TEXTS.contains(&text);
    if kind == TokenKind::Normal && steers {
        TokenKind::Control
    } else {
        kind
    }
}
