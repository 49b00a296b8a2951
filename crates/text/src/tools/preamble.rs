//! Tools for templates that know none: a description in the system message, and calls and results as text.
//!
//! The form is Hermes', the one most models have seen. It is the words of Qwen2.5's own template, so that a model of that
//! family finds what it was trained on.

use serde_json::Value;

use super::Tool;
use crate::template::{Content, Message};
use crate::{Result, TextError};

/// The same conversation in plain messages, with `tools` described in its system message.
///
/// - The description is appended to the first system message; without one it becomes the first message.
/// - Calls of the assistant are written out after its content.
/// - Results become messages of the user, those of one answer together.
///
/// # Errors
/// `BadRequest` for a call without a function's name, or content that is no text.
pub fn describe(messages: &[Message], tools: &[Tool]) -> Result<Vec<Message>> {
    let mut plain: Vec<Message> = Vec::with_capacity(messages.len() + 1);
    let mut follows_result = false;
    for (index, message) in messages.iter().enumerate() {
        let is_result = message.role == "tool";
        if is_result {
            let text = text(message, index)?;
            let result = format!("<tool_response>\n{text}\n</tool_response>");
            match plain.last_mut() {
                Some(before) if follows_result => append(before, &result),
                _ => plain.push(Message::new("user", &result)),
            }
        } else if message.tool_calls.as_ref().is_some_and(|c| !c.is_empty()) {
            plain.push(with_calls_as_text(message, index)?);
        } else {
            plain.push(message.clone());
        }
        follows_result = is_result;
    }
    if !tools.is_empty() {
        let described = system_text(tools);
        match plain.first_mut() {
            Some(first) if first.role == "system" => {
                let text = text(first, 0)? + "\n\n" + &described;
                first.content = Some(Content::Text(text));
            }
            _ => plain.insert(0, Message::new("system", &described)),
        }
    }
    Ok(plain)
}

fn system_text(tools: &[Tool]) -> String {
    let mut text = String::from(
        "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function \
         signatures within <tools></tools> XML tags:\n<tools>",
    );
    for tool in tools {
        text.push('\n');
        text.push_str(&tool.description.to_string());
    }
    text.push_str(
        "\n</tools>\n\nFor each function call, return a json object with function name and arguments within \
         <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n\
         </tool_call>",
    );
    text
}

fn with_calls_as_text(message: &Message, index: usize) -> Result<Message> {
    let mut plain = Message {
        tool_calls: None,
        content: Some(Content::Text(text(message, index)?)),
        ..message.clone()
    };
    for call in message.tool_calls.iter().flatten() {
        let function = call.get("function").unwrap_or(call);
        let Some(name) = function.get("name") else {
            let what = format!("messages[{index}].tool_calls");
            return Err(TextError::request(what, "a call has no function name"));
        };
        // Clients hand back the text that the model wrote.
        let arguments = match function.get("arguments") {
            Some(Value::String(text)) if !text.trim().is_empty() => text.clone(),
            None | Some(Value::Null | Value::String(_)) => "{}".to_owned(),
            Some(value) => value.to_string(),
        };
        let call =
            format!("<tool_call>\n{{\"name\": {name}, \"arguments\": {arguments}}}\n</tool_call>");
        append(&mut plain, &call);
    }
    Ok(plain)
}

fn append(message: &mut Message, line: &str) {
    let mut text = match message.content.take() {
        Some(Content::Text(text)) => text,
        _ => String::new(),
    };
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
    message.content = Some(Content::Text(text));
}

fn text(message: &Message, index: usize) -> Result<String> {
    match &message.content {
        None => Ok(String::new()),
        Some(content) => content.text(index),
    }
}
