//! From what a checkpoint carries to a tokenizer.

use ucuz_formats::config::{TokenizerSource, VocabMetadata};
use ucuz_text::{SpecialIds, Tokenizer, TokenizerConfig, VocabSpec};

use crate::{LlmError, LlmResult};

/// Builds the tokenizer.
///
/// # Errors
/// [`LlmError::Invalid`] without one; what the text crate refuses, by name.
pub(crate) fn tokenizer(source: &TokenizerSource) -> LlmResult<Tokenizer> {
    match source {
        TokenizerSource::Gguf(vocab) => Ok(Tokenizer::from_vocab(&spec(vocab))?),
        TokenizerSource::HuggingFace { tokenizer, config } => {
            let config = config
                .as_deref()
                .map(TokenizerConfig::from_json)
                .transpose()?
                .unwrap_or_default();
            Ok(Tokenizer::from_json(tokenizer, &config)?)
        }
        TokenizerSource::Missing => Err(LlmError::invalid(
            "model",
            "the model has no tokenizer; put its tokenizer.json beside config.json",
        )),
    }
}

fn spec(vocab: &VocabMetadata) -> VocabSpec<'_> {
    VocabSpec {
        model: &vocab.model,
        pre: vocab.pre.as_deref(),
        tokens: vocab.tokens.iter().map(Vec::as_slice).collect(),
        scores: vocab.scores.clone(),
        token_types: vocab.token_types.clone(),
        merges: vocab
            .merges
            .as_ref()
            .map(|merges| merges.iter().map(String::as_bytes).collect()),
        ids: SpecialIds {
            bos: vocab.bos,
            eos: vocab.eos,
            eot: vocab.eot,
            unk: vocab.unk,
            pad: vocab.pad,
        },
        add_bos: vocab.add_bos,
        add_eos: vocab.add_eos,
        add_space_prefix: vocab.add_space_prefix,
    }
}
