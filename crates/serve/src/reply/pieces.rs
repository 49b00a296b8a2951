//! What a chat answer is made of beside text: thoughts and calls, whole and in pieces.

use std::sync::Arc;

use serde::Serialize;
use ucuz_llm::{AnswerEvent, AnswerParser, Finished, Output, Prepared, ToolEvent};

use super::{PromptIds, failed};
use crate::error::ApiError;
use crate::samples::Samples;

/// How the answers to one request are read.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    prepared: Prepared,
    /// Whether thoughts are told.
    include_reasoning: bool,
    /// Calls get ids that begin so.
    call_prefix: String,
}

impl Reading {
    /// `answer_id` is that of the whole answer, and unique; the ids of calls derive from it.
    pub(crate) fn new(prepared: &Prepared, include_reasoning: bool, answer_id: &str) -> Self {
        let unique = answer_id.rsplit('-').next().unwrap_or_default();
        Self {
            prepared: prepared.clone(),
            include_reasoning,
            call_prefix: format!("call_{unique}"),
        }
    }

    /// The ids of the prompt.
    pub(super) fn prompt_ids(&self) -> PromptIds {
        PromptIds(Arc::clone(&self.prepared.prompt))
    }

    /// The reader of choice `index`.
    pub(super) fn choice(&self, index: usize) -> Reader {
        Reader {
            parser: self.prepared.parser(),
            include_reasoning: self.include_reasoning,
            call_prefix: format!("{}{index:02x}", self.call_prefix),
            has_called: false,
        }
    }
}

/// Reads one choice.
#[derive(Debug)]
pub(super) struct Reader {
    parser: AnswerParser,
    include_reasoning: bool,
    call_prefix: String,
    has_called: bool,
}

impl Reader {
    /// What more text brings.
    pub(super) fn push(&mut self, text: &str) -> Vec<Piece> {
        let events = self.parser.push(text);
        self.pieces(events)
    }

    /// What the end brings.
    pub(super) fn finish(&mut self) -> Vec<Piece> {
        let events = self.parser.finish();
        self.pieces(events)
    }

    /// OpenAI's word for the end of an answer that calls tools.
    pub(super) fn finish_reason(&self, reason: &'static str) -> &'static str {
        if self.has_called && reason == "stop" {
            "tool_calls"
        } else {
            reason
        }
    }

    fn pieces(&mut self, events: Vec<AnswerEvent>) -> Vec<Piece> {
        let mut pieces = Vec::with_capacity(events.len());
        for event in events {
            match event {
                AnswerEvent::Reasoning(text) if self.include_reasoning => {
                    pieces.push(Piece::Reasoning(text));
                }
                AnswerEvent::Reasoning(_) | AnswerEvent::Answer(ToolEvent::CallEnd { .. }) => {}
                AnswerEvent::Answer(ToolEvent::Text(text)) => pieces.push(Piece::Content(text)),
                AnswerEvent::Answer(ToolEvent::CallBegin { index, name }) => {
                    self.has_called = true;
                    pieces.push(Piece::Call(CallPiece {
                        index,
                        id: Some(format!("{}{index:02x}", self.call_prefix)),
                        kind: Some(FUNCTION),
                        function: FunctionPiece {
                            name: Some(name),
                            arguments: String::new(),
                        },
                    }));
                }
                AnswerEvent::Answer(ToolEvent::Arguments { index, delta }) => {
                    pieces.push(Piece::Call(CallPiece {
                        index,
                        id: None,
                        kind: None,
                        function: FunctionPiece {
                            name: None,
                            arguments: delta,
                        },
                    }));
                }
            }
        }
        pieces
    }
}

/// Reads an answer of which only the text is told: thoughts are left out.
#[derive(Debug)]
pub(crate) struct TextReader(AnswerParser);

impl TextReader {
    pub(crate) fn new(prepared: &Prepared) -> Self {
        Self(prepared.parser())
    }

    /// The text that more of the answer brings.
    pub(super) fn push(&mut self, text: &str) -> String {
        Self::text(self.0.push(text))
    }

    /// The text that the last of the answer and its end bring.
    pub(super) fn finish(&mut self, text: &str) -> String {
        self.push(text) + &Self::text(self.0.finish())
    }

    fn text(events: Vec<AnswerEvent>) -> String {
        let texts = events.into_iter().filter_map(|event| match event {
            AnswerEvent::Answer(ToolEvent::Text(text)) => Some(text),
            _ => None,
        });
        texts.collect()
    }
}

/// Waits for the whole text of an answer, and how it ended.
///
/// # Errors
/// That of a request that fails; 503 when the engine gives no end.
pub(super) async fn whole_text(
    mut samples: Samples,
    mut reader: TextReader,
) -> Result<(String, Finished), ApiError> {
    let mut text = String::new();
    while let Some((_, output)) = samples.next().await {
        match output {
            Output::Nothing | Output::Prompt(_) | Output::Pooled(_) => {}
            Output::Delta(delta) => text.push_str(&reader.push(&delta.text)),
            Output::Finished(delta, finished) => {
                text.push_str(&reader.finish(&delta.text));
                return Ok((text, finished));
            }
            Output::Failed { kind, text } => return Err(failed(kind, &text)),
        }
    }
    Err(ApiError::unavailable(
        "the engine gave no end of this answer",
    ))
}

const FUNCTION: &str = "function";

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Reasoning(String),
    Content(String),
    Call(CallPiece),
}

/// A piece of a call as a chunk has it: the first has id, type and name, the others arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct CallPiece {
    index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    function: FunctionPiece,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct FunctionPiece {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    arguments: String,
}

/// The message of a whole answer.
#[derive(Debug, Default, Serialize)]
pub(super) struct Message {
    role: &'static str,
    /// `null` beside calls or thoughts where there is no text.
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call>,
    refusal: Option<()>,
}

#[derive(Debug, Serialize)]
struct Call {
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function,
}

#[derive(Debug, Serialize)]
struct Function {
    name: String,
    arguments: String,
}

impl Message {
    /// An assistant's message with nothing in it yet.
    pub(super) fn new() -> Self {
        Self {
            role: "assistant",
            ..Self::default()
        }
    }

    pub(super) fn append(&mut self, pieces: Vec<Piece>) {
        for piece in pieces {
            match piece {
                Piece::Reasoning(text) => extend(&mut self.reasoning_content, &text),
                Piece::Content(text) => extend(&mut self.content, &text),
                Piece::Call(piece) => self.append_call(piece),
            }
        }
    }

    fn append_call(&mut self, piece: CallPiece) {
        let FunctionPiece { name, arguments } = piece.function;
        if let (Some(id), Some(name)) = (piece.id, name) {
            self.tool_calls.push(Call {
                id,
                kind: FUNCTION,
                function: Function { name, arguments },
            });
        } else if let Some(call) = self.tool_calls.get_mut(piece.index) {
            call.function.arguments.push_str(&arguments);
        }
    }

    /// Nothing follows.
    pub(super) fn close(&mut self) {
        if self.tool_calls.is_empty() && self.reasoning_content.is_none() {
            self.content.get_or_insert_default();
        }
    }
}

fn extend(text: &mut Option<String>, more: &str) {
    text.get_or_insert_default().push_str(more);
}
