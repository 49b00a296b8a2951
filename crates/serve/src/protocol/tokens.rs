//! The bodies of `/tokenize` and `/detokenize`.

use ucuz_llm::{GenerateRequest, Input, Message, Tool, ToolChoice, ToolOffer};

use super::neutral::Neutral;
use super::optional::{NOTHING, Spare, settle};
use super::{messages, tools};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::json::{self, MAX_VALUES};

/// What `/tokenize` of vLLM can do beside.
pub(crate) const SPARE: Spare = Spare {
    harmless: &[],
    unsupported: &[
        ("add_generation_prompt", Neutral::Switch(true)),
        ("continue_final_message", Neutral::Switch(false)),
        ("return_token_strs", Neutral::Switch(false)),
        ("chat_template", Neutral::Never),
        ("chat_template_kwargs", Neutral::Empty),
    ],
};

/// What is to be made tokens.
#[derive(Debug, Clone)]
pub struct TokenizeRequest {
    /// The model asked for; absent means the one served.
    pub model: Option<String>,
    /// What to make tokens of.
    pub form: TokenizeForm,
}

/// What of a prompt is made tokens.
#[derive(Debug, Clone)]
pub enum TokenizeForm {
    /// A text as it is.
    Text(String),
    /// The whole prompt that a request would run with.
    Prompt(Box<GenerateRequest>),
}

/// Tokens to be made text.
#[derive(Debug, Clone)]
pub struct DetokenizeRequest {
    /// The model asked for; absent means the one served.
    pub model: Option<String>,
    /// Their ids.
    pub tokens: Vec<u32>,
}

/// Reads the body of `/tokenize`.
///
/// # Errors
/// 400 naming the field, the rule and the value; never panics, whatever the bytes.
pub fn parse_tokenize(body: &[u8]) -> Result<TokenizeRequest, ApiError> {
    let mut fields = Fields::of_body(json::parse(body)?)?;
    let model = fields.string("model")?;
    let prompt = fields.string("prompt")?;
    let adds_special = fields.bool("add_special_tokens")?;
    let conversation = fields.take("messages");
    let offered = tools::tools(&mut fields, tools::Form::Nested)?;
    let form = match (prompt, conversation) {
        (Some(text), None) if offered.is_empty() => text_form(text, adds_special),
        (None, Some(messages)) => chat_form(messages::of(messages)?, offered, adds_special)?,
        (None, None) => {
            let message = "prompt is missing; give text, or messages";
            return Err(ApiError::invalid("prompt", message));
        }
        _ => {
            let message = "prompt is given beside messages or tools; give a text or a chat";
            return Err(ApiError::invalid("prompt", message));
        }
    };
    settle(fields, &SPARE)?;
    Ok(TokenizeRequest { model, form })
}

fn text_form(text: String, adds_special: Option<bool>) -> TokenizeForm {
    match adds_special {
        Some(true) => TokenizeForm::Prompt(Box::new(GenerateRequest::new(Input::Text(text)))),
        _ => TokenizeForm::Text(text),
    }
}

/// Templates write the special tokens of a chat themselves.
fn chat_form(
    messages: Vec<Message>,
    tools: Vec<Tool>,
    adds_special: Option<bool>,
) -> Result<TokenizeForm, ApiError> {
    if adds_special == Some(true) {
        let message = "add_special_tokens is true, a chat has those of its template; leave it out";
        return Err(ApiError::invalid("add_special_tokens", message));
    }
    let mut generate = GenerateRequest::new(Input::Chat(messages));
    generate.tools = (!tools.is_empty()).then_some(ToolOffer {
        tools,
        choice: ToolChoice::Auto,
        parallel: true,
    });
    Ok(TokenizeForm::Prompt(Box::new(generate)))
}

/// Reads the body of `/detokenize`.
///
/// # Errors
/// 400 naming the field, the rule and the value; never panics, whatever the bytes.
pub fn parse_detokenize(body: &[u8]) -> Result<DetokenizeRequest, ApiError> {
    let mut fields = Fields::of_body(json::parse(body)?)?;
    let model = fields.string("model")?;
    let tokens = fields.ids("tokens", MAX_VALUES)?;
    settle(fields, &NOTHING)?;
    Ok(DetokenizeRequest { model, tokens })
}
