//! The page at `/` and the live view: headers, keys, limits, what an event holds, the end.

use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpStream;
use ucuz_serve::ApiKeys;

use crate::client::{ask, finish, get, post, read_until, send};
use crate::fixture::{BLOCKS, Fixture, Setup};

const KEY: &str = "alice-0123456789abcdef";
const LIVE: &str = "/v1/engine/live";

/// Paths that the page names: its styles and scripts, and what those import.
async fn paths(server: &Fixture) -> Vec<String> {
    let mut found = vec!["/".to_owned()];
    let mut next = 0;
    while let Some(path) = found.get(next).cloned() {
        let text = ask(server.address, &get(&path)).await.body;
        for word in text.split('"') {
            let path = match word.strip_prefix("./") {
                Some(name) if name.ends_with(".js") => format!("/page/{name}"),
                _ => word.to_owned(),
            };
            let is_file = path.starts_with("/page/") && !found.contains(&path);
            if is_file {
                found.push(path);
            }
        }
        next += 1;
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_the_page_are_open_and_locked_down() {
    let mut setup = Setup::default();
    setup.options.keys = Some(ApiKeys::parse(&format!("alice {KEY}\n")).unwrap());
    let server = Fixture::start(setup).await;
    let paths = paths(&server).await;
    assert!(paths.len() > 10, "{paths:?}");
    for path in paths {
        let answer = ask(server.address, &get(&path)).await;
        assert_eq!(answer.status, 200, "{path}");
        let policy = answer.header("content-security-policy").unwrap();
        for rule in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        ] {
            assert!(policy.contains(rule), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(answer.header("cache-control"), Some("no-cache"));
        assert!(!answer.head.contains("access-control"), "{}", answer.head);
        let kind = answer.header("content-type").unwrap();
        let expected = match path.rsplit('.').next() {
            Some("css") => "text/css",
            Some("js") => "text/javascript",
            _ => "text/html",
        };
        assert!(kind.starts_with(expected), "{path}: {kind}");
    }
    for path in ["/page/", "/page/none.js", "/page/../health", "//", LIVE] {
        let answer = ask(server.address, &get(path)).await;
        assert_eq!(answer.status, 401, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_tells_nothing_of_its_server() {
    let mut setup = Setup::default();
    setup.options.model_id = "a-model-of-ours".to_owned();
    setup.options.keys = Some(ApiKeys::parse(&format!("alice {KEY}\n")).unwrap());
    let one = Fixture::start(setup).await;
    let other = Fixture::start(Setup::default()).await;
    for path in paths(&one).await {
        let ours = ask(one.address, &get(&path)).await.body;
        let theirs = ask(other.address, &get(&path)).await.body;
        assert_eq!(ours, theirs, "{path}: the same bytes in every server");
        let lower = ours.to_lowercase();
        for secret in ["a-model-of-ours", KEY, "alice"] {
            assert!(!lower.contains(secret), "{path} holds {secret}");
        }
        let is_web = |word: &str| word.contains("http://") || word.contains("https://");
        let loads = ours.split_whitespace().filter(|word| is_web(word));
        let known = ["http://www.w3.org/", "https?:", "'http://www.w3.org/"];
        for word in loads {
            assert!(known.iter().any(|k| word.contains(k)), "{path}: {word}");
        }
        assert!(
            !ours.contains("innerHTML") && !ours.contains("eval("),
            "{path}"
        );
        assert!(
            !ours.contains(" style=\"") && !ours.contains("onclick=\""),
            "{path}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_the_page_has_nothing_there() {
    let mut setup = Setup::default();
    setup.options.page = false;
    let server = Fixture::start(setup.clone()).await;
    for path in ["/", "/page/main.js"] {
        assert_eq!(ask(server.address, &get(path)).await.status, 404);
    }
    setup.options.keys = Some(ApiKeys::parse(&format!("alice {KEY}\n")).unwrap());
    let server = Fixture::start(setup).await;
    assert_eq!(ask(server.address, &get("/")).await.status, 401);
}

fn completion(max_tokens: usize) -> Vec<u8> {
    let prompt: Vec<String> = (0..70).map(|i| (i % 250).to_string()).collect();
    let prompt = prompt.join(",");
    post(
        "/v1/completions",
        &format!(r#"{{"prompt":[{prompt}],"max_tokens":{max_tokens},"ignore_eos":true}}"#),
    )
}

/// The events in what was read of a chunked stream.
fn events(raw: &str) -> Vec<Value> {
    let lines = raw.lines().filter_map(|line| line.strip_prefix("data: "));
    lines
        .filter_map(|data| serde_json::from_str(data).ok())
        .collect()
}

/// Reads on until an event is so.
async fn event_until(
    stream: &mut TcpStream,
    seen: &mut String,
    holds: impl Fn(&Value) -> bool,
) -> Value {
    loop {
        if let Some(event) = events(seen).into_iter().find(|event| holds(event)) {
            return event;
        }
        seen.push_str(&read_until(stream, "\n\n").await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_view_has_every_step_and_the_books() {
    let mut setup = Setup::default();
    setup.options.limits.watch_period = Duration::from_millis(5);
    let server = Fixture::start(setup).await;
    let mut stream = send(server.address, &get(LIVE)).await;
    let mut seen = String::new();
    // An idle engine is shown too.
    let first = event_until(&mut stream, &mut seen, |event| event["slots"] == 8).await;
    assert!(
        seen.to_lowercase()
            .contains("content-type: text/event-stream"),
        "{seen}"
    );
    assert_eq!(first["groups"][0]["free"], BLOCKS);
    assert_eq!(first["groups"][0]["cells"], serde_json::json!([]));
    assert_eq!(first["running"], serde_json::json!([]));

    assert_eq!(ask(server.address, &completion(10)).await.status, 200);
    let done = |event: &Value| {
        event["totals"]["generated_tokens"] == 10 && event["running"] == serde_json::json!([])
    };
    let last = event_until(&mut stream, &mut seen, done).await;
    let all = events(&seen);
    let steps: Vec<&Value> = all
        .iter()
        .flat_map(|event| event["steps"].as_array().unwrap())
        .collect();
    let numbers: Vec<u64> = steps
        .iter()
        .map(|step| step["step"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    assert_eq!(last["totals"]["steps"], numbers.len());
    // [request, slot, start, rows, phase, first_ms, next_ms]: 64 rows of the prompt, its last 6, then a row a token.
    let parts: Vec<[u64; 5]> = steps
        .iter()
        .map(|step| [0, 1, 2, 3, 4].map(|field| step["entries"][0][field].as_u64().unwrap()))
        .collect();
    assert_eq!(
        parts[..3],
        [[1, 0, 0, 64, 0], [1, 0, 64, 6, 0], [1, 0, 70, 1, 1]]
    );
    assert!(steps[1]["entries"][0][5].is_number() && steps[1]["entries"][0][6].is_null());
    assert!(steps[2]["entries"][0][5].is_null() && steps[2]["entries"][0][6].is_number());
    // Two whole blocks of the prompt stay cached.
    let group = &last["groups"][0];
    let counts =
        ["free", "cached", "leaving", "held", "shared"].map(|name| group[name].as_u64().unwrap());
    assert_eq!(counts, [BLOCKS as u64 - 2, 2, 0, 0, 0]);
    assert_eq!(group["cells"], serde_json::json!([1, 2]));
    drop(stream);
    server.until("empty", |stats| stats.running == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_view_needs_a_key_and_tells_numbers_only() {
    let mut setup = Setup {
        gated: true,
        ..Setup::default()
    };
    setup.options.limits.watch_period = Duration::from_millis(5);
    let keys = format!("alice {KEY}\nbob bob-0123456789abcdefgh\n");
    setup.options.keys = Some(ApiKeys::parse(&keys).unwrap());
    let server = Fixture::start(setup).await;
    assert_eq!(ask(server.address, &get(LIVE)).await.status, 401);
    let with = |request: Vec<u8>, key: &str| {
        let text = String::from_utf8(request).unwrap();
        let header = format!("host: test\r\nauthorization: Bearer {key}\r\n");
        text.replacen("host: test\r\n", &header, 1).into_bytes()
    };
    let mut stream = send(server.address, &with(get(LIVE), "bob-0123456789abcdefgh")).await;
    let body =
        r#"{"messages":[{"role":"user","content":"say:the secret of alice|"}],"stream":true}"#;
    let request = with(post("/v1/chat/completions", body), KEY);
    let answer = send(server.address, &request).await;
    server
        .step_until("running", |stats| stats.running == 1)
        .await;
    let mut seen = String::new();
    let is_running = |event: &Value| event["running"][0]["request"] == 1;
    let event = event_until(&mut stream, &mut seen, is_running).await;
    assert!(event["running"][0]["prompt"].as_u64().unwrap() > 20);
    server.gate.open();
    finish(answer).await;
    for word in ["alice", "secret", "bob", "tenant", "say:"] {
        assert!(!seen.contains(word), "{word} in {seen}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn live_views_over_the_limit_are_told_so_and_places_come_back() {
    let mut setup = Setup::default();
    setup.options.limits.watchers = 2;
    let server = Fixture::start(setup).await;
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut stream = send(server.address, &get(LIVE)).await;
        read_until(&mut stream, "\"slots\"").await;
        open.push(stream);
    }
    let answer = ask(server.address, &get(LIVE)).await;
    assert_eq!(
        (answer.status, answer.header("retry-after")),
        (429, Some("5"))
    );
    assert_eq!(answer.json()["error"]["code"], "rate_limit_exceeded");
    open.pop();
    let foreign = String::from_utf8(get(LIVE)).unwrap();
    let foreign = foreign.replacen(
        "host: test\r\n",
        "host: test\r\nsec-fetch-site: cross-site\r\n",
        1,
    );
    let answer = ask(server.address, foreign.as_bytes()).await;
    assert_eq!(
        (answer.status, &answer.json()["error"]["code"]),
        (403, &Value::from("cross_site"))
    );
    loop {
        let mut stream = send(server.address, &get(LIVE)).await;
        if read_until(&mut stream, "\r\n")
            .await
            .starts_with("HTTP/1.1 200")
        {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_view_ends_when_the_server_drains() {
    let mut server = Fixture::start(Setup::default()).await;
    let mut stream = send(server.address, &get(LIVE)).await;
    read_until(&mut stream, "\"slots\"").await;
    server.begin_stop();
    let rest = finish_raw(stream).await;
    // An engine that has nothing to do may have stopped before anybody looked.
    let ends = ["draining", "stopped"].map(|end| format!("data: {{\"end\":\"{end}\"}}\n\n"));
    assert!(ends.iter().any(|end| rest.contains(end)), "{rest}");
    assert_eq!(server.stopped().await, ucuz_serve::Ending::Asked);
}

/// All that still comes.
async fn finish_raw(mut stream: TcpStream) -> String {
    use tokio::io::AsyncReadExt;

    let mut raw = Vec::new();
    stream.read_to_end(&mut raw).await.unwrap();
    String::from_utf8(raw).unwrap()
}
