//! An answer of OpenAI's `/v1/responses` event by event.
//!
//! Items come one after the other: `output_item.added`, what it is made of, `output_item.done`. An item is done when the next
//! one begins, or the answer ends.
//!
//! Source: OpenAI API reference, "Streaming events".

use serde::Serialize;
use ucuz_llm::{Output, Usage};

use super::blocks::{Block, BlockEvent, Blocks};
use super::failed;
use super::responses::{Body, DONE, IN_PROGRESS, INCOMPLETE, Item, Part, ResponseHead, status};
use crate::error::ApiError;
use crate::sse::{Chunks, Frames};

/// One event; which fields it has beside its type and number depends on the type.
#[derive(Serialize)]
struct Event<'a, T> {
    r#type: &'a str,
    sequence_number: u64,
    #[serde(flatten)]
    rest: T,
}

#[derive(Serialize)]
struct ResponseFields<'a> {
    response: Body<'a>,
}

#[derive(Serialize)]
struct ItemFields<'a> {
    output_index: usize,
    item: Item<'a>,
}

#[derive(Serialize)]
struct PartFields<'a> {
    item_id: String,
    output_index: usize,
    content_index: usize,
    part: Part<'a>,
}

#[derive(Serialize)]
struct TextFields<'a> {
    item_id: String,
    output_index: usize,
    content_index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    logprobs: [(); 0],
}

#[derive(Serialize)]
struct ArgumentFields<'a> {
    item_id: String,
    output_index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'a str>,
}

#[derive(Serialize)]
struct ErrorFields<'a> {
    code: Option<&'static str>,
    message: &'a str,
    param: Option<&'a str>,
}

/// Writes an event with the next number.
fn push(r#type: &'static str, events: &mut u64, rest: impl Serialize, frames: &mut Frames) {
    let sequence_number = *events;
    *events += 1;
    let event = Event {
        r#type,
        sequence_number,
        rest,
    };
    frames.push_named(r#type, &event);
}

/// Writes events and counts them.
struct Writer {
    head: ResponseHead,
    events: u64,
}

impl Writer {
    fn push(&mut self, r#type: &'static str, rest: impl Serialize, frames: &mut Frames) {
        push(r#type, &mut self.events, rest, frames);
    }

    fn item(
        &mut self,
        r#type: &'static str,
        (index, block): (usize, &Block),
        status: &'static str,
        frames: &mut Frames,
    ) {
        let fields = ItemFields {
            output_index: index,
            item: self.head.item(index, block, status),
        };
        self.push(r#type, fields, frames);
    }

    fn part(
        &mut self,
        r#type: &'static str,
        (index, block): (usize, &Block),
        text: &str,
        frames: &mut Frames,
    ) {
        let fields = PartFields {
            item_id: self.head.item_id(index, block),
            output_index: index,
            content_index: 0,
            part: Part::new(text),
        };
        self.push(r#type, fields, frames);
    }

    fn open(&mut self, place: (usize, &Block), frames: &mut Frames) {
        self.item("response.output_item.added", place, IN_PROGRESS, frames);
        if let Block::Text(_) = place.1 {
            self.part("response.content_part.added", place, "", frames);
        }
    }

    fn more(&mut self, (index, block): (usize, &Block), delta: &str, frames: &mut Frames) {
        let item_id = self.head.item_id(index, block);
        match block {
            Block::Text(_) => {
                let fields = TextFields {
                    item_id,
                    output_index: index,
                    content_index: 0,
                    delta: Some(delta),
                    text: None,
                    logprobs: [],
                };
                self.push("response.output_text.delta", fields, frames);
            }
            Block::Call { .. } => {
                let fields = ArgumentFields {
                    item_id,
                    output_index: index,
                    delta: Some(delta),
                    arguments: None,
                };
                self.push("response.function_call_arguments.delta", fields, frames);
            }
        }
    }

    fn close(&mut self, place: (usize, &Block), status: &'static str, frames: &mut Frames) {
        let (index, block) = place;
        let item_id = self.head.item_id(index, block);
        match block {
            Block::Text(text) => {
                let fields = TextFields {
                    item_id,
                    output_index: index,
                    content_index: 0,
                    delta: None,
                    text: Some(text),
                    logprobs: [],
                };
                self.push("response.output_text.done", fields, frames);
                self.part("response.content_part.done", place, text, frames);
            }
            Block::Call { arguments, .. } => {
                let fields = ArgumentFields {
                    item_id,
                    output_index: index,
                    delta: None,
                    arguments: Some(arguments),
                };
                self.push("response.function_call_arguments.done", fields, frames);
            }
        }
        self.item("response.output_item.done", place, status, frames);
    }
}

/// Writes an answer event by event.
pub(crate) struct ResponseEvents {
    writer: Writer,
    blocks: Blocks,
}

impl ResponseEvents {
    pub(crate) fn new(head: ResponseHead, blocks: Blocks) -> Self {
        Self {
            writer: Writer { head, events: 0 },
            blocks,
        }
    }

    /// Tells what happened to the blocks; the last one is closed with `status`.
    fn tell(&mut self, events: Vec<BlockEvent>, status: &'static str, frames: &mut Frames) {
        let blocks = self.blocks.blocks();
        for event in events {
            match event {
                BlockEvent::Open(index) => self.writer.open((index, &blocks[index]), frames),
                BlockEvent::More(index, delta) => {
                    self.writer.more((index, &blocks[index]), &delta, frames);
                }
                BlockEvent::Close(index) => {
                    let is_last = index + 1 == blocks.len();
                    let status = if is_last { status } else { DONE };
                    self.writer.close((index, &blocks[index]), status, frames);
                }
            }
        }
    }

    /// The answer as far as it is.
    fn response(
        &mut self,
        r#type: &'static str,
        status: &'static str,
        usage: Option<&Usage>,
        frames: &mut Frames,
    ) {
        let Writer { head, events } = &mut self.writer;
        let response = head.body(status, &self.blocks, usage);
        push(r#type, events, ResponseFields { response }, frames);
    }
}

impl Chunks for ResponseEvents {
    fn open(&mut self, frames: &mut Frames) {
        self.response("response.created", IN_PROGRESS, None, frames);
        self.response("response.in_progress", IN_PROGRESS, None, frames);
    }

    fn output(&mut self, _: usize, output: Output, frames: &mut Frames) -> Result<(), ApiError> {
        match output {
            Output::Nothing | Output::Prompt(_) | Output::Pooled(_) => {}
            Output::Delta(delta) => {
                let events = self.blocks.push(&delta);
                self.tell(events, DONE, frames);
            }
            Output::Finished(delta, finished) => {
                let events = self.blocks.finish(&delta);
                let status = status(finished.reason)?;
                self.tell(events, status, frames);
                let r#type = match status {
                    INCOMPLETE => "response.incomplete",
                    _ => "response.completed",
                };
                self.response(r#type, status, Some(&finished.usage), frames);
            }
            Output::Failed { kind, text } => return Err(failed(kind, &text)),
        }
        Ok(())
    }

    fn close(&mut self, _: &mut Frames) {}

    fn fail(&mut self, error: &ApiError, frames: &mut Frames) {
        let fields = ErrorFields {
            code: error.code(),
            message: error.message(),
            param: error.param(),
        };
        self.writer.push("error", fields, frames);
    }
}
