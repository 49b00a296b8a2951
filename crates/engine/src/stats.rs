//! What the engine tells of itself, once a step.

use crate::forecast::Load;
use crate::tenants::TenantId;

/// Blocks of one cache group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupStats {
    /// Blocks of the group.
    pub total: usize,
    /// Blocks that hold something or that a step in flight may still read.
    pub used: usize,
    /// Blocks to give away, those with a cached prefix included.
    pub free: usize,
    /// Blocks without a holder whose content can be found.
    pub cached: usize,
    /// Bytes of one block over all layers.
    pub block_bytes: usize,
}

/// Sums since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Requests taken in.
    pub requests: u64,
    /// Requests that ended on a stop id.
    pub stopped: u64,
    /// Requests that ended on `max_tokens`.
    pub length: u64,
    /// Requests closed with a stop string.
    pub stop_string: u64,
    /// Requests cancelled.
    pub cancelled: u64,
    /// Requests whose receiver went away.
    pub disconnected: u64,
    /// Requests whose constraint could not be followed to an end.
    pub unfollowable: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Prompt tokens of requests taken in.
    pub prompt_tokens: u64,
    /// Tokens sampled and sent.
    pub generated_tokens: u64,
    /// Rows computed, those computed again included.
    pub computed_rows: u64,
    /// Preemptions.
    pub preemptions: u64,
    /// Prompt tokens looked for in the prefix cache, at a request's first admission.
    pub prefix_queries: u64,
    /// Those of them that were found.
    pub prefix_hits: u64,
    /// Steps that ended well.
    pub steps: u64,
    /// Steps that ended with an error.
    pub step_errors: u64,
}

impl Totals {
    /// Requests that have ended, one way or the other.
    pub fn ended(&self) -> u64 {
        let well = self.stopped + self.length + self.stop_string;
        well + self.cancelled + self.disconnected + self.unfollowable + self.failed
    }
}

/// What one tenant has inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TenantStats {
    /// Who.
    pub tenant: TenantId,
    /// Its requests that run.
    pub running: usize,
    /// Its requests that wait.
    pub waiting: usize,
}

/// The engine at the end of its last turn.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stats {
    /// One entry a cache group.
    pub groups: Vec<GroupStats>,
    /// Bytes of the whole KV pool.
    pub kv_bytes_total: usize,
    /// Bytes of the used blocks.
    pub kv_bytes_used: usize,
    /// Bytes of token ids that living requests hold.
    pub token_bytes: usize,
    /// Requests that run.
    pub running: usize,
    /// Requests that wait, preempted ones included.
    pub waiting: usize,
    /// Known tokens of waiting requests that must be computed.
    pub queued_tokens: usize,
    /// Rows of the steps in flight, told before the wait for them; 0 between steps.
    pub rows_in_flight: usize,
    /// Rows a second, smoothed over the last steps; 0 before the first.
    pub rows_per_second: f64,
    /// How long the last step took, ms.
    pub last_step_ms: f64,
    /// Tenants with requests inside, ascending.
    pub tenants: Vec<TenantStats>,
    /// What is inside, for forecasts.
    pub load: Load,
    /// Sums since the start.
    pub totals: Totals,
}

impl Stats {
    pub(crate) fn tenant(&self, tenant: TenantId) -> Option<TenantStats> {
        let found = self.tenants.binary_search_by_key(&tenant, |t| t.tenant);
        found.ok().map(|index| self.tenants[index])
    }
}
