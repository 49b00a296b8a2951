//! Clients that go away at five moments: what they held comes back within a step or two.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::client::{ask, post, read_until, send};
use crate::fixture::{Fixture, Setup};

fn body(say: &str, extra: &str) -> Vec<u8> {
    let body = format!(r#"{{"messages":[{{"role":"user","content":"say:{say}|"}}]{extra}}}"#);
    post("/v1/chat/completions", &body)
}

fn gated(sequences: usize) -> Setup {
    Setup {
        sequences,
        waiting: 64,
        gated: true,
        ..Setup::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_left_in_decode_is_closed() {
    let server = Fixture::start(gated(8)).await;
    for n in [1, 4] {
        for _ in 0..5 {
            let extra = format!(",\"stream\":true,\"n\":{n}");
            let mut stream = send(server.address, &body("abc*", &extra)).await;
            server.gate.allow(6);
            read_until(&mut stream, "\"content\":\"a\"").await;
            drop(stream);
            server.step_until_empty().await;
        }
    }
    let stats = server.llm.stats();
    assert_eq!(stats.totals.disconnected, 25, "{stats:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_answer_left_in_decode_is_closed() {
    let server = Fixture::start(gated(8)).await;
    for n in [1, 4] {
        for _ in 0..5 {
            let before = server.llm.stats().totals;
            let stream = send(server.address, &body("abc*", &format!(",\"n\":{n}"))).await;
            server
                .step_until("decoding", |s| {
                    s.totals.generated_tokens > before.generated_tokens
                })
                .await;
            drop(stream);
            server.step_until_empty().await;
        }
    }
    let stats = server.llm.stats();
    assert_eq!(stats.totals.disconnected, 25, "{stats:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_left_in_prefill_is_closed() {
    let server = Fixture::start(Setup {
        step_rows: 8,
        ..gated(8)
    })
    .await;
    let long = "x".repeat(1500);
    for stream in ["", ",\"stream\":true"] {
        let before = server.llm.stats().totals;
        let stream = send(server.address, &body(&format!("{long}*"), stream)).await;
        server
            .step_until("in prefill", |s| {
                s.totals.computed_rows > before.computed_rows
            })
            .await;
        assert_eq!(
            server.llm.stats().totals.generated_tokens,
            before.generated_tokens
        );
        drop(stream);
        server.step_until_empty().await;
        let after = server.llm.stats().totals;
        assert_eq!(
            after.generated_tokens, before.generated_tokens,
            "it ended in prefill"
        );
        assert_eq!(after.disconnected, before.disconnected + 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_left_in_the_queue_is_closed() {
    let server = Fixture::start(gated(1)).await;
    let mut first = send(server.address, &body("abc*", ",\"stream\":true")).await;
    server.gate.allow(4);
    read_until(&mut first, "\"content\":\"a\"").await;
    let mut waiting = Vec::new();
    for number in 0..10 {
        let extra = if number % 2 == 0 {
            ""
        } else {
            ",\"stream\":true"
        };
        waiting.push(send(server.address, &body("q", extra)).await);
    }
    server
        .step_until("all waiting", |stats| stats.waiting == 10)
        .await;
    waiting.clear();
    server
        .step_until("none waiting", |stats| stats.waiting == 0)
        .await;
    assert_eq!(server.llm.stats().running, 1, "the other request goes on");
    drop(first);
    server.gate.open();
    server.until_empty().await;
    assert_eq!(server.llm.stats().totals.disconnected, 11);
    let answer = ask(server.address, &body("ok", "")).await;
    assert_eq!(answer.json()["choices"][0]["message"]["content"], "ok");
}

/// Bytes of a next request lie unread while the first one runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_sent_a_second_request_is_closed() {
    let server = Fixture::start(gated(8)).await;
    for stream in ["", ",\"stream\":true"] {
        let before = server.llm.stats().totals;
        let first = String::from_utf8(body("abc*", stream)).unwrap();
        let first = first.replace("connection: close\r\n", "");
        let mut stream = send(server.address, first.repeat(2).as_bytes()).await;
        server
            .step_until("inside", |stats| stats.totals.requests > before.requests)
            .await;
        // Closes our side; the server's end of the connection then shows that it has noticed.
        stream.shutdown().await.unwrap();
        let mut rest = Vec::new();
        let end = timeout(Duration::from_secs(10), stream.read_to_end(&mut rest));
        // A reset is an end too.
        let _ = end.await.expect("the server noticed");
        server.step_until_empty().await;
        let after = server.llm.stats().totals;
        assert_eq!(after.disconnected, before.disconnected + 1);
        assert_eq!(after.requests, before.requests + 1, "the second never ran");
    }
}

/// Many at once at random moments, beside one that must not notice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_that_vanishes_leaves_nothing_and_disturbs_nobody() {
    let setup = Setup {
        sequences: 8,
        waiting: 256,
        ..Setup::default()
    };
    let server = Fixture::start(setup).await;
    let alone = ask(server.address, &body("steady*", ",\"max_tokens\":300"))
        .await
        .json();
    let request = body("steady*", ",\"max_tokens\":300");
    let address = server.address;
    let beside = tokio::spawn(async move { ask(address, &request).await });
    for number in 0..500u32 {
        let extra = if number.is_multiple_of(2) {
            ""
        } else {
            ",\"stream\":true,\"n\":2"
        };
        let stream = send(server.address, &body("abc*", extra)).await;
        for _ in 0..number % 60 {
            tokio::task::yield_now().await;
        }
        drop(stream);
    }
    let beside = beside.await.unwrap().json();
    assert_eq!(beside["choices"], alone["choices"]);
    server.until_empty().await;
}
