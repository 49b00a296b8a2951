//! What breaks inside is told to those it hits, to `/health`, and to nobody else.

use std::time::{Duration, Instant};

use ucuz_engine::sim::SimFault;
use ucuz_serve::Ending;

use crate::client::{ask, finish, get, post, read_until, send};
use crate::fixture::{Fixture, Setup};

fn endless(extra: &str) -> Vec<u8> {
    let message = r#"{"role":"user","content":"say:abc*|"}"#;
    let body = format!(r#"{{"messages":[{message}],"max_tokens":1000{extra}}}"#);
    post("/v1/chat/completions", &body)
}

async fn health(server: &Fixture) -> (u16, String) {
    let answer = ask(server.address, &get("/health")).await;
    let status = answer.json()["status"].as_str().unwrap().to_owned();
    (answer.status, status)
}

/// Asks until `/health` says `word`, at most `seconds`.
async fn until_health(server: &Fixture, status: u16, word: &str, seconds: u64) {
    let began = Instant::now();
    loop {
        let seen = health(server).await;
        if seen == (status, word.to_owned()) {
            return;
        }
        let waited = began.elapsed();
        assert!(
            waited < Duration::from_secs(seconds),
            "{seen:?}, not {word}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_engine_is_told_to_all_and_ends_the_server() {
    let server = Fixture::start(Setup {
        gated: true,
        ..Setup::default()
    })
    .await;
    let mut stream = send(server.address, &endless(",\"stream\":true")).await;
    let whole = send(server.address, &endless("")).await;
    server
        .step_until("both decode", |stats| stats.totals.generated_tokens > 4)
        .await;
    server.control.inject(Some(SimFault::Panic));
    server.gate.open();
    let seen = read_until(&mut stream, "engine_unavailable").await;
    assert!(!seen.contains("[DONE]"));
    assert_eq!(finish(whole).await.status, 503);
    until_health(&server, 503, "dead", 1).await;
    let refused = ask(server.address, &endless("")).await;
    assert_eq!(refused.status, 503);
    let ending = server.stopped().await;
    assert!(matches!(ending, Ending::Died(_)), "{ending:?}");
    assert_eq!(ending.exit_code(), 70);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_step_is_seen_and_forgiven() {
    let server = Fixture::start(Setup {
        gated: true,
        ..Setup::default()
    })
    .await;
    let stream = send(server.address, &endless(",\"stream\":true")).await;
    server
        .step_until("measured", |stats| stats.totals.steps > 3)
        .await;
    assert_eq!(health(&server).await.0, 200);
    // Three times the second that any step may take.
    until_health(&server, 503, "stalled", 10).await;
    server.gate.open();
    until_health(&server, 200, "ok", 10).await;
    assert!(finish(stream).await.body.contains("[DONE]"));
    server.until_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_never_ends_ends_the_server() {
    let mut setup = Setup {
        gated: true,
        ..Setup::default()
    };
    setup.options.stall_exit = Duration::from_millis(100);
    let server = Fixture::start(setup).await;
    let mut stream = send(server.address, &endless(",\"stream\":true")).await;
    let whole = send(server.address, &endless("")).await;
    server
        .step_until("both decode", |stats| stats.totals.generated_tokens > 4)
        .await;
    let seen = read_until(&mut stream, "engine_unavailable").await;
    assert!(!seen.contains("[DONE]"));
    assert_eq!(finish(whole).await.status, 503);
    let gate = server.gate.clone();
    let ending = server.stopped().await;
    assert_eq!((ending.exit_code(), ending), (70, Ending::Stalled));
    gate.open();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_row_ends_its_request_and_no_other() {
    let server = Fixture::start(Setup {
        gated: true,
        ..Setup::default()
    })
    .await;
    let first = send(server.address, &endless("")).await;
    server
        .step_until("first decodes", |stats| stats.totals.generated_tokens > 0)
        .await;
    let second = send(server.address, &endless("")).await;
    server
        .step_until("both decode", |stats| stats.totals.generated_tokens > 6)
        .await;
    server.control.inject(Some(SimFault::Row));
    server.gate.open();
    let mut statuses = [finish(first).await.status, finish(second).await.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 500]);
    server.until_empty().await;
    assert_eq!(health(&server).await.0, 200);
}
