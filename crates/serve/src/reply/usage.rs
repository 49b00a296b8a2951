//! Token counts of an answer.

use serde::Serialize;
use ucuz_llm::Usage;

use super::explain::Explanation;

/// Counts in OpenAI's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct UsageBody {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptDetails,
    /// Of models that think.
    #[serde(skip_serializing_if = "Option::is_none")]
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct PromptDetails {
    cached_tokens: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct CompletionDetails {
    reasoning_tokens: u64,
}

/// Sums over the choices: a prompt counts once, however many samples it has.
#[derive(Debug, Default)]
pub(super) struct UsageSum {
    prompt: u64,
    cached: u64,
    completion: u64,
    reasoning: Option<u64>,
    explanations: Vec<Explanation>,
}

impl UsageSum {
    /// Adds the counts of choice `index`.
    pub(super) fn add(&mut self, index: usize, usage: &Usage, is_first_sample: bool) {
        self.explanations.push(Explanation::new(index, usage));
        if is_first_sample {
            self.prompt += u64::from(usage.prompt_tokens);
            self.cached += u64::from(usage.cached_tokens);
        }
        self.completion += u64::from(usage.completion_tokens);
    }

    /// Adds the tokens of thoughts of a choice; `None` where its model has none.
    pub(super) fn think(&mut self, tokens: Option<u32>) {
        if let Some(tokens) = tokens {
            *self.reasoning.get_or_insert_default() += u64::from(tokens);
        }
    }

    /// What became of each choice, where it was asked for.
    pub(super) fn explanations(&self, explain: bool) -> Option<&[Explanation]> {
        explain.then_some(&self.explanations)
    }

    pub(super) fn body(&self) -> UsageBody {
        UsageBody {
            prompt_tokens: self.prompt,
            completion_tokens: self.completion,
            total_tokens: self.prompt + self.completion,
            prompt_tokens_details: PromptDetails {
                cached_tokens: self.cached,
            },
            completion_tokens_details: self.reasoning.map(|tokens| CompletionDetails {
                reasoning_tokens: tokens.min(self.completion),
            }),
        }
    }
}
