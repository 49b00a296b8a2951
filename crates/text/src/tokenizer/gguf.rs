//! A vocabulary from GGUF metadata.

use super::added::AddedToken;
use super::model::{Algorithm, Alphabet, Fallback, MergeTable, Model, ranks_of_scores};
use super::normalize::{Normalizer, Prefix};
use super::pretokenize::{self, PreTokenizer};
use super::spec::{TokenKind, VocabSpec};
use super::vocab::{
    Vocab, decode_byte_letters, decode_spaces, looks_like_control, parse_byte_token,
};
use super::{Parts, effective_kind};
use crate::Result;
use crate::error::{TextError, check_limit};
use crate::limits::{MAX_MERGES, MAX_TOKEN_BYTES};

/// `tokenizer.ggml.model` names that are implemented.
const MODELS: &str = "gpt2, llama";

pub(super) fn parts(spec: &VocabSpec<'_>) -> Result<Parts> {
    check_lengths(spec)?;
    match spec.model {
        "gpt2" => byte_pairs(spec),
        "llama" => scored(spec),
        other => Err(TextError::UnknownModel {
            found: other.to_owned(),
            known: MODELS.to_owned(),
        }),
    }
}

fn check_lengths(spec: &VocabSpec<'_>) -> Result<()> {
    let len = spec.tokens.len();
    if len == 0 {
        return Err(TextError::vocabulary("there are no tokens"));
    }
    for (name, found) in [
        ("scores", spec.scores.as_ref().map(Vec::len)),
        ("token types", spec.token_types.as_ref().map(Vec::len)),
    ] {
        if found.is_some_and(|found| found != len) {
            let found = found.unwrap_or_default();
            return Err(TextError::vocabulary(format!(
                "{len} tokens, but {found} {name}"
            )));
        }
    }
    Ok(())
}

fn byte_pairs(spec: &VocabSpec<'_>) -> Result<Parts> {
    let split = pretokenize::named(spec.pre)?;
    let (mut vocab, added) = read_tokens(spec, decode_byte_letters)?;
    vocab.use_texts_as_bytes();
    let merges = spec
        .merges
        .as_deref()
        .ok_or_else(|| TextError::vocabulary("model gpt2 needs merges, there are none"))?;
    let table = read_merges(&vocab, merges)?;
    let spaced = spec.add_space_prefix.unwrap_or(false);
    Ok(Parts {
        added,
        normalizer: Normalizer {
            nfc: split.nfc,
            prefix: if spaced {
                Prefix::UnlessSpace
            } else {
                Prefix::Never
            },
            visible_spaces: false,
        },
        pre: PreTokenizer::new(split.patterns)?,
        model: Model {
            algorithm: Algorithm::Pairs {
                table,
                alphabet: Alphabet::Bytes,
                whole_pieces_first: split.whole_pieces_first,
            },
            fallback: Fallback {
                unk: spec.ids.unk,
                fuse: false,
            },
        },
        ids: spec.ids,
        add_bos: spec.add_bos.unwrap_or(split.add_bos),
        add_eos: spec.add_eos.unwrap_or(false),
        extra_eog: Vec::new(),
        vocab,
    })
}

fn scored(spec: &VocabSpec<'_>) -> Result<Parts> {
    if let Some(pre) = spec.pre
        && !["default", "llama", "llama-spm"].contains(&pre)
    {
        let known = "default, llama, llama-spm (for model llama)".to_owned();
        return Err(TextError::UnknownPreTokenizer {
            found: pre.to_owned(),
            known,
        });
    }
    let scores = spec
        .scores
        .as_deref()
        .ok_or_else(|| TextError::vocabulary("model llama needs scores, there are none"))?;
    let (vocab, added) = read_tokens(spec, decode_spaces)?;
    let spaced = spec.add_space_prefix.unwrap_or(true);
    Ok(Parts {
        added,
        normalizer: Normalizer {
            nfc: false,
            prefix: if spaced {
                Prefix::Always
            } else {
                Prefix::Never
            },
            visible_spaces: true,
        },
        pre: PreTokenizer::default(),
        model: Model {
            algorithm: Algorithm::Scores {
                ranks: ranks_of_scores(scores)?,
            },
            fallback: Fallback {
                unk: spec.ids.unk,
                fuse: false,
            },
        },
        ids: spec.ids,
        add_bos: spec.add_bos.unwrap_or(true),
        add_eos: spec.add_eos.unwrap_or(false),
        extra_eog: Vec::new(),
        vocab,
    })
}

/// Ordinary tokens are written in the file's alphabet; added ones as they stand in text.
fn read_tokens(
    spec: &VocabSpec<'_>,
    decode: fn(&[u8], &mut Vec<u8>),
) -> Result<(Vocab, Vec<AddedToken>)> {
    let mut vocab = Vocab::new(spec.tokens.len())?;
    let mut added = Vec::new();
    let mut decoded = Vec::new();
    for (id, &text) in spec.tokens.iter().enumerate() {
        check_limit("token, bytes,", text.len(), MAX_TOKEN_BYTES)?;
        let kind = kind_of(spec, id, text);
        match kind {
            TokenKind::Byte => match parse_byte_token(text) {
                Some(byte) => vocab.push(&[byte], kind)?,
                None => {
                    let name = String::from_utf8_lossy(text);
                    let rule =
                        format!("token {id} is a byte, but its text is {name:?}, not <0xNN>");
                    return Err(TextError::vocabulary(rule));
                }
            },
            TokenKind::Control | TokenKind::Unknown | TokenKind::UserDefined => {
                if let Ok(text) = std::str::from_utf8(text) {
                    added.push(AddedToken::new(id as u32, text));
                }
                vocab.push(text, kind)?;
            }
            TokenKind::Normal | TokenKind::Unused => {
                decode(text, &mut decoded);
                vocab.push(&decoded, kind)?;
            }
        }
    }
    Ok((vocab, added))
}

fn kind_of(spec: &VocabSpec<'_>, id: usize, text: &[u8]) -> TokenKind {
    let name = std::str::from_utf8(text).unwrap_or_default();
    let kind = match &spec.token_types {
        Some(types) => TokenKind::from_gguf(types[id]),
        None if spec.model == "llama" && parse_byte_token(text).is_some() => TokenKind::Byte,
        None => {
            let ids = [
                spec.ids.bos,
                spec.ids.eos,
                spec.ids.eot,
                spec.ids.unk,
                spec.ids.pad,
            ];
            let named = ids.contains(&Some(id as u32));
            if named || looks_like_control(name) {
                TokenKind::Control
            } else {
                TokenKind::Normal
            }
        }
    };
    effective_kind(kind, name)
}

fn read_merges(vocab: &Vocab, merges: &[&[u8]]) -> Result<MergeTable> {
    check_limit("merges", merges.len(), MAX_MERGES)?;
    let mut table = MergeTable::with_capacity(merges.len());
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for (rank, &merge) in merges.iter().enumerate() {
        check_limit("merge, bytes,", merge.len(), 2 * MAX_TOKEN_BYTES + 1)?;
        let cut = merge.iter().position(|&byte| byte == b' ').unwrap_or(0);
        let bad = |why: &str| {
            let name = String::from_utf8_lossy(merge);
            TextError::vocabulary(format!("merge {rank} is {name:?}: {why}"))
        };
        if cut == 0 || cut + 1 == merge.len() {
            return Err(bad("two tokens with a space between are needed"));
        }
        decode_byte_letters(&merge[..cut], &mut left);
        decode_byte_letters(&merge[cut + 1..], &mut right);
        let (Some(l), Some(r)) = (vocab.find(&left), vocab.find(&right)) else {
            return Err(bad("one of the two is not in the vocabulary"));
        };
        left.extend_from_slice(&right);
        let joined = vocab
            .find(&left)
            .ok_or_else(|| bad("the two together are not in the vocabulary"))?;
        table.entry((l, r)).or_insert((rank as u32, joined));
    }
    Ok(table)
}
