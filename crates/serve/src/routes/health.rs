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

/// A busy engine whose loop did not turn for this long counts as stuck, and for three times what
/// its step should take if that is longer.
const LEAST_STUCK: Duration = Duration::from_secs(10);
/// The same as long as no step has been measured: pages may still come from a slow disk.
const FIRST_STUCK: Duration = Duration::from_secs(600);

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
    let bound = stuck_after(stats);
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
        // What a fault said may hold paths and data of others.
        Life::Dead(_) => {
            let reason = "the engine died by a fault; the server's log tells why";
            ("dead", Some(reason.to_owned()))
        }
    }
}

/// How long the loop may take for the step it is in, by its rows and by the step before.
fn stuck_after(stats: &Stats) -> Duration {
    if stats.rows_per_second <= 0.0 {
        return FIRST_STUCK;
    }
    let expected_s = stats.rows_in_flight as f64 / stats.rows_per_second;
    let slow_s = 3.0 * expected_s.max(stats.last_step_ms / 1e3);
    // A speed next to 0 leaves the range of a duration, and tells as little as none.
    let slow = Duration::try_from_secs_f64(slow_s).unwrap_or(FIRST_STUCK);
    LEAST_STUCK.max(slow)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_stuck_by_what_it_should_take() {
        let stats = |rows_in_flight, rows_per_second, last_step_ms| Stats {
            rows_in_flight,
            rows_per_second,
            last_step_ms,
            ..Stats::default()
        };
        let cases = [
            ("a small step", stats(1, 50.0, 20.0), 9, "ok"),
            ("a small step", stats(1, 50.0, 20.0), 11, "stuck"),
            (
                "a long prefill after a small step",
                stats(512, 20.0, 50.0),
                70,
                "ok",
            ),
            (
                "a long prefill after a small step",
                stats(512, 20.0, 50.0),
                80,
                "stuck",
            ),
            (
                "a last step that was long",
                stats(1, 50.0, 20_000.0),
                59,
                "ok",
            ),
            ("the first step", stats(512, 0.0, 0.0), 599, "ok"),
            ("the first step", stats(512, 0.0, 0.0), 601, "stuck"),
            ("a speed next to 0", stats(512, 1e-300, 1.0), 599, "ok"),
        ];
        for (what, stats, age_s, expected) in cases {
            let health = Health {
                life: Life::Serving,
                last_step_age: Duration::from_secs(age_s),
                is_busy: true,
            };
            assert_eq!(judge(&health, &stats).0, expected, "{what}, {age_s} s");
        }
    }
}
