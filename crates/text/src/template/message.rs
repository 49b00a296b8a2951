//! A chat message as a client sends it, and as a template sees it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Result;
use crate::error::TextError;

/// What a message says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// Plain text.
    Text(String),
    /// `[{"type": "text", "text": ...}]`; the texts are joined by a space, as Hugging Face does.
    Parts(Vec<Value>),
}

impl Content {
    /// What message `index` says, as one text.
    pub(crate) fn text(&self, index: usize) -> Result<String> {
        match self {
            Content::Text(text) => Ok(text.clone()),
            Content::Parts(parts) => join_parts(parts, index),
        }
    }
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks; the template knows which roles exist.
    pub role: String,
    /// What is said; may be absent beside tool calls.
    #[serde(default)]
    pub content: Option<Content>,
    /// The speaker's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Calls the assistant made, in OpenAI's form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<Value>>,
    /// Which call a tool message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The assistant's thoughts, for templates that show them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
}

impl Message {
    /// A text message.
    pub fn new(role: &str, content: &str) -> Message {
        let content = Some(Content::Text(content.to_owned()));
        Message {
            role: role.to_owned(),
            content,
            ..Message::default()
        }
    }

    /// The message as a template value; absent fields stay undefined, absent content is none.
    pub(super) fn to_value(&self, index: usize) -> Result<Value> {
        let mut map = Map::new();
        map.insert("role".to_owned(), Value::String(self.role.clone()));
        let content = match &self.content {
            None => Value::Null,
            Some(content) => Value::String(content.text(index)?),
        };
        map.insert("content".to_owned(), content);
        for (key, text) in [
            ("name", &self.name),
            ("tool_call_id", &self.tool_call_id),
            ("reasoning_content", &self.reasoning_content),
        ] {
            if let Some(text) = text {
                map.insert(key.to_owned(), Value::String(text.clone()));
            }
        }
        if let Some(calls) = &self.tool_calls {
            let calls = calls.iter().cloned().map(parse_arguments).collect();
            map.insert("tool_calls".to_owned(), Value::Array(calls));
        }
        Ok(Value::Object(map))
    }
}

fn join_parts(parts: &[Value], index: usize) -> Result<String> {
    let texts = parts.iter().enumerate().map(|(part, value)| {
        let kind = value.get("type").and_then(Value::as_str);
        match (kind, value.get("text").and_then(Value::as_str)) {
            (Some("text"), Some(text)) => Ok(text),
            _ => Err(TextError::request(
                format!("messages[{index}].content[{part}]"),
                format!(
                    "only parts of type \"text\" with a text are possible, this is of type {kind:?}"
                ),
            )),
        }
    });
    Ok(texts.collect::<Result<Vec<_>>>()?.join(" "))
}

/// Clients send call arguments as a JSON text; templates expect the object.
fn parse_arguments(mut call: Value) -> Value {
    let holder = if call.get("function").is_some() {
        call.get_mut("function")
    } else {
        Some(&mut call)
    };
    if let Some(arguments) = holder.and_then(|holder| holder.get_mut("arguments"))
        && let Some(text) = arguments.as_str()
    {
        // Some clients write an empty text for no arguments.
        let text = if text.trim().is_empty() { "{}" } else { text };
        if let Ok(parsed @ Value::Object(_)) = serde_json::from_str(text) {
            *arguments = parsed;
        }
    }
    call
}
