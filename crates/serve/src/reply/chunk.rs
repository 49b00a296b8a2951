//! What chunks of both endpoints have in common: the head, the usage, the last chunk.

use serde::Serialize;
use ucuz_llm::Usage;

use super::Head;
use super::usage::{UsageBody, UsageSum};
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
}

/// Writes chunks of one choice each, and counts.
pub(super) struct ChunkWriter {
    head: Head,
    include_usage: bool,
    usage: UsageSum,
}

impl ChunkWriter {
    pub(super) fn new(head: Head, delivery: Delivery) -> Self {
        Self {
            head,
            include_usage: delivery.include_usage,
            usage: UsageSum::default(),
        }
    }

    /// Adds the counts of a choice that ended.
    pub(super) fn count(&mut self, usage: &Usage, is_first_sample: bool) {
        self.usage.add(usage, is_first_sample);
    }

    /// A chunk of `choice`.
    pub(super) fn push(&self, choice: impl Serialize, frames: &mut Frames) {
        let usage = self.include_usage.then_some(None);
        frames.push(&Chunk {
            head: &self.head,
            choices: &[choice],
            usage,
        });
    }

    /// The chunk of the usage, where it was asked for.
    pub(super) fn close(&self, frames: &mut Frames) {
        if self.include_usage {
            let no_choices: &[()] = &[];
            frames.push(&Chunk {
                head: &self.head,
                choices: no_choices,
                usage: Some(Some(self.usage.body())),
            });
        }
    }
}
