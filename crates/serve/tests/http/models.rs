//! `/v1/models`, `/health`, `/live`, `/version`, request ids.

use serde_json::{Value, json};

use crate::client::{ask, get};
use crate::fixture::{BLOCKS, CONTEXT, Fixture, NOW, Setup};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_model_states_what_it_is() {
    let server = Fixture::start(Setup::default()).await;
    let list = ask(server.address, &get("/v1/models")).await.json();
    assert_eq!(list["object"], "list");
    let model = &list["data"][0];
    let expected = [
        ("id", json!("sim")),
        ("object", json!("model")),
        ("created", json!(NOW)),
        ("owned_by", json!("ucuz")),
        ("context_length", json!(CONTEXT)),
        ("bits_per_weight", json!(4.5)),
        ("kv_dtype", json!("bf16")),
        ("fingerprint", json!("fp")),
    ];
    for (key, value) in expected {
        assert_eq!(model[key], value, "{key}");
    }
    let exactness = json!({"rows": true, "chunks": true, "resume": true, "tiers": true});
    assert_eq!(model["exactness"], exactness);
    let defaults = json!({
        "temperature": 0.0, "top_k": 40, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0,
    });
    assert_eq!(model["default_sampling"], defaults);
    let one = ask(server.address, &get("/v1/models/sim")).await.json();
    assert_eq!(&one, model);
    for id in ["other", "org/other", "..%2f..%2fetc"] {
        let answer = ask(server.address, &get(&format!("/v1/models/{id}"))).await;
        assert_eq!(answer.status, 404, "{id}");
        assert_eq!(answer.json()["error"]["code"], "model_not_found", "{id}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_with_a_slash_can_be_asked_for() {
    let mut setup = Setup::default();
    setup.options.model_id = "org/model".to_owned();
    let server = Fixture::start(setup).await;
    for path in ["/v1/models/org/model", "/v1/models/org%2Fmodel"] {
        let answer = ask(server.address, &get(path)).await;
        assert_eq!(answer.json()["id"], "org/model", "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_tells_the_engine_s_numbers() {
    let server = Fixture::start(Setup::default()).await;
    let answer = ask(server.address, &get("/health")).await;
    assert_eq!(answer.status, 200);
    let body: Value = answer.json();
    assert_eq!(body["status"], "ok");
    let blocks = json!([{"total": BLOCKS, "used": 0, "free": BLOCKS, "cached": 0}]);
    assert_eq!(body["kv_blocks"], blocks);
    assert_eq!(body["running"], 0);
    assert_eq!(ask(server.address, &get("/live")).await.status, 200);
    let version = ask(server.address, &get("/version")).await.json();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sane_request_id_comes_back_and_another_is_replaced() {
    let server = Fixture::start(Setup::default()).await;
    let with = |id: &str| {
        format!("GET /live HTTP/1.1\r\nhost: t\r\nconnection: close\r\nx-request-id: {id}\r\n\r\n")
    };
    let answer = ask(server.address, with("abc-1").as_bytes()).await;
    assert_eq!(answer.header("x-request-id"), Some("abc-1"));
    let answer = ask(server.address, with("a{b}").as_bytes()).await;
    assert!(answer.header("x-request-id").unwrap().starts_with("req-"));
}
