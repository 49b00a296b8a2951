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
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct PromptDetails {
    cached_tokens: u64,
}

/// Sums over the choices: a prompt counts once, however many samples it has.
#[derive(Debug, Default)]
pub(super) struct UsageSum {
    prompt: u64,
    cached: u64,
    completion: u64,
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
        }
    }
}
