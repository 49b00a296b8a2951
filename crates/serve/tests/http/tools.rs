//! Tool calls and thoughts of `/v1/chat/completions`: what is asked for, what is refused, what is answered.

use serde_json::{Value, json};

use crate::client::{Answer, ask, post};
use crate::fixture::{Fixture, NOW, Setup};

const CHAT: &str = "/v1/chat/completions";
/// A template of a model that thinks and knows tools.
const THINKING: &str = "{% if tools %}{{ '<|im_start|>system\\n' + (tools | tojson) + '<tool_call></tool_call><|im_end|>\\n' }}{% endif %}{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + (m['content'] or '') + '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% if messages[0].content.startswith('open') %}{{ '<think>\\n' }}{% endif %}{% endif %}";

const CALL: &str = "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Z\\u00fcrich\"}}\n</tool_call>";
const ARGUMENTS: &str = "{\"city\": \"Z\\u00fcrich\"}";

fn weather() -> Value {
    json!({"type": "function", "function": {
        "name": "get_weather",
        "description": "Weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }})
}

/// A request whose answer is `say`, with more fields.
fn body(say: &str, extra: &Value) -> Value {
    let mut body = json!({
        "messages": [{"role": "user", "content": format!("say:{say}|")}],
        "tools": [weather()],
    });
    for (name, value) in extra.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

async fn chat(server: &Fixture, body: &Value) -> Answer {
    ask(server.address, &post(CHAT, &body.to_string())).await
}

async fn choice(server: &Fixture, say: &str, extra: Value) -> Value {
    let answer = chat(server, &body(say, &extra)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["choices"][0].clone()
}

/// The deltas of a stream, and its reason to end.
async fn deltas(server: &Fixture, say: &str, mut extra: Value) -> (Vec<Value>, Value) {
    extra["stream"] = json!(true);
    let answer = chat(server, &body(say, &extra)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let mut events = answer.events();
    assert_eq!(events.pop().as_deref(), Some("[DONE]"));
    let mut deltas = Vec::new();
    let mut reason = Value::Null;
    for event in events {
        let chunk: Value = serde_json::from_str(&event).unwrap();
        let choice = &chunk["choices"][0];
        if choice["finish_reason"].is_null() {
            deltas.push(choice["delta"].clone());
        } else {
            reason = choice["finish_reason"].clone();
        }
    }
    (deltas, reason)
}

fn joined(deltas: &[Value], field: &str) -> String {
    deltas
        .iter()
        .filter_map(|delta| delta[field].as_str())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_answer_with_calls_has_openai_s_shape() {
    let server = Fixture::start(Setup::default()).await;
    let answer = chat(&server, &body(CALL, &json!({}))).await;
    let mut answer = answer.json();
    let id = answer["choices"][0]["message"]["tool_calls"][0]["id"].take();
    assert!(
        id.as_str()
            .is_some_and(|id| id.starts_with("call_") && id.len() > 20),
        "{id}"
    );
    let expected = json!([{
        "index": 0,
        "message": {
            "role": "assistant",
            "content": null,
            "tool_calls": [{"id": null, "type": "function", "function": {"name": "get_weather", "arguments": ARGUMENTS}}],
            "refusal": null,
        },
        "logprobs": null,
        "finish_reason": "tool_calls",
    }]);
    assert_eq!(answer["choices"], expected);
    assert_eq!(answer["created"], NOW);

    let two = choice(
        &server,
        &format!("One moment.\n{CALL}\n{CALL}"),
        json!({"n": 1}),
    )
    .await;
    assert_eq!(two["message"]["content"], "One moment.");
    let calls = two["message"]["tool_calls"].as_array().unwrap();
    assert_eq!(calls.len(), 2);
    assert_ne!(calls[0]["id"], calls[1]["id"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_with_calls_has_openai_s_deltas_in_order() {
    let server = Fixture::start(Setup::default()).await;
    let (deltas, reason) = deltas(&server, &format!("Hm.\n{CALL}\n"), json!({})).await;
    assert_eq!(reason, "tool_calls");
    assert_eq!(deltas[0], json!({"role": "assistant", "content": ""}));
    assert_eq!(joined(&deltas, "content"), "Hm.");
    let calls: Vec<&Value> = deltas
        .iter()
        .filter_map(|delta| delta.get("tool_calls"))
        .collect();
    let mut first = calls[0][0].clone();
    assert!(
        first["id"]
            .as_str()
            .is_some_and(|id| id.starts_with("call_"))
    );
    first["id"] = json!("ID");
    let function = json!({"name": "get_weather", "arguments": ""});
    assert_eq!(
        first,
        json!({"index": 0, "id": "ID", "type": "function", "function": function})
    );
    let mut arguments = String::new();
    for call in &calls[1..] {
        let delta = call[0]["function"]["arguments"].as_str().unwrap();
        arguments.push_str(delta);
        assert_eq!(
            call[0],
            json!({"index": 0, "function": {"arguments": delta}})
        );
    }
    assert_eq!(arguments, ARGUMENTS);
    assert!(
        calls.len() > 10,
        "arguments come as they are made, not at the end"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_looked_for_only_where_tools_are_offered() {
    let server = Fixture::start(Setup::default()).await;
    for extra in [
        json!({"tool_choice": "none"}),
        json!({"tools": []}),
        json!({"tools": null}),
    ] {
        let choice = choice(&server, CALL, extra).await;
        assert_eq!(choice["message"]["content"], CALL);
        assert_eq!(choice["finish_reason"], "stop");
        assert!(choice["message"].get("tool_calls").is_none());
    }
    let text = "<tool_call>{\"name\": oops}</tool_call>";
    let choice = choice(&server, text, json!({})).await;
    assert_eq!(choice["message"]["content"], text);
    assert_eq!(choice["finish_reason"], "stop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_call_at_a_time_and_calls_cut_short() {
    let server = Fixture::start(Setup::default()).await;
    let say = format!("{CALL}\n{CALL}");
    let one = choice(&server, &say, json!({"parallel_tool_calls": false})).await;
    assert_eq!(one["message"]["tool_calls"].as_array().unwrap().len(), 1);
    let (deltas, _) = deltas(&server, &say, json!({"parallel_tool_calls": false})).await;
    let calls = deltas
        .iter()
        .filter_map(|delta| delta["tool_calls"][0]["index"].as_u64());
    assert!(calls.max() == Some(0));

    let cut = choice(&server, CALL, json!({"max_tokens": 62})).await;
    assert_eq!(cut["finish_reason"], "length");
    let arguments = cut["message"]["tool_calls"][0]["function"]["arguments"]
        .as_str()
        .unwrap();
    assert!(
        arguments.len() > 3 && ARGUMENTS.starts_with(arguments),
        "{arguments}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_of_calls_go_back_to_the_model() {
    for template in [None, Some(THINKING)] {
        let mut setup = Setup::default();
        setup.template = template.unwrap_or(setup.template);
        let server = Fixture::start(setup).await;
        let call = json!({"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": ARGUMENTS}});
        let body = json!({
            "messages": [
                {"role": "user", "content": "say:Sunny.|"},
                {"role": "assistant", "content": null, "tool_calls": [call], "reasoning_content": "hm"},
                {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "sun"}]},
                {"role": "tool", "tool_call_id": "call_2", "name": "get_weather", "content": "rain"},
            ],
            "tools": [weather()],
            "tool_choice": "auto",
        });
        let answer = chat(&server, &body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.json()["choices"][0]["message"]["content"], "Sunny.");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thoughts_are_told_apart_from_the_answer() {
    let setup = Setup {
        template: THINKING,
        ..Setup::default()
    };
    let server = Fixture::start(setup).await;
    let say = format!("<think>\na < b\n</think>\n\n{CALL}");
    let whole = choice(&server, &say, json!({})).await;
    assert_eq!(whole["message"]["reasoning_content"], "a < b");
    assert_eq!(whole["message"]["content"], Value::Null);
    assert_eq!(
        whole["message"]["tool_calls"][0]["function"]["arguments"],
        ARGUMENTS
    );
    assert_eq!(whole["finish_reason"], "tool_calls");

    let say = "<think>\na < b\n</think>\n\nYes.";
    let whole = choice(&server, say, json!({"tools": []})).await;
    assert_eq!(whole["message"]["reasoning_content"], "a < b");
    assert_eq!(whole["message"]["content"], "Yes.");
    assert_eq!(whole["finish_reason"], "stop");
    let hidden = choice(&server, say, json!({"include_reasoning": false})).await;
    assert_eq!(hidden["message"]["content"], "Yes.");
    assert!(hidden["message"].get("reasoning_content").is_none());
    let (told, reason) = deltas(&server, say, json!({})).await;
    assert_eq!(joined(&told, "reasoning_content"), "a < b");
    assert_eq!(joined(&told, "content"), "Yes.");
    assert_eq!(reason, "stop");

    // The template opens the thoughts of this one; what it wrote of the answer, the model need not say.
    let messages = json!([{"role": "user", "content": "open say:<think>\nwell</think>Yes.|"}]);
    let whole = choice(&server, "", json!({"messages": messages})).await;
    assert_eq!(whole["message"]["reasoning_content"], "well");
    assert_eq!(whole["message"]["content"], "Yes.");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_tools_are_refused_by_name() {
    let server = Fixture::start(Setup::default()).await;
    let value = "invalid_value";
    let function = |fields: &str| {
        let fields: Value = serde_json::from_str(fields).unwrap();
        json!({"tools": [{"type": "function", "function": fields}]})
    };
    let choice = |choice: Value| json!({"tool_choice": choice});
    let long = "x".repeat(300 << 10);
    let many: Vec<Value> = (0..129)
        .map(|i| json!({"type": "function", "function": {"name": format!("f{i}")}}))
        .collect();
    for (extra, code, param) in [
        (json!({"tools": {}}), value, "tools"),
        (json!({"tools": [1]}), value, "tools[0]"),
        (
            json!({"tools": [{"function": {"name": "f"}}]}),
            value,
            "tools[0].type",
        ),
        (
            json!({"tools": [{"type": "web_search"}]}),
            value,
            "tools[0].type",
        ),
        (
            json!({"tools": [{"type": "function", "x": 1, "function": {"name": "f"}}]}),
            "unknown_parameter",
            "tools[0].x",
        ),
        (json!({"tools": many}), value, "tools"),
        (json!({"tools": [weather(), weather()]}), value, "tools[1]"),
        (function("{}"), value, "tools[0].function.name"),
        (function(r#"{"name":""}"#), value, "tools[0].function.name"),
        (
            function(r#"{"name":"a b"}"#),
            value,
            "tools[0].function.name",
        ),
        (
            function(&format!(r#"{{"name":"{}"}}"#, "a".repeat(65))),
            value,
            "tools[0].function.name",
        ),
        (
            function(r#"{"name":"f","parameters":[]}"#),
            value,
            "tools[0].function.parameters",
        ),
        (
            function(r#"{"name":"f","parameters":{"type":"string"}}"#),
            value,
            "tools[0].function.parameters.type",
        ),
        (
            function(
                r#"{"name":"f","strict":true,"parameters":{"type":"object","properties":{"a":{"uniqueItems":true}}}}"#,
            ),
            value,
            "tools",
        ),
        (
            json!({"tool_choice": "required", "response_format": {"type": "json_object"}}),
            value,
            "response_format",
        ),
        (
            function(&format!(r#"{{"name":"f","description":"{long}"}}"#)),
            value,
            "tools",
        ),
        (choice(json!("maybe")), value, "tool_choice"),
        (
            choice(json!({"type": "allowed_tools"})),
            value,
            "tool_choice.type",
        ),
        (
            choice(json!({"type": "function", "function": {"name": "other"}})),
            value,
            "tool_choice",
        ),
        (
            json!({"tools": [], "tool_choice": "required"}),
            value,
            "tool_choice",
        ),
        (
            json!({"parallel_tool_calls": 1}),
            value,
            "parallel_tool_calls",
        ),
        (
            json!({"include_reasoning": "no"}),
            value,
            "include_reasoning",
        ),
        (
            json!({"functions": [{"name": "f"}]}),
            "unsupported_parameter",
            "functions",
        ),
    ] {
        let answer = chat(&server, &body("ok", &extra)).await;
        let error = &answer.json()["error"];
        assert_eq!(
            (
                answer.status,
                error["code"].as_str(),
                error["param"].as_str()
            ),
            (400, Some(code), Some(param)),
            "{error}"
        );
    }
    let call = |call: Value| json!([{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [call]}]);
    let id = "messages[1].tool_calls[0].id";
    for (messages, param) in [
        (
            call(json!({"type": "function", "function": {"name": "f"}})),
            id,
        ),
        (
            call(json!({"id": "", "type": "function", "function": {"name": "f"}})),
            id,
        ),
        (
            call(json!({"id": "c", "type": "custom"})),
            "messages[1].tool_calls[0].type",
        ),
        (
            call(json!({"id": "c", "type": "function"})),
            "messages[1].tool_calls[0].function",
        ),
        (
            call(
                json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": {}}}),
            ),
            "messages[1].tool_calls[0].function.arguments",
        ),
        (
            json!([{"role": "assistant", "tool_calls": []}]),
            "messages[0].content",
        ),
        (
            json!([{"role": "tool", "content": "x"}]),
            "messages[0].tool_call_id",
        ),
        (
            json!([{"role": "tool", "tool_call_id": "c"}]),
            "messages[0].content",
        ),
    ] {
        let answer = chat(&server, &body("ok", &json!({"messages": messages}))).await;
        assert_eq!(
            (answer.status, answer.json()["error"]["param"].as_str()),
            (400, Some(param)),
            "{answer:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_of_calls_that_nobody_knows_is_refused() {
    let template = "{% if tools %}{{ '<unknown>' }}{% endif %}{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}{{ '<|im_start|>assistant\\n' }}";
    let setup = Setup {
        template,
        ..Setup::default()
    };
    let server = Fixture::start(setup).await;
    let answer = chat(&server, &body("ok", &json!({}))).await;
    assert_eq!(answer.status, 400, "{answer:?}");
    assert_eq!(answer.json()["error"]["param"], "tools");
    let without = choice(&server, "ok", json!({"tool_choice": "none"})).await;
    assert_eq!(without["message"]["content"], "ok");
}

/// The one call of a choice: its name and arguments.
fn one_call(choice: &Value) -> (String, Value) {
    assert_eq!(choice["finish_reason"], "tool_calls", "{choice}");
    assert!(choice["message"]["content"].is_null(), "{choice}");
    let function = &choice["message"]["tool_calls"][0]["function"];
    let arguments = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
    (function["name"].as_str().unwrap().to_owned(), arguments)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_must_come_come_and_keep_to_their_schema() {
    let server = Fixture::start(Setup::default()).await;
    // The model itself would say something else.
    let tools = json!([
        {"type": "function", "function": {"name": "ask", "parameters": {
            "type": "object",
            "$defs": {"city": {"enum": ["Oslo", "Rome"]}},
            "properties": {"city": {"$ref": "#/$defs/city"}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
            "required": ["city", "days"],
            "additionalProperties": false,
        }}},
        {"type": "function", "function": {"name": "stop"}},
    ]);
    let named = json!({"type": "function", "function": {"name": "ask"}});
    for (tool_choice, seed) in [(named, 1), (json!("required"), 2)] {
        let is_named = tool_choice.is_object();
        let extra = json!({
            "tools": tools, "tool_choice": tool_choice, "parallel_tool_calls": false,
            "max_tokens": 300, "temperature": 1, "seed": seed,
        });
        let (name, arguments) = one_call(&choice(&server, "hello", extra.clone()).await);
        match name.as_str() {
            "ask" => {
                assert!(["Oslo", "Rome"].contains(&arguments["city"].as_str().unwrap()));
                assert!((1..=9).contains(&arguments["days"].as_i64().unwrap()));
                assert_eq!(arguments.as_object().unwrap().len(), 2);
            }
            other => assert!(
                other == "stop" && !is_named && arguments == json!({}),
                "{other}"
            ),
        }
        let (deltas, reason) = deltas(&server, "hello", extra).await;
        assert_eq!(reason, "tool_calls");
        let parts = deltas
            .iter()
            .filter_map(|delta| delta["tool_calls"][0]["function"]["arguments"].as_str());
        let streamed: Value = serde_json::from_str(&parts.collect::<String>()).unwrap();
        assert_eq!(streamed, arguments);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strict_tool_is_free_until_it_is_called() {
    let server = Fixture::start(Setup::default()).await;
    let mut strict = weather();
    strict["function"]["strict"] = json!(true);
    let free = choice(&server, "hello", json!({"tools": [strict.clone()]})).await;
    assert_eq!(free["message"]["content"], "hello");
    assert_eq!(free["finish_reason"], "stop");
    // What is no call of the schema cannot be said after the mark.
    let wrong =
        "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": 7}}\n</tool_call>";
    let held = choice(&server, wrong, json!({"tools": [strict], "max_tokens": 60})).await;
    let call = &held["message"]["tool_calls"][0]["function"];
    assert_eq!(call["name"], "get_weather", "{held}");
    assert!(
        call["arguments"]
            .as_str()
            .unwrap()
            .starts_with("{\"city\": \""),
        "{held}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_follows_a_rule_is_no_thought() {
    let server = Fixture::start(Setup {
        template: THINKING,
        ..Setup::default()
    })
    .await;
    // The template opens thoughts, which the rule leaves no place for.
    let body = json!({
        "messages": [{"role": "user", "content": "open say:yes|"}],
        "structured_outputs": {"choice": ["yes", "no"]},
        "max_tokens": 20,
    });
    let message = chat(&server, &body).await.json()["choices"][0]["message"].clone();
    assert!(
        ["yes", "no"].contains(&message["content"].as_str().unwrap_or_default()),
        "{message}"
    );
    assert!(message.get("reasoning_content").is_none(), "{message}");
}
