//! The bodies of all endpoints that take one: a table a file. That a table has the fields of its parser, and no other, is
//! tested beside (`openapi/tests.rs`).

mod chat;
mod completion;
mod embeddings;
mod messages;
mod responses;
mod sampling;
mod structured;
mod tokens;
mod tools;

pub(super) use chat::CHAT;
pub(super) use completion::COMPLETION;
pub(super) use embeddings::EMBEDDINGS;
pub(super) use messages::{COUNT, MESSAGES};
pub(super) use responses::RESPONSES;
pub(super) use tokens::{DETOKENIZE, TOKENIZE};
