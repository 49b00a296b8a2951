//! Tools of `/v1/messages`: offered, called, answered.

use serde_json::{Value, json};

use crate::client::{Answer, ask, post};
use crate::fixture::{Fixture, Setup};

const CALL: &str =
    "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Bern\"}}\n</tool_call>";

fn weather() -> Value {
    json!({"name": "get_weather", "description": "Weather of a city",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}})
}

async fn messages(server: &Fixture, say: &str, extra: Value) -> Answer {
    let mut body = json!({
        "messages": [{"role": "user", "content": format!("say:{say}|")}],
        "max_tokens": 400,
        "tools": [weather()],
    });
    body.as_object_mut()
        .unwrap()
        .extend(extra.as_object().unwrap().clone());
    ask(server.address, &post("/v1/messages", &body.to_string())).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_answer_has_its_calls_as_blocks() {
    let server = Fixture::start(Setup::default()).await;
    let say = format!("One moment.\n{CALL}\n{CALL}");
    let body = messages(&server, &say, json!({})).await.json();
    assert_eq!(body["stop_reason"], "tool_use", "{body}");
    let content = body["content"].as_array().unwrap();
    assert_eq!(content.len(), 3);
    assert_eq!(content[0], json!({"type": "text", "text": "One moment."}));
    for call in &content[1..] {
        assert_eq!(call["type"], "tool_use");
        assert_eq!(call["name"], "get_weather");
        assert_eq!(call["input"], json!({"city": "Bern"}));
        assert!(call["id"].as_str().unwrap().starts_with("toolu_"));
    }
    assert_ne!(content[1]["id"], content[2]["id"]);
    let alone = messages(&server, CALL, json!({})).await.json();
    assert_eq!(alone["content"].as_array().unwrap().len(), 1);
    let cut = messages(&server, CALL, json!({"max_tokens": 60}))
        .await
        .json();
    assert_eq!(cut["stop_reason"], "max_tokens");
    assert_eq!(cut["content"][0]["input"], json!({}), "{cut}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_has_each_block_s_events_in_order() {
    let server = Fixture::start(Setup::default()).await;
    let say = format!("Hm.\n{CALL}");
    let answer = messages(&server, &say, json!({"stream": true})).await;
    let events = answer.body.split_terminator("\n\n").map(|event| {
        let (name, data) = event.split_once('\n').expect(event);
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").expect(event)).unwrap();
        assert_eq!(name, format!("event: {}", data["type"].as_str().unwrap()));
        data
    });
    let events: Vec<Value> = events.collect();
    let mut names: Vec<_> = events
        .iter()
        .map(|event| (event["type"].as_str().unwrap(), event["index"].clone()))
        .collect();
    names.dedup();
    let expected = [
        ("message_start", Value::Null),
        ("ping", Value::Null),
        ("content_block_start", json!(0)),
        ("content_block_delta", json!(0)),
        ("content_block_stop", json!(0)),
        ("content_block_start", json!(1)),
        ("content_block_delta", json!(1)),
        ("content_block_stop", json!(1)),
        ("message_delta", Value::Null),
        ("message_stop", Value::Null),
    ];
    assert_eq!(names, expected);
    let start = events
        .iter()
        .find(|event| event["content_block"]["type"] == "tool_use");
    assert_eq!(start.unwrap()["content_block"]["input"], json!({}));
    let json: String = events
        .iter()
        .filter(|event| event["delta"]["type"] == "input_json_delta")
        .map(|event| event["delta"]["partial_json"].as_str().unwrap())
        .collect();
    assert_eq!(json, "{\"city\": \"Bern\"}");
    let end = &events[events.len() - 2];
    assert_eq!(end["delta"]["stop_reason"], "tool_use");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_choice_is_kept() {
    let server = Fixture::start(Setup::default()).await;
    for choice in [
        json!({"type": "any"}),
        json!({"type": "tool", "name": "get_weather"}),
    ] {
        let body = messages(&server, "Hello", json!({"tool_choice": choice})).await;
        let body = body.json();
        assert_eq!(body["content"][0]["type"], "tool_use", "{body}");
    }
    let none = json!({"tool_choice": {"type": "none"}});
    let body = messages(&server, CALL, none).await.json();
    assert_eq!(body["content"][0]["text"], CALL);
    let single = json!({"tool_choice": {"type": "auto", "disable_parallel_tool_use": true}});
    let body = messages(&server, &format!("{CALL}\n{CALL}"), single).await;
    assert_eq!(body.json()["content"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_and_their_results_come_back_as_blocks() {
    let server = Fixture::start(Setup::default()).await;
    let turns = json!([
        {"role": "user", "content": "weather?"},
        {"role": "assistant", "content": [
            {"type": "text", "text": "One moment."},
            {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Bern"}},
            {"type": "tool_use", "id": "toolu_2", "name": "get_weather", "input": {}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny", "cache_control": {"type": "ephemeral"}},
            {"type": "tool_result", "tool_use_id": "toolu_2", "is_error": true, "content": [{"type": "text", "text": "no"}]},
            {"type": "text", "text": "say:ok|"}]}]);
    let answer = messages(&server, "", json!({"messages": turns})).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let ignored = answer.header("x-ucuz-ignored");
    assert_eq!(ignored, Some("messages[].content[].is_error"));
    assert_eq!(answer.json()["content"][0]["text"], "ok");
    let body = json!({"messages": turns, "tools": [weather()]}).to_string();
    let counted = ask(server.address, &post("/v1/messages/count_tokens", &body)).await;
    let usage = answer.json()["usage"].clone();
    let told = usage["input_tokens"].as_u64().unwrap()
        + usage["cache_read_input_tokens"].as_u64().unwrap();
    assert_eq!(counted.json()["input_tokens"], told);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_called_is_refused() {
    let server = Fixture::start(Setup::default()).await;
    let user = |blocks: Value| json!({"messages": [{"role": "user", "content": blocks}]});
    let answer = |blocks: Value| json!({"messages": [{"role": "assistant", "content": blocks}]});
    let cases = [
        (
            json!({"tools": [{"type": "bash_20250124", "name": "bash"}]}),
            "custom",
        ),
        (json!({"tools": [{"input_schema": {}}]}), "tools[0].name"),
        (
            json!({"tools": [{"name": "f", "parameters": {}}]}),
            "tools[0].parameters",
        ),
        (json!({"tool_choice": "auto"}), "tool_choice"),
        (
            json!({"tool_choice": {"type": "required"}}),
            "tool_choice.type",
        ),
        (
            json!({"tool_choice": {"type": "tool", "name": "other"}}),
            "other",
        ),
        (
            json!({"tools": [], "tool_choice": {"type": "any"}}),
            "needs tools",
        ),
        (
            user(json!([{"type": "tool_use", "id": "a", "name": "f", "input": {}}])),
            "tool_result",
        ),
        (user(json!([{"type": "tool_result"}])), "tool_use_id"),
        (
            answer(json!([{"type": "tool_use", "id": "a", "name": "f", "input": "{}"}])),
            "input",
        ),
        (
            answer(json!([{"type": "tool_result", "tool_use_id": "a"}])),
            "tool_use",
        ),
    ];
    for (extra, says) in cases {
        let answer = messages(&server, "x", extra.clone()).await;
        assert_eq!(answer.status, 400, "{extra}: {answer:?}");
        let error = answer.json();
        assert_eq!(error["error"]["type"], "invalid_request_error");
        let message = error["error"]["message"].as_str().unwrap();
        assert!(message.contains(says), "{extra}: {message}");
    }
}
