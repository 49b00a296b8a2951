//! The server over a simulated model: real sockets, real HTTP, scripted tokens.

mod bad_requests;
mod chat;
mod client;
mod completions;
mod disconnects;
mod fixture;
mod full;
mod life;
mod models;
