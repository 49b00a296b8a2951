//! An answer as blocks, one after the other: texts, and calls between them. For the APIs whose answers are lists of such.

use ucuz_llm::{Delta, Finished, Output};

use super::failed;
use super::pieces::{CallPiece, Piece, Reader, Reading};
use crate::error::ApiError;
use crate::samples::Samples;

/// One block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Block {
    Text(String),
    Call {
        id: String,
        name: String,
        /// JSON as the model wrote it; not whole where the answer was cut.
        arguments: String,
    },
}

/// What more of an answer does to its blocks, each known by its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BlockEvent {
    /// It begins, empty.
    Open(usize),
    /// It goes on: text, or arguments of a call.
    More(usize, String),
    /// It is whole.
    Close(usize),
}

/// The blocks of one answer as they come.
#[derive(Debug)]
pub(crate) struct Blocks {
    reader: Reader,
    blocks: Vec<Block>,
}

impl Blocks {
    /// Before the first one.
    pub(crate) fn new(reading: &Reading) -> Self {
        Self {
            reader: reading.choice(0),
            blocks: Vec::new(),
        }
    }

    /// What more of the answer brings.
    pub(super) fn push(&mut self, delta: &Delta) -> Vec<BlockEvent> {
        let pieces = self.reader.push(delta);
        self.take(pieces)
    }

    /// What the last of the answer and its end bring; an answer of nothing is one empty text.
    pub(super) fn finish(&mut self, delta: &Delta) -> Vec<BlockEvent> {
        let mut events = self.push(delta);
        let rest = self.reader.finish();
        events.extend(self.take(rest));
        if self.blocks.is_empty() {
            self.open(Block::Text(String::new()), &mut events);
        }
        events.push(BlockEvent::Close(self.blocks.len() - 1));
        events
    }

    /// All blocks so far.
    pub(super) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Whether there is a call among them.
    pub(super) fn has_called(&self) -> bool {
        self.reader.has_called()
    }

    /// Tokens of thoughts, which are in no block.
    pub(super) fn thought_tokens(&self) -> u32 {
        self.reader.thought_tokens().unwrap_or(0)
    }

    /// Waits for the whole answer, and how it ended.
    ///
    /// # Errors
    /// That of a request that fails; 503 when the engine gives no end.
    pub(super) async fn complete(&mut self, mut samples: Samples) -> Result<Finished, ApiError> {
        while let Some((_, output)) = samples.next().await {
            match output {
                Output::Nothing | Output::Prompt(_) | Output::Pooled(_) => {}
                Output::Delta(delta) => drop(self.push(&delta)),
                Output::Finished(delta, finished) => {
                    self.finish(&delta);
                    return Ok(finished);
                }
                Output::Failed { kind, text } => return Err(failed(kind, &text)),
            }
        }
        Err(ApiError::unavailable(
            "the engine gave no end of this answer",
        ))
    }

    fn take(&mut self, pieces: Vec<Piece>) -> Vec<BlockEvent> {
        let mut events = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Reasoning(_) => {}
                Piece::Content(text) => self.say(text, &mut events),
                Piece::Call(piece) => self.call(piece, &mut events),
            }
        }
        events
    }

    fn say(&mut self, text: String, events: &mut Vec<BlockEvent>) {
        if text.is_empty() {
            return;
        }
        if !matches!(self.blocks.last(), Some(Block::Text(_))) {
            self.open(Block::Text(String::new()), events);
        }
        if let Some(Block::Text(whole)) = self.blocks.last_mut() {
            whole.push_str(&text);
        }
        events.push(BlockEvent::More(self.blocks.len() - 1, text));
    }

    /// The first piece of a call has its id and name, the others arguments.
    fn call(&mut self, piece: CallPiece, events: &mut Vec<BlockEvent>) {
        if let (Some(id), Some(name)) = (piece.id, piece.function.name) {
            let arguments = String::new();
            let call = Block::Call {
                id,
                name,
                arguments,
            };
            return self.open(call, events);
        }
        if let Some(Block::Call { arguments, .. }) = self.blocks.last_mut() {
            arguments.push_str(&piece.function.arguments);
            let last = self.blocks.len() - 1;
            events.push(BlockEvent::More(last, piece.function.arguments));
        }
    }

    fn open(&mut self, block: Block, events: &mut Vec<BlockEvent>) {
        let index = self.blocks.len();
        if let Some(before) = index.checked_sub(1) {
            events.push(BlockEvent::Close(before));
        }
        self.blocks.push(block);
        events.push(BlockEvent::Open(index));
    }
}
