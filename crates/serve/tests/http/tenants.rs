//! Keys, who shares with whom, deadlines, and what the numbers say of it.

use serde_json::Value;
use ucuz_serve::{ApiKeys, CacheSharing, ROUTES};

use crate::client::{Answer, ask, post};
use crate::fixture::{Fixture, Setup};

const ALICE: &str = "alice-0123456789abcdef";
const BOB: &str = "bob-0123456789abcdefgh";

fn with(request: Vec<u8>, header: &str) -> Vec<u8> {
    let text = String::from_utf8(request).unwrap();
    text.replacen("host: test\r\n", &format!("host: test\r\n{header}\r\n"), 1)
        .into_bytes()
}

fn bearer(request: Vec<u8>, key: &str) -> Vec<u8> {
    with(request, &format!("authorization: Bearer {key}"))
}

fn completion(extra: &str) -> Vec<u8> {
    let prompt: Vec<String> = (0..100).map(|i| (i % 250).to_string()).collect();
    let prompt = prompt.join(",");
    post(
        "/v1/completions",
        &format!(r#"{{"prompt":[{prompt}],"max_tokens":3{extra}}}"#),
    )
}

fn cached(answer: &Answer) -> u64 {
    let usage = &answer.json()["usage"];
    let cached = &usage["prompt_tokens_details"]["cached_tokens"];
    cached.as_u64().unwrap_or_else(|| panic!("{answer:?}"))
}

async fn start(sharing: CacheSharing) -> Fixture {
    let mut setup = Setup::default();
    let keys = format!("alice {ALICE}\nbob {BOB}\n");
    setup.options.keys = Some(ApiKeys::parse(&keys).unwrap());
    setup.options.cache_sharing = sharing;
    Fixture::start(setup).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_but_two_and_the_page_needs_a_key() {
    let server = start(CacheSharing::Tenant).await;
    let closed = ROUTES
        .iter()
        .filter(|route| !["/health", "/live"].contains(&route.path));
    let routes = closed.map(|route| (route.method, route.path.replace("{*id}", "sim")));
    for (method, path) in routes.chain([
        ("GET", "/nowhere".to_owned()),
        ("GET", "/page/nothing.js".to_owned()),
    ]) {
        let request =
            format!("{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
        for wrong in [
            "authorization: Bearer wrong",
            "authorization: Basic abc",
            "x-api-key: wrong",
            "x: y",
        ] {
            let answer = ask(server.address, &with(request.clone().into_bytes(), wrong)).await;
            assert_eq!(answer.status, 401, "{path}");
            if path.starts_with("/v1/messages") {
                assert_eq!(answer.json()["error"]["type"], "authentication_error");
                continue;
            }
            assert_eq!(answer.json()["error"]["code"], "invalid_api_key");
        }
        // An endless stream; that a key opens it is tested with the page.
        if path == "/v1/engine/live" {
            continue;
        }
        for right in [
            format!("authorization: Bearer {BOB}"),
            format!("x-api-key: {BOB}"),
        ] {
            let right = with(request.clone().into_bytes(), &right);
            assert_ne!(ask(server.address, &right).await.status, 401, "{path}");
        }
    }
    for path in ["/health", "/live"] {
        let request = crate::client::get(path);
        assert_eq!(ask(server.address, &request).await.status, 200);
    }
    let health = crate::client::get("/health");
    let told = ask(server.address, &health).await.json();
    assert_eq!(told, serde_json::json!({"status": "ok", "reason": null}));
    let told = ask(server.address, &bearer(health, ALICE)).await.json();
    assert_eq!(told["running"], 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prefixes_are_shared_within_a_key_and_a_salt() {
    let salted = |salt: &str| completion(&format!(",\"cache_salt\":\"{salt}\""));
    let server = start(CacheSharing::Tenant).await;
    for (key, request, expected) in [
        (ALICE, completion(""), 0),
        (ALICE, completion(""), 96),
        (BOB, completion(""), 0),
        (ALICE, salted("x"), 0),
        (ALICE, salted("x"), 96),
        (BOB, salted("x"), 0),
        (BOB, completion(""), 96),
    ] {
        let answer = ask(server.address, &bearer(request, key)).await;
        assert_eq!(cached(&answer), expected);
    }
    let server = start(CacheSharing::Global).await;
    for (key, request, expected) in [
        (ALICE, completion(""), 0),
        (BOB, completion(""), 96),
        (ALICE, salted("x"), 0),
        (BOB, salted("x"), 96),
    ] {
        let answer = ask(server.address, &bearer(request, key)).await;
        assert_eq!(cached(&answer), expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_salts_priorities_and_deadlines_are_400() {
    let server = Fixture::start(Setup::default()).await;
    let long = format!(",\"cache_salt\":\"{}\"", "x".repeat(129));
    for (extra, param) in [
        (",\"cache_salt\":\"\"", "cache_salt"),
        (long.as_str(), "cache_salt"),
        (",\"cache_salt\":7", "cache_salt"),
        (",\"priority\":2147483648", "priority"),
        (",\"priority\":\"high\"", "priority"),
        (",\"explain\":1", "explain"),
    ] {
        let answer = ask(server.address, &completion(extra)).await;
        assert_eq!(answer.status, 400, "{extra}");
        assert_eq!(answer.json()["error"]["param"], param);
    }
    for value in ["0", "-1", "soon", "99999999999"] {
        let request = with(completion(""), &format!("x-slo-ttft-ms: {value}"));
        assert_eq!(ask(server.address, &request).await.status, 400, "{value}");
    }
    let request = with(completion(",\"priority\":-5"), "x-slo-ttft-ms: 60000");
    assert_eq!(ask(server.address, &request).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_explanation_comes_when_asked_for() {
    let server = Fixture::start(Setup::default()).await;
    let plain = ask(server.address, &completion("")).await;
    assert!(plain.json().get("explanation").is_none());
    let explained = ask(server.address, &completion(",\"explain\":true,\"n\":2")).await;
    let choices = &explained.json()["explanation"];
    assert_eq!(choices.as_array().map(Vec::len), Some(2), "{explained:?}");
    assert_eq!(choices[0]["cached_tokens"], 96);
    assert_eq!(choices[0]["completion_tokens"], 3);
    let stream = completion(",\"explain\":true,\"stream\":true");
    let events = ask(server.address, &stream).await.events();
    let last: Value = serde_json::from_str(&events[events.len() - 2]).unwrap();
    assert_eq!(last["explanation"][0]["prompt_tokens"], 100);
    assert_eq!(last["choices"], serde_json::json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_are_prometheus_text_and_agree_with_what_happened() {
    let server = Fixture::start(Setup::default()).await;
    for _ in 0..3 {
        ask(server.address, &completion("")).await;
    }
    server.until_empty().await;
    let answer = ask(server.address, &crate::client::get("/metrics")).await;
    assert_eq!(answer.status, 200);
    assert!(
        answer
            .header("content-type")
            .unwrap()
            .starts_with("text/plain; version=0.0.4")
    );
    let value = |name: &str| -> f64 {
        let line = answer.body.lines().find(|line| {
            line.split_once(' ').is_some_and(|(sample, _)| {
                sample
                    .replace("{model_name=\"sim\"}", "")
                    .replace("model_name=\"sim\",", "")
                    == name
            })
        });
        let line = line.unwrap_or_else(|| panic!("no {name} in {}", answer.body));
        line.rsplit_once(' ').unwrap().1.parse().unwrap()
    };
    for (name, expected) in [
        ("ucuz_requests_total", 3.0),
        ("ucuz_requests_ended_total{reason=\"length\"}", 3.0),
        ("ucuz_requests_refused_total{reason=\"deadline\"}", 0.0),
        ("ucuz_prompt_tokens_total", 300.0),
        ("ucuz_generated_tokens_total", 9.0),
        ("ucuz_prefix_cache_hits_tokens_total", 192.0),
        ("ucuz_first_token_seconds_count", 3.0),
        ("ucuz_first_token_seconds_bucket{le=\"+Inf\"}", 3.0),
        ("ucuz_between_tokens_seconds_count", 6.0),
        ("ucuz_request_seconds_count", 3.0),
        ("ucuz_healthy", 1.0),
        ("vllm:num_requests_running", 0.0),
        ("vllm:kv_cache_usage_perc", 0.0),
        ("vllm:prefix_cache_queries_total", 300.0),
        ("vllm:time_to_first_token_seconds_count", 3.0),
        (
            "vllm:request_success_total{finished_reason=\"length\"}",
            3.0,
        ),
    ] {
        assert_eq!(value(name), expected, "{name}");
    }
    check_text(&answer.body);
}

/// Each sample belongs to the family announced above it, no family is announced twice.
fn check_text(text: &str) {
    let mut families = std::collections::HashSet::new();
    let mut family = "";
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["gauge", "counter", "histogram"].contains(&kind));
            assert!(families.insert(name), "{name} twice");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
            family = name;
        } else if !line.starts_with("# HELP ") {
            let (sample, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
            let name = sample.split('{').next().unwrap();
            let base = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|suffix| name.strip_suffix(suffix))
                .filter(|base| *base == family);
            assert_eq!(base.unwrap_or(name), family, "{line}");
        }
    }
    assert!(families.len() > 40);
}
