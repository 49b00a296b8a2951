//! Load on a server: requests that arrive as planned, each followed to its end.
//!
//! [`run`] takes a [`LoadPlan`] and returns a [`LoadResult`]: a [`Record`] of each request and what was looked at meanwhile.
//! [`Summary::of`] makes figures of it, [`LoadReport`] a document. Inside: schedules (`arrivals`) and requests (`request`) are
//! pure functions of plan, seed and number; `exchange` follows one request; `send` sends them; `probe`, `gauge` and `memory`
//! look on.
//!
//! **Latency counts from when a request was due**, not from when it was sent: an open loop keeps its schedule however slow the
//! server is, and a client that is late says so. A server that stalls for a second therefore shows that second to everybody
//! who would have come meanwhile.
//!
//! Asynchronous inside, on the calling thread alone; its clock is the runtime's. Deliberately not here: TLS, HTTP/2, reused
//! connections, retries.

mod arrivals;
mod chunk;
mod document;
mod exchange;
mod gauge;
mod http;
mod memory;
mod plan;
mod probe;
mod random;
mod record;
mod request;
mod run;
mod send;
mod served;
mod sse;
mod summary;
mod target;
mod validity;

pub use arrivals::{Arrivals, End, REQUESTS_MAX};
pub use document::LoadReport;
pub use gauge::InFlight;
pub use memory::{MemorySample, MemoryTrend};
pub use plan::{IN_FLIGHT_MAX, LoadPlan, PlanFacts, SECONDS_MAX, TOKENS_MAX};
pub use probe::{Field, PROBE_EVERY, Probe};
pub use record::{Outcome, Record, Stage, Times, write_records};
pub use request::{Api, IDS, RequestShape};
pub use run::{LoadResult, run};
pub use sse::{EVENT_BYTES_MAX, EventTooLong, SseParser};
pub use summary::{Latency, ProbeSummary, Quantiles, Summary, Throughput};
pub use target::{Header, Target};
pub use validity::{ClientDelay, LittlesLaw, OutputLengths, Rates, Refusals, Validity};
