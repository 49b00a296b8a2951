//! From bytes to a request of the facade: types, names, forms. Rules about values that depend on
//! the model or on defaults are checked once, by [`ucuz_llm::Llm::prepare`].

mod anthropic;
mod chat;
mod common;
mod completion;
mod constraint;
mod embeddings;
mod messages;
mod optional;
mod responses;
mod tools;

pub use anthropic::{MessagesPurpose, MessagesRequest, parse_messages};
pub use chat::{ChatRequest, parse_chat};
pub use common::{Delivery, Standing};
pub use completion::{CompletionRequest, parse_completion};
pub use embeddings::{EmbeddingsRequest, parse_embeddings};
pub use responses::{ResponsesRequest, parse_responses};
