//! What a server is told at its start, and the limits of everything a client may send.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::keys::ApiKeys;
use crate::kv_events::KvEventCounters;
use crate::tls::Tls;

/// Most of everything that comes from outside, per connection or in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request body; above it the answer is 413.
    pub body_bytes: usize,
    /// Bytes of all bodies that arrive or wait to be parsed, the first 16 KiB of each left out; at least `body_bytes`. Above
    /// it the answer is 503.
    pub bodies_bytes: usize,
    /// Header lines of a request; above it the answer is 431.
    pub headers: usize,
    /// Bytes of a request's method, target and header lines; above it the answer is 431. Buffers of
    /// a connection hold as much, at least 8 KiB.
    pub header_bytes: usize,
    /// Open connections; above it a connection gets 503 and is closed.
    pub connections: usize,
    /// Live views of the engine that are open; above it the answer is 429.
    pub watchers: usize,
    /// Requests that are parsed, rendered and encoded at one time; more wait for their turn.
    pub preparing: usize,
    /// Time for a whole request head to arrive; an idle connection is closed after it too.
    pub header_timeout: Duration,
    /// Time for a whole request body to arrive; above it the answer is 408.
    pub body_timeout: Duration,
    /// Time a client may leave bytes unread that are ready for it; then its connection is closed.
    pub write_timeout: Duration,
    /// Time between two events of a live view.
    pub watch_period: Duration,
    /// Silence of a stream after which a comment line is sent, so that proxies keep it open.
    pub keep_alive: Duration,
}

impl Default for Limits {
    /// The limits of a server that nobody tuned: 4 MiB a body and 32 MiB all together, 1024 connections.
    fn default() -> Self {
        Self {
            body_bytes: 4 << 20,
            bodies_bytes: 32 << 20,
            headers: 100,
            header_bytes: 16 << 10,
            connections: 1024,
            watchers: 8,
            preparing: 2,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            watch_period: Duration::from_millis(150),
            keep_alive: Duration::from_secs(15),
        }
    }
}

/// How a server is run.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// The id that clients name in `model`.
    pub model_id: String,
    /// Limits of what comes from outside.
    pub limits: Limits,
    /// Time that running requests get to finish once the server is told to stop.
    pub drain_timeout: Duration,
    /// Seeds ids and the sampling noise of requests that bring no seed; drawn anew at each start.
    pub entropy: u64,
    /// The clock of `created` and of templates that print the date.
    pub clock: fn() -> SystemTime,
    /// Keys of which a request must bring one; `None` lets everybody in.
    pub keys: Option<ApiKeys>,
    /// Encrypts all connections; plain HTTP when absent.
    pub tls: Option<Tls>,
    /// Who shares cached prefixes.
    pub cache_sharing: CacheSharing,
    /// Time that the engine's loop may stand still, beyond what its step may take, before the server gives up.
    pub stall_exit: Duration,
    /// Whether `/metrics` has the names of vLLM beside our own.
    pub vllm_metrics: bool,
    /// Whether the page at `/` is served.
    pub page: bool,
    /// What became of KV events, for `/metrics`; `None` when nobody publishes them.
    pub kv_events: Option<Arc<KvEventCounters>>,
}

/// Who shares cached prefixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheSharing {
    /// Requests of one key: nobody learns from the time of an answer what others asked.
    Tenant,
    /// Everybody.
    Global,
}

impl ServeOptions {
    /// Options for `model_id`, 30 s to drain.
    pub fn new(model_id: impl Into<String>, entropy: u64) -> Self {
        Self {
            model_id: model_id.into(),
            limits: Limits::default(),
            drain_timeout: Duration::from_secs(30),
            entropy,
            clock: SystemTime::now,
            keys: None,
            tls: None,
            cache_sharing: CacheSharing::Tenant,
            stall_exit: Duration::from_secs(30),
            vllm_metrics: true,
            page: true,
            kv_events: None,
        }
    }
}
