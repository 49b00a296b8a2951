//! `GET /health`: whether the engine takes requests, and its numbers. `GET /live`: whether this
//! process answers.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Serialize;
use ucuz_llm::{Health, Life, Stats};

use crate::app::App;
use crate::caller::may_know;
use crate::reply::json;

#[derive(Serialize)]
struct Body {
    status: &'static str,
    reason: Option<String>,
    model: String,
    last_step_age_ms: u128,
    step_bound_ms: u128,
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
    prefix_queries_total: u64,
    prefix_hits_total: u64,
    refused_total: u64,
    backlog_s: f64,
}

/// For who has no key.
#[derive(Serialize)]
struct Brief {
    status: &'static str,
    reason: Option<String>,
}

/// Blocks of one cache group.
#[derive(Serialize)]
struct Blocks {
    total: usize,
    used: usize,
    free: usize,
    /// Free ones that hold a prefix which can be found.
    cached: usize,
}

#[derive(Serialize)]
struct Live {
    status: &'static str,
}

pub(crate) async fn live() -> Response {
    json(&Live { status: "live" })
}

pub(crate) async fn health(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let (health, stats) = (app.llm.health(), app.llm.stats());
    let (status, reason) = judge(&health);
    let is_well = status == "ok";
    // Counts would tell anybody how long the prompts of others are.
    let mut response = match may_know(&app, &headers) {
        true => json(&body(&app, &health, &stats, (status, reason))),
        false => json(&Brief { status, reason }),
    };
    // An answer that could not be written keeps its own status.
    if !is_well && response.status() == StatusCode::OK {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    response
}

/// One word, and why it is not "ok".
fn judge(health: &Health) -> (&'static str, Option<String>) {
    match &health.life {
        Life::Serving if health.is_stalled() => {
            let (age, bound) = (health.last_step_age, health.step_bound);
            let reason = format!(
                "the engine's step began {} ms ago and should take at most {} ms",
                age.as_millis(),
                bound.as_millis()
            );
            ("stalled", Some(reason))
        }
        Life::Serving => ("ok", None),
        Life::Draining => ("draining", Some("the server is shutting down".to_owned())),
        Life::Stopped => ("stopped", Some("the engine has stopped".to_owned())),
        // What a fault said may hold paths and data of others.
        Life::Dead(_) => {
            let reason = "the engine died by a fault; the server's log tells why";
            ("dead", Some(reason.to_owned()))
        }
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
        cached: group.cached,
    });
    let totals = &stats.totals;
    let refusals = app.llm.refusals();
    Body {
        status,
        reason,
        model: app.options.model_id.clone(),
        last_step_age_ms: health.last_step_age.as_millis(),
        step_bound_ms: health.step_bound.as_millis(),
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
        prefix_queries_total: totals.prefix_queries,
        prefix_hits_total: totals.prefix_hits,
        refused_total: refusals.full + refusals.tokens + refusals.late,
        backlog_s: stats.load.backlog_s(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn one_word_for_each_state() {
        let health = |life, age_s| Health {
            life,
            last_step_age: Duration::from_secs(age_s),
            step_bound: Duration::from_secs(3),
            is_busy: true,
        };
        let cases = [
            (health(Life::Serving, 2), "ok"),
            (health(Life::Serving, 4), "stalled"),
            (health(Life::Draining, 2), "draining"),
            (health(Life::Stopped, 2), "stopped"),
            (health(Life::Dead("secret".to_owned()), 2), "dead"),
        ];
        for (health, expected) in cases {
            let (word, reason) = judge(&health);
            assert_eq!(word, expected);
            assert!(!reason.unwrap_or_default().contains("secret"));
        }
    }
}
