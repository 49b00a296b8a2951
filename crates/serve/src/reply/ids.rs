//! Token ids beside an answer, for who asks for them.
//!
//! Source: vLLM's `return_token_ids`. A chat tells its prompt once, completions tell each choice's.

use std::sync::Arc;

use serde::{Serialize, Serializer};

/// The ids of a prompt.
#[derive(Debug, Clone)]
pub(crate) struct PromptIds(pub Arc<[u32]>);

impl Serialize for PromptIds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter())
    }
}
