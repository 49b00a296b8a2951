//! `GET /v1/loads`: how busy the engine is, in the form that routers of SGLang read.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use ucuz_llm::BLOCK_TOKENS;

use crate::app::App;
use crate::reply::json;

#[derive(Serialize)]
struct Loads {
    /// Seconds since 1970, as text.
    timestamp: String,
    dp_rank_count: u32,
    loads: [Load; 1],
}

#[derive(Serialize)]
struct Load {
    dp_rank: u32,
    num_running_reqs: usize,
    num_waiting_reqs: usize,
    /// Of waiting requests, as far as they are not expected in the prefix cache.
    num_waiting_uncached_tokens: usize,
    num_total_reqs: usize,
    /// Tokens of KV blocks that requests hold.
    num_used_tokens: usize,
    max_total_num_tokens: usize,
    /// Share of the KV pool that requests hold.
    token_usage: f64,
    /// Tokens a second of the last steps, prompts included.
    gen_throughput: f64,
    /// Share of prompt tokens that were found in the prefix cache.
    cache_hit_rate: f64,
    /// Running requests over those that can run.
    utilization: f64,
    max_running_requests: usize,
}

pub(crate) async fn loads(State(app): State<Arc<App>>) -> Response {
    let stats = app.llm.stats();
    // The group that holds most tells how many tokens there can be; windows let go of theirs.
    let blocks = stats.groups.iter().max_by_key(|group| group.total);
    let tokens = |count: usize| count * BLOCK_TOKENS;
    let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let totals = &stats.totals;
    let load = Load {
        dp_rank: 0,
        num_running_reqs: stats.running,
        num_waiting_reqs: stats.waiting,
        num_waiting_uncached_tokens: stats.load.waiting_rows,
        num_total_reqs: stats.running + stats.waiting,
        num_used_tokens: blocks.map_or(0, |group| tokens(group.used)),
        max_total_num_tokens: blocks.map_or(0, |group| tokens(group.total)),
        token_usage: share(stats.kv_bytes_used as f64, stats.kv_bytes_total as f64),
        gen_throughput: stats.rows_per_second,
        cache_hit_rate: share(totals.prefix_hits as f64, totals.prefix_queries as f64),
        utilization: share(stats.running as f64, stats.load.slots as f64),
        max_running_requests: stats.load.slots,
    };
    json(&Loads {
        timestamp: app.now().to_string(),
        dp_rank_count: 1,
        loads: [load],
    })
}
