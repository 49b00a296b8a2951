//! A full queue answers at the door, before any byte of a stream.

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_is_429_before_any_event() {
    let setup = Setup {
        sequences: 2,
        waiting: 4,
        gated: true,
        ..Setup::default()
    };
    let server = Fixture::start(setup).await;
    let mut accepted = Vec::new();
    for number in 0..6 {
        let extra = if number % 2 == 0 {
            ""
        } else {
            ",\"stream\":true"
        };
        accepted.push(send(server.address, &body(extra)).await);
    }
    // Requests are inside once the engine refuses more; the first refusals prove it.
    let mut refused = 0;
    while refused < 14 {
        let extra = if refused % 2 == 0 {
            ",\"stream\":true"
        } else {
            ""
        };
        let mut stream = send(server.address, &body(extra)).await;
        let early = tokio::select! {
            answer = crate::client::read_until(&mut stream, "\r\n\r\n") => answer,
            () = tokio::time::sleep(std::time::Duration::from_secs(10)) => panic!("no answer"),
        };
        assert!(early.starts_with("HTTP/1.1 429"), "{early}");
        refused += 1;
        if refused == 1 {
            check_refused(&ask(server.address, &body(",\"n\":2")).await);
        }
        check_refused(&ask(server.address, &body(extra)).await);
    }
    server.gate.open();
    for (number, stream) in accepted.into_iter().enumerate() {
        let answer = finish(stream).await;
        assert_eq!(answer.status, 200, "{number}");
        assert!(
            answer.body.contains("abc") || answer.body.contains("[DONE]"),
            "{number}"
        );
    }
    server.until_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_that_do_not_all_fit_leave_none_behind() {
    let setup = Setup {
        sequences: 2,
        waiting: 1,
        gated: true,
        ..Setup::default()
    };
    let server = Fixture::start(setup).await;
    for extra in [",\"n\":4", ",\"n\":4,\"stream\":true"] {
        check_refused(&ask(server.address, &body(extra)).await);
        server.step_until_empty().await;
    }
    server.gate.open();
    let answer = ask(server.address, &body(",\"n\":3")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}
