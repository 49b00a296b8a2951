//! The body of `/v1/completions`.

use ucuz_llm::{GenerateRequest, Input, LIMITS};

use super::common::{self, Delivery, Standing};
use super::optional;
use crate::clip::shown;
use crate::error::ApiError;
use crate::fields::{Fields, token_ids};
use crate::json::{self, Json};

/// Prompts of one request.
pub(crate) const MAX_PROMPTS: usize = 128;
/// Choices of one request, over all its prompts.
const MAX_CHOICES: usize = 128;

/// A completion request whose types and names are right.
#[derive(Debug, Clone)]
pub struct CompletionRequest {
    /// The model asked for; absent means the one served.
    pub model: Option<String>,
    /// The prompts, in order.
    pub prompts: Vec<Input>,
    /// What to generate for each of them; its own input is empty.
    pub generate: GenerateRequest,
    /// Whether the answer begins with the prompt.
    pub echo: bool,
    /// Whether `prompt_logprobs` was asked for by name.
    pub prompt_logprobs: bool,
    /// How to send it.
    pub delivery: Delivery,
    /// How it stands among others.
    pub standing: Standing,
    /// Fields that were given and have no effect.
    pub ignored: Vec<&'static str>,
}

/// Reads a completion request.
///
/// # Errors
/// 400 naming the field, the rule and the value; never panics, whatever the bytes.
pub fn parse_completion(body: &[u8]) -> Result<CompletionRequest, ApiError> {
    let mut fields = Fields::of_body(json::parse(body)?)?;
    let model = fields.string("model")?;
    let delivery = common::delivery(&mut fields)?;
    let standing = common::standing(&mut fields)?;
    let prompts = inputs(&mut fields, "prompt")?;
    let mut generate = GenerateRequest::new(Input::Tokens(Vec::new()));
    common::generation(&mut fields, &mut generate)?;
    generate.logprobs = fields.u32("logprobs")?;
    let echo = fields.bool("echo")?.unwrap_or(false);
    let prompt_logprobs = generate.prompt_logprobs.is_some();
    if delivery.stream && prompt_logprobs {
        let message = "prompt_logprobs is given, it needs \"stream\": false";
        return Err(ApiError::invalid("prompt_logprobs", message));
    }
    if echo {
        // The log-probabilities of an echoed prompt are those of the answer's own list.
        generate.prompt_logprobs = generate.prompt_logprobs.max(generate.logprobs);
    }
    check_choices(prompts.len(), generate.n)?;
    let ignored = optional::settle(fields, &optional::OF_OTHER_SERVERS)?;
    Ok(CompletionRequest {
        model,
        prompts,
        generate,
        echo,
        prompt_logprobs,
        delivery,
        standing,
        ignored,
    })
}

fn check_choices(prompts: usize, n: u32) -> Result<(), ApiError> {
    let choices = prompts.saturating_mul(n.min(LIMITS.n) as usize);
    if choices > MAX_CHOICES {
        let message = format!(
            "{prompts} prompts with n = {n} make {choices} choices, the limit is {MAX_CHOICES}; \
             send fewer at a time"
        );
        return Err(ApiError::invalid("n", message));
    }
    Ok(())
}

/// One text, several, one list of token ids, or several.
pub(super) fn inputs(fields: &mut Fields, name: &'static str) -> Result<Vec<Input>, ApiError> {
    const EXPECTED: &str = "a string, a list of strings, a list of token ids or a list of those";
    match fields.take(name) {
        None => Err(ApiError::invalid(
            name,
            format!("{name} is missing; give {EXPECTED}"),
        )),
        Some(Json::String(text)) => Ok(vec![Input::Text(text)]),
        Some(Json::Array(items)) => match items.first() {
            None => Err(ApiError::invalid(
                name,
                format!("{name} is an empty list; give at least one"),
            )),
            Some(Json::Number(_)) => Ok(vec![Input::Tokens(token_ids(name, items)?)]),
            Some(Json::String(_) | Json::Array(_)) => {
                if items.len() > MAX_PROMPTS {
                    return Err(fields.too_many(name, items.len(), MAX_PROMPTS));
                }
                items
                    .into_iter()
                    .enumerate()
                    .map(|(index, item)| one(name, index, item))
                    .collect()
            }
            Some(other) => {
                let message = format!("{name}[0] is {}, {name} must be {EXPECTED}", shown(other));
                Err(ApiError::invalid(name, message))
            }
        },
        Some(other) => Err(fields.wrong(name, &other, EXPECTED)),
    }
}

/// One of several prompts.
fn one(name: &'static str, index: usize, item: Json) -> Result<Input, ApiError> {
    match item {
        Json::String(text) => Ok(Input::Text(text)),
        Json::Array(ids) => Ok(Input::Tokens(token_ids(&format!("{name}[{index}]"), ids)?)),
        other => {
            let message = format!(
                "{name}[{index}] is {}, it must be a string or a list of token ids",
                shown(&other)
            );
            Err(ApiError::invalid(name, message))
        }
    }
}
