//! What is asked of the engine.

use std::sync::Arc;
use std::time::Duration;

use ucuz_tensor::backend::Limits;
use ucuz_tensor::sampling::SamplingParams;

use crate::constraint::Constraint;
use crate::error::SubmitError;
use crate::prefix::CacheScope;
use crate::tenants::TenantId;

/// Most stop ids of a request.
const STOP_IDS_MAX: usize = 1024;

/// Most of the likeliest ids reported for a token: with a prompt of 8192 tokens, 64 MiB of results.
pub const LOGPROBS_MAX: u32 = 1024;

/// One sequence to run. `n` samples are `n` requests with `sample` 0 to n - 1.
#[derive(Debug, Clone)]
pub struct Request {
    /// Token ids; at least one, all inside of the vocabulary.
    pub prompt: Vec<u32>,
    /// How to choose tokens.
    pub params: SamplingParams,
    /// Which of `n` samples this is; part of the noise.
    pub sample: u32,
    /// Most tokens to choose; 0 only scores the prompt and needs `prompt_logprobs`.
    pub max_tokens: u32,
    /// No stop id is chosen before this many tokens.
    pub min_tokens: u32,
    /// Ids that end the request; empty to ignore the end of generation.
    pub stop_ids: Vec<u32>,
    /// What its tokens may be; `None` allows any. Where a text may end, `min_tokens` keeps it from ending as long as it can go
    /// on; once it cannot, it ends.
    pub constraint: Option<Arc<dyn Constraint>>,
    /// Report each token's log-probability and this many of the likeliest ids.
    pub logprobs: Option<u32>,
    /// Report each prompt token's log-probability and this many of the likeliest ids in its place.
    pub prompt_logprobs: Option<u32>,
    /// Report one vector of the prompt instead of tokens; needs `max_tokens` 0.
    pub pool: Option<Pooling>,
    /// Who asks, and how it is treated for that.
    pub class: RequestClass,
}

/// How the last norms of a prompt's tokens, `[tokens, hidden]`, become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// Their mean, summed in order of position.
    Mean,
    /// That of the last token.
    Last,
}

/// How a request stands among others; nothing of it changes its tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestClass {
    /// Who asks; tenants share the engine evenly.
    pub tenant: TenantId,
    /// Among requests of one tenant, lower goes first.
    pub priority: i32,
    /// Who may share cached prefixes with it.
    pub scope: CacheScope,
    /// Refuse it when its first token cannot be expected within this time.
    pub first_token_within: Option<Duration>,
}

fn invalid(field: &'static str, value: impl ToString, rule: impl Into<String>) -> SubmitError {
    SubmitError::Invalid {
        field,
        value: value.to_string(),
        rule: rule.into(),
    }
}

impl Request {
    /// Checks everything that can be known before running.
    pub(crate) fn check(&self, limits: &Limits) -> Result<(), SubmitError> {
        if self.prompt.is_empty() {
            return Err(invalid("prompt", "empty", "at least one token"));
        }
        let (prompt, max_tokens) = (self.prompt.len(), self.max_tokens as usize);
        if prompt.saturating_add(max_tokens) > limits.context {
            return Err(SubmitError::TooLong {
                prompt,
                max_tokens,
                limit: limits.context,
            });
        }
        let vocabulary =
            |field, ids: &[u32]| match ids.iter().find(|&&id| id as usize >= limits.vocab) {
                Some(id) => Err(invalid(
                    field,
                    id,
                    format!("a token id below {}", limits.vocab),
                )),
                None => Ok(()),
            };
        vocabulary("prompt", &self.prompt)?;
        vocabulary("stop_ids", &self.stop_ids)?;
        if self.stop_ids.len() > STOP_IDS_MAX {
            let rule = format!("at most {STOP_IDS_MAX} ids");
            return Err(invalid("stop_ids", self.stop_ids.len(), rule));
        }
        if self.pool.is_some() && (self.max_tokens > 0 || self.prompt_logprobs.is_some()) {
            let rule = "no tokens and no scores beside it";
            return Err(invalid("pool", self.max_tokens, rule));
        }
        if self.max_tokens == 0 && self.prompt_logprobs.is_none() && self.pool.is_none() {
            return Err(invalid(
                "max_tokens",
                0,
                "at least 1 unless the prompt is scored or pooled",
            ));
        }
        if self.min_tokens > self.max_tokens {
            let rule = format!("at most max_tokens ({})", self.max_tokens);
            return Err(invalid("min_tokens", self.min_tokens, rule));
        }
        for (field, value) in [
            ("logprobs", self.logprobs),
            ("prompt_logprobs", self.prompt_logprobs),
        ] {
            if let Some(n) = value.filter(|&n| n > LOGPROBS_MAX) {
                return Err(invalid(field, n, format!("at most {LOGPROBS_MAX}")));
            }
        }
        check_params(&self.params)
    }
}

fn check_params(params: &SamplingParams) -> Result<(), SubmitError> {
    let rules = [
        (
            "temperature",
            params.temperature,
            params.temperature >= 0.0,
            "0 or more",
        ),
        (
            "top_p",
            params.top_p,
            (0.0..=1.0).contains(&params.top_p),
            "from 0 to 1",
        ),
        (
            "min_p",
            params.min_p,
            (0.0..=1.0).contains(&params.min_p),
            "from 0 to 1",
        ),
        (
            "repetition_penalty",
            params.repetition_penalty,
            params.repetition_penalty > 0.0,
            "above 0",
        ),
        ("presence_penalty", params.presence_penalty, true, "finite"),
        (
            "frequency_penalty",
            params.frequency_penalty,
            true,
            "finite",
        ),
    ];
    for (field, value, holds, rule) in rules {
        if !(value.is_finite() && holds) {
            return Err(invalid(field, value, rule));
        }
    }
    match params.logit_bias.iter().find(|(_, bias)| !bias.is_finite()) {
        Some((_, bias)) => Err(invalid("logit_bias", bias, "finite")),
        None => Ok(()),
    }
}
