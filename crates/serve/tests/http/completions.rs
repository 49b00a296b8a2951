//! `/v1/completions`: prompts in all their forms, echo, log-probabilities.

use serde_json::{Value, json};

use crate::client::{Answer, ask, post};
use crate::fixture::{Fixture, NOW, Setup};

async fn complete(server: &Fixture, body: &str) -> Answer {
    let answer = ask(server.address, &post("/v1/completions", body)).await;
    assert_eq!(answer.status, 200, "{body}: {answer:?}");
    answer
}

fn texts(answer: &Value) -> Vec<(u64, &str)> {
    let choices = answer["choices"].as_array().unwrap().iter();
    choices
        .map(|c| (c["index"].as_u64().unwrap(), c["text"].as_str().unwrap()))
        .collect()
}

fn ids(text: &str) -> String {
    serde_json::to_string(text.as_bytes()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_completion_has_openai_s_shape() {
    let server = Fixture::start(Setup::default()).await;
    let mut body = complete(&server, r#"{"prompt":"say:abc|","max_tokens":2}"#)
        .await
        .json();
    assert!(body["id"].as_str().unwrap().starts_with("cmpl-"));
    body["id"] = json!("ID");
    let expected = json!({
        "id": "ID",
        "object": "text_completion",
        "created": NOW,
        "model": "sim",
        "system_fingerprint": "fp",
        "choices": [{"index": 0, "text": "ab", "logprobs": null, "finish_reason": "length"}],
        "usage": {
            "prompt_tokens": 8,
            "completion_tokens": 2,
            "total_tokens": 10,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
    });
    assert_eq!(body, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prompts_come_as_text_ids_and_lists_of_both() {
    let server = Fixture::start(Setup::default()).await;
    let (a, b) = (ids("say:A|"), ids("say:BB|"));
    let cases: [(String, Vec<(u64, &str)>); 6] = [
        ("\"say:A|\"".to_owned(), vec![(0, "A")]),
        (a.clone(), vec![(0, "A")]),
        (format!("[{a},{b}]"), vec![(0, "A"), (1, "BB")]),
        (
            r#"["say:A|","say:BB|"]"#.to_owned(),
            vec![(0, "A"), (1, "BB")],
        ),
        (format!("[\"say:A|\",{b}]"), vec![(0, "A"), (1, "BB")]),
        (r#"["say:A|"]"#.to_owned(), vec![(0, "A")]),
    ];
    for (prompt, expected) in cases {
        let answer = complete(&server, &format!("{{\"prompt\":{prompt}}}"))
            .await
            .json();
        assert_eq!(texts(&answer), expected, "{prompt}");
    }
    let body = r#"{"prompt":["say:A|","say:BB|"],"n":2,"best_of":2}"#;
    let answer = complete(&server, body).await.json();
    assert_eq!(texts(&answer), [(0, "A"), (1, "A"), (2, "BB"), (3, "BB")]);
    assert_eq!(
        answer["usage"]["prompt_tokens"], 13,
        "each prompt counts once"
    );
    assert_eq!(answer["usage"]["completion_tokens"], 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_of_completions_is_the_whole_in_pieces() {
    let server = Fixture::start(Setup::default()).await;
    let body = r#"{"prompt":["say:abc|","say:xy|"],"stream":true,"stream_options":{"include_usage":true},"echo":true}"#;
    let answer = complete(&server, body).await;
    let mut events = answer.events();
    assert_eq!(events.pop().as_deref(), Some("[DONE]"));
    let chunks: Vec<Value> = events
        .iter()
        .map(|event| serde_json::from_str(event).unwrap())
        .collect();
    let text = |index: u64| -> String {
        let own = chunks
            .iter()
            .filter(|chunk| chunk["choices"][0]["index"] == index);
        own.map(|chunk| chunk["choices"][0]["text"].as_str().unwrap())
            .collect()
    };
    assert_eq!(text(0), "say:abc|abc");
    assert_eq!(text(1), "say:xy|xy");
    let last = chunks.last().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"]["total_tokens"], 8 + 3 + 7 + 2);
}

/// What lm-eval asks for: token ids, echo, one more token, log-probabilities.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r_lm_eval_1411_echoed_scores_cover_the_prompt_and_the_answer() {
    let server = Fixture::start(Setup::default()).await;
    let (a, b) = (ids("say:A|"), ids("q say:é|"));
    let body = format!(
        r#"{{"model":"sim","prompt":[{a},{b}],"temperature":0,"max_tokens":1,"logprobs":1,"echo":true,"seed":1234}}"#
    );
    let answer = complete(&server, &body).await.json();
    for (index, (prompt, generated)) in [("say:A|", 1), ("q say:é|", 1)].into_iter().enumerate() {
        let choice = &answer["choices"][index];
        let logprobs = &choice["logprobs"];
        let length = prompt.len() + generated;
        for list in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
            assert_eq!(logprobs[list].as_array().unwrap().len(), length, "{list}");
        }
        assert!(choice["text"].as_str().unwrap().starts_with(prompt));
        assert!(logprobs["token_logprobs"][0].is_null() && logprobs["top_logprobs"][0].is_null());
        for place in 1..length {
            let token = logprobs["tokens"][place].as_str().unwrap();
            let score = &logprobs["token_logprobs"][place];
            let top = logprobs["top_logprobs"][place].as_object().unwrap();
            assert_eq!(
                &top[token], score,
                "the chosen token is in the map with its own value"
            );
            assert!(top.len() <= 2);
        }
        // The last token was the likeliest: an evaluator must see it as greedy.
        let last = length - 1;
        let top = logprobs["top_logprobs"][last].as_object().unwrap();
        let best = top
            .values()
            .map(|v| v.as_f64().unwrap())
            .fold(f64::MIN, f64::max);
        assert_eq!(logprobs["token_logprobs"][last].as_f64().unwrap(), best);
    }
    let offsets = answer["choices"][0]["logprobs"]["text_offset"]
        .as_array()
        .unwrap();
    assert_eq!(offsets, &(0..7).map(|n| json!(n)).collect::<Vec<_>>());
    let tokens = answer["choices"][1]["logprobs"]["tokens"]
        .as_array()
        .unwrap();
    assert_eq!(tokens[6], "bytes:\\xc3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_can_be_scored_without_an_answer() {
    let server = Fixture::start(Setup::default()).await;
    let body = r#"{"prompt":"abc","max_tokens":0,"logprobs":0,"echo":true}"#;
    let answer = complete(&server, body).await.json();
    let choice = &answer["choices"][0];
    assert_eq!(choice["text"], "abc");
    assert_eq!(choice["finish_reason"], "length");
    assert_eq!(choice["logprobs"]["tokens"], json!(["a", "b", "c"]));
    let body = r#"{"prompt":"abc","max_tokens":0,"prompt_logprobs":2}"#;
    let answer = complete(&server, body).await.json();
    let scores = answer["choices"][0]["prompt_logprobs"].as_array().unwrap();
    assert_eq!(scores.len(), 3);
    assert_eq!(scores[2]["top_logprobs"].as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_becomes_ids_and_comes_back() {
    let server = Fixture::start(Setup::default()).await;
    for extra in [
        "",
        ",\"add_special_tokens\":false",
        ",\"add_special_tokens\":true",
    ] {
        let body = format!("{{\"prompt\":\"aé<|im_end|>\"{extra}}}");
        let answer = ask(server.address, &post("/tokenize", &body)).await.json();
        assert_eq!(answer["tokens"], json!([97, 0xc3, 0xa9, 257]));
        assert_eq!(answer["count"], 4);
    }
    let body = r#"{"model":"sim","tokens":[97,195,169,257]}"#;
    let answer = ask(server.address, &post("/detokenize", body)).await.json();
    assert_eq!(answer["prompt"], "aé<|im_end|>");
}
