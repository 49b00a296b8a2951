//! `/v1/responses`: whole, streamed, refused.

use serde_json::{Value, json};

use crate::client::{Answer, ask, post};
use crate::fixture::{Fixture, NOW, Setup};

const RESPONSES: &str = "/v1/responses";

async fn respond(server: &Fixture, extra: &str) -> Answer {
    let body = format!(r#"{{"input":"say:abc|"{extra}}}"#);
    ask(server.address, &post(RESPONSES, &body)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_response_has_openai_s_shape() {
    let server = Fixture::start(Setup::default()).await;
    let extra = r#","instructions":"x","metadata":{"a":"b"},"store":false,"text":{"format":{"type":"text"}}"#;
    let answer = respond(&server, extra).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("x-ucuz-ignored"), Some("store"));
    let mut body = answer.json();
    assert!(body["id"].as_str().unwrap().starts_with("resp_"));
    assert!(
        body["output"][0]["id"]
            .as_str()
            .unwrap()
            .starts_with("msg_")
    );
    (body["id"], body["output"][0]["id"]) = (json!("ID"), json!("ITEM"));
    let prompt = "<say:abc|>".len() + "user\n\nassistant\n".len() + 1 + "<system\nx>\n".len();
    let expected = json!({
        "id": "ID",
        "object": "response",
        "created_at": NOW,
        "status": "completed",
        "error": null,
        "incomplete_details": null,
        "instructions": "x",
        "max_output_tokens": null,
        "model": "sim",
        "output": [{
            "type": "message",
            "id": "ITEM",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "abc", "annotations": [], "logprobs": []}],
        }],
        "parallel_tool_calls": true,
        "previous_response_id": null,
        "store": false,
        "temperature": 0.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 3,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": prompt + 3,
        },
        "metadata": {"a": "b"},
    });
    assert_eq!(body, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_answer_says_that_it_is_incomplete() {
    let server = Fixture::start(Setup::default()).await;
    let body = respond(&server, r#","max_output_tokens":2"#).await.json();
    assert_eq!(body["status"], "incomplete");
    assert_eq!(body["incomplete_details"]["reason"], "max_output_tokens");
    assert_eq!(body["output"][0]["content"][0]["text"], "ab");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_has_openai_s_events_in_order() {
    let server = Fixture::start(Setup::default()).await;
    let answer = respond(&server, r#","stream":true"#).await;
    let events = answer.body.split_terminator("\n\n").map(|event| {
        let (name, data) = event.split_once('\n').expect(event);
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").expect(event)).unwrap();
        assert_eq!(name, format!("event: {}", data["type"].as_str().unwrap()));
        data
    });
    let events: Vec<Value> = events.collect();
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
    }
    let mut names: Vec<&str> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    names.dedup();
    let expected = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(names, expected);
    let text: String = events
        .iter()
        .filter_map(|event| event["delta"].as_str())
        .collect();
    assert_eq!(text, "abc");
    let last = &events[events.len() - 1]["response"];
    assert_eq!(last["status"], "completed");
    assert_eq!(last["output"][0]["content"][0]["text"], "abc");
    assert_eq!(last["usage"]["output_tokens"], 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_is_followed_and_told_back() {
    let server = Fixture::start(Setup::default()).await;
    let format = r#"{"type":"json_schema","name":"x","schema":{"enum":["a","b"]},"strict":true}"#;
    let extra = format!(r#","text":{{"format":{format}}},"max_output_tokens":20"#);
    let answer = respond(&server, &extra).await.json();
    let text = answer["output"][0]["content"][0]["text"].as_str();
    assert!(text == Some("\"a\"") || text == Some("\"b\""), "{answer}");
    assert_eq!(answer["text"]["format"]["schema"]["enum"][0], "a");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_said_before_comes_as_items() {
    let server = Fixture::start(Setup::default()).await;
    let body = r#"{"input":[
        {"role":"user","content":"hello"},
        {"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"hi","annotations":[]}]},
        {"role":"user","content":[{"type":"input_text","text":"say:ok|"}]}]}"#;
    let answer = ask(server.address, &post(RESPONSES, body)).await.json();
    assert_eq!(answer["output"][0]["content"][0]["text"], "ok", "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_kept_is_refused() {
    let server = Fixture::start(Setup::default()).await;
    for (extra, param) in [
        (
            r#","previous_response_id":"resp_1""#,
            "previous_response_id",
        ),
        (r#","background":true"#, "background"),
        (r#","truncation":"auto""#, "truncation"),
        (r#","text":{"format":{"type":"grammar"}}"#, "text.format"),
        (
            r#","text":{"format":{"type":"json_schema","name":"x"}}"#,
            "text.format.schema",
        ),
        (r#","metadata":{"a":1}"#, "metadata"),
        (r#","unheard":1"#, "unheard"),
        (r#","include":["reasoning.encrypted_content"]"#, "include"),
    ] {
        let answer = respond(&server, extra).await;
        assert_eq!(answer.status, 400, "{extra}");
        assert_eq!(answer.json()["error"]["param"], param, "{extra}");
    }
}
