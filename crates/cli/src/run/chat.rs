//! The chat: lines from a person, answers from the model, and the conversation that both make.
//!
//! What goes wrong with one message is said, and the conversation goes on without that message.

use std::io::{self, BufRead, Read, Write};

use anyhow::{Result, bail};
use ucuz_llm::{Input, Llm, LlmError, Message};

use super::answer::{Answer, End};
use super::interrupt::Interrupt;
use super::{Args, STDIN_BYTES_MAX, system_message};

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    /// Nothing.
    Empty,
    /// The end of the chat.
    Bye,
    /// A new conversation.
    Reset,
    /// A conversation without its oldest question and answer.
    Drop,
    /// A slash and a word that mean nothing.
    Unknown(String),
    /// A message to the model.
    Say(String),
}

impl Line {
    fn parse(text: &str) -> Self {
        match text.trim() {
            "" => Self::Empty,
            "/bye" => Self::Bye,
            "/reset" => Self::Reset,
            "/drop" => Self::Drop,
            word if is_command(word) => Self::Unknown(word.to_owned()),
            _ => Self::Say(text.trim_end().to_owned()),
        }
    }
}

/// A slash and letters; a path or a sentence that begins with a slash is a message.
fn is_command(word: &str) -> bool {
    let letters = word.strip_prefix('/').unwrap_or("");
    !letters.is_empty() && letters.bytes().all(|b| b.is_ascii_lowercase())
}

/// Messages so far: the system's, if any, then questions and answers in turn.
struct Conversation {
    messages: Vec<Message>,
    system: usize,
}

impl Conversation {
    fn new(messages: Vec<Message>) -> Self {
        let system = messages.len();
        Self { messages, system }
    }

    /// Messages of question and answer.
    fn len(&self) -> usize {
        self.messages.len() - self.system
    }

    fn reset(&mut self) {
        self.messages.truncate(self.system);
    }

    /// Forgets the oldest question with its answer; false when there is none.
    fn drop_oldest(&mut self) -> bool {
        let oldest = self.system..(self.system + 2).min(self.messages.len());
        let dropped = !oldest.is_empty();
        self.messages.drain(oldest);
        dropped
    }

    /// The conversation with one more question.
    fn with(&self, question: &str) -> Vec<Message> {
        let mut messages = self.messages.clone();
        messages.push(Message::new("user", question));
        messages
    }

    fn add(&mut self, question: &str, answer: &str) {
        self.messages.push(Message::new("user", question));
        self.messages.push(Message::new("assistant", answer));
    }
}

/// Reads lines and answers them until the end of input.
///
/// # Errors
/// A model without a chat template, an engine that failed, a terminal that is gone.
pub fn chat(args: &Args, llm: &Llm) -> Result<()> {
    if !llm.info().has_template {
        bail!("this model has no chat template; give a prompt with -p to continue it");
    }
    let interrupt = Interrupt::watch()?;
    let name = &llm.info().name;
    note!(
        "chat with {name}; ctrl-C stops an answer, ctrl-D or /bye ends the chat, /reset forgets it, /drop forgets its oldest question"
    );
    let mut conversation = Conversation::new(system_message(args));
    while let Some(line) = next_line(&mut io::stdin().lock())? {
        match line {
            Line::Empty => {}
            Line::Bye => break,
            Line::Reset => {
                conversation.reset();
                note!("(a new conversation)");
            }
            Line::Drop if conversation.drop_oldest() => note!(
                "(the oldest question is forgotten; {} left)",
                conversation.len() / 2
            ),
            Line::Drop => note!("(there is nothing to forget)"),
            Line::Unknown(word) => {
                note!("({word} is no command; there are /bye, /reset and /drop)");
            }
            Line::Say(question) => turn(args, llm, &mut conversation, &question, &interrupt)?,
        }
    }
    Ok(())
}

/// Asks for a line; `None` at the end of input. Bytes that are no text are replaced, as terminals do.
fn next_line(input: &mut impl BufRead) -> io::Result<Option<Line>> {
    let _ = write!(io::stderr(), "> ");
    let mut bytes = Vec::new();
    let read = input
        .by_ref()
        .take(STDIN_BYTES_MAX)
        .read_until(b'\n', &mut bytes)?;
    if read == 0 {
        note!("");
        return Ok(None);
    }
    Ok(Some(Line::parse(&String::from_utf8_lossy(&bytes))))
}

/// One question and its answer. An answer that was stopped stays as far as it got.
fn turn(
    args: &Args,
    llm: &Llm,
    conversation: &mut Conversation,
    question: &str,
    interrupt: &Interrupt,
) -> Result<()> {
    interrupt.begin();
    let input = Input::Chat(conversation.with(question));
    let outcome = match Answer::start(args, llm, input) {
        Ok(answer) => answer.print(interrupt),
        Err(error @ LlmError::Unavailable { .. }) => Err(error.into()),
        Err(error) => {
            interrupt.end();
            note!(
                "{}",
                refusal(&error, llm.info().context, conversation.len())
            );
            return Ok(());
        }
    };
    interrupt.end();
    let (text, end) = outcome?;
    println!("\n");
    if text.is_empty() && end == End::Interrupted {
        note!("(stopped before the answer began; the question is forgotten)");
        return Ok(());
    }
    conversation.add(question, &text);
    match (end, args.max_tokens) {
        (End::Complete, _) => {}
        (End::Interrupted, _) => note!("(stopped; what was said stays)"),
        (End::Length, Some(max)) => note!("(cut off at --max-tokens {max})"),
        (End::Length, None) => note!(
            "(cut off: the context of {} tokens is full; /drop forgets the oldest question, /reset everything)",
            llm.info().context
        ),
    }
    Ok(())
}

/// Why a question is not answered, and what helps; `earlier` messages of the conversation go before it.
fn refusal(error: &LlmError, context: usize, earlier: usize) -> String {
    match error {
        LlmError::ContextLength { .. } if earlier > 0 => format!(
            "(no room: this conversation and its answer are over the context of {context} tokens; /drop forgets the oldest \
             question, /reset everything, then ask again)"
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
    fn lines_are_commands_or_messages() {
        for (text, line) in [
            ("\n", Line::Empty),
            ("  \r\n", Line::Empty),
            ("/bye\n", Line::Bye),
            (" /reset ", Line::Reset),
            ("/drop\n", Line::Drop),
            ("/rest\n", Line::Unknown("/rest".to_owned())),
            ("/\n", Line::Say("/".to_owned())),
            ("/etc/hosts\n", Line::Say("/etc/hosts".to_owned())),
            ("/bye is a word\n", Line::Say("/bye is a word".to_owned())),
            ("  indented \n", Line::Say("  indented".to_owned())),
        ] {
            assert_eq!(Line::parse(text), line, "{text:?}");
        }
    }

    #[test]
    fn input_ends_the_chat_and_broken_text_does_not() {
        let mut input = &b"a\xffb\n\nlast"[..];
        let say = |text: &str| Some(Line::Say(text.to_owned()));
        for expected in [say("a\u{fffd}b"), Some(Line::Empty), say("last"), None] {
            assert_eq!(next_line(&mut input).expect("memory"), expected);
        }
    }

    #[test]
    fn the_system_message_outlives_what_is_forgotten() {
        let system = Message::new("system", "Be brief.");
        let mut conversation = Conversation::new(vec![system.clone()]);
        assert!(!conversation.drop_oldest());
        conversation.add("one?", "1");
        conversation.add("two?", "2");
        assert!(conversation.drop_oldest());
        let left = [
            system.clone(),
            Message::new("user", "two?"),
            Message::new("assistant", "2"),
        ];
        assert_eq!(conversation.messages, left);
        assert_eq!(conversation.with("three?").len(), 4);
        assert_eq!(conversation.len(), 2);
        conversation.reset();
        assert_eq!(conversation.messages, [system]);
    }

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
