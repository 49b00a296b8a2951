//! What a tokenizer is built from: GGUF metadata ([`VocabSpec`]) or the Hugging Face side file
//! ([`TokenizerConfig`]). Plain data, not yet checked; the constructors check.

use serde::Deserialize;
use serde_json::Value;

use crate::Result;
use crate::error::{TextError, check_limit};
use crate::limits::MAX_CONFIG_JSON_BYTES;

/// Whether special-token text in the input becomes the special token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// It does: raw completions and `/tokenize`, as the golden rows.
    Parse,
    /// It does not: `<|im_end|>` is encoded as the characters it is written with.
    Plain,
}

/// What a token is, as GGUF's `tokenizer.ggml.token_type` says (source: gguf spec, token types).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// Ordinary text.
    Normal,
    /// Stands for text without a token.
    Unknown,
    /// Steers the model; parsed only where trusted, hidden in output.
    Control,
    /// Added by the model's makers; matched in all text before the algorithm runs.
    UserDefined,
    /// Padding of the table.
    Unused,
    /// One byte, `<0xNN>`.
    Byte,
}

impl TokenKind {
    /// From GGUF's number; an unknown number is read as normal text.
    pub fn from_gguf(number: i32) -> TokenKind {
        match number {
            2 => TokenKind::Unknown,
            3 => TokenKind::Control,
            4 => TokenKind::UserDefined,
            5 => TokenKind::Unused,
            6 => TokenKind::Byte,
            _ => TokenKind::Normal,
        }
    }
}

/// Ids of the tokens with a named job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpecialIds {
    /// Begin of sequence.
    pub bos: Option<u32>,
    /// End of sequence.
    pub eos: Option<u32>,
    /// End of turn.
    pub eot: Option<u32>,
    /// Unknown text.
    pub unk: Option<u32>,
    /// Padding.
    pub pad: Option<u32>,
}

/// A vocabulary as GGUF metadata carries it (`tokenizer.ggml.*`), borrowed from the file's bytes.
#[derive(Debug, Clone, Default)]
pub struct VocabSpec<'a> {
    /// `tokenizer.ggml.model`: "gpt2" (byte-level pairs) or "llama" (SentencePiece scores).
    pub model: &'a str,
    /// `tokenizer.ggml.pre`; needed for "gpt2".
    pub pre: Option<&'a str>,
    /// `tokenizer.ggml.tokens`, in order of id.
    pub tokens: Vec<&'a [u8]>,
    /// `tokenizer.ggml.scores`; needed for "llama".
    pub scores: Option<Vec<f32>>,
    /// `tokenizer.ggml.token_type`.
    pub token_types: Option<Vec<i32>>,
    /// `tokenizer.ggml.merges`; needed for "gpt2".
    pub merges: Option<Vec<&'a [u8]>>,
    /// `tokenizer.ggml.{bos,eos,eot,unknown,padding}_token_id`.
    pub ids: SpecialIds,
    /// `tokenizer.ggml.add_bos_token`; default: yes for "llama" and the llama3 and tekken splits.
    pub add_bos: Option<bool>,
    /// `tokenizer.ggml.add_eos_token`; default no.
    pub add_eos: Option<bool>,
    /// `tokenizer.ggml.add_space_prefix`; default: yes for "llama", no for "gpt2".
    pub add_space_prefix: Option<bool>,
}

/// What `tokenizer_config.json` (and `generation_config.json`) adds to a `tokenizer.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenizerConfig {
    /// Text of the begin-of-sequence token.
    pub bos_token: Option<String>,
    /// Text of the end-of-sequence token.
    pub eos_token: Option<String>,
    /// Text of the unknown token.
    pub unk_token: Option<String>,
    /// Text of the padding token.
    pub pad_token: Option<String>,
    /// Add the begin token; used where `tokenizer.json` has no template post-processor.
    pub add_bos_token: Option<bool>,
    /// Add the end token; used where `tokenizer.json` has no template post-processor.
    pub add_eos_token: Option<bool>,
    /// The chat template; of several, the one named "default".
    pub chat_template: Option<String>,
    /// Further end-of-generation ids, from `generation_config.json`.
    pub extra_eog: Vec<u32>,
}

#[derive(Deserialize)]
struct RawConfig {
    bos_token: Option<Value>,
    eos_token: Option<Value>,
    unk_token: Option<Value>,
    pad_token: Option<Value>,
    add_bos_token: Option<bool>,
    add_eos_token: Option<bool>,
    chat_template: Option<Value>,
}

impl TokenizerConfig {
    /// Reads a `tokenizer_config.json`.
    ///
    /// # Errors
    /// `BadJson` for anything but a JSON object with fitting fields, `TooLarge` over the limit.
    pub fn from_json(json: &[u8]) -> Result<TokenizerConfig> {
        check_limit(
            "tokenizer_config.json, bytes,",
            json.len(),
            MAX_CONFIG_JSON_BYTES,
        )?;
        let raw: RawConfig = serde_json::from_slice(json).map_err(|error| TextError::BadJson {
            file: "tokenizer_config.json",
            reason: error.to_string(),
        })?;
        Ok(TokenizerConfig {
            bos_token: token_text(raw.bos_token),
            eos_token: token_text(raw.eos_token),
            unk_token: token_text(raw.unk_token),
            pad_token: token_text(raw.pad_token),
            add_bos_token: raw.add_bos_token,
            add_eos_token: raw.add_eos_token,
            chat_template: template_text(raw.chat_template),
            extra_eog: Vec::new(),
        })
    }
}

/// A token is written as its text or as an object with `content`.
fn token_text(value: Option<Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(text),
        Value::Object(mut map) => map.remove("content")?.as_str().map(str::to_owned),
        _ => None,
    }
}

/// A template is written as its text or as a list of `{name, template}`.
fn template_text(value: Option<Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(text),
        Value::Array(list) => {
            let named =
                |entry: &&Value| entry.get("name").and_then(Value::as_str) == Some("default");
            let entry = list.iter().find(named)?;
            entry.get("template")?.as_str().map(str::to_owned)
        }
        _ => None,
    }
}
