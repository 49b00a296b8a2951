//! `/v1/embeddings` on the simulated model.

use serde_json::{Value, json};

use crate::client::{Answer, ask, post};
use crate::fixture::{Fixture, Setup};

async fn embed(server: &Fixture, body: &str) -> Answer {
    ask(server.address, &post("/v1/embeddings", body)).await
}

fn vector(value: &Value) -> Vec<f64> {
    let numbers = value.as_array().unwrap().iter();
    numbers.map(|number| number.as_f64().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_text_gets_a_vector_of_length_one() {
    let server = Fixture::start(Setup::default()).await;
    let answer = embed(&server, r#"{"input":["abc","abcd","abc"],"user":"u"}"#).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("x-ucuz-ignored"), Some("user"));
    let body = answer.json();
    assert_eq!(
        (&body["object"], &body["model"]),
        (&json!("list"), &json!("sim"))
    );
    assert_eq!(
        body["usage"],
        json!({"prompt_tokens": 10, "total_tokens": 10})
    );
    let vectors: Vec<_> = (0..3)
        .map(|i| vector(&body["data"][i]["embedding"]))
        .collect();
    for (index, vector) in vectors.iter().enumerate() {
        assert_eq!(body["data"][index]["index"], index);
        let length: f64 = vector.iter().map(|value| value * value).sum();
        assert!((length - 1.0).abs() < 1e-6, "{length}");
    }
    assert_eq!(vectors[0], vectors[2]);
    assert_ne!(vectors[0], vectors[1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pooling_length_and_form_are_the_client_s_choice() {
    let server = Fixture::start(Setup::default()).await;
    let ask = async |extra: &str| {
        let body = format!(r#"{{"input":[97,98,99]{extra}}}"#);
        embed(&server, &body).await.json()["data"][0]["embedding"].clone()
    };
    let (mean, last) = (ask("").await, ask(r#","pooling":"last""#).await);
    assert_ne!(mean, last);
    assert_eq!(
        mean,
        ask(r#","pooling":"mean","encoding_format":"float","dimensions":4"#).await
    );
    let plain = vector(&ask(r#","normalize":false"#).await);
    let length = plain.iter().map(|value| value * value).sum::<f64>().sqrt();
    for (unit, plain) in vector(&mean).iter().zip(&plain) {
        assert!((unit * length - plain).abs() < 1e-6);
    }
    // Four numbers of four bytes.
    let text = ask(r#","encoding_format":"base64""#).await;
    assert_eq!(text.as_str().unwrap().len(), 24);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_embeddings_are_refused_by_name() {
    let server = Fixture::start(Setup::default()).await;
    for (body, param) in [
        ("{}", "input"),
        (r#"{"input":[]}"#, "input"),
        (r#"{"input":""}"#, "input"),
        (r#"{"input":[[1],"a",{}]}"#, "input"),
        (r#"{"input":"a","pooling":"max"}"#, "pooling"),
        (
            r#"{"input":"a","encoding_format":"hex"}"#,
            "encoding_format",
        ),
        (r#"{"input":"a","dimensions":3}"#, "dimensions"),
        (r#"{"input":"a","max_tokens":3}"#, "max_tokens"),
    ] {
        let answer = embed(&server, body).await;
        assert_eq!(answer.status, 400, "{body}: {answer:?}");
        let error = &answer.json()["error"];
        let place = error["param"].as_str().unwrap();
        assert!(
            place.starts_with(param) || place == "prompt",
            "{body}: {error}"
        );
    }
}
