//! A vocabulary from a Hugging Face `tokenizer.json` with byte-pair merges.
//!
//! The file is a pipeline description; the parts read here are those of the llama, mistral, qwen,
//! gemma, smollm and deepseek families. Another part is refused by name, never skipped: a skipped
//! normalizer gives wrong ids without a sign.

use std::fmt;

use hashbrown::HashSet;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::added::AddedToken;
use super::model::{Algorithm, Alphabet, Fallback, MergeTable, Model};
use super::normalize::{Normalizer, Prefix};
use super::pretokenize::{GPT2, PreTokenizer};
use super::spec::{SpecialIds, TokenKind, TokenizerConfig};
use super::vocab::{Vocab, decode_byte_letters, decode_spaces, parse_byte_token};
use super::{Parts, effective_kind};
use crate::Result;
use crate::error::{TextError, check_limit};
use crate::limits::{MAX_MERGES, MAX_TOKENIZER_JSON_BYTES, MAX_TOKENS};

const VISIBLE_SPACE: &str = "\u{2581}";
/// Ids may leave gaps (padding, reserved ranges): up to this many for each token listed,
const IDS_PER_ENTRY: usize = 4;
/// and this many beyond.
const SPARE_IDS: usize = 4096;

#[derive(Deserialize)]
struct RawTokenizer {
    #[serde(default)]
    added_tokens: Vec<RawAdded>,
    normalizer: Option<Value>,
    pre_tokenizer: Option<Value>,
    post_processor: Option<Value>,
    model: RawModel,
}

#[derive(Deserialize)]
struct RawAdded {
    id: u32,
    content: String,
    #[serde(default)]
    special: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    #[serde(default)]
    single_word: bool,
}

#[derive(Deserialize)]
struct RawModel {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    vocab: VocabList,
    #[serde(default)]
    merges: Vec<Merge>,
    unk_token: Option<String>,
    #[serde(default)]
    byte_fallback: bool,
    #[serde(default)]
    fuse_unk: bool,
    #[serde(default)]
    ignore_merges: bool,
    dropout: Option<f32>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
}

/// `{"text": id}` in the order of the file. A list (the unigram model) reads as empty.
#[derive(Default)]
struct VocabList(Vec<(String, u32)>);

impl<'de> Deserialize<'de> for VocabList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct ListVisitor;
        impl<'de> Visitor<'de> for ListVisitor {
            type Value = VocabList;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of token texts and ids")
            }
            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<VocabList, A::Error> {
                let mut list = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    if list.len() >= MAX_TOKENS {
                        return Err(de::Error::custom(format!("more than {MAX_TOKENS} tokens")));
                    }
                    list.push(entry);
                }
                Ok(VocabList(list))
            }
            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut seq: A,
            ) -> std::result::Result<VocabList, A::Error> {
                while seq.next_element::<de::IgnoredAny>()?.is_some() {}
                Ok(VocabList::default())
            }
        }
        deserializer.deserialize_any(ListVisitor)
    }
}

/// `"left right"` or `["left", "right"]`.
struct Merge(String, String);

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct MergeVisitor;
        impl<'de> Visitor<'de> for MergeVisitor {
            type Value = Merge;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a merge of two tokens")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<Merge, E> {
                match text.split_once(' ') {
                    Some((left, right)) => Ok(Merge(left.to_owned(), right.to_owned())),
                    None => Err(E::custom(format!("merge {text:?} has no space"))),
                }
            }
            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut seq: A,
            ) -> std::result::Result<Merge, A::Error> {
                match (
                    seq.next_element()?,
                    seq.next_element()?,
                    seq.next_element::<String>()?,
                ) {
                    (Some(left), Some(right), None) => Ok(Merge(left, right)),
                    _ => Err(de::Error::custom("a merge has two tokens")),
                }
            }
        }
        deserializer.deserialize_any(MergeVisitor)
    }
}

/// What normalizer and pre-tokenizer say together.
struct Pipeline {
    normalizer: Normalizer,
    patterns: Vec<String>,
    byte_level: bool,
    /// A normalizer has replaced every space by U+2581.
    spaces_replaced: bool,
}

pub(super) fn parts(json: &[u8], config: &TokenizerConfig) -> Result<Parts> {
    check_limit(
        "tokenizer.json, bytes,",
        json.len(),
        MAX_TOKENIZER_JSON_BYTES,
    )?;
    let raw: RawTokenizer = serde_json::from_slice(json).map_err(|error| TextError::BadJson {
        file: "tokenizer.json",
        reason: error.to_string(),
    })?;
    check_model(&raw.model)?;
    let pipeline = read_pipeline(raw.normalizer.as_ref(), raw.pre_tokenizer.as_ref())?;
    let (mut vocab, added) = read_tokens(&raw, &pipeline, config)?;
    if pipeline.byte_level {
        vocab.use_texts_as_bytes();
    }
    let table = read_merges(&vocab, &raw.model.merges, decoder(&pipeline))?;
    let find = |text: &Option<String>| {
        let text = text.as_deref()?;
        let token = added.iter().find(|token| token.text == text);
        token
            .map(|token| token.id)
            .or_else(|| vocab.find(text.as_bytes()))
    };
    let ids = SpecialIds {
        bos: find(&config.bos_token),
        eos: find(&config.eos_token),
        eot: None,
        unk: find(&raw.model.unk_token).or_else(|| find(&config.unk_token)),
        pad: find(&config.pad_token),
    };
    let unk = find(&raw.model.unk_token);
    let (add_bos, add_eos) = read_post_processor(raw.post_processor.as_ref(), config);
    Ok(Parts {
        pre: PreTokenizer::new(&pipeline.patterns)?,
        normalizer: pipeline.normalizer,
        model: Model {
            algorithm: Algorithm::Pairs {
                table,
                alphabet: if pipeline.byte_level {
                    Alphabet::Bytes
                } else {
                    Alphabet::Chars
                },
                whole_pieces_first: raw.model.ignore_merges,
            },
            fallback: Fallback {
                unk,
                fuse: raw.model.fuse_unk,
            },
        },
        ids,
        add_bos,
        add_eos,
        extra_eog: config.extra_eog.clone(),
        added,
        vocab,
    })
}

fn check_model(model: &RawModel) -> Result<()> {
    let refuse = |found: String| {
        Err(TextError::UnsupportedPart {
            part: "model",
            found,
            known: "BPE without dropout or affixes",
        })
    };
    match model.kind.as_deref() {
        Some("BPE") | None if !model.vocab.0.is_empty() => {}
        Some("BPE") | None => return refuse("without a vocabulary".to_owned()),
        Some(other) => return refuse(other.to_owned()),
    }
    let set = |affix: &Option<String>| affix.as_ref().is_some_and(|text| !text.is_empty());
    if set(&model.continuing_subword_prefix) || set(&model.end_of_word_suffix) {
        return refuse("BPE with a subword prefix or a word suffix".to_owned());
    }
    if model.dropout.is_some_and(|dropout| dropout != 0.0) {
        return refuse("BPE with dropout".to_owned());
    }
    check_limit("merges", model.merges.len(), MAX_MERGES)
}

fn read_pipeline(normalizer: Option<&Value>, pre: Option<&Value>) -> Result<Pipeline> {
    let mut pipeline = Pipeline {
        normalizer: Normalizer {
            nfc: false,
            prefix: Prefix::Never,
            visible_spaces: false,
        },
        patterns: Vec::new(),
        byte_level: false,
        spaces_replaced: false,
    };
    for part in flatten(normalizer, "normalizers", "normalizer")? {
        pipeline.add_normalizer(part)?;
    }
    for part in flatten(pre, "pretokenizers", "pre_tokenizer")? {
        pipeline.add_pre_tokenizer(part)?;
    }
    Ok(pipeline)
}

/// A part, or the parts of a `Sequence` (one level; deeper nesting is refused as a type).
fn flatten<'v>(part: Option<&'v Value>, list: &str, name: &'static str) -> Result<Vec<&'v Value>> {
    match part {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(part) if kind_of(part) == "Sequence" => match part.get(list).and_then(Value::as_array)
        {
            Some(parts) => Ok(parts.iter().collect()),
            None => Err(TextError::UnsupportedPart {
                part: name,
                found: "Sequence without a list".to_owned(),
                known: "a list of parts",
            }),
        },
        Some(part) => Ok(vec![part]),
    }
}

fn kind_of(part: &Value) -> &str {
    part.get("type")
        .and_then(Value::as_str)
        .unwrap_or("without a type")
}

fn text_of<'v>(part: &'v Value, key: &str) -> Option<&'v str> {
    part.get(key).and_then(Value::as_str)
}

fn flag_of(part: &Value, key: &str) -> Option<bool> {
    part.get(key).and_then(Value::as_bool)
}

impl Pipeline {
    fn add_normalizer(&mut self, part: &Value) -> Result<()> {
        let pattern = part
            .get("pattern")
            .and_then(|pattern| text_of(pattern, "String"));
        match kind_of(part) {
            "NFC" => self.normalizer.nfc = true,
            "Prepend" if text_of(part, "prepend") == Some(VISIBLE_SPACE) => {
                self.normalizer.prefix = Prefix::Always;
            }
            "Replace"
                if pattern == Some(" ") && text_of(part, "content") == Some(VISIBLE_SPACE) =>
            {
                self.spaces_replaced = true;
                self.normalizer.visible_spaces = true;
            }
            _ => {
                return Err(TextError::UnsupportedPart {
                    part: "normalizer",
                    found: part.to_string(),
                    known: "NFC, Prepend of U+2581, Replace of spaces by U+2581, Sequence of these",
                });
            }
        }
        Ok(())
    }

    fn add_pre_tokenizer(&mut self, part: &Value) -> Result<()> {
        let pattern = part.get("pattern");
        let behavior = text_of(part, "behavior").unwrap_or_default();
        let inverted = flag_of(part, "invert").unwrap_or(false);
        match kind_of(part) {
            "ByteLevel" => self.add_byte_level(part),
            "Metaspace"
                if text_of(part, "replacement").unwrap_or(VISIBLE_SPACE) == VISIBLE_SPACE =>
            {
                self.add_metaspace(part)?;
            }
            "Digits" => {
                let single = flag_of(part, "individual_digits").unwrap_or(false);
                self.patterns
                    .push(if single { r"\p{N}" } else { r"\p{N}+" }.to_owned());
            }
            "Split" if behavior == "Isolated" && !inverted => {
                let regex = pattern.and_then(|p| text_of(p, "Regex")).map(str::to_owned);
                let text = pattern
                    .and_then(|p| text_of(p, "String"))
                    .map(regex::escape);
                match regex.or(text) {
                    Some(pattern) => self.patterns.push(pattern),
                    None => return Err(unsupported_pre(part)),
                }
            }
            // Gemma's split at spaces: its normalizer has left none.
            "Split"
                if self.spaces_replaced
                    && pattern.and_then(|p| text_of(p, "String")) == Some(" ") => {}
            _ => return Err(unsupported_pre(part)),
        }
        Ok(())
    }

    fn add_byte_level(&mut self, part: &Value) {
        self.byte_level = true;
        if flag_of(part, "add_prefix_space").unwrap_or(true) {
            self.normalizer.prefix = Prefix::UnlessSpace;
        }
        if flag_of(part, "use_regex").unwrap_or(true) {
            self.patterns.push(GPT2.to_owned());
        }
    }

    fn add_metaspace(&mut self, part: &Value) -> Result<()> {
        let old = flag_of(part, "add_prefix_space").unwrap_or(true);
        let default = if old { "always" } else { "never" };
        self.normalizer.visible_spaces = true;
        self.spaces_replaced = true;
        self.normalizer.prefix = match text_of(part, "prepend_scheme").unwrap_or(default) {
            "always" => Prefix::UnlessSpace,
            "first" => Prefix::First,
            "never" => Prefix::Never,
            _ => return Err(unsupported_pre(part)),
        };
        if flag_of(part, "split").unwrap_or(true) {
            self.patterns.push(" ?[^ ]+| ".to_owned());
        }
        Ok(())
    }
}

fn unsupported_pre(part: &Value) -> TextError {
    TextError::UnsupportedPart {
        part: "pre_tokenizer",
        found: part.to_string(),
        known: "ByteLevel, Digits, Metaspace with U+2581, Split (Isolated), Sequence of these",
    }
}

fn decoder(pipeline: &Pipeline) -> fn(&[u8], &mut Vec<u8>) {
    if pipeline.byte_level {
        decode_byte_letters
    } else if pipeline.spaces_replaced {
        decode_spaces
    } else {
        |text, out| {
            out.clear();
            out.extend_from_slice(text);
        }
    }
}

fn read_tokens(
    raw: &RawTokenizer,
    pipeline: &Pipeline,
    config: &TokenizerConfig,
) -> Result<(Vocab, Vec<AddedToken>)> {
    let ids = raw.model.vocab.0.iter().map(|entry| entry.1);
    let ids = ids.chain(raw.added_tokens.iter().map(|token| token.id));
    let len = ids.max().map_or(0, |id| id as usize + 1);
    check_limit("vocabulary, largest id + 1,", len, MAX_TOKENS)?;
    // The table is as long as the largest id says, so a few bytes of file must not say much.
    let num_entries = raw.model.vocab.0.len() + raw.added_tokens.len();
    if len > IDS_PER_ENTRY * num_entries + SPARE_IDS {
        let rule = format!(
            "the largest id is {}, but only {num_entries} tokens are listed",
            len - 1
        );
        return Err(TextError::vocabulary(rule));
    }
    let mut texts: Vec<(&str, TokenKind)> = vec![("", TokenKind::Unused); len];
    for (text, id) in &raw.model.vocab.0 {
        let byte = raw.model.byte_fallback && parse_byte_token(text.as_bytes()).is_some();
        let kind = if byte {
            TokenKind::Byte
        } else {
            effective_kind(TokenKind::Normal, text)
        };
        texts[*id as usize] = (text, kind);
    }
    let unk = raw
        .model
        .unk_token
        .as_deref()
        .or(config.unk_token.as_deref());
    for token in &raw.added_tokens {
        let kind = match token.special {
            true if Some(token.content.as_str()) == unk => TokenKind::Unknown,
            true => TokenKind::Control,
            false => effective_kind(TokenKind::UserDefined, &token.content),
        };
        texts[token.id as usize] = (&token.content, kind);
    }
    fill_vocab(&texts, raw, decoder(pipeline), pipeline.byte_level)
}

fn fill_vocab(
    texts: &[(&str, TokenKind)],
    raw: &RawTokenizer,
    decode: fn(&[u8], &mut Vec<u8>),
    byte_level: bool,
) -> Result<(Vocab, Vec<AddedToken>)> {
    let mut vocab = Vocab::new(texts.len())?;
    let mut decoded = Vec::new();
    let mut added: Vec<AddedToken> = raw.added_tokens.iter().map(read_added).collect();
    let listed: HashSet<u32> = added.iter().map(|token| token.id).collect();
    for (id, &(text, kind)) in texts.iter().enumerate() {
        let is_added = matches!(
            kind,
            TokenKind::Control | TokenKind::Unknown | TokenKind::UserDefined
        );
        match kind {
            TokenKind::Byte => {
                decoded.clear();
                decoded.extend(parse_byte_token(text.as_bytes()));
            }
            _ if is_added && byte_level => {
                decoded.clear();
                decoded.extend_from_slice(text.as_bytes());
            }
            _ => decode(text.as_bytes(), &mut decoded),
        }
        vocab.push(&decoded, kind)?;
        // A control token that the file lists only among the ordinary ones.
        if kind == TokenKind::Control && !listed.contains(&(id as u32)) {
            added.push(AddedToken::new(id as u32, text));
        }
    }
    Ok((vocab, added))
}

fn read_added(raw: &RawAdded) -> AddedToken {
    AddedToken {
        id: raw.id,
        text: raw.content.clone(),
        left_strip: raw.lstrip,
        right_strip: raw.rstrip,
        single_word: raw.single_word,
    }
}

fn read_merges(
    vocab: &Vocab,
    merges: &[Merge],
    decode: fn(&[u8], &mut Vec<u8>),
) -> Result<MergeTable> {
    let mut table = MergeTable::with_capacity(merges.len());
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for (rank, Merge(l, r)) in merges.iter().enumerate() {
        decode(l.as_bytes(), &mut left);
        decode(r.as_bytes(), &mut right);
        let ids = (vocab.find(&left), vocab.find(&right));
        left.extend_from_slice(&right);
        let (Some(a), Some(b), Some(joined)) = (ids.0, ids.1, vocab.find(&left)) else {
            let rule = format!("merge {rank} is {l:?} {r:?}: not all of it is in the vocabulary");
            return Err(TextError::vocabulary(rule));
        };
        table.entry((a, b)).or_insert((rank as u32, joined));
    }
    Ok(table)
}

/// Whether begin and end tokens are added: as a template post-processor says, else the config.
fn read_post_processor(part: Option<&Value>, config: &TokenizerConfig) -> (bool, bool) {
    let nested = part
        .and_then(|part| part.get("processors"))
        .and_then(Value::as_array);
    let parts = nested
        .map(|list| list.iter().collect())
        .unwrap_or_else(|| Vec::from_iter(part));
    let template = parts
        .into_iter()
        .find(|part| kind_of(part) == "TemplateProcessing");
    let Some(single) = template
        .and_then(|t| t.get("single"))
        .and_then(Value::as_array)
    else {
        return (
            config.add_bos_token.unwrap_or(false),
            config.add_eos_token.unwrap_or(false),
        );
    };
    let special = |entry: Option<&Value>| entry.is_some_and(|e| e.get("SpecialToken").is_some());
    (special(single.first()), special(single.last()))
}
