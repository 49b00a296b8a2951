//! Answers that must look like something: `response_format`, `structured_outputs`, `guided_*`.

use serde_json::{Value, json};

use crate::client::{Answer, ask, get, post};
use crate::fixture::{Fixture, Setup};

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

/// The model wants to say `say`; `extra` says what it may.
async fn chat(server: &Fixture, say: &str, extra: Value) -> Answer {
    let mut body =
        json!({"messages": [{"role": "user", "content": format!("say:{say}|")}], "max_tokens": 60});
    let fields = extra.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(fields);
    ask(server.address, &post(CHAT, &body.to_string())).await
}

fn content(answer: &Answer) -> (String, String) {
    assert_eq!(answer.status, 200, "{answer:?}");
    let choice = answer.json()["choices"][0].clone();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (
        text(&choice["message"]["content"]),
        text(&choice["finish_reason"]),
    )
}

fn person() -> Value {
    json!({
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["name", "age"],
        "additionalProperties": false
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_kind_is_followed() {
    let server = Fixture::start(Setup::default()).await;
    let ann = r#"{"name": "Ann","age":7}"#;
    let named = json!({"name": "person", "strict": true, "schema": person()});
    let format = json!({"response_format": {"type": "json_schema", "json_schema": named}});
    let followed = [
        (ann, format),
        (ann, json!({"response_format": {"type": "json_object"}})),
        (ann, json!({"structured_outputs": {"json": person()}})),
        (ann, json!({"structured_outputs": {"json_object": true}})),
        (ann, json!({"guided_json": person().to_string()})),
        (
            "a-12",
            json!({"structured_outputs": {"regex": "[a-c]-[0-9]+"}}),
        ),
        ("a-12", json!({"guided_regex": "[a-c]-[0-9]+"})),
        (
            "no",
            json!({"structured_outputs": {"choice": ["yes", "no"]}}),
        ),
        ("no", json!({"guided_choice": ["yes", "no"]})),
        (
            "(1+2)",
            json!({"structured_outputs": {"grammar": "start: e\ne: /[0-9]/ | \"(\" e \"+\" e \")\""}}),
        ),
        (
            "(1+2)",
            json!({"guided_grammar": "root ::= e\ne ::= [0-9] | \"(\" e \"+\" e \")\"\n"}),
        ),
        ("ok", json!({"response_format": {"type": "text"}})),
    ];
    for (say, extra) in followed {
        let answer = chat(&server, say, extra.clone()).await;
        assert_eq!(
            content(&answer),
            (say.to_owned(), "stop".to_owned()),
            "{extra}"
        );
    }
    let bent = [
        ("maybe", json!({"guided_choice": ["yes", "no"]})),
        ("Sure! {}", json!({"guided_json": person()})),
        (
            "{\"name\":\"A\"}",
            json!({"guided_json": person(), "logprobs": true, "top_logprobs": 2}),
        ),
    ];
    for (say, extra) in bent {
        let (text, _) = content(&chat(&server, say, extra.clone()).await);
        assert_ne!(text, say);
        let is_choice = ["yes", "no"].contains(&text.as_str());
        assert!(
            is_choice || text.starts_with("{\"name\":"),
            "{extra}: {text}"
        );
    }
    server.until_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_samples_and_completions_are_followed_too() {
    let server = Fixture::start(Setup::default()).await;
    let body = json!({
        "prompt": ["say:maybe|", "say:nothing|"],
        "n": 3,
        "temperature": 1.5,
        "seed": 3,
        "max_tokens": 10,
        "min_tokens": 4,
        "structured_outputs": {"choice": ["yes", "no", "yesterday"]}
    });
    let answer = ask(server.address, &post(TEXT, &body.to_string())).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let choices = answer.json()["choices"].clone();
    assert_eq!(choices.as_array().unwrap().len(), 6);
    for choice in choices.as_array().unwrap() {
        // What is complete ends before `min_tokens`; what can go on does.
        assert!(
            ["no", "yesterday"].contains(&choice["text"].as_str().unwrap()),
            "{choice}"
        );
        assert_eq!(choice["finish_reason"], "stop");
    }
    let streamed = chat(
        &server,
        "yes",
        json!({"guided_choice": ["yes", "no"], "stream": true}),
    )
    .await;
    let events = streamed.events();
    let text: String = events
        .iter()
        .filter_map(|event| serde_json::from_str::<Value>(event).ok())
        .filter_map(|chunk| {
            chunk["choices"][0]["delta"]["content"]
                .as_str()
                .map(str::to_owned)
        })
        .collect();
    assert_eq!(text, "yes");
    let cut = chat(
        &server,
        "{\"a\":1}",
        json!({"response_format": {"type": "json_object"}, "stop": ":"}),
    )
    .await;
    assert_eq!(content(&cut), ("{\"a\"".to_owned(), "stop".to_owned()));
    server.until_empty().await;
}

/// A vocabulary need not have all bytes, and SmolLM2's lacks some.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_token_spells_is_the_fault_of_its_request() {
    let server = Fixture::start(Setup {
        missing: &[0x04, 0xf2],
        ..Setup::default()
    })
    .await;
    let lost = "\u{a5878}";
    for (extra, byte) in [
        (
            json!({"guided_choice": ["\u{92}", format!("\u{db}{lost}")]}),
            "0xf2",
        ),
        (json!({"guided_json": {"enum": ["a", "\u{4}"]}}), "0x04"),
        (json!({"guided_regex": format!("a|{lost}")}), "0xf2"),
        (
            json!({"guided_grammar": format!("start: \"{lost}\"")}),
            "0xf2",
        ),
    ] {
        let answer = chat(&server, "ok", extra.clone()).await;
        assert_eq!(answer.status, 400, "{extra}: {answer:?}");
        let error = answer.json()["error"].clone();
        assert_eq!(error["code"], "invalid_value");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(byte), "{message}");
    }
    // Found only once the text has come to it.
    let rule = format!("start: T\nT: /a[b{lost}]/ & /a[^b]/");
    for path in [CHAT, TEXT] {
        let mut body = json!({"max_tokens": 9, "guided_grammar": rule});
        match path {
            TEXT => body["prompt"] = json!("say:ab|"),
            _ => body["messages"] = json!([{"role": "user", "content": "say:ab|"}]),
        }
        let answer = ask(server.address, &post(path, &body.to_string())).await;
        assert_eq!(answer.status, 400, "{answer:?}");
        let error = answer.json()["error"].clone();
        assert_eq!(error["code"], "unfollowable_constraint");
        assert_eq!(error["type"], "invalid_request_error");
        body["stream"] = json!(true);
        let streamed = ask(server.address, &post(path, &body.to_string())).await;
        assert_eq!(streamed.status, 200, "{streamed:?}");
        let last = streamed.events().pop().unwrap();
        let last: Value = serde_json::from_str(&last).unwrap();
        assert_eq!(last["error"]["code"], "unfollowable_constraint");
    }
    server.until_empty().await;
    let health = ask(server.address, &get("/health")).await.json();
    assert_eq!(health["requests_failed_total"], 0);
    let metrics = ask(server.address, &get("/metrics")).await;
    assert!(
        metrics.body.contains("reason=\"unfollowable\"} 4"),
        "{}",
        metrics.body
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_followed_is_refused_and_the_server_goes_on() {
    let server = Fixture::start(Setup::default()).await;
    let nested = (0..40).fold(json!({}), |inner, _| json!({"items": inner}));
    let many: Vec<_> = (0..1001).map(|i| i.to_string()).collect();
    let cases = [
        (json!({"guided_regex": "a(b"}), "guided_regex", "unclosed"),
        (
            json!({"guided_regex": "(?=a)b"}),
            "guided_regex",
            "look-around",
        ),
        (json!({"guided_regex": 3}), "guided_regex", "3"),
        (
            json!({"guided_json": {"type": "array", "uniqueItems": true}}),
            "guided_json",
            "#/uniqueItems",
        ),
        (json!({"guided_json": "{"}), "guided_json", "not JSON"),
        (json!({"guided_json": [1]}), "guided_json", "a list of 1"),
        (json!({"guided_json": ""}), "guided_json", "not JSON"),
        (
            json!({"structured_outputs": {"json": {"type": "string", "format": "phone"}}}),
            "structured_outputs",
            "phone",
        ),
        (
            json!({"guided_choice": many}),
            "guided_choice",
            "limit 1000",
        ),
        (
            json!({"guided_choice": []}),
            "guided_choice",
            "at least one",
        ),
        (
            json!({"guided_choice": ["a", 1]}),
            "guided_choice[1]",
            "must be a string",
        ),
        (
            json!({"guided_grammar": "start: missing"}),
            "guided_grammar",
            "missing",
        ),
        (
            json!({"guided_grammar": "root ::= missing"}),
            "guided_grammar",
            "missing",
        ),
        (
            json!({"structured_outputs": {}}),
            "structured_outputs",
            "one of",
        ),
        (
            json!({"structured_outputs": {"json_object": false}}),
            "structured_outputs",
            "one of",
        ),
        (
            json!({"structured_outputs": {"regex": "a", "choice": ["a"]}}),
            "structured_outputs",
            "2 rules",
        ),
        (
            json!({"structured_outputs": {"structural_tag": "x"}}),
            "structured_outputs.structural_tag",
            "unknown",
        ),
        (
            json!({"structured_outputs": {"regex": "a", "disable_any_whitespace": true}}),
            "structured_outputs.disable_any_whitespace",
            "only false",
        ),
        (
            json!({"guided_regex": "a", "guided_choice": ["a"]}),
            "guided_choice",
            "both",
        ),
        (
            json!({"response_format": {"type": "json_object"}, "structured_outputs": {"regex": "a"}}),
            "structured_outputs",
            "both",
        ),
        (
            json!({"response_format": {}}),
            "response_format.type",
            "missing",
        ),
        (
            json!({"response_format": {"type": "xml"}}),
            "response_format.type",
            "xml",
        ),
        (
            json!({"response_format": {"type": "json_schema"}}),
            "response_format.json_schema",
            "missing",
        ),
        (
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}),
            "response_format.json_schema.schema",
            "missing",
        ),
        (
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"properties": {"a": {"not": {}}}}}}}),
            "response_format",
            "#/properties/a/not",
        ),
    ];
    for (extra, param, text) in cases {
        let answer = chat(&server, "ok", extra.clone()).await;
        assert_eq!(answer.status, 400, "{extra}: {answer:?}");
        let error = answer.json()["error"].clone();
        assert_eq!(error["param"], param, "{extra}: {error}");
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains(text) && message.len() < 1200,
            "{extra}: {message}"
        );
        assert_eq!(ask(server.address, &get("/health")).await.status, 200);
    }
    assert_eq!(
        chat(&server, "[]", json!({"guided_json": nested}))
            .await
            .status,
        200
    );
    let deep = format!(
        r#"{{"messages":[{{"role":"user","content":"x"}}],"guided_json":{}{{}}{}}}"#,
        r#"{"items":"#.repeat(10_000),
        "}".repeat(10_000)
    );
    assert_eq!(ask(server.address, &post(CHAT, &deep)).await.status, 400);
    let (text, _) = content(&chat(&server, "ok", json!({})).await);
    assert_eq!(text, "ok");
    server.until_empty().await;
}
