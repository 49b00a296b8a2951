//! Bodies changed at random, in their structure and in their bytes, against a whole server: an answer in time and in form
//! to each, a server that goes on, and nothing left behind.
//!
//! 3,000 bodies; 200,000 where `UCUZ_ACCEPT` is set.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use ucuz_serve::ROUTES;

use crate::bodies::GOOD;
use crate::client::Answer;
use crate::fixture::{Fixture, Setup};
use crate::openapi::document;

/// Clients at a time.
const CLIENTS: u64 = 4;
/// Longest time to an answer.
const TIME: Duration = Duration::from_secs(2);
/// Tokens of a prompt and its answer: what a body asks for by good right must not take the time either.
const CONTEXT: usize = 256;
/// Bodies between two good requests.
const GOOD_EVERY: u64 = 50;

/// Bytes that are put into a body.
const PIECES: [&[u8]; 24] = [
    b"null",
    b"-1",
    b"1e999",
    b"-1E400",
    b"NaN",
    b"Infinity",
    b"-0.0",
    b"4294967296",
    b"18446744073709551616",
    b"0.1e-400",
    b"\"",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\\ud800",
    b"\\u0000",
    b"\0",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"// x\n",
];

/// Texts that mean something somewhere.
const WORDS: [&str; 18] = [
    "",
    "\0",
    "<|im_start|>",
    "<|im_end|>\n<|im_start|>system\n",
    "say:a*|",
    "auto",
    "none",
    "required",
    "json_schema",
    "json_object",
    "text",
    "function",
    "assistant",
    "tool",
    "1",
    "\u{10ffff}\u{fffd}",
    "(a+)+$",
    "start: start start | \"a\"",
];

/// Numbers drawn from a seed, by SplitMix64.
struct Draw(u64);

impl Draw {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % count.max(1) as u64) as usize
    }

    fn pick<'t, T>(&mut self, items: &'t [T]) -> &'t T {
        &items[self.below(items.len())]
    }
}

/// A value that hardly anybody sends.
fn odd(draw: &mut Draw) -> Value {
    match draw.below(20) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(0),
        3 => json!(-1),
        4 => json!(1.5),
        5 => json!(u64::MAX),
        6 => json!(i64::MIN),
        7 => json!(1e308),
        8 => json!(-1e-320),
        9 => json!("x".repeat(1 << draw.below(17))),
        10 => json!("é\n".repeat(draw.below(300))),
        11 => json!([]),
        12 => json!({}),
        13 => deep(draw.below(100)),
        14 => json!(vec![draw.below(300); draw.below(3000)]),
        15 => json!(vec!["a"; draw.below(200)]),
        16 => json!({ *draw.pick(&WORDS): draw.below(9) }),
        _ => json!(draw.pick(&WORDS)),
    }
}

/// Lists and objects in one another.
fn deep(levels: usize) -> Value {
    (0..levels).fold(json!(0), |inner, level| match level % 2 {
        0 => json!([inner]),
        _ => json!({ "a": inner }),
    })
}

/// The places of all values in `value`, as JSON pointers.
fn places(value: &Value, place: &str, found: &mut Vec<String>) {
    found.push(place.to_owned());
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(i, item)| places(item, &format!("{place}/{i}"), found));
        }
        Value::Object(entries) => {
            let entries = entries.iter();
            entries
                .for_each(|(key, item)| places(item, &format!("{place}/{}", escaped(key)), found));
        }
        _ => {}
    }
}

/// Changes one value, or one name.
fn change(body: &mut Value, names: &[String], draw: &mut Draw) {
    let mut all = Vec::new();
    places(body, "", &mut all);
    let other = body.pointer(draw.pick::<String>(&all)).cloned();
    let Some(value) = body.pointer_mut(draw.pick::<String>(&all)) else {
        return;
    };
    match (draw.below(9), value) {
        (0, Value::Object(entries)) => {
            let key = entries.keys().nth(draw.below(entries.len())).cloned();
            key.and_then(|key| entries.shift_remove(&key));
        }
        (1, Value::Array(items)) if !items.is_empty() => {
            let item = draw.pick(items).clone();
            let count = 1 << draw.below(9);
            items.extend(std::iter::repeat_n(item, count));
        }
        (2, value) => *value = json!([value.take()]),
        (3, value) => *value = json!({ draw.pick(names): value.take() }),
        (4, value) => *value = other.unwrap_or_default(),
        (5 | 6, Value::Object(entries)) => {
            entries.insert(draw.pick(names).clone(), odd(draw));
        }
        (_, value) => *value = odd(draw),
    }
}

/// Changes some bytes.
fn damage(body: &mut Vec<u8>, draw: &mut Draw) {
    let place = draw.below(body.len() + 1);
    let end = (place + draw.below(12)).min(body.len());
    match draw.below(6) {
        0 => body.truncate(place),
        1 => drop(body.drain(place..end)),
        2 => {
            let copy = body[place..end].to_vec();
            drop(body.splice(end..end, copy));
        }
        3 => {
            let byte = draw.below(256) as u8;
            drop(body.splice(place..end.min(place + 1), [byte]));
        }
        4 => body.extend(vec![b'['; draw.below(2000)]),
        _ => {
            let piece = draw.pick(&PIECES).iter().copied();
            drop(body.splice(place..place, piece));
        }
    }
}

/// A good body after a few changes, and its path.
fn mutant(names: &[String], draw: &mut Draw) -> (&'static str, Vec<u8>) {
    let (path, text) = *draw.pick(&GOOD);
    let mut value: Value = serde_json::from_str(text).unwrap();
    for _ in 0..draw.below(4) {
        change(&mut value, names, draw);
    }
    let mut body = value.to_string().into_bytes();
    if let (0, Some(key)) = (draw.below(12), value.as_object().and_then(first_key)) {
        drop(body.splice(1..1, format!("{}:1,", json!(key)).into_bytes()));
    }
    for _ in 0..draw.below(8).saturating_sub(5) {
        damage(&mut body, draw);
    }
    (path, body)
}

fn first_key(entries: &Map<String, Value>) -> Option<&String> {
    entries.keys().next()
}

/// All names of fields that the document has.
fn names(document: &Value) -> Vec<String> {
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let properties = schemas
        .values()
        .filter_map(|schema| schema["properties"].as_object());
    let mut names: Vec<_> = properties.flat_map(Map::keys).cloned().collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// A connection that is kept.
struct Client {
    address: SocketAddr,
    stream: Option<TcpStream>,
}

impl Client {
    /// The answer to a body.
    async fn post(&mut self, path: &str, body: &[u8]) -> Answer {
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        let request = [head.as_bytes(), body].concat();
        // One that was idle for too long has been closed.
        if let Some(stream) = self.stream.take()
            && let Some(answer) = self.exchange(stream, &request).await
        {
            return answer;
        }
        let stream = TcpStream::connect(self.address).await.unwrap();
        let answer = self.exchange(stream, &request).await;
        answer.expect("an answer on a new connection")
    }

    /// `None` from a connection that was closed already.
    async fn exchange(&mut self, mut stream: TcpStream, request: &[u8]) -> Option<Answer> {
        stream.write_all(request).await.ok()?;
        let mut raw = Vec::new();
        while !is_whole(&raw) {
            let count = stream.read_buf(&mut raw).await.unwrap_or(0);
            if count == 0 {
                assert!(raw.is_empty(), "cut: {}", String::from_utf8_lossy(&raw));
                return None;
            }
        }
        let answer = Answer::parse(&raw);
        if answer.header("connection") != Some("close") {
            self.stream = Some(stream);
        }
        Some(answer)
    }
}

/// Whether an answer has come to its end.
fn is_whole(raw: &[u8]) -> bool {
    let Some(end) = raw.windows(4).position(|window| window == b"\r\n\r\n") else {
        return false;
    };
    let head = String::from_utf8_lossy(&raw[..end]).to_lowercase();
    let body = &raw[end + 4..];
    match head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
    {
        Some(length) => body.len() >= length.parse::<usize>().unwrap(),
        None => body.ends_with(b"0\r\n\r\n"),
    }
}

/// `None` when it takes too long. Counted in short sleeps, so that time in which the whole process stands still is not.
async fn in_time<T>(work: impl Future<Output = T>) -> Option<T> {
    const NAP: Duration = Duration::from_millis(10);
    let late = async {
        for _ in 0..TIME.as_millis() / NAP.as_millis() {
            tokio::time::sleep(NAP).await;
        }
    };
    tokio::select! {
        biased;
        result = work => Some(result),
        () = late => None,
    }
}

/// What came of many bodies.
#[derive(Debug, Default)]
struct Tally {
    answers: u64,
    refusals: u64,
    full: u64,
}

/// The statuses, and the form of an error.
fn check(
    answer: &Answer,
    path: &str,
    document: &Value,
    tally: &mut Tally,
) -> Result<(), &'static str> {
    let statuses = &document["paths"][path]["post"]["responses"];
    if statuses.get(answer.status.to_string()).is_none() {
        return Err("a status that is not in the document");
    }
    match answer.status {
        200 if answer.body.contains("server_error") => return Err("a stream that failed"),
        200 => tally.answers += 1,
        429 | 503 => tally.full += 1,
        500.. => return Err("a fault of the server"),
        _ => {
            let message = answer.json()["error"]["message"].clone();
            let length = message.as_str().map_or(0, str::len);
            if !(1..=1024).contains(&length) {
                return Err("an error without a message, or with a long one");
            }
            tally.refusals += 1;
        }
    }
    Ok(())
}

async fn client(number: u64, rounds: u64, address: SocketAddr, document: Value) -> Tally {
    let names = names(&document);
    let mut client = Client {
        address,
        stream: None,
    };
    let mut tally = Tally::default();
    for round in 0..rounds {
        let seed = number << 40 | round;
        let (path, body) = mutant(&names, &mut Draw(seed));
        let answer = in_time(client.post(path, &body)).await;
        let text = String::from_utf8_lossy(&body);
        let what = format!("{path} {}", &text[..text.floor_char_boundary(2000)]);
        let answer = answer.unwrap_or_else(|| panic!("no answer within {TIME:?}: {what}"));
        if let Err(why) = check(&answer, path, &document, &mut tally) {
            panic!("{why}: {what}\n{answer:?}");
        }
        if round % GOOD_EVERY == 0 {
            let good = r#"{"prompt":"say:ok|","max_tokens":8}"#;
            let answer = client.post("/v1/completions", good.as_bytes()).await;
            let is_good = answer.status == 429 || answer.json()["choices"][0]["text"] == "ok";
            assert!(is_good, "after {what}: {answer:?}");
        }
    }
    tally
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_bodies_are_answered_in_time_and_leave_nothing_behind() {
    let total = match std::env::var_os("UCUZ_ACCEPT") {
        Some(_) => 200_000,
        None => 3_000,
    };
    let setup = Setup {
        context: CONTEXT,
        ..Setup::default()
    };
    let server = Fixture::start(setup).await;
    let document = document(&server).await;
    for route in ROUTES.iter().filter(|route| route.method == "POST") {
        assert!(
            GOOD.iter().any(|(path, _)| *path == route.path),
            "{}",
            route.path
        );
    }
    let clients = (0..CLIENTS).map(|number| {
        tokio::spawn(client(
            number,
            total / CLIENTS,
            server.address,
            document.clone(),
        ))
    });
    let clients: Vec<_> = clients.collect();
    let mut tally = Tally::default();
    for client in clients {
        let one = client.await.unwrap();
        tally.answers += one.answers;
        tally.refusals += one.refusals;
        tally.full += one.full;
    }
    println!("{total} bodies: {tally:?}");
    assert!(
        tally.answers > total / 50 && tally.refusals > total / 4,
        "{tally:?}"
    );
    server.until_empty().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn good_bodies_are_good() {
    let server = Fixture::start(Setup::default()).await;
    let mut client = Client {
        address: server.address,
        stream: None,
    };
    for (path, body) in GOOD {
        let answer = client.post(path, body.as_bytes()).await;
        assert_eq!(answer.status, 200, "{path} {body}: {answer:?}");
    }
    server.until_empty().await;
}
