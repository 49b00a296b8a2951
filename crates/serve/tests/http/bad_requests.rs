//! Requests that must be refused, each with its status and code, and a server that goes on.

use crate::client::{Answer, ask, get, post};
use crate::fixture::{Fixture, Setup};

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

/// A chat body with `extra` fields.
fn chat(extra: &str) -> String {
    format!(r#"{{"messages":[{{"role":"user","content":"say:ok|"}}],{extra}}}"#)
}

/// A completion body with `extra` fields.
fn text(extra: &str) -> String {
    format!(r#"{{"prompt":"say:ok|",{extra}}}"#)
}

fn check(answer: &Answer, what: &str, status: u16, code: &str, param: Option<&str>) {
    assert_eq!(answer.status, status, "{what}: {answer:?}");
    let error = &answer.json()["error"];
    assert_eq!(error["code"], code, "{what}: {error}");
    assert_eq!(error["param"].as_str(), param, "{what}: {error}");
    assert!(
        error["message"]
            .as_str()
            .is_some_and(|text| !text.is_empty()),
        "{what}: {error}"
    );
    assert!(error["type"].is_string(), "{what}: {error}");
    assert_eq!(
        answer.header("content-type"),
        Some("application/json"),
        "{what}"
    );
    assert!(answer.header("x-request-id").is_some(), "{what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_bodies_get_their_error_and_the_server_goes_on() {
    let server = Fixture::start(Setup::default()).await;
    let value = "invalid_value";
    let unsupported = "unsupported_parameter";
    let deep = format!(r#"{{"messages":{}"#, "[".repeat(10_000));
    let ids = format!("\"prompt\":[{}1]", "1,".repeat(3000));
    let many_prompts = format!(r#"{{"prompt":[{}"x"]}}"#, "\"x\",".repeat(200));
    let long_model = format!("\"model\":\"{}\"", "m".repeat(100_000));
    let long_name = format!("\"{}\":1", "é".repeat(100));
    let cut_name = "é".repeat(32);
    let many_stops = format!("\"stop\":[{}\"x\"]", "\"x\",".repeat(16));
    let user = r#"{"role":"user","content":"x"}"#;
    let many_messages = format!(
        r#"{{"messages":[{}{user}]}}"#,
        format!("{user},").repeat(65_536)
    );
    let calls = r#"{"role":"assistant","content":null,"tool_calls":[{"type":"function"}]}"#;
    let cases: Vec<(&str, String, &str, Option<&str>)> = vec![
        (CHAT, String::new(), "invalid_json", None),
        (CHAT, "{".to_owned(), "invalid_json", None),
        (CHAT, "[1]".to_owned(), "invalid_json", None),
        (CHAT, "{} x".to_owned(), "invalid_json", None),
        (CHAT, deep, "invalid_json", None),
        (CHAT, r#"{"a":"\ud800"}"#.to_owned(), "invalid_json", None),
        (
            CHAT,
            r#"{"model":"a","model":"b"}"#.to_owned(),
            "duplicate_key",
            None,
        ),
        (CHAT, "{}".to_owned(), value, Some("messages")),
        (
            CHAT,
            r#"{"messages":null}"#.to_owned(),
            value,
            Some("messages"),
        ),
        (
            CHAT,
            r#"{"messages":[]}"#.to_owned(),
            value,
            Some("messages"),
        ),
        (
            CHAT,
            r#"{"messages":{}}"#.to_owned(),
            value,
            Some("messages"),
        ),
        (
            CHAT,
            r#"{"messages":["x"]}"#.to_owned(),
            value,
            Some("messages[0]"),
        ),
        (
            CHAT,
            r#"{"messages":[{"content":"x"}]}"#.to_owned(),
            value,
            Some("messages[0].role"),
        ),
        (
            CHAT,
            r#"{"messages":[{"role":"user"}]}"#.to_owned(),
            value,
            Some("messages[0].content"),
        ),
        (
            CHAT,
            r#"{"messages":[{"role":"tool","content":"x"}]}"#.to_owned(),
            value,
            Some("messages[0].tool_call_id"),
        ),
        (
            CHAT,
            r#"{"messages":[{"role":"function","content":"x"}]}"#.to_owned(),
            value,
            Some("messages[0].role"),
        ),
        (
            CHAT,
            r#"{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]}"#
                .to_owned(),
            value,
            Some("messages[0].content[0].type"),
        ),
        (
            CHAT,
            r#"{"messages":[{"role":"user","content":"x","tone":"kind"}]}"#.to_owned(),
            "unknown_parameter",
            Some("messages[0].tone"),
        ),
        (
            CHAT,
            chat(r#""tempature":1"#),
            "unknown_parameter",
            Some("tempature"),
        ),
        (
            CHAT,
            chat(r#""tempature":null"#),
            "unknown_parameter",
            Some("tempature"),
        ),
        (CHAT, chat(&long_name), "unknown_parameter", Some(&cut_name)),
        (
            CHAT,
            chat(r#""tools":[{"type":"function"}]"#),
            value,
            Some("tools[0].function"),
        ),
        (
            CHAT,
            chat(r#""response_format":{"type":"grammar"}"#),
            value,
            Some("response_format.type"),
        ),
        (
            CHAT,
            chat(r#""modalities":["audio"]"#),
            unsupported,
            Some("modalities"),
        ),
        (
            CHAT,
            chat(r#""chat_template":"{{ x }}""#),
            unsupported,
            Some("chat_template"),
        ),
        (
            CHAT,
            chat(r#""chat_template_kwargs":{"tokenize":true}"#),
            unsupported,
            Some("chat_template_kwargs"),
        ),
        (
            CHAT,
            chat(r#""temperature":-1"#),
            value,
            Some("temperature"),
        ),
        (CHAT, chat(r#""temperature":3"#), value, Some("temperature")),
        (
            CHAT,
            chat(r#""temperature":1e39"#),
            value,
            Some("temperature"),
        ),
        (
            CHAT,
            chat(r#""temperature":"hot""#),
            value,
            Some("temperature"),
        ),
        (CHAT, chat(r#""temperature":NaN"#), "invalid_json", None),
        (CHAT, chat(r#""temperature":1e999"#), "invalid_json", None),
        (CHAT, chat(r#""top_p":0"#), value, Some("top_p")),
        (CHAT, chat(r#""top_k":-2"#), value, Some("top_k")),
        (CHAT, chat(r#""n":0"#), value, Some("n")),
        (CHAT, chat(r#""n":17"#), value, Some("n")),
        (CHAT, chat(r#""n":4294967297"#), value, Some("n")),
        (CHAT, chat(r#""n":1.0"#), value, Some("n")),
        (CHAT, chat(r#""max_tokens":0"#), value, Some("max_tokens")),
        (CHAT, chat(r#""max_tokens":-2"#), value, Some("max_tokens")),
        (CHAT, chat(r#""max_tokens":"5""#), value, Some("max_tokens")),
        (
            CHAT,
            chat(r#""max_tokens":9223372036854775808"#),
            value,
            Some("max_tokens"),
        ),
        (
            CHAT,
            chat(r#""max_tokens":1e308"#),
            value,
            Some("max_tokens"),
        ),
        (
            CHAT,
            chat(r#""max_tokens":4,"max_completion_tokens":5"#),
            value,
            Some("max_completion_tokens"),
        ),
        (
            CHAT,
            chat(r#""max_tokens":5000"#),
            "context_length_exceeded",
            Some("messages"),
        ),
        (
            CHAT,
            chat(r#""min_tokens":9,"max_tokens":8"#),
            value,
            Some("min_tokens"),
        ),
        (
            CHAT,
            chat(r#""min_tokens":4000000000"#),
            value,
            Some("min_tokens"),
        ),
        (
            CHAT,
            chat(r#""top_logprobs":5"#),
            value,
            Some("top_logprobs"),
        ),
        (
            CHAT,
            chat(r#""logprobs":true,"top_logprobs":21"#),
            value,
            Some("top_logprobs"),
        ),
        (
            CHAT,
            chat(r#""logprobs":true,"top_logprobs":4294967301"#),
            value,
            Some("top_logprobs"),
        ),
        (CHAT, chat(r#""logprobs":5"#), value, Some("logprobs")),
        (
            CHAT,
            chat(r#""logit_bias":{"abc":1}"#),
            value,
            Some("logit_bias"),
        ),
        (
            CHAT,
            chat(r#""logit_bias":{"99999":1}"#),
            value,
            Some("logit_bias"),
        ),
        (
            CHAT,
            chat(r#""logit_bias":{"1":1e30}"#),
            value,
            Some("logit_bias"),
        ),
        (
            CHAT,
            chat(r#""logit_bias":{"1":1,"01":2}"#),
            value,
            Some("logit_bias"),
        ),
        (CHAT, chat(&many_stops), value, Some("stop")),
        (CHAT, chat(r#""stop":"""#), value, Some("stop")),
        (CHAT, chat(r#""stop":[1]"#), value, Some("stop")),
        (CHAT, chat(r#""seed":1.5"#), value, Some("seed")),
        (CHAT, chat(r#""seed":-2"#), value, Some("seed")),
        (CHAT, chat(r#""mirostat":2"#), unsupported, Some("mirostat")),
        (CHAT, many_messages, value, Some("messages")),
        (
            CHAT,
            format!(r#"{{"messages":[{user},{calls}]}}"#),
            value,
            Some("messages[1].tool_calls[0].id"),
        ),
        (
            CHAT,
            chat(r#""stop_token_ids":[999999]"#),
            value,
            Some("stop_token_ids"),
        ),
        (CHAT, chat(r#""stream":"yes""#), value, Some("stream")),
        (
            CHAT,
            chat(r#""stream_options":{"include_usage":true}"#),
            value,
            Some("stream_options"),
        ),
        (
            CHAT,
            chat(r#""stream":true,"stream_options":{"x":1}"#),
            "unknown_parameter",
            Some("stream_options.x"),
        ),
        (
            CHAT,
            chat(r#""stream":true,"prompt_logprobs":1"#),
            value,
            Some("prompt_logprobs"),
        ),
        (CHAT, chat(r#""echo":true"#), value, Some("echo")),
        (TEXT, "{}".to_owned(), value, Some("prompt")),
        (TEXT, r#"{"prompt":[]}"#.to_owned(), value, Some("prompt")),
        (TEXT, r#"{"prompt":""}"#.to_owned(), value, Some("prompt")),
        (TEXT, r#"{"prompt":[[]]}"#.to_owned(), value, Some("prompt")),
        (
            TEXT,
            r#"{"prompt":[1,"x"]}"#.to_owned(),
            value,
            Some("prompt"),
        ),
        (
            TEXT,
            r#"{"prompt":["x",1]}"#.to_owned(),
            value,
            Some("prompt"),
        ),
        (
            TEXT,
            r#"{"prompt":[[1,-1]]}"#.to_owned(),
            value,
            Some("prompt[0]"),
        ),
        (
            TEXT,
            r#"{"prompt":[999999]}"#.to_owned(),
            value,
            Some("prompt"),
        ),
        (TEXT, many_prompts, value, Some("prompt")),
        (
            TEXT,
            format!("{{{ids}}}"),
            "context_length_exceeded",
            Some("prompt"),
        ),
        (TEXT, text(r#""suffix":"x""#), unsupported, Some("suffix")),
        (TEXT, text(r#""n":2,"best_of":3"#), value, Some("best_of")),
        (
            TEXT,
            text(r#""logprobs":1000000000"#),
            value,
            Some("logprobs"),
        ),
        (TEXT, text(r#""logprobs":true"#), value, Some("logprobs")),
        (
            "/tokenize",
            r#"{"text":"x"}"#.to_owned(),
            value,
            Some("prompt"),
        ),
        (
            "/detokenize",
            r#"{"tokens":[999999]}"#.to_owned(),
            value,
            Some("tokens"),
        ),
    ];
    for (path, body, code, param) in &cases {
        let what = format!("{path} {}", &body[..body.floor_char_boundary(90)]);
        let answer = ask(server.address, &post(path, body)).await;
        check(&answer, &what, 400, code, *param);
        assert!(
            answer.body.len() < 700,
            "{what}: repeats too much: {}",
            answer.body
        );
        let good = ask(server.address, &post(CHAT, &chat("\"max_tokens\":8"))).await;
        assert_eq!(
            good.json()["choices"][0]["message"]["content"],
            "ok",
            "after {what}"
        );
    }
    let answer = ask(server.address, &post(CHAT, &chat(&long_model))).await;
    check(
        &answer,
        "a long model name",
        404,
        "model_not_found",
        Some("model"),
    );
    assert!(answer.body.len() < 400, "{}", answer.body);
    println!("{} bad bodies", cases.len() + 1);
    server.until_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_http_gets_its_error() {
    let mut setup = Setup::default();
    setup.options.limits.body_bytes = 1000;
    let server = Fixture::start(setup).await;
    let good = chat("\"max_tokens\":8");
    let long = chat(&format!("\"user\":\"{}\"", "x".repeat(300_000)));
    let head = |fields: &str| {
        format!("POST {CHAT} HTTP/1.1\r\nhost: t\r\nconnection: close\r\n{fields}\r\n\r\n")
    };
    let length = good.len();
    let form = head(&format!(
        "content-type: application/x-www-form-urlencoded\r\ncontent-length: {length}"
    ));
    let bare = head(&format!("content-length: {length}"));
    let chunked = head("content-type: application/json\r\ntransfer-encoding: chunked");
    let chunked = format!("{chunked}{:x}\r\n{long}\r\n0\r\n\r\n", long.len());
    let cases: [(&str, Vec<u8>, u16, &str); 8] = [
        ("a path", get("/nothing"), 404, "not_found"),
        (
            "another path",
            post("/v1/images/generations", "{}"),
            404,
            "not_found",
        ),
        ("a method", get(CHAT), 405, "method_not_allowed"),
        (
            "another method",
            post("/health", "{}"),
            405,
            "method_not_allowed",
        ),
        ("a long body", post(CHAT, &long), 413, "body_too_large"),
        (
            "a long chunked body",
            chunked.into_bytes(),
            413,
            "body_too_large",
        ),
        (
            "a form",
            (form + &good).into_bytes(),
            415,
            "unsupported_media_type",
        ),
        (
            "no content type",
            (bare + &good).into_bytes(),
            415,
            "unsupported_media_type",
        ),
    ];
    for (what, request, status, code) in cases {
        let answer = ask(server.address, &request).await;
        check(&answer, what, status, code, None);
        if status == 405 {
            assert!(answer.header("allow").is_some(), "{what}: {answer:?}");
        }
    }
    let answer = ask(server.address, &post(CHAT, &good)).await;
    assert_eq!(answer.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_over_its_limit_is_431() {
    let server = Fixture::start(Setup::default()).await;
    for (bytes, status) in [(15_000, 200), (17_000, 431), (66_000, 431)] {
        let line = format!("x-long: {}\r\n", "x".repeat(1000 - 12));
        let lines = line.repeat(bytes / 1000);
        let request = format!("GET /live HTTP/1.1\r\nhost: t\r\nconnection: close\r\n{lines}\r\n");
        let answer = ask(server.address, request.as_bytes()).await;
        assert_eq!(answer.status, status, "{bytes} bytes: {}", answer.head);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_does_not_come_ends_in_408() {
    let mut setup = Setup::default();
    setup.options.limits.body_timeout = std::time::Duration::from_millis(50);
    let server = Fixture::start(setup).await;
    let request = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: 100\r\n\r\n{{"
    );
    let answer = ask(server.address, request.as_bytes()).await;
    check(&answer, "half a body", 408, "request_timeout", None);
}
