//! The body of `/v1/chat/completions`.

use ucuz_llm::{GenerateRequest, Input, LIMITS};

use super::common::{self, Delivery, Standing};
use super::{messages, optional, tools};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::json;

/// A chat request whose types and names are right.
#[derive(Debug, Clone)]
pub struct ChatRequest {
    /// The model asked for; absent means the one served.
    pub model: Option<String>,
    /// What to generate.
    pub generate: GenerateRequest,
    /// How to send it.
    pub delivery: Delivery,
    /// How it stands among others.
    pub standing: Standing,
    /// Whether the answer tells the thoughts before it.
    pub include_reasoning: bool,
    /// Fields that were given and have no effect.
    pub ignored: Vec<&'static str>,
}

/// Reads a chat request.
///
/// # Errors
/// 400 naming the field, the rule and the value; never panics, whatever the bytes.
pub fn parse_chat(body: &[u8]) -> Result<ChatRequest, ApiError> {
    let mut fields = Fields::of_body(json::parse(body)?)?;
    let model = fields.string("model")?;
    let delivery = common::delivery(&mut fields)?;
    let standing = common::standing(&mut fields)?;
    let messages = messages::messages(&mut fields)?;
    let has_names = messages.iter().any(|message| message.name.is_some());
    let mut generate = GenerateRequest::new(Input::Chat(messages));
    generate.tools = tools::offer(&mut fields)?;
    let include_reasoning = fields.bool("include_reasoning")?.unwrap_or(true);
    common::generation(&mut fields, &mut generate)?;
    generate.logprobs = logprobs(&mut fields)?;
    if delivery.stream && generate.prompt_logprobs.is_some() {
        let message = "prompt_logprobs is given, it needs \"stream\": false";
        return Err(ApiError::invalid("prompt_logprobs", message));
    }
    refuse_echo(&mut fields)?;
    let mut ignored = optional::settle(fields, &optional::OF_OTHER_SERVERS)?;
    if has_names {
        // Templates get to see it; nearly none prints it.
        ignored.push("messages[].name");
        ignored.sort_unstable();
    }
    Ok(ChatRequest {
        model,
        generate,
        delivery,
        standing,
        include_reasoning,
        ignored,
    })
}

/// `logprobs` is a switch here, `top_logprobs` the number.
fn logprobs(fields: &mut Fields) -> Result<Option<u32>, ApiError> {
    let wanted = fields.bool("logprobs")?.unwrap_or(false);
    let top = fields.u32("top_logprobs")?;
    match top {
        Some(top) if top > LIMITS.logprobs => {
            let message = format!("top_logprobs is {top}, the limit is {}", LIMITS.logprobs);
            Err(ApiError::invalid("top_logprobs", message))
        }
        Some(top) if top > 0 && !wanted => {
            let message = format!("top_logprobs is {top}, it needs \"logprobs\": true");
            Err(ApiError::invalid("top_logprobs", message))
        }
        top => Ok(wanted.then_some(top.unwrap_or(0))),
    }
}

fn refuse_echo(fields: &mut Fields) -> Result<(), ApiError> {
    match fields.bool("echo")? {
        Some(true) => {
            let message = "echo is true, chat answers do not repeat the prompt";
            Err(ApiError::invalid("echo", message))
        }
        _ => Ok(()),
    }
}
