//! Floor 5: the HTTP door. OpenAI's protocol in, [`ucuz_llm`] behind it, Server-Sent Events out.
//!
//! Here: sockets, limits of a connection, JSON of the protocol, one file per endpoint in `routes`.
//! A request is parsed (`protocol`), prepared and started (`samples`), and its outputs become one
//! answer or a stream of chunks (`reply`, `sse`). Who looks at the engine gets its view several times a second (`routes/live.rs`); `page` holds the
//! files of the page at `/`. Beside HTTP, what the prefix cache holds is told
//! to routers over ZeroMQ (`kv_events`). Not here: tensors, tokens' text (the facade
//! detokenizes), signals and arguments (the command line's). Called by `cli`.
//!
//! Everything that comes from a client has a limit ([`Limits`]); what is over it gets an answer
//! with a status and an error body, before anything is sized by it. Dropping a response or a
//! handler closes its requests in the engine.

mod app;
mod body;
mod caller;
mod clip;
mod error;
mod fields;
mod guard;
mod hangup;
mod json;
mod keys;
mod kv_events;
mod openapi;
mod options;
mod page;
mod protocol;
mod reply;
mod request_id;
mod routes;
mod samples;
mod server;
mod socket;
mod sse;
mod tls;
mod unwind;
mod watchdog;

pub use error::{ApiError, ServeError};
pub use keys::{ApiKeys, KeysError};
pub use kv_events::{
    KvEncoding, KvEventAddresses, KvEventCounters, KvEventHub, KvEventTasks, KvEventsOptions,
    KvOptionError, TcpEndpoint,
};
pub use options::{CacheSharing, Limits, ServeOptions};
pub use protocol::{
    ChatRequest, CompletionRequest, Delivery, DetokenizeRequest, EmbeddingsRequest,
    MessagesPurpose, MessagesRequest, ResponsesRequest, Standing, TokenizeForm, TokenizeRequest,
    parse_chat, parse_completion, parse_detokenize, parse_embeddings, parse_messages,
    parse_responses, parse_tokenize,
};
pub use routes::{ROUTES, Route};
pub use server::Server;
pub use socket::Socket;
pub use tls::{Tls, TlsError};
pub use watchdog::Ending;
