//! `/v1/chat/completions`: whole and streamed.

use serde_json::{Value, json};

use crate::client::{Answer, ask, post};
use crate::fixture::{Fixture, NOW, Setup};

const CHAT: &str = "/v1/chat/completions";

async fn chat(server: &Fixture, say: &str, extra: &str) -> Answer {
    let body = format!(r#"{{"messages":[{{"role":"user","content":"say:{say}|"}}]{extra}}}"#);
    ask(server.address, &post(CHAT, &body)).await
}

/// The JSON of each event but `[DONE]`, which must be the last.
fn chunks(answer: &Answer) -> Vec<Value> {
    let mut events = answer.events();
    assert_eq!(events.pop().as_deref(), Some("[DONE]"), "{answer:?}");
    events
        .iter()
        .map(|event| serde_json::from_str(event).unwrap())
        .collect()
}

/// The joined text of one choice of a stream.
fn text_of(chunks: &[Value], index: usize) -> String {
    let choices = chunks
        .iter()
        .flat_map(|chunk| chunk["choices"].as_array().unwrap());
    let own = choices.filter(|choice| choice["index"] == index);
    own.filter_map(|choice| choice["delta"]["content"].as_str())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_answer_has_openai_s_shape() {
    let server = Fixture::start(Setup::default()).await;
    let answer = chat(&server, "Hé!", ",\"seed\":5,\"user\":\"u\",\"store\":false").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("x-ucuz-ignored"), Some("store, user"));
    let sampling: Value = serde_json::from_str(answer.header("x-ucuz-sampling").unwrap()).unwrap();
    assert_eq!(sampling["temperature"], 0.0);
    assert_eq!(sampling["top_k"], 40);
    assert_eq!(sampling["seed"], 5);
    let mut body = answer.json();
    assert!(body["id"].as_str().unwrap().starts_with("chatcmpl-"));
    body["id"] = json!("ID");
    let prompt = "<say:Hé!|>".len() + "user\n\nassistant\n".len() + 1;
    let expected = json!({
        "id": "ID",
        "object": "chat.completion",
        "created": NOW,
        "model": "sim",
        "system_fingerprint": "fp",
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": "Hé!", "refusal": null},
            "logprobs": null,
            "finish_reason": "stop",
        }],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": 4,
            "total_tokens": prompt + 4,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
    });
    assert_eq!(body, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_has_openai_s_chunks_in_order() {
    let server = Fixture::start(Setup::default()).await;
    let extra = r#","stream":true,"stream_options":{"include_usage":true},"max_tokens":2"#;
    let answer = chat(&server, "abc", extra).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(answer.header("cache-control"), Some("no-cache"));
    let events: Vec<String> = answer.events();
    let id = serde_json::from_str::<Value>(&events[0]).unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let head = format!(
        r#""id":"{id}","object":"chat.completion.chunk","created":{NOW},"model":"sim","system_fingerprint":"fp""#
    );
    let choice = |delta: &str, reason: &str| {
        format!(
            r#"{{{head},"choices":[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{reason}}}],"usage":null}}"#
        )
    };
    let usage = r#"{"prompt_tokens":27,"completion_tokens":2,"total_tokens":29,"prompt_tokens_details":{"cached_tokens":0}}"#;
    let expected = [
        choice(r#"{"role":"assistant","content":""}"#, "null"),
        choice(r#"{"content":"a"}"#, "null"),
        choice(r#"{"content":"b"}"#, "null"),
        choice("{}", "\"length\""),
        format!(r#"{{{head},"choices":[],"usage":{usage}}}"#),
        "[DONE]".to_owned(),
    ];
    assert_eq!(events, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn usage_is_left_out_of_chunks_unless_asked_for() {
    let server = Fixture::start(Setup::default()).await;
    let answer = chat(&server, "abc", ",\"stream\":true").await;
    let chunks = chunks(&answer);
    assert!(chunks.iter().all(|chunk| chunk.get("usage").is_none()));
    assert_eq!(text_of(&chunks, 0), "abc");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn characters_split_over_tokens_stay_whole() {
    let server = Fixture::start(Setup::default()).await;
    let say = "a😀é漢";
    let whole = chat(&server, say, "").await;
    assert_eq!(whole.json()["choices"][0]["message"]["content"], say);
    let stream = chat(&server, say, ",\"stream\":true").await;
    assert_eq!(text_of(&chunks(&stream), 0), say);
    assert!(!stream.body.contains('\u{fffd}'));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stop_strings_end_the_answer_and_are_not_in_it() {
    let server = Fixture::start(Setup::default()).await;
    let cases = [
        ("one END two", r#"["END","ENDING"]"#, "one ", "stop"),
        ("one ENX two", r#"["END"]"#, "one ENX two", "stop"),
        ("abc*", "\"ca\"", "ab", "stop"),
    ];
    for (say, stop, expected, reason) in cases {
        let whole = chat(&server, say, &format!(",\"max_tokens\":50,\"stop\":{stop}")).await;
        let choice = &whole.json()["choices"][0];
        assert_eq!(choice["message"]["content"], expected, "{say}");
        assert_eq!(choice["finish_reason"], reason, "{say}");
        let extra = format!(",\"stream\":true,\"max_tokens\":50,\"stop\":{stop}");
        let stream = chunks(&chat(&server, say, &extra).await);
        assert_eq!(text_of(&stream, 0), expected, "{say}");
        let last = stream.last().unwrap();
        assert_eq!(last["choices"][0]["finish_reason"], reason, "{say}");
    }
    server.until_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_samples_are_two_choices() {
    let server = Fixture::start(Setup::default()).await;
    let whole = chat(&server, "abcd", ",\"n\":2").await.json();
    for index in 0..2 {
        assert_eq!(whole["choices"][index]["index"], index);
        assert_eq!(whole["choices"][index]["message"]["content"], "abcd");
    }
    assert_eq!(
        whole["usage"]["prompt_tokens"], 28,
        "the prompt counts once"
    );
    assert_eq!(whole["usage"]["completion_tokens"], 8);
    let stream = chunks(&chat(&server, "abcd", ",\"n\":2,\"stream\":true").await);
    assert_eq!(text_of(&stream, 0), "abcd");
    assert_eq!(text_of(&stream, 1), "abcd");
    let ends = stream
        .iter()
        .filter(|chunk| chunk["choices"][0]["finish_reason"] == "stop");
    assert_eq!(ends.count(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_probabilities_cover_every_token() {
    let server = Fixture::start(Setup::default()).await;
    let extra = ",\"logprobs\":true,\"top_logprobs\":3";
    let whole = chat(&server, "xyz", extra).await.json();
    let content = whole["choices"][0]["logprobs"]["content"]
        .as_array()
        .unwrap();
    let tokens: Vec<&str> = content
        .iter()
        .map(|token| token["token"].as_str().unwrap())
        .collect();
    assert_eq!(tokens, ["x", "y", "z"]);
    for token in content {
        assert_eq!(token["top_logprobs"].as_array().unwrap().len(), 3);
        assert_eq!(token["top_logprobs"][0]["logprob"], token["logprob"]);
        assert_eq!(
            token["bytes"][0],
            token["token"].as_str().unwrap().as_bytes()[0]
        );
    }
    let stream = chunks(&chat(&server, "xyz", &format!("{extra},\"stream\":true")).await);
    let streamed: Vec<Value> = stream
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["logprobs"]["content"].as_array())
        .flatten()
        .cloned()
        .collect();
    assert_eq!(&streamed, content);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prompt_scores_come_with_the_answer() {
    let server = Fixture::start(Setup::default()).await;
    let whole = chat(&server, "x", ",\"prompt_logprobs\":1").await.json();
    let scores = whole["prompt_logprobs"].as_array().unwrap();
    assert_eq!(
        scores.len() as u64,
        whole["usage"]["prompt_tokens"].as_u64().unwrap()
    );
    assert!(scores[0].is_null());
    assert!(scores[1]["logprob"].as_f64().unwrap() < 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seeds_are_read_back_and_repeat_the_answer() {
    let server = Fixture::start(Setup::default()).await;
    let body = |extra: &str| {
        format!(
            r#"{{"messages":[{{"role":"developer","content":[{{"type":"text","text":"be"}},{{"type":"text","text":"kind"}}]}},{{"role":"user","content":"hi","name":"x"}}],"temperature":1.5,"max_tokens":40,"ignore_eos":true{extra}}}"#
        )
    };
    let first = ask(server.address, &post(CHAT, &body(""))).await;
    let other = ask(server.address, &post(CHAT, &body(""))).await;
    let seed = |answer: &Answer| {
        let sampling: Value =
            serde_json::from_str(answer.header("x-ucuz-sampling").unwrap()).unwrap();
        sampling["seed"].as_u64().unwrap()
    };
    let text = |answer: &Answer| answer.json()["choices"][0]["message"]["content"].clone();
    assert_ne!(seed(&first), seed(&other));
    assert_ne!(text(&first), text(&other));
    let again = body(&format!(",\"seed\":{}", seed(&first)));
    let again = ask(server.address, &post(CHAT, &again)).await;
    assert_eq!(text(&again), text(&first));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_that_change_nothing_are_accepted() {
    let server = Fixture::start(Setup::default()).await;
    let neutral = r#","tools":null,"tool_choice":"none","functions":[],"response_format":{"type":"text"},"modalities":["text"],"audio":null,"temperature":null,"n":null,"stop":null,"stream_options":null,"logprobs":false,"top_logprobs":0,"model":"sim","max_tokens":9,"max_completion_tokens":9,"logit_bias":{},"parallel_tool_calls":true"#;
    let answer = chat(&server, "ok", neutral).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("x-ucuz-ignored"), Some("parallel_tool_calls"));
    let back = r#"{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"yes","refusal":null,"tool_calls":null,"annotations":[]},{"role":"user","content":"say:ok|"}],"temperature":1e-45}"#;
    let answer = ask(server.address, &post(CHAT, back)).await;
    assert_eq!(
        answer.json()["choices"][0]["message"]["content"],
        "ok",
        "{answer:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_other_servers_clients_send_is_understood() {
    let server = Fixture::start(Setup::default()).await;
    let extra = r#","seed":-1,"top_k":-1,"max_tokens":-1,"cache_prompt":true,"mirostat":0"#;
    let (first, second) = (
        chat(&server, "ok", extra).await,
        chat(&server, "ok", extra).await,
    );
    assert_eq!(first.status, 200, "{first:?}");
    assert_eq!(
        first.header("x-ucuz-ignored"),
        Some("cache_prompt, mirostat")
    );
    let sampling = |answer: &Answer| -> Value {
        serde_json::from_str(answer.header("x-ucuz-sampling").unwrap()).unwrap()
    };
    let (first, second) = (sampling(&first), sampling(&second));
    assert_ne!(first["seed"], second["seed"], "-1 draws a seed");
    assert_eq!(first["top_k"], 0);
    assert!(first["max_tokens"].as_u64().unwrap() > 1000, "{first}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_the_template_may_not_show_is_told() {
    let server = Fixture::start(Setup::default()).await;
    let body = r#"{"messages":[{"role":"user","name":"ann","content":"say:ok|"}],"user":"u"}"#;
    let answer = ask(server.address, &post(CHAT, body)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(
        answer.header("x-ucuz-ignored"),
        Some("messages[].name, user")
    );
}
