//! Tools of `/v1/responses`: offered, called, answered.

use serde_json::{Value, json};

use crate::client::{Answer, ask, post};
use crate::fixture::{Fixture, Setup};

const CALL: &str =
    "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Bern\"}}\n</tool_call>";
const ARGUMENTS: &str = "{\"city\": \"Bern\"}";

fn weather() -> Value {
    json!({"type": "function", "name": "get_weather", "description": "Weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}})
}

async fn respond(server: &Fixture, say: &str, extra: Value) -> Answer {
    let mut body = json!({"input": format!("say:{say}|"), "tools": [weather()]});
    body.as_object_mut()
        .unwrap()
        .extend(extra.as_object().unwrap().clone());
    ask(server.address, &post("/v1/responses", &body.to_string())).await
}

/// The data of each event, whose name is its type and whose numbers count up.
fn events(answer: &Answer) -> Vec<Value> {
    let events = answer.body.split_terminator("\n\n").enumerate();
    let events = events.map(|(number, event)| {
        let (name, data) = event.split_once('\n').expect(event);
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").expect(event)).unwrap();
        assert_eq!(name, format!("event: {}", data["type"].as_str().unwrap()));
        assert_eq!(data["sequence_number"], number);
        data
    });
    events.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_answer_has_its_calls_as_items() {
    let server = Fixture::start(Setup::default()).await;
    let say = format!("One moment.\n{CALL}\n{CALL}");
    let body = respond(&server, &say, json!({})).await.json();
    assert_eq!(body["status"], "completed", "{body}");
    let output = body["output"].as_array().unwrap();
    assert_eq!(output.len(), 3);
    assert_eq!(output[0]["content"][0]["text"], "One moment.");
    let mut ids = Vec::new();
    for item in output {
        let prefix = if item["type"] == "message" {
            "msg_"
        } else {
            "fc_"
        };
        assert!(item["id"].as_str().unwrap().starts_with(prefix), "{item}");
        assert_eq!(item["status"], "completed");
        ids.push(item["id"].clone());
        ids.push(item["call_id"].clone());
    }
    for call in &output[1..] {
        assert_eq!(call["type"], "function_call");
        assert_eq!(call["name"], "get_weather");
        assert_eq!(call["arguments"], ARGUMENTS);
        assert!(call["call_id"].as_str().unwrap().starts_with("call_"));
    }
    let distinct: std::collections::HashSet<_> = ids.iter().map(Value::to_string).collect();
    // The message has no id of a call.
    assert_eq!(distinct.len(), ids.len(), "{ids:?}");
    let told = json!({"type": "function", "name": "get_weather", "description": "Weather of a city",
        "parameters": weather()["parameters"], "strict": false});
    assert_eq!(body["tools"], json!([told]));
    assert_eq!(body["tool_choice"], "auto");
    assert_eq!(body["parallel_tool_calls"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_has_each_item_s_events_in_order() {
    let server = Fixture::start(Setup::default()).await;
    let say = format!("Hm.\n{CALL}\n{CALL}");
    let answer = respond(&server, &say, json!({"stream": true})).await;
    let events = events(&answer);
    let mut names: Vec<_> = events
        .iter()
        .map(|event| {
            (
                event["type"].as_str().unwrap(),
                event["output_index"].clone(),
            )
        })
        .collect();
    names.dedup();
    let call = |index: usize| {
        [
            ("response.output_item.added", json!(index)),
            ("response.function_call_arguments.delta", json!(index)),
            ("response.function_call_arguments.done", json!(index)),
            ("response.output_item.done", json!(index)),
        ]
    };
    let mut expected = vec![
        ("response.created", Value::Null),
        ("response.in_progress", Value::Null),
        ("response.output_item.added", json!(0)),
        ("response.content_part.added", json!(0)),
        ("response.output_text.delta", json!(0)),
        ("response.output_text.done", json!(0)),
        ("response.content_part.done", json!(0)),
        ("response.output_item.done", json!(0)),
    ];
    expected.extend(call(1));
    expected.extend(call(2));
    expected.push(("response.completed", Value::Null));
    assert_eq!(names, expected);
    let last = &events[events.len() - 1]["response"]["output"];
    for index in 1..3 {
        let of = |kind: &str| {
            let found = events.iter().filter(|event| {
                event["type"] == format!("response.{kind}") && event["output_index"] == index
            });
            found.cloned().collect::<Vec<_>>()
        };
        let added = &of("output_item.added")[0]["item"];
        assert_eq!(added["arguments"], "");
        assert_eq!(added["status"], "in_progress");
        let deltas = of("function_call_arguments.delta");
        assert!(deltas.iter().all(|event| event["item_id"] == added["id"]));
        let text: String = deltas
            .iter()
            .map(|event| event["delta"].as_str().unwrap())
            .collect();
        let done = &of("function_call_arguments.done")[0];
        assert_eq!((text.as_str(), &done["item_id"]), (ARGUMENTS, &added["id"]));
        assert_eq!(done["arguments"], ARGUMENTS);
        let item = &of("output_item.done")[0]["item"];
        assert_eq!(item, &last[index]);
        assert_eq!(item["call_id"], added["call_id"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_choice_is_kept() {
    let server = Fixture::start(Setup::default()).await;
    for choice in [
        json!("required"),
        json!({"type": "function", "name": "get_weather"}),
    ] {
        let extra = json!({"tool_choice": choice, "max_output_tokens": 400});
        let body = respond(&server, "Hello", extra).await.json();
        let call = &body["output"][0];
        assert_eq!(call["type"], "function_call", "{body}");
        assert_eq!(body["tool_choice"], choice);
        if body["status"] == "completed" {
            let arguments: Value =
                serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
            assert!(arguments["city"].is_string(), "{arguments}");
        }
    }
    let none = respond(&server, CALL, json!({"tool_choice": "none"})).await;
    assert_eq!(none.json()["output"][0]["content"][0]["text"], CALL);
    let single = respond(
        &server,
        &format!("{CALL}\n{CALL}"),
        json!({"parallel_tool_calls": false}),
    )
    .await
    .json();
    assert_eq!(single["output"].as_array().unwrap().len(), 1);
    assert_eq!(single["parallel_tool_calls"], false);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_and_their_outputs_come_back_as_items() {
    let server = Fixture::start(Setup::default()).await;
    let body = json!({"tools": [weather()], "input": [
        {"role": "user", "content": "weather?"},
        {"type": "message", "role": "assistant", "content": "One moment."},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "get_weather", "arguments": ARGUMENTS, "status": "completed"},
        {"type": "function_call", "call_id": "call_2", "name": "get_weather", "arguments": ARGUMENTS},
        {"type": "function_call_output", "call_id": "call_1", "output": "sunny"},
        {"type": "function_call_output", "call_id": "call_2", "output": [{"type": "input_text", "text": "say:ok|"}]}]});
    let answer = ask(server.address, &post("/v1/responses", &body.to_string())).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["output"][0]["content"][0]["text"], "ok");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_called_is_refused() {
    let server = Fixture::start(Setup::default()).await;
    let cases = [
        (json!({"tools": [{"type": "web_search"}]}), "tools[0].type"),
        (json!({"tools": [{"type": "function"}]}), "tools[0].name"),
        (
            json!({"tools": [{"type": "function", "name": "f", "function": {}}]}),
            "tools[0].function",
        ),
        (json!({"tools": [weather(), weather()]}), "tools[1]"),
        (json!({"tool_choice": "any"}), "tool_choice"),
        (
            json!({"tool_choice": {"type": "function", "name": "other"}}),
            "tool_choice",
        ),
        (
            json!({"tools": [], "tool_choice": "required"}),
            "tool_choice",
        ),
        (
            json!({"input": [{"type": "function_call", "name": "f"}]}),
            "input[0].call_id",
        ),
        (
            json!({"input": [{"type": "function_call_output", "call_id": "c"}]}),
            "input[0].output",
        ),
        (
            json!({"input": [{"type": "web_search_call"}]}),
            "input[0].type",
        ),
    ];
    for (extra, param) in cases {
        let answer = respond(&server, "x", extra.clone()).await;
        assert_eq!(answer.status, 400, "{extra}: {answer:?}");
        assert_eq!(answer.json()["error"]["param"], param, "{extra}");
    }
}
