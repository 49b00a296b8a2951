//! What chunks of both endpoints have in common: the head, the usage, the last chunk.

use serde::Serialize;
use ucuz_llm::Usage;

use super::explain::Explanation;
use super::usage::{UsageBody, UsageSum};
use super::{Head, PromptIds};
use crate::protocol::Delivery;
use crate::sse::Frames;

#[derive(Serialize)]
struct Chunk<'a, C> {
    #[serde(flatten)]
    head: &'a Head,
    choices: &'a [C],
    /// Left out, `null`, or the usage: as OpenAI does with and without `include_usage`.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Option<UsageBody>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_token_ids: Option<&'a PromptIds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<&'a [Explanation]>,
}

/// Writes chunks of one choice each, and counts.
pub(super) struct ChunkWriter {
    head: Head,
    delivery: Delivery,
    usage: UsageSum,
}

impl ChunkWriter {
    pub(super) fn new(head: Head, delivery: Delivery) -> Self {
        Self {
            head,
            delivery,
            usage: UsageSum::default(),
        }
    }

    /// Adds the counts of choice `index`, which ended.
    pub(super) fn count(&mut self, index: usize, usage: &Usage, is_first_sample: bool) {
        self.usage.add(index, usage, is_first_sample);
    }

    /// Adds the tokens of thoughts of a choice; `None` where its model has none.
    pub(super) fn think(&mut self, tokens: Option<u32>) {
        self.usage.think(tokens);
    }

    /// A chunk of `choice`.
    pub(super) fn push(&self, choice: impl Serialize, frames: &mut Frames) {
        self.push_first(choice, None, frames);
    }

    /// The same with the prompt's ids.
    pub(super) fn push_first(
        &self,
        choice: impl Serialize,
        prompt_token_ids: Option<&PromptIds>,
        frames: &mut Frames,
    ) {
        let usage = self.delivery.include_usage.then_some(None);
        frames.push(&Chunk {
            head: &self.head,
            choices: &[choice],
            usage,
            prompt_token_ids,
            explanation: None,
        });
    }

    /// The chunk of the usage and of the explanation, where they were asked for, and the end.
    pub(super) fn close(&self, frames: &mut Frames) {
        let Delivery {
            include_usage,
            explain,
            ..
        } = self.delivery;
        if include_usage || explain {
            let no_choices: &[()] = &[];
            frames.push(&Chunk {
                head: &self.head,
                choices: no_choices,
                usage: include_usage.then(|| Some(self.usage.body())),
                prompt_token_ids: None,
                explanation: self.usage.explanations(explain),
            });
        }
        frames.done();
    }
}
