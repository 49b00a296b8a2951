//! What a chat answer is made of beside text: thoughts and calls, whole and in pieces.

use std::sync::Arc;

use serde::Serialize;
use ucuz_llm::{AnswerEvent, AnswerParser, Delta, Prepared, ToolEvent};

use super::PromptIds;

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
    /// `answer_id` is that of the whole answer, and unique; the ids of calls derive from it, and begin with `call`.
    pub(crate) fn new(
        prepared: &Prepared,
        include_reasoning: bool,
        answer_id: &str,
        call: &str,
    ) -> Self {
        let unique = answer_id.rsplit(['-', '_']).next().unwrap_or_default();
        Self {
            prepared: prepared.clone(),
            include_reasoning,
            call_prefix: format!("{call}_{unique}"),
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
            tokens: 0,
            thought_tokens: 0,
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
    tokens: u32,
    /// Of these, such as belong to thoughts or to the marks around them.
    thought_tokens: u32,
}

impl Reader {
    /// What more of the answer brings.
    pub(super) fn push(&mut self, delta: &Delta) -> Vec<Piece> {
        let was_thinking = self.parser.is_thinking();
        let events = self.parser.push(&delta.text);
        self.tokens += delta.tokens.len() as u32;
        // Thoughts come first: all tokens so far are of them.
        if was_thinking || self.parser.is_thinking() {
            self.thought_tokens = self.tokens;
        }
        self.pieces(events)
    }

    /// Tokens of thoughts so far; `None` where the model has none.
    pub(super) fn thought_tokens(&self) -> Option<u32> {
        self.parser.may_think().then_some(self.thought_tokens)
    }

    /// Whether the answer calls tools.
    pub(super) fn has_called(&self) -> bool {
        self.has_called
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
    pub(super) id: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    pub(super) function: FunctionPiece,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct FunctionPiece {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    pub(super) arguments: String,
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
