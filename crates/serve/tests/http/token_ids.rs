//! Token ids beside answers, and the ids of a chat.

use serde_json::{Value, json};

use crate::client::{Answer, ask, post};
use crate::fixture::{Fixture, Setup};

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = r#""messages":[{"role":"user","content":"say:héy|"}]"#;

fn bytes(text: &str) -> Vec<u32> {
    text.bytes().map(u32::from).collect()
}

/// The ids of the chat above, as the template has them.
fn chat_ids() -> Vec<u32> {
    let parts = [
        vec![256],
        bytes("user\nsay:héy|"),
        vec![257],
        bytes("\n"),
        vec![256],
        bytes("assistant\n"),
    ];
    parts.concat()
}

fn chunks(answer: &Answer) -> Vec<Value> {
    let events = answer.events();
    let events = events.iter().filter(|event| *event != "[DONE]");
    events
        .map(|event| serde_json::from_str(event).unwrap())
        .collect()
}

/// The ids that the choices of a stream tell, one after the other.
fn streamed(chunks: &[Value]) -> Vec<u32> {
    let choices = chunks.iter().flat_map(|chunk| chunk["choices"].as_array());
    let ids = choices
        .flatten()
        .filter_map(|choice| choice["token_ids"].as_array());
    ids.flatten()
        .map(|id| id.as_u64().unwrap() as u32)
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ids_of_a_chat_are_told_to_who_asks() {
    let server = Fixture::start(Setup::default()).await;
    let ask_chat = async |extra: &str| {
        ask(
            server.address,
            &post(CHAT, &format!("{{{MESSAGES}{extra}}}")),
        )
        .await
    };
    let plain = ask_chat("").await.json();
    assert!(plain.get("prompt_token_ids").is_none(), "{plain}");
    assert!(plain["choices"][0].get("token_ids").is_none(), "{plain}");
    let answer = ask_chat(r#","return_token_ids":true,"n":2"#).await.json();
    assert_eq!(answer["prompt_token_ids"], json!(chat_ids()));
    for choice in answer["choices"].as_array().unwrap() {
        assert_eq!(choice["token_ids"], json!(bytes("héy")));
    }
    let stream = ask_chat(r#","return_token_ids":true,"stream":true"#).await;
    let chunks = chunks(&stream);
    assert_eq!(chunks[0]["prompt_token_ids"], json!(chat_ids()));
    assert!(
        chunks[1..]
            .iter()
            .all(|chunk| chunk.get("prompt_token_ids").is_none())
    );
    assert_eq!(streamed(&chunks), bytes("héy"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_choice_of_a_completion_tells_its_ids() {
    let server = Fixture::start(Setup::default()).await;
    let body = |extra: &str| {
        let body = format!(r#"{{"prompt":["say:é|","say:b|"],"return_token_ids":true{extra}}}"#);
        post("/v1/completions", &body)
    };
    let answer = ask(server.address, &body("")).await.json();
    for (index, said) in [(0, "é"), (1, "b")] {
        let choice = &answer["choices"][index];
        let prompt = bytes(&format!("say:{said}|"));
        assert_eq!(choice["prompt_token_ids"], json!(prompt));
        assert_eq!(choice["token_ids"], json!(bytes(said)));
    }
    let stream = ask(server.address, &body(r#","stream":true"#)).await;
    let chunks = chunks(&stream);
    for (index, said) in [(0, "é"), (1, "b")] {
        let own = |chunk: &&Value| chunk["choices"][0]["index"] == index;
        let own: Vec<Value> = chunks.iter().filter(own).cloned().collect();
        let told = own
            .iter()
            .filter_map(|chunk| chunk["choices"][0].get("prompt_token_ids"));
        let told: Vec<&Value> = told.collect();
        assert_eq!(told, [&json!(bytes(&format!("say:{said}|")))]);
        assert_eq!(streamed(&own), bytes(said));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chat_is_tokenized_as_it_would_run() {
    let server = Fixture::start(Setup::default()).await;
    let tokenize = async |body: &str| ask(server.address, &post("/tokenize", body)).await;
    let chat = tokenize(&format!("{{{MESSAGES},\"add_generation_prompt\":true}}")).await;
    assert_eq!(chat.json()["tokens"], json!(chat_ids()));
    assert_eq!(chat.json()["count"], chat_ids().len());
    for (body, param) in [
        (
            r#"{"prompt":"a","messages":[{"role":"user","content":"a"}]}"#,
            "prompt",
        ),
        (
            r#"{"prompt":"a","tools":[{"type":"function","function":{"name":"f"}}]}"#,
            "prompt",
        ),
        (r#"{"messages":[]}"#, "messages"),
        (r#"{"messages":7}"#, "messages"),
        (
            r#"{"messages":[{"role":"user","content":"a"}],"add_special_tokens":true}"#,
            "add_special_tokens",
        ),
        (
            r#"{"messages":[{"role":"user","content":"a"}],"add_generation_prompt":false}"#,
            "add_generation_prompt",
        ),
        (
            r#"{"prompt":"a","return_token_strs":true}"#,
            "return_token_strs",
        ),
        (
            r#"{"prompt":"a","chat_template":"{{ x }}"}"#,
            "chat_template",
        ),
    ] {
        let answer = tokenize(body).await;
        assert_eq!(answer.status, 400, "{body}: {answer:?}");
        assert_eq!(answer.json()["error"]["param"], param, "{body}");
    }
    server.until_empty().await;
}
