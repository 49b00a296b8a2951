//! `/v1/messages`: Anthropic's form, whole, streamed, counted, refused.

use serde_json::{Value, json};

use crate::client::{Answer, ask, post};
use crate::fixture::{Fixture, Setup};

const MESSAGES: &str = "/v1/messages";
/// Tokens of the prompt that makes the model say `abc`.
const PROMPT: usize = "<say:abc|>".len() + "user\n\nassistant\n".len() + 1;

async fn messages(server: &Fixture, extra: &str) -> Answer {
    let body = format!(
        r#"{{"messages":[{{"role":"user","content":"say:abc|"}}],"max_tokens":20{extra}}}"#
    );
    ask(server.address, &post(MESSAGES, &body)).await
}

/// Name and data of each event.
fn events(answer: &Answer) -> Vec<(String, Value)> {
    let events = answer.body.split_terminator("\n\n").map(|event| {
        let (name, data) = event.split_once('\n').expect(event);
        let name = name.strip_prefix("event: ").expect(event);
        let data = data.strip_prefix("data: ").expect(event);
        (name.to_owned(), serde_json::from_str(data).unwrap())
    });
    events.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_message_has_anthropic_s_shape() {
    let server = Fixture::start(Setup::default()).await;
    let extra = r#","system":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}],"metadata":{"user_id":"u"}"#;
    let answer = messages(&server, extra).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("x-ucuz-ignored"), Some("metadata"));
    let mut body = answer.json();
    assert!(body["id"].as_str().unwrap().starts_with("msg_"));
    body["id"] = json!("ID");
    let expected = json!({
        "id": "ID",
        "type": "message",
        "role": "assistant",
        "model": "sim",
        "content": [{"type": "text", "text": "abc"}],
        "stop_reason": "end_turn",
        "stop_sequence": null,
        "usage": {
            "input_tokens": PROMPT + "<system\nx>\n".len(),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 3,
        },
    });
    assert_eq!(body, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ends_are_told_in_anthropic_s_words() {
    let server = Fixture::start(Setup::default()).await;
    for (extra, reason, stop, text) in [
        (r#","max_tokens":2"#, "max_tokens", Value::Null, "ab"),
        (
            r#","stop_sequences":["c"]"#,
            "stop_sequence",
            json!("c"),
            "ab",
        ),
        ("", "end_turn", Value::Null, "abc"),
    ] {
        let base = if extra.contains("max_tokens") {
            extra.to_owned()
        } else {
            format!(r#","max_tokens":20{extra}"#)
        };
        let body = format!(r#"{{"messages":[{{"role":"user","content":"say:abc|"}}]{base}}}"#);
        let answer = ask(server.address, &post(MESSAGES, &body)).await.json();
        assert_eq!(answer["stop_reason"], reason, "{answer}");
        assert_eq!(answer["stop_sequence"], stop);
        assert_eq!(answer["content"][0]["text"], text);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_has_anthropic_s_events_in_order() {
    let server = Fixture::start(Setup::default()).await;
    let answer = messages(&server, r#","stream":true"#).await;
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let events = events(&answer);
    assert!(events.iter().all(|(name, data)| data["type"] == *name));
    let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names[..3], ["message_start", "ping", "content_block_start"]);
    let end = ["content_block_stop", "message_delta", "message_stop"];
    assert_eq!(names[names.len() - 3..], end);
    let deltas = &events[3..events.len() - 3];
    assert!(deltas.iter().all(|(name, _)| name == "content_block_delta"));
    let text: String = deltas
        .iter()
        .map(|(_, data)| data["delta"]["text"].as_str().unwrap())
        .collect();
    assert_eq!(text, "abc");
    assert_eq!(events[0].1["message"]["usage"]["input_tokens"], PROMPT);
    let end = &events[events.len() - 2].1;
    assert_eq!(end["delta"]["stop_reason"], "end_turn");
    assert_eq!(end["usage"]["output_tokens"], 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_are_counted_without_an_answer() {
    let server = Fixture::start(Setup::default()).await;
    let body = r#"{"model":"sim","messages":[{"role":"user","content":[{"type":"text","text":"say:abc|"}]}]}"#;
    let answer = ask(server.address, &post("/v1/messages/count_tokens", body)).await;
    assert_eq!(answer.json(), json!({"input_tokens": PROMPT}));
    assert_eq!(server.llm.stats().totals.requests, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_have_anthropic_s_shape() {
    let server = Fixture::start(Setup::default()).await;
    let user = r#""messages":[{"role":"user","content":"x"}]"#;
    for (body, status, kind, says) in [
        ("{".to_owned(), 400, "invalid_request_error", "JSON"),
        (format!("{{{user}}}"), 400, "invalid_request_error", "max_tokens is missing"),
        (format!(r#"{{{user},"max_tokens":5,"model":"other"}}"#), 404, "not_found_error", "not served"),
        (format!(r#"{{{user},"max_tokens":5,"thinking":{{"type":"enabled"}}}}"#), 400, "invalid_request_error", "thinking"),
        (format!(r#"{{{user},"max_tokens":5,"wrong":1}}"#), 400, "invalid_request_error", "unknown field"),
        (format!(r#"{{{user},"max_tokens":99999}}"#), 400, "invalid_request_error", "context"),
        (r#"{"messages":[],"max_tokens":5}"#.to_owned(), 400, "invalid_request_error", "messages"),
        (r#"{"messages":[{"role":"system","content":"x"}],"max_tokens":5}"#.to_owned(), 400, "invalid_request_error", "role"),
        (r#"{"messages":[{"role":"user","content":[{"type":"image","source":{}}]}],"max_tokens":5}"#.to_owned(), 400, "invalid_request_error", "image"),
    ] {
        let answer = ask(server.address, &post(MESSAGES, &body)).await;
        assert_eq!(answer.status, status, "{body}: {answer:?}");
        let error = answer.json();
        assert_eq!(error["type"], "error");
        assert_eq!(error["error"]["type"], kind);
        assert!(error["error"]["message"].as_str().unwrap().contains(says), "{error}");
    }
}
