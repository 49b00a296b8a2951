//! From what a caller asks to what the engine runs: encoding, defaults, rules. Past this door no check is repeated.

use std::sync::Arc;
use std::time::Duration;

use ucuz_engine::{Pooling, RequestClass};
use ucuz_formats::config::GenerationDefaults;
use ucuz_tensor::sampling::SamplingParams;
use ucuz_text::{AnswerForm, AnswerParser};

use crate::constraint::Constrained;
use crate::request::{GenerateRequest, Input, SamplingOptions};
use crate::{LlmError, LlmResult};

/// Most of everything a request may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLimits {
    /// Samples of one prompt.
    pub n: u32,
    /// Stop strings.
    pub stop_strings: usize,
    /// Bytes of one stop string.
    pub stop_bytes: usize,
    /// Stop ids.
    pub stop_ids: usize,
    /// Biased ids.
    pub logit_bias: usize,
    /// Likeliest ids reported.
    pub logprobs: u32,
}

/// The limits in force.
pub const LIMITS: RequestLimits = RequestLimits {
    n: 16,
    stop_strings: 16,
    stop_bytes: 256,
    stop_ids: 64,
    logit_bias: 1024,
    logprobs: 20,
};

/// A request that the engine can run, with every default resolved.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// Token ids, BOS included.
    pub prompt: Arc<[u32]>,
    /// Effective sampling parameters; can be read back.
    pub params: SamplingParams,
    /// Most tokens of the answer.
    pub max_tokens: u32,
    /// End tokens are forbidden before this many.
    pub min_tokens: u32,
    /// Ids that end the answer.
    pub stop_ids: Vec<u32>,
    /// Strings that end the answer.
    pub stop: Vec<String>,
    /// What the answer must look like, compiled; each sample follows it from its start.
    pub(crate) constraint: Option<Arc<Constrained>>,
    /// Samples.
    pub n: u32,
    /// Log-probabilities of the answer.
    pub logprobs: Option<u32>,
    /// Log-probabilities of the prompt.
    pub prompt_logprobs: Option<u32>,
    /// One vector of the prompt instead of an answer.
    pub pool: Option<Pooling>,
    /// Whether special tokens are left out of the text.
    pub skip_special_tokens: bool,
    /// Who asks, and how it is treated for that.
    pub class: RequestClass,
    /// Whether the answer is a chat message, a text of its own, instead of a continuation.
    pub is_chat: bool,
    /// What the answer may hold beside text.
    pub answer: AnswerForm,
}

impl Prepared {
    /// Tells thoughts, text and calls of one sample's answer apart.
    pub fn parser(&self) -> AnswerParser {
        AnswerParser::new(&self.answer)
    }

    /// The same, refused for no deadline, neither its own nor the server's.
    pub fn without_deadline(mut self) -> Self {
        self.class.first_token_within = Some(Duration::MAX);
        self
    }
}

/// What of the model the rules depend on.
pub(crate) struct Rules<'a> {
    pub vocab: usize,
    pub context: usize,
    pub defaults: &'a GenerationDefaults,
    pub end_ids: &'a [u32],
}

/// Resolves and checks everything but the prompt's text. `entropy` seeds the noise when the request has no seed.
pub(crate) fn resolve(
    request: &GenerateRequest,
    prompt: Vec<u32>,
    rules: &Rules<'_>,
    entropy: u64,
) -> LlmResult<Prepared> {
    check_prompt(&prompt, rules)?;
    let max_tokens = max_tokens(request, prompt.len(), rules.context)?;
    if request.min_tokens > max_tokens {
        let message = format!(
            "min_tokens is {}, max_tokens {max_tokens}; min_tokens must not be larger",
            request.min_tokens
        );
        return Err(LlmError::invalid("min_tokens", message));
    }
    check_counts(request)?;
    let mut stop_ids = request.stop_token_ids.clone();
    check_ids("stop_token_ids", &stop_ids, rules.vocab)?;
    if !request.ignore_eos {
        stop_ids.extend_from_slice(rules.end_ids);
    }
    stop_ids.sort_unstable();
    stop_ids.dedup();
    Ok(Prepared {
        prompt: prompt.into(),
        params: sampling(&request.sampling, rules, entropy)?,
        max_tokens,
        min_tokens: request.min_tokens,
        stop_ids,
        stop: request.stop.clone(),
        constraint: None,
        n: request.n,
        logprobs: request.logprobs,
        prompt_logprobs: request.prompt_logprobs,
        pool: request.pool,
        skip_special_tokens: request.skip_special_tokens,
        class: request.class,
        is_chat: matches!(request.input, Input::Chat(_)),
        answer: AnswerForm::default(),
    })
}

fn check_prompt(prompt: &[u32], rules: &Rules<'_>) -> LlmResult<()> {
    if prompt.is_empty() {
        return Err(LlmError::invalid(
            "prompt",
            "the prompt is empty; give at least one token",
        ));
    }
    check_ids("prompt", prompt, rules.vocab)
}

fn check_ids(param: &'static str, ids: &[u32], vocab: usize) -> LlmResult<()> {
    match ids.iter().find(|id| **id as usize >= vocab) {
        Some(id) => Err(LlmError::invalid(
            param,
            format!(
                "{param} holds token id {id}, the vocabulary ends at {}",
                vocab - 1
            ),
        )),
        None => Ok(()),
    }
}

/// Prompt and answer must fit the context; a silent request gets what is left.
fn max_tokens(request: &GenerateRequest, prompt: usize, context: usize) -> LlmResult<u32> {
    let asked = request.max_tokens.map_or(1, |n| n as usize);
    if prompt.saturating_add(asked) > context {
        let message = match request.max_tokens {
            Some(max) => format!(
                "prompt has {prompt} tokens and max_tokens is {max}, together over the context of {context} tokens; \
                 shorten the prompt, lower max_tokens, or load the model with a larger --context or --kv-memory"
            ),
            None => format!(
                "prompt has {prompt} tokens, the context holds {context} with the answer; shorten the prompt, or load the model with a larger --context or --kv-memory"
            ),
        };
        return Err(LlmError::ContextLength { message });
    }
    let left = u32::try_from(context - prompt).unwrap_or(u32::MAX);
    let max = request.max_tokens.unwrap_or(left);
    if max == 0 && request.prompt_logprobs.is_none() && request.pool.is_none() {
        return Err(LlmError::invalid(
            "max_tokens",
            "max_tokens is 0; it must be at least 1 (0 only scores a prompt)",
        ));
    }
    Ok(max)
}

fn check_counts(request: &GenerateRequest) -> LlmResult<()> {
    let too_many = |param: &'static str, got: usize, limit: usize| {
        Err(LlmError::invalid(
            param,
            format!("{param} has {got}, the limit is {limit}"),
        ))
    };
    if request.n == 0 || request.n > LIMITS.n {
        return Err(LlmError::invalid(
            "n",
            format!("n is {}, it must be between 1 and {}", request.n, LIMITS.n),
        ));
    }
    if request.stop.len() > LIMITS.stop_strings {
        return too_many("stop", request.stop.len(), LIMITS.stop_strings);
    }
    if request.stop_token_ids.len() > LIMITS.stop_ids {
        return too_many(
            "stop_token_ids",
            request.stop_token_ids.len(),
            LIMITS.stop_ids,
        );
    }
    if request.sampling.logit_bias.len() > LIMITS.logit_bias {
        return too_many(
            "logit_bias",
            request.sampling.logit_bias.len(),
            LIMITS.logit_bias,
        );
    }
    for stop in &request.stop {
        if stop.is_empty() || stop.len() > LIMITS.stop_bytes {
            let message = format!(
                "a stop string has {} bytes, it must have 1 to {}",
                stop.len(),
                LIMITS.stop_bytes
            );
            return Err(LlmError::invalid("stop", message));
        }
    }
    for (param, value) in [
        ("logprobs", request.logprobs),
        ("prompt_logprobs", request.prompt_logprobs),
    ] {
        if let Some(n) = value.filter(|n| *n > LIMITS.logprobs) {
            return Err(LlmError::invalid(
                param,
                format!("{param} is {n}, the limit is {}", LIMITS.logprobs),
            ));
        }
    }
    Ok(())
}

fn sampling(
    options: &SamplingOptions,
    rules: &Rules<'_>,
    entropy: u64,
) -> LlmResult<SamplingParams> {
    let defaults = rules.defaults;
    let params = SamplingParams {
        temperature: options.temperature.or(defaults.temperature).unwrap_or(1.0),
        top_k: options.top_k.or(defaults.top_k).unwrap_or(0),
        top_p: options.top_p.or(defaults.top_p).unwrap_or(1.0),
        min_p: options.min_p.or(defaults.min_p).unwrap_or(0.0),
        repetition_penalty: options
            .repetition_penalty
            .or(defaults.repetition_penalty)
            .unwrap_or(1.0),
        presence_penalty: options.presence_penalty.unwrap_or(0.0),
        frequency_penalty: options.frequency_penalty.unwrap_or(0.0),
        logit_bias: bias(options, rules.vocab)?,
        seed: options.seed.unwrap_or(entropy),
    };
    let checks: [(&'static str, f32, bool, &str); 6] = [
        (
            "temperature",
            params.temperature,
            (0.0..=2.0).contains(&params.temperature),
            "between 0 and 2",
        ),
        (
            "top_p",
            params.top_p,
            params.top_p > 0.0 && params.top_p <= 1.0,
            "above 0 and at most 1",
        ),
        (
            "min_p",
            params.min_p,
            (0.0..=1.0).contains(&params.min_p),
            "between 0 and 1",
        ),
        (
            "repetition_penalty",
            params.repetition_penalty,
            params.repetition_penalty > 0.0 && params.repetition_penalty <= 100.0,
            "above 0 and at most 100",
        ),
        (
            "presence_penalty",
            params.presence_penalty,
            params.presence_penalty.abs() <= 2.0,
            "between -2 and 2",
        ),
        (
            "frequency_penalty",
            params.frequency_penalty,
            params.frequency_penalty.abs() <= 2.0,
            "between -2 and 2",
        ),
    ];
    for (param, value, holds, rule) in checks {
        if !holds {
            return Err(LlmError::invalid(
                param,
                format!("{param} is {value}, it must be {rule}"),
            ));
        }
    }
    Ok(params)
}

fn bias(options: &SamplingOptions, vocab: usize) -> LlmResult<Vec<(u32, f32)>> {
    let mut bias = options.logit_bias.clone();
    bias.sort_by_key(|(id, _)| *id);
    let ids: Vec<u32> = bias.iter().map(|(id, _)| *id).collect();
    check_ids("logit_bias", &ids, vocab)?;
    if ids.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(LlmError::invalid(
            "logit_bias",
            "logit_bias names a token id twice",
        ));
    }
    match bias
        .iter()
        .find(|(_, value)| !(-100.0..=100.0).contains(value))
    {
        Some((id, value)) => Err(LlmError::invalid(
            "logit_bias",
            format!("logit_bias of {id} is {value}, it must be between -100 and 100"),
        )),
        None => Ok(bias),
    }
}
