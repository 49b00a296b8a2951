//! What was said so far: a system message, then questions and answers in turn.

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use ucuz_llm::{Content, Message};

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The model was done.
    Stop,
    /// As many tokens as it could have.
    Length,
    /// Ctrl-C.
    Interrupted,
}

impl End {
    /// What is said below an answer that is not whole.
    fn in_words(self) -> Option<&'static str> {
        match self {
            Self::Stop => None,
            Self::Length => Some("cut off by the limit of tokens"),
            Self::Interrupted => Some("stopped by ctrl-C"),
        }
    }
}

/// A question and its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// What was asked.
    pub question: String,
    /// What was answered, as far as it got.
    pub answer: String,
    /// The thoughts before the answer; empty when there were none.
    pub thoughts: String,
    /// How the answer ended.
    pub end: End,
}

/// Everything said so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conversation {
    /// The system message.
    pub system: Option<String>,
    turns: Vec<Turn>,
}

impl Conversation {
    /// A conversation in which nothing was asked.
    pub fn new(system: Option<String>) -> Self {
        let turns = Vec::new();
        Self { system, turns }
    }

    /// Questions that have an answer.
    pub fn len(&self) -> usize {
        self.turns.len()
    }

    /// Forgets all questions and answers.
    pub fn clear(&mut self) {
        self.turns.clear();
    }

    /// Forgets the oldest question with its answer; false when there is none.
    pub fn drop_oldest(&mut self) -> bool {
        let has_one = !self.turns.is_empty();
        self.turns.drain(..usize::from(has_one));
        has_one
    }

    /// Adds a question and its answer.
    pub fn add(&mut self, turn: Turn) {
        self.turns.push(turn);
    }

    /// What the model is given to answer `question`.
    pub fn ask(&self, question: &str) -> Vec<Message> {
        let mut messages = self.messages();
        messages.push(Message::new("user", question));
        messages
    }

    fn messages(&self) -> Vec<Message> {
        let system = self.system.iter().map(|text| Message::new("system", text));
        let turns = self.turns.iter().flat_map(|turn| {
            let thoughts = Some(turn.thoughts.clone()).filter(|text| !text.is_empty());
            let answer = Message {
                reasoning_content: thoughts,
                ..Message::new("assistant", &turn.answer)
            };
            [Message::new("user", &turn.question), answer]
        });
        system.chain(turns).collect()
    }

    /// The conversation as a page of Markdown.
    pub fn to_markdown(&self, model: &str) -> String {
        let mut page = format!("# Conversation with {model}\n");
        let mut section = |title: &str, text: &str| {
            page.push_str(&format!("\n## {title}\n\n{}\n", text.trim_end()));
        };
        if let Some(system) = &self.system {
            section("System", system);
        }
        for turn in &self.turns {
            section("Question", &turn.question);
            let cut = turn.end.in_words();
            let cut = cut.map(|why| format!("\n\n*({why})*"));
            let answer = turn.answer.trim_end();
            section("Answer", &format!("{answer}{}", cut.unwrap_or_default()));
        }
        page
    }

    /// The conversation as JSON, in the messages of the chat API; [`Conversation::from_json`] reads it.
    ///
    /// # Errors
    /// None that texts can cause.
    pub fn to_json(&self, model: &str) -> Result<String> {
        let mut messages = Vec::new();
        let mut turns = self.turns.iter();
        for message in self.messages() {
            let end = (message.role == "assistant").then(|| turns.next().map(|turn| turn.end));
            let finish_reason = end.flatten();
            messages.push(SavedMessage {
                message,
                finish_reason,
            });
        }
        let saved = Saved {
            model: model.to_owned(),
            messages,
        };
        Ok(serde_json::to_string_pretty(&saved)? + "\n")
    }

    /// Reads what [`Conversation::to_json`] wrote, or any such list of messages.
    ///
    /// # Errors
    /// It is no JSON, or its messages are not a system message, if any, and then questions and answers in turn.
    pub fn from_json(json: &str) -> Result<Self> {
        let saved: Saved = serde_json::from_str(json)?;
        let mut messages = saved.messages.into_iter().enumerate().peekable();
        let system = messages.next_if(|(_, saved)| saved.message.role == "system");
        let system = system.map(|(index, saved)| text_of(index, &saved.message));
        let mut conversation = Self::new(system.transpose()?);
        while let Some((index, question)) = messages.next() {
            let question = expect(index, &question, "user")?;
            let Some((index, answer)) = messages.next() else {
                bail!("message {index} is a question without an answer");
            };
            conversation.add(Turn {
                question,
                answer: expect(index, &answer, "assistant")?,
                thoughts: answer.message.reasoning_content.unwrap_or_default(),
                end: answer.finish_reason.unwrap_or(End::Stop),
            });
        }
        Ok(conversation)
    }
}

/// A conversation in a file.
#[derive(Serialize, Deserialize)]
struct Saved {
    #[serde(default)]
    model: String,
    messages: Vec<SavedMessage>,
}

#[derive(Serialize, Deserialize)]
struct SavedMessage {
    #[serde(flatten)]
    message: Message,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    finish_reason: Option<End>,
}

fn expect(index: usize, saved: &SavedMessage, role: &str) -> Result<String> {
    if saved.message.role != role {
        let found = &saved.message.role;
        bail!("message {index} is of the role {found}, expected {role}");
    }
    text_of(index, &saved.message)
}

fn text_of(index: usize, message: &Message) -> Result<String> {
    match &message.content {
        Some(Content::Text(text)) => Ok(text.clone()),
        _ => bail!("message {index} has no text"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(question: &str, answer: &str, end: End) -> Turn {
        Turn {
            question: question.to_owned(),
            answer: answer.to_owned(),
            thoughts: String::new(),
            end,
        }
    }

    fn sample() -> Conversation {
        let mut conversation = Conversation::new(Some("Be brief.".to_owned()));
        conversation.add(turn("one?", "1", End::Stop));
        conversation.add(turn("two?\n\"lines\"", "tw", End::Interrupted));
        conversation
    }

    #[test]
    fn the_system_message_outlives_what_is_forgotten() {
        let mut conversation = sample();
        assert_eq!(conversation.len(), 2);
        assert!(conversation.drop_oldest());
        let left: Vec<_> = conversation.ask("three?");
        let roles: Vec<_> = left.iter().map(|message| message.role.as_str()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "user"]);
        assert_eq!(left[2], Message::new("assistant", "tw"));
        conversation.clear();
        assert!(!conversation.drop_oldest());
        assert_eq!(
            conversation,
            Conversation::new(Some("Be brief.".to_owned()))
        );
    }

    #[test]
    fn thoughts_are_given_back_as_thoughts() {
        let mut conversation = Conversation::default();
        conversation.add(Turn {
            thoughts: "hm".to_owned(),
            ..turn("a?", "b", End::Stop)
        });
        let messages = conversation.ask("c?");
        assert_eq!(messages[1].reasoning_content.as_deref(), Some("hm"));
        let json = conversation.to_json("m").expect("texts");
        assert_eq!(Conversation::from_json(&json).expect("own"), conversation);
    }

    #[test]
    fn a_saved_conversation_is_read_back_as_it_was() {
        let conversation = sample();
        let json = conversation.to_json("smollm2").expect("texts");
        assert!(
            json.contains("\"finish_reason\": \"interrupted\""),
            "{json}"
        );
        assert_eq!(Conversation::from_json(&json).expect("own"), conversation);
    }

    #[test]
    fn what_is_no_conversation_is_refused_with_the_place() {
        for (json, why) in [
            ("no", "expected"),
            ("{}", "messages"),
            (
                r#"{"messages": [{"role": "user", "content": "a"}]}"#,
                "message 0",
            ),
            (
                r#"{"messages": [{"role": "assistant", "content": "a"}]}"#,
                "expected user",
            ),
            (
                r#"{"messages": [{"role": "user", "content": "a"}, {"role": "tool", "content": "b"}]}"#,
                "message 1 is of the role tool",
            ),
            (
                r#"{"messages": [{"role": "system"}]}"#,
                "message 0 has no text",
            ),
        ] {
            let error = Conversation::from_json(json).expect_err(json).to_string();
            assert!(error.contains(why), "{json}: {error}");
        }
    }

    #[test]
    fn a_page_shows_who_said_what_and_what_was_cut() {
        let page = sample().to_markdown("smollm2");
        let expected = "# Conversation with smollm2\n\n## System\n\nBe brief.\n\n## Question\n\none?\n\n## Answer\n\n1\n\n\
                        ## Question\n\ntwo?\n\"lines\"\n\n## Answer\n\ntw\n\n*(stopped by ctrl-C)*\n";
        assert_eq!(page, expected);
    }
}
