//! The chat: inputs from a person, answers from the model, and the conversation that both make.
//!
//! What goes wrong with one input is said, and the conversation goes on without it.

use anyhow::{Result, bail};
use ucuz_llm::{Input, Llm, LlmError};

use super::Args;
use super::answer::{Answer, Said};
use super::command::{self, Line};
use super::conversation::{Conversation, End, Turn};
use super::file;
use super::input::{self, Entry, Source};
use super::interrupt::{Idle, Interrupt};
use super::screen::Look;
use super::settings::Settings;
use crate::output;

/// Reads inputs and answers them until their end.
///
/// # Errors
/// A model without a chat template, an engine that failed, a terminal that is gone.
pub fn chat(args: &Args, llm: &Llm) -> Result<()> {
    if !llm.info().has_template {
        bail!("this model has no chat template; give a prompt with -p to continue it");
    }
    let history = (!args.no_history).then(input::history_file).flatten();
    let mut source = Source::open(history);
    let idle = match source {
        Source::Editor(..) => Idle::Stays,
        Source::Lines => Idle::Ends,
    };
    let mut chat = Chat {
        llm,
        settings: args.settings.clone(),
        conversation: Conversation::new(args.system.clone()),
        interrupt: Interrupt::watch(idle)?,
        look: args.look(),
        stats: args.stats,
    };
    note!(
        "chat with {}; /help shows what else there is, ctrl-C stops an answer, ctrl-D ends the chat",
        llm.info().name
    );
    loop {
        match source.next()? {
            Entry::End => return Ok(()),
            Entry::Interrupted => note!("(ctrl-D ends the chat)"),
            Entry::Text(text) => match Line::parse(&text) {
                Line::Quit => return Ok(()),
                Line::Say(question) => chat.turn(&question)?,
                line => chat.obey(line),
            },
        }
    }
}

/// A chat under way.
struct Chat<'a> {
    llm: &'a Llm,
    settings: Settings,
    conversation: Conversation,
    interrupt: Interrupt,
    look: Look,
    stats: bool,
}

impl Chat<'_> {
    /// Does what a command asks for, and says what was done.
    fn obey(&mut self, line: Line) {
        let left = |conversation: &Conversation| match conversation.len() {
            1 => "1 question".to_owned(),
            n => format!("{n} questions"),
        };
        match line {
            Line::Empty | Line::Quit | Line::Say(_) => {}
            Line::Help => note!("{}", command::help_text()),
            Line::Settings => note!("{}", self.settings.table()),
            Line::Show(name) => say(self.settings.describe(&name)),
            Line::Set(name, value) => {
                let set = self.settings.set(&name, &value);
                say(set.and_then(|()| self.settings.describe(&name)));
            }
            Line::System(None) => match &self.conversation.system {
                Some(text) => note!("{text}"),
                None => note!("(there is no system message; /system TEXT sets one)"),
            },
            Line::System(Some(text)) => self.set_system(text),
            Line::Save(name) => {
                match file::save(&name, &self.conversation, &self.llm.info().name) {
                    Ok(path) => note!("(saved to {})", path.display()),
                    Err(error) => note!("({error:#})"),
                }
            }
            Line::Load(name) => match file::load(&name) {
                Ok(loaded) => {
                    self.conversation = loaded;
                    note!("(loaded; {} so far)", left(&self.conversation));
                }
                Err(error) => note!("({error:#})"),
            },
            Line::Clear => {
                self.conversation.clear();
                note!("(a new conversation)");
            }
            Line::Drop if self.conversation.drop_oldest() => {
                note!(
                    "(the oldest question is forgotten; {} left)",
                    left(&self.conversation)
                );
            }
            Line::Drop => note!("(there is nothing to forget)"),
            Line::Wrong(said) => note!("({said})"),
        }
    }

    fn set_system(&mut self, text: String) {
        self.conversation.system = Some(text).filter(|text| !text.is_empty());
        match self.conversation.system {
            Some(_) => note!("(the system message is set)"),
            None => note!("(the system message is removed)"),
        }
    }

    /// One question and its answer. An answer that was stopped stays as far as it got.
    fn turn(&mut self, question: &str) -> Result<()> {
        self.interrupt.begin();
        let input = Input::Chat(self.conversation.ask(question));
        let outcome = match Answer::start(self.llm, &self.settings, input) {
            Ok(answer) => answer.write(&self.interrupt, self.look),
            Err(error @ LlmError::Unavailable { .. }) => Err(error.into()),
            Err(error) => {
                self.interrupt.end();
                let context = self.llm.info().context;
                note!("{}", refusal(&error, context, self.conversation.len()));
                return Ok(());
            }
        };
        self.interrupt.end();
        let said = outcome?;
        output::print("\n\n")?;
        if let Some(taken) = said.taken.as_ref().filter(|_| self.stats) {
            note!("{}", taken.in_words());
        }
        self.keep(question, said);
        Ok(())
    }

    /// Adds an answer to the conversation, and says so when it is not whole.
    fn keep(&mut self, question: &str, said: Said) {
        if said.text.is_empty() && said.end == End::Interrupted {
            note!("(stopped before the answer began; the question is forgotten)");
            return;
        }
        match (said.end, self.settings.max_tokens) {
            (End::Stop, _) => {}
            (End::Interrupted, _) => {
                note!("(stopped; what was said stays, as an answer that was cut)")
            }
            (End::Length, Some(max)) => {
                note!("(cut off at max_tokens {max}; /set max_tokens changes it)")
            }
            (End::Length, None) => note!(
                "(cut off: the context of {} tokens is full; /drop forgets the oldest question, /clear everything)",
                self.llm.info().context
            ),
        }
        self.conversation.add(Turn {
            question: question.to_owned(),
            answer: said.text,
            thoughts: said.thoughts,
            end: said.end,
        });
    }
}

/// Says what came of a command.
fn say(outcome: Result<String, String>) {
    match outcome {
        Ok(text) => note!("{text}"),
        Err(why) => note!("({why})"),
    }
}

/// Why a question is not answered, and what helps; `earlier` questions of the conversation go before it.
fn refusal(error: &LlmError, context: usize, earlier: usize) -> String {
    match error {
        LlmError::ContextLength { .. } if earlier > 0 => format!(
            "(no room: this conversation and its answer are over the context of {context} tokens; /drop forgets the oldest \
             question, /clear everything, then ask again)"
        ),
        LlmError::ContextLength { .. } => format!(
            "(no room: this message and its answer are over the context of {context} tokens; shorten it)"
        ),
        other => format!("(not answered: {other})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_context_says_what_helps() {
        let full = LlmError::ContextLength {
            message: "start the server with a larger --context".to_owned(),
        };
        assert!(refusal(&full, 64, 2).contains("/drop"));
        assert!(refusal(&full, 64, 0).contains("shorten"));
        for earlier in [0, 2] {
            assert!(!refusal(&full, 64, earlier).contains("server"));
        }
    }
}
