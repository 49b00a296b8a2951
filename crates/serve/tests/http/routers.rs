//! What routers and evaluators ask beside answers: rendered prompts, loads, facts of the tokenizer.

use serde_json::json;

use crate::client::{ask, get, post};
use crate::fixture::{Fixture, Setup};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rendered_prompt_is_what_would_run() {
    let server = Fixture::start(Setup::default()).await;
    let completion = r#"{"prompt":["ab",[99]],"max_tokens":3}"#;
    let answer = ask(server.address, &post("/v1/completions/render", completion)).await;
    assert_eq!(
        answer.json(),
        json!([{"token_ids": [97, 98]}, {"token_ids": [99]}])
    );
    let chat = r#"{"messages":[{"role":"user","content":"a"}]}"#;
    let answer = ask(server.address, &post("/v1/chat/completions/render", chat))
        .await
        .json();
    let ids: Vec<u64> = answer["token_ids"]
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_u64().unwrap())
        .collect();
    let text = |text: &str| text.bytes().map(u64::from).collect::<Vec<_>>();
    let expected = [
        vec![256],
        text("user\na"),
        vec![257],
        text("\n"),
        vec![256],
        text("assistant\n"),
    ];
    assert_eq!(ids, expected.concat());
    assert!(answer["features"].is_null());
    assert_eq!(server.llm.stats().totals.requests, 0);
    let wrong = ask(
        server.address,
        &post("/v1/chat/completions/render", r#"{"messages":[]}"#),
    )
    .await;
    assert_eq!(wrong.status, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loads_have_the_shape_that_routers_remember() {
    let server = Fixture::start(Setup::default()).await;
    let body = r#"{"prompt":"say:abc|","max_tokens":8}"#;
    ask(server.address, &post("/v1/completions", body)).await;
    server.until("idle", |stats| stats.running == 0).await;
    let loads = ask(server.address, &get("/v1/loads")).await.json();
    assert_eq!(loads["dp_rank_count"], 1);
    assert!(loads["timestamp"].is_string());
    let load = &loads["loads"][0];
    for (name, value) in [
        ("dp_rank", 0),
        ("num_running_reqs", 0),
        ("num_waiting_reqs", 0),
        ("num_waiting_uncached_tokens", 0),
        ("num_total_reqs", 0),
        ("num_used_tokens", 0),
        ("max_running_requests", 8),
    ] {
        assert_eq!(load[name], value, "{name} of {load}");
    }
    for name in [
        "token_usage",
        "cache_hit_rate",
        "utilization",
        "gen_throughput",
    ] {
        assert!(load[name].is_f64(), "{name} of {load}");
    }
    let total = load["max_total_num_tokens"].as_u64().unwrap();
    assert_eq!(total, 256 * 32);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tokenizer_tells_its_special_tokens_and_template() {
    let server = Fixture::start(Setup::default()).await;
    let info = ask(server.address, &get("/tokenizer_info")).await.json();
    assert_eq!(info["eos_token"], "<|im_end|>");
    assert!(info["bos_token"].is_null());
    assert_eq!(info["vocab_size"], 258);
    assert!(
        info["chat_template"]
            .as_str()
            .unwrap()
            .contains("add_generation_prompt")
    );
}
