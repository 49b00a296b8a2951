//! `GET /health`: whether the engine takes requests, and its numbers. `GET /live`: whether this
//! process answers.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use ucuz_llm::{Health, Life, Stats};

use crate::app::App;
use crate::reply::json;

/// A busy engine whose loop did not turn for this long counts as stuck, and for three times its
/// last step if that is longer.
const LEAST_STUCK: Duration = Duration::from_secs(10);

#[derive(Serialize)]
struct Body {
    status: &'static str,
    reason: Option<String>,
    model: String,
    last_step_age_ms: u128,
    last_step_ms: f64,
    running: usize,
    waiting: usize,
    queued_tokens: usize,
    rows_per_second: f64,
    kv_blocks: Vec<Blocks>,
    kv_bytes_total: usize,
    kv_bytes_used: usize,
    token_bytes: usize,
    requests_total: u64,
    requests_ended_total: u64,
    requests_failed_total: u64,
    requests_disconnected_total: u64,
    prompt_tokens_total: u64,
    generated_tokens_total: u64,
    preemptions_total: u64,
}

/// Blocks of one cache group.
#[derive(Serialize)]
struct Blocks {
    total: usize,
    used: usize,
    free: usize,
}

#[derive(Serialize)]
struct Live {
    status: &'static str,
}

pub(crate) async fn live() -> Response {
    json(&Live { status: "live" })
}

pub(crate) async fn health(State(app): State<Arc<App>>) -> Response {
    let (health, stats) = (app.llm.health(), app.llm.stats());
    let (status, reason) = judge(&health, &stats);
    let is_well = status == "ok";
    let mut response = json(&body(&app, &health, &stats, (status, reason)));
    // An answer that could not be written keeps its own status.
    if !is_well && response.status() == StatusCode::OK {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    response
}

/// One word, and why it is not "ok".
fn judge(health: &Health, stats: &Stats) -> (&'static str, Option<String>) {
    let last_step = Duration::try_from_secs_f64(stats.last_step_ms / 1e3).unwrap_or_default();
    let bound = LEAST_STUCK.max(last_step.saturating_mul(3));
    match &health.life {
        Life::Serving if health.is_busy && health.last_step_age > bound => {
            let ms = health.last_step_age.as_millis();
            (
                "stuck",
                Some(format!("the engine's last step began {ms} ms ago")),
            )
        }
        Life::Serving => ("ok", None),
        Life::Draining => ("draining", Some("the server is shutting down".to_owned())),
        Life::Stopped => ("stopped", Some("the engine has stopped".to_owned())),
        Life::Dead(why) => ("dead", Some(why.clone())),
    }
}

fn body(
    app: &App,
    health: &Health,
    stats: &Stats,
    (status, reason): (&'static str, Option<String>),
) -> Body {
    let blocks = stats.groups.iter();
    let blocks = blocks.map(|group| Blocks {
        total: group.total,
        used: group.used,
        free: group.free,
    });
    let totals = &stats.totals;
    Body {
        status,
        reason,
        model: app.options.model_id.clone(),
        last_step_age_ms: health.last_step_age.as_millis(),
        last_step_ms: stats.last_step_ms,
        running: stats.running,
        waiting: stats.waiting,
        queued_tokens: stats.queued_tokens,
        rows_per_second: stats.rows_per_second,
        kv_blocks: blocks.collect(),
        kv_bytes_total: stats.kv_bytes_total,
        kv_bytes_used: stats.kv_bytes_used,
        token_bytes: stats.token_bytes,
        requests_total: totals.requests,
        requests_ended_total: totals.ended(),
        requests_failed_total: totals.failed,
        requests_disconnected_total: totals.disconnected,
        prompt_tokens_total: totals.prompt_tokens,
        generated_tokens_total: totals.generated_tokens,
        preemptions_total: totals.preemptions,
    }
}
