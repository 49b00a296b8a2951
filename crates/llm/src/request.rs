//! What a caller asks for, before defaults are resolved.

use ucuz_engine::{Pooling, RequestClass};
use ucuz_text::Message;
use ucuz_text::tools::ToolOffer;

use crate::constraint::ConstraintSpec;

/// A prompt in one of its forms.
#[derive(Debug, Clone)]
pub enum Input {
    /// Messages for the model's own chat template.
    Chat(Vec<Message>),
    /// Text; special tokens spelled in it are parsed, and BOS is added if the model wants one.
    Text(String),
    /// Token ids, taken as they are.
    Tokens(Vec<u32>),
}

/// Sampling as the request states it; `None` takes the checkpoint's default, else the neutral value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SamplingOptions {
    /// 0..=2; 0 is greedy.
    pub temperature: Option<f32>,
    /// Keep the `k` likeliest ids; 0 keeps all.
    pub top_k: Option<u32>,
    /// Nucleus, in (0, 1].
    pub top_p: Option<f32>,
    /// Relative floor, in [0, 1].
    pub min_p: Option<f32>,
    /// Above 0; 1 is off.
    pub repetition_penalty: Option<f32>,
    /// -2..=2.
    pub presence_penalty: Option<f32>,
    /// -2..=2.
    pub frequency_penalty: Option<f32>,
    /// Added to single ids, -100..=100 each.
    pub logit_bias: Vec<(u32, f32)>,
    /// Seed of the noise; drawn from the request's entropy when absent.
    pub seed: Option<u64>,
}

/// One request, for one or several samples of one prompt.
#[derive(Debug, Clone)]
pub struct GenerateRequest {
    /// The prompt.
    pub input: Input,
    /// Tools that the model may call; for [`Input::Chat`] only.
    pub tools: Option<ToolOffer>,
    /// Sampling.
    pub sampling: SamplingOptions,
    /// Most tokens to generate; `None` fills the context. 0 only scores the prompt.
    pub max_tokens: Option<u32>,
    /// End tokens are forbidden before this many.
    pub min_tokens: u32,
    /// Strings that end the answer; they are not part of it.
    pub stop: Vec<String>,
    /// Ids that end the answer, beside the model's own.
    pub stop_token_ids: Vec<u32>,
    /// Whether the model's own end tokens are ordinary ones.
    pub ignore_eos: bool,
    /// What the answer must look like. `stop` strings and `stop_token_ids` may still cut it, and `max_tokens` does.
    pub constraint: Option<ConstraintSpec>,
    /// Samples of the prompt.
    pub n: u32,
    /// Report the chosen token's log-probability and this many of the likeliest.
    pub logprobs: Option<u32>,
    /// Report the same for every prompt token after the first.
    pub prompt_logprobs: Option<u32>,
    /// Report one vector of the prompt instead of an answer; needs `max_tokens` 0.
    pub pool: Option<Pooling>,
    /// Whether special tokens are left out of the text.
    pub skip_special_tokens: bool,
    /// Who asks, and how it is treated for that.
    pub class: RequestClass,
}

impl GenerateRequest {
    /// A request with everything else at its default.
    pub fn new(input: Input) -> Self {
        Self {
            input,
            tools: None,
            sampling: SamplingOptions::default(),
            max_tokens: None,
            min_tokens: 0,
            stop: Vec::new(),
            stop_token_ids: Vec::new(),
            ignore_eos: false,
            constraint: None,
            n: 1,
            logprobs: None,
            prompt_logprobs: None,
            pool: None,
            skip_special_tokens: true,
            class: RequestClass::default(),
        }
    }
}
