//! The headers that tell what a request really ran with.

use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use serde::Serialize;
use ucuz_llm::Prepared;

/// Fields of the request that had no effect, separated by commas.
const IGNORED: HeaderName = HeaderName::from_static("x-ucuz-ignored");
/// Effective sampling as compact JSON; sending it back gives the same answer.
const SAMPLING: HeaderName = HeaderName::from_static("x-ucuz-sampling");

#[derive(Serialize)]
struct Effective {
    temperature: f32,
    top_k: u32,
    top_p: f32,
    min_p: f32,
    repetition_penalty: f32,
    presence_penalty: f32,
    frequency_penalty: f32,
    seed: u64,
    max_tokens: u32,
    min_tokens: u32,
    /// How many ids are biased; the biases themselves are the request's own.
    logit_bias: usize,
}

/// Adds the headers: parameters of the first prompt, and what was ignored.
pub(crate) fn describe(response: &mut Response, prompts: &[Prepared], ignored: &[&'static str]) {
    let headers = response.headers_mut();
    if let Some(prepared) = prompts.first()
        && let Ok(value) = HeaderValue::from_str(&effective(prepared))
    {
        headers.insert(SAMPLING, value);
    }
    if !ignored.is_empty()
        && let Ok(value) = HeaderValue::from_str(&ignored.join(", "))
    {
        headers.insert(IGNORED, value);
    }
}

fn effective(prepared: &Prepared) -> String {
    let params = &prepared.params;
    let effective = Effective {
        temperature: params.temperature,
        top_k: params.top_k,
        top_p: params.top_p,
        min_p: params.min_p,
        repetition_penalty: params.repetition_penalty,
        presence_penalty: params.presence_penalty,
        frequency_penalty: params.frequency_penalty,
        seed: params.seed,
        max_tokens: prepared.max_tokens,
        min_tokens: prepared.min_tokens,
        logit_bias: params.logit_bias.len(),
    };
    serde_json::to_string(&effective).unwrap_or_default()
}
