//! The server over a simulated model: real sockets, real HTTP, scripted tokens.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking"
)]

mod bad_requests;
mod bodies;
mod chat;
mod client;
mod completions;
mod disconnects;
mod embeddings;
mod faults;
mod fixture;
mod full;
mod kv_events;
mod life;
mod messages;
mod messages_tools;
mod models;
mod mutations;
mod mutator;
mod openapi;
mod page;
mod responses;
mod responses_tools;
mod routers;
mod structured;
mod tenants;
mod tls;
mod token_ids;
mod tools;
