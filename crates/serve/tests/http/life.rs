//! Draining, dying, limits of connections.

use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use ucuz_engine::sim::SimFault;

use crate::client::{ask, finish, get, post, read_until, send};
use crate::fixture::{Fixture, Setup};

fn body(say: &str, extra: &str) -> Vec<u8> {
    let body = format!(r#"{{"messages":[{{"role":"user","content":"say:{say}|"}}]{extra}}}"#);
    post("/v1/chat/completions", &body)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopping_server_finishes_what_it_began() {
    let mut server = Fixture::start(Setup {
        gated: true,
        ..Setup::default()
    })
    .await;
    let long = format!("a{}!", "b".repeat(500));
    let mut stream = send(server.address, &body(&long, ",\"stream\":true")).await;
    server
        .step_until("decoding", |stats| stats.totals.generated_tokens > 1)
        .await;
    let begun = read_until(&mut stream, "\"content\":\"a").await;
    let whole = send(server.address, &body("uvw", "")).await;
    server
        .step_until("both inside", |stats| stats.totals.requests == 2)
        .await;
    // A connection that is open but idle must not hold the server up, nor be served.
    let idle = send(server.address, b"").await;
    server.begin_stop();
    while server.llm.health().is_alive() {
        tokio::task::yield_now().await;
    }
    server.gate.open();
    let rest = read_until(&mut stream, "data: [DONE]").await;
    assert!(format!("{begun}{rest}").contains("\"content\":\"!\""));
    let whole = finish(whole).await;
    assert_eq!(whole.json()["choices"][0]["message"]["content"], "uvw");
    drop(idle);
    server.stopped().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_outlives_the_drain_time_is_cancelled() {
    let mut setup = Setup {
        gated: true,
        ..Setup::default()
    };
    setup.options.drain_timeout = Duration::from_millis(50);
    let mut server = Fixture::start(setup).await;
    let mut stream = send(server.address, &body("abc*", ",\"stream\":true")).await;
    server.gate.allow(3);
    read_until(&mut stream, "\"content\":\"a\"").await;
    server.begin_stop();
    let (gate, llm) = (server.gate.clone(), std::sync::Arc::clone(&server.llm));
    server.stopped().await;
    gate.open();
    llm.join();
    let stats = llm.stats();
    assert_eq!((stats.running, stats.kv_bytes_used), (0, 0), "{stats:?}");
    let gone = stats.totals.cancelled + stats.totals.disconnected;
    assert_eq!(gone, 1, "{stats:?}");
}

/// Lets steps pass until the answer has ended, then checks that it says why.
async fn ends_with_an_error(server: &Fixture, mut stream: TcpStream) {
    let text = "\"code\":\"engine_unavailable\"";
    let mut seen = String::new();
    while !seen.contains(text) {
        server.gate.allow(1);
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).await.unwrap();
        assert!(count > 0, "no error at the end: {seen}");
        seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    assert!(!seen.contains("[DONE]"), "{seen}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_cut_at_the_drain_time_says_so() {
    let mut setup = Setup {
        gated: true,
        ..Setup::default()
    };
    setup.options.drain_timeout = Duration::ZERO;
    let mut server = Fixture::start(setup).await;
    let mut stream = send(server.address, &body("abc*", ",\"stream\":true")).await;
    server.gate.allow(3);
    read_until(&mut stream, "\"content\":\"a\"").await;
    server.begin_stop();
    ends_with_an_error(&server, stream).await;
    server.stopped().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_cancels_at_once() {
    let mut server = Fixture::start(Setup {
        gated: true,
        ..Setup::default()
    })
    .await;
    let mut stream = send(server.address, &body("abc*", ",\"stream\":true")).await;
    server.gate.allow(3);
    read_until(&mut stream, "\"content\":\"a\"").await;
    server.begin_stop();
    while server.llm.health().is_alive() {
        tokio::task::yield_now().await;
    }
    server.cancel();
    ends_with_an_error(&server, stream).await;
    server.stopped().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draining_server_still_answers_new_connections() {
    let mut server = Fixture::start(Setup {
        gated: true,
        ..Setup::default()
    })
    .await;
    let long = "u".repeat(500);
    let whole = send(server.address, &body(&long, "")).await;
    server
        .step_until("inside", |stats| stats.totals.requests == 1)
        .await;
    server.begin_stop();
    while server.llm.health().is_alive() {
        tokio::task::yield_now().await;
    }
    let health = ask(server.address, &get("/health")).await;
    assert_eq!(health.status, 503, "{health:?}");
    assert_eq!(health.json()["status"], "draining");
    let refused = ask(server.address, &body("x", "")).await;
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(refused.json()["error"]["code"], "engine_unavailable");
    server.gate.open();
    let whole = finish(whole).await;
    assert_eq!(whole.json()["choices"][0]["message"]["content"], long);
    server.stopped().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_is_told_before_it_ends() {
    let server = Fixture::start(Setup {
        gated: true,
        ..Setup::default()
    })
    .await;
    let stream = send(server.address, &body("x", "")).await;
    server
        .until("in a step", |stats| stats.rows_in_flight > 0)
        .await;
    assert!(server.llm.health().is_busy, "though no turn has ended yet");
    server.gate.open();
    assert_eq!(finish(stream).await.status, 200);
    server.until_empty().await;
    assert_eq!(server.llm.stats().rows_in_flight, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draining_engine_is_503_for_requests_and_health() {
    let server = Fixture::start(Setup::default()).await;
    server.llm.drain();
    let answer = ask(server.address, &body("x", ",\"stream\":true")).await;
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(answer.json()["error"]["code"], "engine_unavailable");
    assert_eq!(answer.json()["error"]["type"], "server_error");
    let health = ask(server.address, &get("/health")).await;
    assert_eq!(health.status, 503);
    let status = health.json()["status"].as_str().unwrap().to_owned();
    assert!(
        ["draining", "stopped"].contains(&status.as_str()),
        "{status}"
    );
    assert_eq!(ask(server.address, &get("/live")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_of_one_request_ends_that_request() {
    let server = Fixture::start(Setup::default()).await;
    server.control.inject(Some(SimFault::Row));
    let answer = ask(server.address, &body("x", "")).await;
    assert_eq!(answer.status, 500, "{answer:?}");
    assert_eq!(answer.json()["error"]["code"], "generation_failed");
    let message =
        "the model failed on this request; the server's log tells why under its x-request-id";
    assert_eq!(answer.json()["error"]["message"], message);
    server.control.inject(Some(SimFault::Row));
    let answer = ask(server.address, &body("x", ",\"stream\":true")).await;
    assert_eq!(answer.status, 200);
    let events = answer.events();
    assert!(
        events
            .last()
            .unwrap()
            .starts_with("{\"error\":{\"message\":"),
        "{events:?}"
    );
    let answer = ask(server.address, &body("ok", "")).await;
    assert_eq!(answer.json()["choices"][0]["message"]["content"], "ok");
    server.until_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_engine_is_never_healthy() {
    for fault in [SimFault::Panic, SimFault::Device] {
        let server = Fixture::start(Setup::default()).await;
        server.control.inject(Some(fault));
        let answer = ask(server.address, &body("x", "")).await;
        assert_eq!(answer.status, 503, "{fault:?}: {answer:?}");
        let health = ask(server.address, &get("/health")).await;
        assert_eq!(health.status, 503, "{fault:?}");
        assert_eq!(health.json()["status"], "dead", "{fault:?}");
        let reason = "the engine died by a fault; the server's log tells why";
        assert_eq!(health.json()["reason"], reason, "{fault:?}");
        let answer = ask(server.address, &body("x", ",\"stream\":true")).await;
        assert_eq!(answer.status, 503, "{fault:?}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_over_the_limit_are_told_so() {
    let mut setup = Setup {
        gated: true,
        ..Setup::default()
    };
    setup.options.limits.connections = 1;
    let server = Fixture::start(setup).await;
    let mut first = send(server.address, &body("abc*", ",\"stream\":true")).await;
    server.gate.allow(3);
    read_until(&mut first, "\"content\":\"a\"").await;
    let answer = finish(send(server.address, b"").await).await;
    assert_eq!(answer.status, 503);
    assert_eq!(answer.json()["error"]["code"], "connection_limit");
    drop(first);
    server.gate.open();
    server.until_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_stream_is_kept_open_by_comments() {
    let mut setup = Setup {
        gated: true,
        ..Setup::default()
    };
    setup.options.limits.keep_alive = Duration::from_millis(20);
    let server = Fixture::start(setup).await;
    let mut stream = send(server.address, &body("abc", ",\"stream\":true")).await;
    read_until(&mut stream, ": waiting\n\n").await;
    server.gate.open();
    read_until(&mut stream, "data: [DONE]").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_does_not_come_closes_the_connection() {
    let mut setup = Setup::default();
    setup.options.limits.header_timeout = Duration::from_millis(50);
    let server = Fixture::start(setup).await;
    let mut stream = send(
        server.address,
        b"POST /v1/chat/completions HTTP/1.1\r\nhost",
    )
    .await;
    let mut raw = Vec::new();
    stream.read_to_end(&mut raw).await.unwrap();
    assert!(
        raw.is_empty() || raw.starts_with(b"HTTP/1.1 408"),
        "{raw:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_connection_serves_several_requests() {
    use tokio::io::AsyncWriteExt;

    let server = Fixture::start(Setup::default()).await;
    let request = String::from_utf8(body("ok", "")).unwrap();
    let request = request.replace("connection: close\r\n", "");
    let mut stream = send(server.address, request.as_bytes()).await;
    for _ in 0..3 {
        let answer = read_until(&mut stream, "\"cached_tokens\":0}}}").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        stream.write_all(request.as_bytes()).await.unwrap();
    }
}
