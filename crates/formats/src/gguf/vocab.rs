//! The tokenizer of a GGUF file, as typed metadata.
//!
//! Here: types, lengths and ranges. Not here: what a token means (`ucuz-text`).

use super::GgufFile;
use super::metadata::mistyped_array;
use crate::config::{TokenizerSource, VocabMetadata};
use crate::error::{FormatError, Place};
use crate::limits;

const TOKENS: &str = "tokenizer.ggml.tokens";

impl<'a> GgufFile<'a> {
    /// Tokens of the vocabulary, without copying it.
    ///
    /// # Errors
    /// [`FormatError::Damaged`] when the list is not an array of 1 to 1 048 576 strings.
    pub fn vocab_len(&self) -> Result<Option<usize>, FormatError> {
        let Some(array) = self.array(TOKENS)? else {
            return Ok(None);
        };
        if array.element != super::ValueType::String {
            return Err(mistyped_array(TOKENS, "an array of strings", array));
        }
        if array.len == 0 || array.len as u64 > limits::VOCAB_MAX {
            let rule = format!("a vocabulary has 1 to {} tokens", limits::VOCAB_MAX);
            return Err(FormatError::damaged(Place::key(TOKENS), rule, array.len));
        }
        Ok(Some(array.len))
    }

    /// The vocabulary, copied once; [`TokenizerSource::Missing`] when the file has none.
    ///
    /// # Errors
    /// [`FormatError::Damaged`] for a wrong element type, an array that is not one entry a token, or a special id beyond
    /// the vocabulary.
    pub fn tokenizer(&self) -> Result<TokenizerSource, FormatError> {
        let Some(vocab) = self.vocab_len()? else {
            return Ok(TokenizerSource::Missing);
        };
        let model = self.text("tokenizer.ggml.model")?.ok_or_else(|| {
            let rule = "a vocabulary comes with its tokenizer's model";
            FormatError::missing(Place::key("tokenizer.ggml.model"), rule)
        })?;
        let strings = self.array(TOKENS)?.and_then(|a| a.strings());
        Ok(TokenizerSource::Gguf(VocabMetadata {
            model: model.to_owned(),
            pre: self.text("tokenizer.ggml.pre")?.map(str::to_owned),
            tokens: strings.into_iter().flatten().map(<[u8]>::to_vec).collect(),
            scores: self.scores(vocab)?,
            token_types: self.token_types(vocab)?,
            merges: self.merges()?,
            bos: self.special_id("tokenizer.ggml.bos_token_id", vocab)?,
            eos: self.special_id("tokenizer.ggml.eos_token_id", vocab)?,
            eot: self.special_id("tokenizer.ggml.eot_token_id", vocab)?,
            unk: self.idle_id("tokenizer.ggml.unknown_token_id", vocab)?,
            pad: self.idle_id("tokenizer.ggml.padding_token_id", vocab)?,
            add_bos: self.boolean("tokenizer.ggml.add_bos_token")?,
            add_eos: self.boolean("tokenizer.ggml.add_eos_token")?,
            add_space_prefix: self.boolean("tokenizer.ggml.add_space_prefix")?,
        }))
    }

    fn scores(&self, vocab: usize) -> Result<Option<Vec<f32>>, FormatError> {
        let key = "tokenizer.ggml.scores";
        let Some(array) = self.array(key)? else {
            return Ok(None);
        };
        let floats = array
            .floats()
            .ok_or_else(|| mistyped_array(key, "an array of F32", array))?;
        one_a_token(key, array.len, vocab)?;
        let scores: Vec<f32> = floats.collect();
        if scores.iter().any(|s| s.is_nan()) {
            return Err(FormatError::damaged(
                Place::key(key),
                "scores are numbers",
                "NaN",
            ));
        }
        Ok(Some(scores))
    }

    fn token_types(&self, vocab: usize) -> Result<Option<Vec<i32>>, FormatError> {
        let key = "tokenizer.ggml.token_type";
        let Some(array) = self.array(key)? else {
            return Ok(None);
        };
        let types = array
            .integers()
            .ok_or_else(|| mistyped_array(key, "an array of I32", array))?;
        one_a_token(key, array.len, vocab)?;
        Ok(Some(types.collect()))
    }

    fn merges(&self) -> Result<Option<Vec<String>>, FormatError> {
        let key = "tokenizer.ggml.merges";
        let Some(array) = self.array(key)? else {
            return Ok(None);
        };
        let strings = array
            .strings()
            .ok_or_else(|| mistyped_array(key, "an array of strings", array))?;
        if array.len > limits::MERGES_MAX {
            let rule = format!("there are at most {} merge rules", limits::MERGES_MAX);
            return Err(FormatError::damaged(Place::key(key), rule, array.len));
        }
        let utf8 = |bytes: &[u8]| {
            std::str::from_utf8(bytes)
                .map(str::to_owned)
                .map_err(|e| FormatError::damaged(Place::key(key), "merge rules are UTF-8", e))
        };
        strings.map(utf8).collect::<Result<_, _>>().map(Some)
    }

    /// An id that generation never uses: files in the wild hold ones beyond the vocabulary, which count as absent.
    fn idle_id(&self, key: &str, vocab: usize) -> Result<Option<u32>, FormatError> {
        let id = self.count(key)?.filter(|id| *id < vocab as u64);
        Ok(id.and_then(|id| u32::try_from(id).ok()))
    }

    fn special_id(&self, key: &str, vocab: usize) -> Result<Option<u32>, FormatError> {
        let Some(id) = self.count(key)? else {
            return Ok(None);
        };
        match u32::try_from(id) {
            Ok(small) if id < vocab as u64 => Ok(Some(small)),
            _ => {
                let rule = format!("a special id lies in the vocabulary of {vocab}");
                Err(FormatError::damaged(Place::key(key), rule, id))
            }
        }
    }
}

fn one_a_token(key: &str, len: usize, vocab: usize) -> Result<(), FormatError> {
    if len == vocab {
        return Ok(());
    }
    let rule = format!("the array has one entry for each of the {vocab} tokens");
    Err(FormatError::damaged(Place::key(key), rule, len))
}
