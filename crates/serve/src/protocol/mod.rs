//! From bytes to a request of the facade: types, names, forms. Rules about values that depend on
//! the model or on defaults are checked once, by [`ucuz_llm::Llm::prepare`].

mod chat;
mod common;
mod completion;
mod messages;
mod optional;
mod tools;

pub use chat::{ChatRequest, parse_chat};
pub use common::{Delivery, Standing};
pub use completion::{CompletionRequest, parse_completion};
