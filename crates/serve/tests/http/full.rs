//! A full queue answers at the door, before any byte of a stream.

use std::time::Duration;

use tokio::io::AsyncWriteExt;

use crate::client::{Answer, ask, finish, post, send};
use crate::fixture::{Fixture, Setup};

fn body(extra: &str) -> Vec<u8> {
    let body =
        format!(r#"{{"messages":[{{"role":"user","content":"say:abc|"}}],"max_tokens":8{extra}}}"#);
    post("/v1/chat/completions", &body)
}

fn check_refused(answer: &Answer) {
    assert_eq!(answer.status, 429, "{answer:?}");
    let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!(seconds >= 1);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let error = &answer.json()["error"];
    assert_eq!(error["code"], "rate_limit_exceeded");
    assert_eq!(error["type"], "rate_limit_error");
}

/// A request that decodes until it is told otherwise.
fn long(extra: &str) -> Vec<u8> {
    let message = r#"{"role":"user","content":"say:abc*|"}"#;
    let body = format!(r#"{{"messages":[{message}],"max_tokens":300{extra}}}"#);
    post("/v1/chat/completions", &body)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_is_429_before_any_event() {
    let (sequences, waiting) = (2, 4);
    let setup = Setup {
        sequences,
        waiting,
        gated: true,
        ..Setup::default()
    };
    let server = Fixture::start(setup).await;
    let extras = ["", ",\"stream\":true"];
    let mut accepted = Vec::new();
    for number in 0..6 {
        accepted.push(send(server.address, &long(extras[number % 2])).await);
    }
    server
        .step_until("all inside", |stats| stats.totals.requests == 6)
        .await;
    for _ in 0..7 {
        for extra in extras {
            check_refused(&ask(server.address, &body(extra)).await);
        }
    }
    check_refused(&ask(server.address, &body(",\"n\":2")).await);
    server.gate.open();
    for (number, stream) in accepted.into_iter().enumerate() {
        let answer = finish(stream).await;
        assert_eq!(answer.status, 200, "{number}");
        assert!(answer.body.contains("\"length\""), "{number}: {answer:?}");
    }
    server.until_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_that_do_not_all_fit_are_not_begun() {
    let (sequences, waiting) = (2, 1);
    let setup = Setup {
        sequences,
        waiting,
        gated: true,
        ..Setup::default()
    };
    let server = Fixture::start(setup).await;
    for extra in [",\"n\":4", ",\"n\":4,\"stream\":true"] {
        check_refused(&ask(server.address, &body(extra)).await);
        assert_eq!(server.llm.stats().totals.requests, 0);
    }
    server.gate.open();
    let answer = ask(server.address, &body(",\"n\":3")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_arrive_share_a_budget() {
    let mut setup = Setup::default();
    let limits = &mut setup.options.limits;
    (limits.body_bytes, limits.bodies_bytes) = (256 << 10, 256 << 10);
    limits.body_timeout = Duration::from_secs(2);
    let server = Fixture::start(setup).await;
    let large = post(
        "/tokenize",
        &format!(r#"{{"prompt":"{}"}}"#, "a".repeat(200 << 10)),
    );
    // One has sent all but its last byte.
    let mut slow = send(server.address, &large[..large.len() - 1]).await;
    let refused = loop {
        let answer = ask(server.address, &large).await;
        if answer.status != 200 {
            break answer;
        }
    };
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.body.contains("all memory"), "{refused:?}");
    let small = post("/tokenize", r#"{"prompt":"ab"}"#);
    assert_eq!(ask(server.address, &small).await.status, 200);
    slow.write_all(&large[large.len() - 1..]).await.unwrap();
    assert_eq!(finish(slow).await.status, 200);
    assert_eq!(ask(server.address, &large).await.status, 200);
}
