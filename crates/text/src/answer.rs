//! An answer as it comes, told apart: thoughts, text, calls.
//!
//! First the thoughts are split off ([`ReasoningParser`]), then calls are looked for in what is left ([`ToolParser`]).

use crate::reasoning::{ReasoningParser, THINK_CLOSE, THINK_OPEN, Thought};
use crate::tools::{Family, ToolEvent, ToolParser};

/// What an answer may hold beside text.
#[derive(Debug, Clone, Default)]
pub struct AnswerForm {
    /// Thoughts; `Some(true)`: the prompt has opened them.
    pub thoughts: Option<bool>,
    /// The form of calls, and the names of the tools that were offered.
    pub calls: Option<(&'static Family, Vec<String>)>,
    /// Only the first call is told.
    pub one_call: bool,
}

impl AnswerForm {
    /// Texts of the marks that the parser looks for; where one is a control token it must be shown.
    pub fn marks(&self) -> impl Iterator<Item = &'static str> {
        let thoughts = self.thoughts.map(|_| [THINK_OPEN, THINK_CLOSE]);
        let calls = self.calls.as_ref().map(|(family, _)| family.marks);
        let calls = calls.unwrap_or_default().iter().copied();
        thoughts.into_iter().flatten().chain(calls)
    }
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerEvent {
    /// Thoughts.
    Reasoning(String),
    /// Text and calls.
    Answer(ToolEvent),
}

/// Follows one answer.
#[derive(Debug)]
pub struct AnswerParser {
    reasoning: Option<ReasoningParser>,
    calls: Option<Box<dyn ToolParser>>,
    one_call: bool,
    thoughts: Vec<Thought>,
    events: Vec<ToolEvent>,
}

impl AnswerParser {
    /// A parser at the start of an answer.
    pub fn new(form: &AnswerForm) -> AnswerParser {
        let calls = form.calls.as_ref();
        AnswerParser {
            reasoning: form.thoughts.map(ReasoningParser::new),
            calls: calls.map(|(family, offered)| family.parser(offered.clone())),
            one_call: form.one_call,
            thoughts: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Whether there may be thoughts before the answer.
    pub fn may_think(&self) -> bool {
        self.reasoning.is_some()
    }

    /// Whether the text so far ends within thoughts.
    pub fn is_thinking(&self) -> bool {
        let reasoning = self.reasoning.as_ref();
        reasoning.is_some_and(ReasoningParser::is_thinking)
    }

    /// What more text decides.
    pub fn push(&mut self, text: &str) -> Vec<AnswerEvent> {
        match &mut self.reasoning {
            Some(reasoning) => reasoning.push(text, &mut self.thoughts),
            None if text.is_empty() => {}
            None => self.thoughts.push(Thought::Content(text.to_owned())),
        }
        self.settle()
    }

    /// What the end of the text decides.
    pub fn finish(&mut self) -> Vec<AnswerEvent> {
        if let Some(reasoning) = &mut self.reasoning {
            reasoning.finish(&mut self.thoughts);
        }
        let mut events = self.settle();
        if let Some(calls) = &mut self.calls {
            calls.finish(&mut self.events);
        }
        self.give(&mut events);
        events
    }

    fn settle(&mut self) -> Vec<AnswerEvent> {
        let mut events = Vec::new();
        for thought in std::mem::take(&mut self.thoughts) {
            match (thought, &mut self.calls) {
                (Thought::Reasoning(text), _) => events.push(AnswerEvent::Reasoning(text)),
                (Thought::Content(text), Some(calls)) => {
                    calls.push(&text, &mut self.events);
                    self.give(&mut events);
                }
                (Thought::Content(text), None) => {
                    events.push(AnswerEvent::Answer(ToolEvent::Text(text)));
                }
            }
        }
        events
    }

    fn give(&mut self, events: &mut Vec<AnswerEvent>) {
        let is_told = |event: &ToolEvent| match event {
            ToolEvent::Text(_) => true,
            ToolEvent::CallBegin { index, .. }
            | ToolEvent::Arguments { index, .. }
            | ToolEvent::CallEnd { index } => !self.one_call || *index == 0,
        };
        let told = self.events.drain(..).filter(is_told);
        events.extend(told.map(AnswerEvent::Answer));
    }
}
