//! `/openapi.json` against the server that it describes.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use ucuz_serve::{ApiKeys, ROUTES};

use crate::bodies::GOOD;
use crate::client::{Answer, ask, get, post};
use crate::fixture::{Fixture, Setup};

/// The document of a server.
pub async fn document(server: &Fixture) -> Value {
    ask(server.address, &get("/openapi.json")).await.json()
}

/// The schema of a POST's body.
fn body_schema<'d>(document: &'d Value, path: &str) -> &'d Value {
    let content = &document["paths"][path]["post"]["requestBody"]["content"];
    let reference = content["application/json"]["schema"]["$ref"].as_str();
    let name = reference.unwrap_or_else(|| panic!("{path} has no body"));
    document.pointer(&name[1..]).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_is_described_and_nothing_else() {
    let server = Fixture::start(Setup::default()).await;
    let document = document(&server).await;
    assert_eq!(document["openapi"], "3.1.0");
    let mut described = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            described.insert((method.to_uppercase(), path.clone()));
            let has_body = operation["requestBody"].is_object();
            assert_eq!(has_body, method == "post", "{path}");
            let statuses = operation["responses"].as_object().unwrap();
            assert!(statuses.contains_key("200"), "{path}");
            let is_open = ["/health", "/live"].contains(&path.as_str());
            assert_eq!(statuses.contains_key("401"), !is_open, "{path}");
        }
    }
    let routes = ROUTES.iter();
    let routes = routes.map(|route| (route.method.to_owned(), route.path.replace("{*", "{")));
    assert_eq!(described, routes.collect());
    assert_eq!(document["security"][0], json!({}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_there_are_keys_the_document_needs_one_and_says_so() {
    let mut setup = Setup::default();
    setup.options.keys = Some(ApiKeys::single("0123456789abcdef").unwrap());
    let server = Fixture::start(setup).await;
    let bare = ask(server.address, &get("/openapi.json")).await;
    assert_eq!(bare.status, 401);
    let key = "GET /openapi.json HTTP/1.1\r\nhost: t\r\nconnection: close\r\nx-api-key: 0123456789abcdef\r\n\r\n";
    let document = ask(server.address, key.as_bytes()).await.json();
    assert_eq!(
        document["security"],
        json!([{ "bearer": [] }, { "key": [] }])
    );
    assert_eq!(
        document["paths"]["/health"]["get"]["security"][0],
        json!({})
    );
}

/// Fields whose rule is about another field or the model; what their table says of types is held all the same.
const BOUND_TO_OTHERS: [&str; 5] = [
    "min_tokens",
    "max_completion_tokens",
    "best_of",
    "dimensions",
    "stream_options",
];

/// Harmless without tools, whatever they are.
const FREE_WITHOUT_TOOLS: &str = "parallel_tool_calls";

/// A body with one field changed.
fn with(body: &Value, name: &str, value: &Value) -> String {
    let mut body = body.clone();
    body[name] = value.clone();
    body.to_string()
}

/// Whether an answer finds fault with a field.
fn blames(answer: &Answer, name: &str) -> bool {
    let error = &answer.json()["error"];
    let message = error["message"].as_str().unwrap_or_default();
    answer.status == 400 && (error["param"] == name || message.starts_with(name))
}

/// Values that a schema allows, and values that it does not.
fn edges(name: &str, schema: &Value) -> (Vec<Value>, Vec<Value>) {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    good.extend(schema.get("default").cloned());
    good.extend(schema["enum"].as_array().into_iter().flatten().cloned());
    let types = schema["type"].to_string();
    if types.contains("integer") || types.contains("number") {
        let least = schema.get("minimum").or(schema.get("exclusiveMinimum"));
        let (least, most) = (least.unwrap(), &schema["maximum"]);
        bad.extend([json!("1"), json!([1]), json!(true)]);
        bad.push(json!(least.as_f64().unwrap() - 1.0));
        bad.push(json!(most.as_f64().unwrap() * 2.0 + 1.0));
        if types.contains("integer") {
            bad.extend([json!(0.5), json!(least.as_i64().unwrap() - 1)]);
        }
        match schema.get("exclusiveMinimum") {
            Some(least) => bad.push(least.clone()),
            None => good.push(least.clone()),
        }
        good.push(most.clone());
    } else if types.contains("string") || types.contains("boolean") {
        bad.extend([json!(7), json!([7])]);
        if let Some(most) = schema["maxLength"].as_u64() {
            good.push(json!("x".repeat(most as usize)));
            bad.push(json!("x".repeat(most as usize + 1)));
        }
        if schema["enum"].is_array() || types.contains("boolean") {
            bad.push(json!("neither"));
        }
    } else if types.contains("array") || types.contains("object") || schema["anyOf"].is_array() {
        bad.push(json!(7));
        if let Some(most) = schema["maxItems"].as_u64() {
            bad.push(json!(vec![0; most as usize + 1]));
        }
    } else if schema["enum"].is_array() || schema["type"] == "null" {
        bad.push(json!("neither"));
    }
    if BOUND_TO_OTHERS.contains(&name) {
        good.clear();
    }
    good.retain(|value| !value.is_null());
    (good, bad)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bounds_of_each_field_are_those_of_the_server() {
    let server = Fixture::start(Setup::default()).await;
    let document = document(&server).await;
    let (mut num_good, mut num_bad) = (0, 0);
    let mut seen = BTreeSet::new();
    for (path, body) in GOOD {
        if !seen.insert(path) {
            continue;
        }
        let mut body: Value = serde_json::from_str(body).unwrap();
        if path == "/v1/responses" || path == "/v1/messages" {
            body["stream"] = json!(false);
        }
        let properties = body_schema(&document, path)["properties"].as_object();
        for (name, schema) in properties.unwrap() {
            let (good, mut bad) = edges(name, schema);
            if name == FREE_WITHOUT_TOOLS {
                bad.clear();
            }
            for value in good {
                let request = post(path, &with(&body, name, &value));
                let answer = ask(server.address, &request).await;
                let is_taken = answer.status == 200 || !blames(&answer, name);
                assert!(is_taken, "{path} {name} {value}: {answer:?}");
                num_good += 1;
            }
            for value in bad {
                let request = post(path, &with(&body, name, &value));
                let answer = ask(server.address, &request).await;
                assert!(
                    answer.status == 400 || answer.status == 404,
                    "{path} {name} {value}: {answer:?}"
                );
                num_bad += 1;
            }
        }
    }
    println!("{num_good} values at bounds taken, {num_bad} beyond refused");
    assert!(num_good > 150 && num_bad > 500, "{num_good} {num_bad}");
    server.until_empty().await;
}
