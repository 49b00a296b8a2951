//! What the prefix cache holds, told to routers as it changes: vLLM's KV events over ZeroMQ.
//!
//! ```text
//! engine thread ── changed ──> Queue ──> Publisher ──> Outlet (one an endpoint) ──> a task a subscriber
//!                (never waits)   │      (Mirror, encode)  └─ Ring <── replay ──────> a task a requester
//!                                └─ full: the net of what is left out
//! ```
//! Here: the queue from the engine, the mirror of what can be found, msgpack, the ring of sent batches, and the half of
//! ZMTP that PUB and ROUTER need. Not here: what is told ([`CacheEvent`](ucuz_llm::CacheEvent), the engine's), flags (`cli`).
//!
//! Nobody outside can slow the engine down: the queue takes every batch at once, the ring is the only buffer of all
//! subscribers together, and who reads too slowly misses batches, which their numbers show.
//!
//! Names of blocks are told as 63 of their 128 bits. Should two blocks share those, a router takes them for one, and a
//! removal of one for that of both: a request may then be sent here, or elsewhere, in vain. What is computed does not change,
//! since a block is used only if its whole name and its tokens are equal.
//!
//! Source of messages and rules: vLLM's `kv_events.py`, read through the routers that decode it.

mod encode;
mod events;
#[cfg(test)]
mod golden;
mod hub;
mod mirror;
mod options;
mod outlet;
mod peers;
mod publisher;
mod queue;
mod replay;
mod ring;
mod subscriber;
#[cfg(test)]
mod tests;
mod zmtp;

pub use hub::{KvEventAddresses, KvEventCounters, KvEventHub, KvEventTasks};
pub use options::{KvEncoding, KvEventsOptions, KvOptionError, TcpEndpoint};
