//! The two token-finding algorithms: byte-pair merges by rank, SentencePiece merges by score.
//!
//! Both get one piece of text that holds no special token. What has no token falls back to its
//! bytes, then to the unknown token, then to an error.

use hashbrown::HashMap;

use super::merge::{Join, Merger};
use super::vocab::{NONE, Vocab};
use crate::Result;
use crate::error::TextError;

/// Which symbols a byte-pair piece starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alphabet {
    Bytes,
    Chars,
}

/// What to do for text without a token and without byte tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fallback {
    pub(super) unk: Option<u32>,
    /// One unknown token for a run of unknown characters, not one each.
    pub(super) fuse: bool,
}

/// Left and right token to `(rank, joined token)`.
pub(super) type MergeTable = HashMap<(u32, u32), (u32, u32)>;

#[derive(Debug, Clone)]
pub(super) enum Algorithm {
    /// Joins by the rank of the pair.
    Pairs {
        table: MergeTable,
        alphabet: Alphabet,
        whole_pieces_first: bool,
    },
    /// Joins into the token of the best score; `ranks[id]` is the order of the scores.
    Scores { ranks: Vec<u32> },
}

#[derive(Debug, Clone)]
pub(super) struct Model {
    pub(super) algorithm: Algorithm,
    pub(super) fallback: Fallback,
}

impl Model {
    /// Appends the tokens of `piece` to `out`.
    pub(super) fn encode(
        &self,
        vocab: &Vocab,
        piece: &str,
        work: &mut Merger,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        let text = piece.as_bytes();
        match &self.algorithm {
            Algorithm::Pairs {
                table,
                alphabet,
                whole_pieces_first,
            } => {
                if *whole_pieces_first && let Some(id) = vocab.find(text) {
                    out.push(id);
                    return Ok(());
                }
                fill(work, vocab, piece, *alphabet);
                work.run(|left, right| {
                    let &(rank, id) = table.get(&(left.id, right.id))?;
                    Some(Join { rank, id })
                });
            }
            Algorithm::Scores { ranks } => {
                fill(work, vocab, piece, Alphabet::Chars);
                work.run(|left, right| {
                    let id = vocab.find(&text[left.start as usize..right.end as usize])?;
                    Some(Join {
                        rank: *ranks.get(id as usize)?,
                        id,
                    })
                });
            }
        }
        self.emit(vocab, text, work, out)
    }

    fn emit(&self, vocab: &Vocab, text: &[u8], work: &Merger, out: &mut Vec<u32>) -> Result<()> {
        let mut unknown_before = false;
        for symbol in work.symbols() {
            if symbol.id != NONE {
                out.push(symbol.id);
                unknown_before = false;
                continue;
            }
            let bytes = &text[symbol.start as usize..symbol.end as usize];
            if bytes.iter().all(|&byte| vocab.byte_id(byte) != NONE) {
                out.extend(bytes.iter().map(|&byte| vocab.byte_id(byte)));
                unknown_before = false;
                continue;
            }
            if !(unknown_before && self.fallback.fuse) {
                out.push(self.unknown(bytes)?);
            }
            unknown_before = true;
        }
        Ok(())
    }

    fn unknown(&self, bytes: &[u8]) -> Result<u32> {
        self.fallback.unk.ok_or_else(|| TextError::Unencodable {
            piece: String::from_utf8_lossy(bytes).into_owned(),
        })
    }
}

fn fill(work: &mut Merger, vocab: &Vocab, piece: &str, alphabet: Alphabet) {
    work.clear();
    let text = piece.as_bytes();
    match alphabet {
        Alphabet::Bytes => {
            for (index, &byte) in text.iter().enumerate() {
                work.push(index as u32 + 1, vocab.byte_id(byte));
            }
        }
        Alphabet::Chars => {
            for (start, letter) in piece.char_indices() {
                let end = start + letter.len_utf8();
                work.push(end as u32, vocab.find(&text[start..end]).unwrap_or(NONE));
            }
        }
    }
}

/// Order of joining by score: the highest score is 0, equal scores are equal.
///
/// # Errors
/// A score that is not a number.
pub(super) fn ranks_of_scores(scores: &[f32]) -> Result<Vec<u32>> {
    if let Some(id) = scores.iter().position(|score| score.is_nan()) {
        return Err(TextError::vocabulary(format!(
            "score of token {id} is not a number"
        )));
    }
    // Flipping the bits of a float orders it as an integer; -0 is made 0 first.
    let rank = |score: &f32| {
        let bits = (score + 0.0).to_bits();
        let ascending = if bits >> 31 == 1 {
            !bits
        } else {
            bits | 1 << 31
        };
        !ascending
    };
    Ok(scores.iter().map(rank).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn higher_scores_join_first() {
        let ranks = ranks_of_scores(&[-1.0, 2.0, 0.0, -0.0, -7.5, f32::NEG_INFINITY]).unwrap();
        assert!(ranks[1] < ranks[2] && ranks[2] == ranks[3]);
        assert!(ranks[3] < ranks[0] && ranks[0] < ranks[4] && ranks[4] < ranks[5]);
        assert!(ranks_of_scores(&[f32::NAN]).is_err());
    }
}
