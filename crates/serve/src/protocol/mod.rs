//! From bytes to a request of the facade: types, names, forms. Rules about values that depend on
//! the model or on defaults are checked once, by [`ucuz_llm::Llm::prepare`].

mod anthropic;
mod blocks;
mod calls;
mod chat;
mod common;
mod completion;
mod constraint;
mod embeddings;
mod items;
mod messages;
mod neutral;
mod optional;
mod responses;
mod tokens;
mod tools;

pub(crate) use anthropic::SPARE as MESSAGES_SPARE;
pub(crate) use calls::MAX_CALL_ID_BYTES;
pub(crate) use completion::MAX_PROMPTS;
pub(crate) use embeddings::SPARE as EMBEDDINGS_SPARE;
pub(crate) use neutral::Neutral;
pub(crate) use optional::{NOTHING, OF_OTHER_SERVERS, Spare};
pub(crate) use responses::{METADATA_MAX, SPARE as RESPONSES_SPARE};
pub(crate) use tokens::SPARE as TOKENIZE_SPARE;
pub(crate) use tools::MAX_TOOLS;

pub use anthropic::{MessagesPurpose, MessagesRequest, parse_messages};
pub use chat::{ChatRequest, parse_chat};
pub use common::{Delivery, Standing};
pub use completion::{CompletionRequest, parse_completion};
pub use embeddings::{EmbeddingsRequest, parse_embeddings};
pub use responses::{ResponsesRequest, ToolsTold, parse_responses};
pub use tokens::{
    DetokenizeRequest, TokenizeForm, TokenizeRequest, parse_detokenize, parse_tokenize,
};
