//! What an event of a streamed completion says: text, an end, a count of tokens, an error.

use serde::Deserialize;
use serde_json::Value;

/// Longest message that is kept of an error, in characters.
const MESSAGE_CHARS_MAX: usize = 300;

/// Token counts as a server reports them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Usage {
    #[serde(default)]
    pub prompt_tokens: u64,
    #[serde(default)]
    pub completion_tokens: u64,
    #[serde(default)]
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Option<u64>,
}

impl Usage {
    /// Tokens of the prompt that came out of a cache, where the server tells.
    pub(super) fn cached_tokens(&self) -> Option<u64> {
        self.prompt_tokens_details?.cached_tokens
    }
}

/// One event, as far as it matters here.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Chunk {
    /// Carries text that a reader sees, reasoning included; an empty text or a role alone does not count.
    pub has_content: bool,
    /// Why the answer ended.
    pub finish_reason: Option<String>,
    /// Token counts.
    pub usage: Option<Usage>,
}

/// An event, or why the stream is over.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Event {
    /// A part of the answer.
    Chunk(Chunk),
    /// `[DONE]`.
    Done,
    /// The server reports an error, or sends what is no JSON.
    Error(String),
}

#[derive(Deserialize)]
struct Body {
    error: Option<Value>,
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Choice {
    text: Option<String>,
    delta: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<String>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    tool_calls: Option<Vec<Value>>,
}

impl Event {
    /// Reads the data of an event.
    pub(super) fn of(data: &[u8]) -> Self {
        if data.trim_ascii() == b"[DONE]" {
            return Self::Done;
        }
        match serde_json::from_slice::<Body>(data) {
            Ok(Body {
                error: Some(error), ..
            }) => Self::Error(message_of(&error)),
            Ok(body) => Self::Chunk(body.chunk()),
            Err(error) => Self::Error(format!("an event is no completion chunk: {error}")),
        }
    }
}

impl Body {
    fn chunk(self) -> Chunk {
        let choices = self.choices.unwrap_or_default();
        Chunk {
            has_content: choices.iter().any(Choice::has_content),
            finish_reason: choices.into_iter().find_map(|choice| choice.finish_reason),
            usage: self.usage,
        }
    }
}

impl Choice {
    fn has_content(&self) -> bool {
        let is_some = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        let delta = self.delta.as_ref();
        is_some(&self.text)
            || delta.is_some_and(|delta| {
                is_some(&delta.content)
                    || is_some(&delta.reasoning_content)
                    || is_some(&delta.reasoning)
                    || delta.tool_calls.as_ref().is_some_and(|c| !c.is_empty())
            })
    }
}

/// The message of an error body `{"error": {"message": ...}}` or `{"message": ...}`, else its beginning as it is.
pub(super) fn error_message(body: &[u8]) -> String {
    match serde_json::from_slice::<Value>(body) {
        Ok(value) => message_of(value.get("error").unwrap_or(&value)),
        Err(_) => shortened(&String::from_utf8_lossy(body)),
    }
}

fn message_of(error: &Value) -> String {
    let message = error.get("message").unwrap_or(error);
    match message.as_str() {
        Some(text) => shortened(text),
        None => shortened(&message.to_string()),
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(MESSAGE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(has_content: bool, finish_reason: Option<&str>) -> Event {
        Event::Chunk(Chunk {
            has_content,
            finish_reason: finish_reason.map(str::to_owned),
            usage: None,
        })
    }

    #[test]
    fn events_are_told_apart() {
        for (data, expected) in [
            ("[DONE]", Event::Done),
            (
                r#"{"choices":[{"text":"a","finish_reason":null}]}"#,
                chunk(true, None),
            ),
            (
                r#"{"choices":[{"text":"","finish_reason":"length"}]}"#,
                chunk(false, Some("length")),
            ),
            (
                r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#,
                chunk(false, None),
            ),
            (
                r#"{"choices":[{"delta":{"content":"a"}}]}"#,
                chunk(true, None),
            ),
            (
                r#"{"choices":[{"delta":{"reasoning_content":"a"}}]}"#,
                chunk(true, None),
            ),
            (
                r#"{"choices":[{"delta":{"tool_calls":[{}]},"finish_reason":"tool_calls"}]}"#,
                chunk(true, Some("tool_calls")),
            ),
            (r#"{"choices":[],"usage":null}"#, chunk(false, None)),
            (
                r#"{"error":{"message":"no","type":"x"}}"#,
                Event::Error("no".to_owned()),
            ),
            (r#"{"error":"no"}"#, Event::Error("no".to_owned())),
        ] {
            assert_eq!(Event::of(data.as_bytes()), expected, "{data}");
        }
        assert!(matches!(Event::of(b"{\"choices\":"), Event::Error(_)));
    }

    #[test]
    fn counts_are_read_with_and_without_details() {
        for (details, cached) in [
            ("", None),
            (r#","prompt_tokens_details":null"#, None),
            (r#","prompt_tokens_details":{"cached_tokens":3}"#, Some(3)),
            (r#","prompt_tokens_details":{"audio_tokens":0}"#, None),
        ] {
            let data = format!(
                r#"{{"choices":[],"usage":{{"prompt_tokens":7,"completion_tokens":5{details}}}}}"#
            );
            let Event::Chunk(Chunk {
                usage: Some(usage), ..
            }) = Event::of(data.as_bytes())
            else {
                panic!("no usage in {data}");
            };
            assert_eq!((usage.prompt_tokens, usage.completion_tokens), (7, 5));
            assert_eq!(usage.cached_tokens(), cached);
        }
    }

    #[test]
    fn a_message_is_found_where_servers_put_it() {
        for (body, expected) in [
            (r#"{"error":{"message":"too long"}}"#, "too long"),
            (r#"{"message":"too long"}"#, "too long"),
            (r#"{"detail":1}"#, r#"{"detail":1}"#),
            ("Bad Gateway", "Bad Gateway"),
            ("", ""),
        ] {
            assert_eq!(error_message(body.as_bytes()), expected);
        }
        assert_eq!(
            error_message("x".repeat(1000).as_bytes()).len(),
            MESSAGE_CHARS_MAX
        );
    }
}
