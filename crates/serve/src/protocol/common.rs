//! The fields that chat and completions share: sampling, lengths, stops, delivery.

use ucuz_llm::{GenerateRequest, LIMITS, SamplingOptions};

use super::constraint::constraint;
use crate::error::ApiError;
use crate::fields::{Fields, as_f32};
use crate::json::Json;

/// Temperatures above 0 and below this are taken as 0: `logit / T` would leave single precision.
const LEAST_TEMPERATURE: f32 = 1e-5;

/// How a request wants to stand among others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Standing {
    /// Separates its cached prefixes from those without it, or with another.
    pub cache_salt: Option<String>,
    /// Among requests of one client, lower goes first.
    pub priority: i32,
}

/// Takes `cache_salt` and `priority`.
pub(super) fn standing(fields: &mut Fields) -> Result<Standing, ApiError> {
    Ok(Standing {
        cache_salt: fields.string("cache_salt")?,
        priority: fields.i32("priority")?.unwrap_or(0),
    })
}

/// How an answer is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Delivery {
    /// As Server-Sent Events.
    pub stream: bool,
    /// With a last chunk that holds the usage.
    pub include_usage: bool,
    /// With what became of the request inside.
    pub explain: bool,
    /// With the ids of prompt and answer.
    pub token_ids: bool,
}

/// Takes `stream` and `stream_options`.
pub(super) fn delivery(fields: &mut Fields) -> Result<Delivery, ApiError> {
    let stream = fields.bool("stream")?.unwrap_or(false);
    let delivery = Delivery {
        stream,
        include_usage: false,
        explain: fields.bool("explain")?.unwrap_or(false),
        token_ids: fields.bool("return_token_ids")?.unwrap_or(false),
    };
    let Some(options) = fields.take("stream_options") else {
        return Ok(delivery);
    };
    if !stream {
        let message = "stream_options is given, it needs \"stream\": true";
        return Err(ApiError::invalid("stream_options", message));
    }
    let mut options = Fields::nested("stream_options".to_owned(), options)?;
    let include_usage = options.bool("include_usage")?.unwrap_or(false);
    // Padding against traffic analysis; leaving it out is what `false` asks for.
    if options.bool("include_obfuscation")? == Some(true) {
        let message = "stream_options.include_obfuscation is true, only false is supported";
        return Err(ApiError::invalid(
            "stream_options.include_obfuscation",
            message,
        ));
    }
    options.finish()?;
    Ok(Delivery {
        include_usage,
        ..delivery
    })
}

/// Takes everything but the prompt, `model`, the delivery and the answer's log-probabilities, whose
/// forms differ between the endpoints.
pub(super) fn generation(
    fields: &mut Fields,
    request: &mut GenerateRequest,
) -> Result<(), ApiError> {
    request.sampling = sampling(fields)?;
    request.max_tokens = max_tokens(fields)?;
    request.min_tokens = fields.u32("min_tokens")?.unwrap_or(0);
    request.stop = stop(fields)?;
    request.stop_token_ids = fields.ids("stop_token_ids", LIMITS.stop_ids)?;
    request.ignore_eos = fields.bool("ignore_eos")?.unwrap_or(false);
    request.constraint = constraint(fields)?;
    request.n = fields.u32("n")?.unwrap_or(1);
    request.prompt_logprobs = fields.u32("prompt_logprobs")?;
    request.skip_special_tokens = fields.bool("skip_special_tokens")?.unwrap_or(true);
    check_best_of(fields, request.n)
}

fn sampling(fields: &mut Fields) -> Result<SamplingOptions, ApiError> {
    let temperature = fields.f32("temperature")?;
    Ok(SamplingOptions {
        temperature: temperature.map(|t| {
            if t > 0.0 && t < LEAST_TEMPERATURE {
                0.0
            } else {
                t
            }
        }),
        top_k: fields.u32_or_minus_one("top_k", Some(0))?,
        top_p: fields.f32("top_p")?,
        min_p: fields.f32("min_p")?,
        repetition_penalty: fields.f32("repetition_penalty")?,
        presence_penalty: fields.f32("presence_penalty")?,
        frequency_penalty: fields.f32("frequency_penalty")?,
        logit_bias: logit_bias(fields)?,
        seed: fields.seed("seed")?,
    })
}

/// OpenAI renamed `max_tokens` for chat; both names mean the same.
fn max_tokens(fields: &mut Fields) -> Result<Option<u32>, ApiError> {
    let old = fields.u32_or_minus_one("max_tokens", None)?;
    let new = fields.u32_or_minus_one("max_completion_tokens", None)?;
    match (old, new) {
        (Some(old), Some(new)) if old != new => {
            let message = format!(
                "max_tokens is {old} and max_completion_tokens is {new}; give one, or the same twice"
            );
            Err(ApiError::invalid("max_completion_tokens", message))
        }
        _ => Ok(new.or(old)),
    }
}

fn stop(fields: &mut Fields) -> Result<Vec<String>, ApiError> {
    const EXPECTED: &str = "a string or a list of strings";
    match fields.take("stop") {
        None => Ok(Vec::new()),
        Some(Json::String(stop)) => Ok(vec![stop]),
        Some(Json::Array(items)) => {
            if items.len() > LIMITS.stop_strings {
                return Err(fields.too_many("stop", items.len(), LIMITS.stop_strings));
            }
            let text = |item| match item {
                Json::String(stop) => Ok(stop),
                other => Err(fields.wrong("stop", &other, EXPECTED)),
            };
            items.into_iter().map(text).collect()
        }
        Some(other) => Err(fields.wrong("stop", &other, EXPECTED)),
    }
}

fn logit_bias(fields: &mut Fields) -> Result<Vec<(u32, f32)>, ApiError> {
    const EXPECTED: &str = "an object of token ids (as strings) and numbers";
    match fields.take("logit_bias") {
        None => Ok(Vec::new()),
        Some(Json::Object(entries)) => {
            if entries.len() > LIMITS.logit_bias {
                return Err(fields.too_many("logit_bias", entries.len(), LIMITS.logit_bias));
            }
            entries
                .into_iter()
                .map(|(id, value)| bias(&id, &value))
                .collect()
        }
        Some(other) => Err(fields.wrong("logit_bias", &other, EXPECTED)),
    }
}

fn bias(id: &str, value: &Json) -> Result<(u32, f32), ApiError> {
    let digits = id.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = id.parse::<u32>().ok().filter(|_| digits);
    match (parsed, as_f32(value)) {
        (Some(id), Some(bias)) => Ok((id, bias)),
        (None, _) => {
            let id = crate::clip::Clip(id);
            Err(ApiError::invalid(
                "logit_bias",
                format!("logit_bias names {id}, not a token id"),
            ))
        }
        (Some(id), None) => {
            let value = crate::clip::shown(value);
            let message = format!("logit_bias of {id} is {value}, it must be a number");
            Err(ApiError::invalid("logit_bias", message))
        }
    }
}

/// `best_of` makes more samples than it returns; here every sample is returned.
fn check_best_of(fields: &mut Fields, n: u32) -> Result<(), ApiError> {
    match fields.u32("best_of")? {
        Some(best_of) if best_of != n => {
            let message =
                format!("best_of is {best_of} and n is {n}; only best_of = n is supported");
            Err(ApiError::invalid("best_of", message))
        }
        _ => Ok(()),
    }
}
