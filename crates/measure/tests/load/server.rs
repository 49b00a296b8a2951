//! A simulated server: it answers each completion as it is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What the server does with a request for a completion.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Does {
    /// Answers as asked, with `first` before the first token and `gap` before each other.
    Answer { first: Duration, gap: Duration },
    /// The same without counts.
    AnswerUncounted,
    /// As many tokens as asked for, two an event.
    AnswerInPairs,
    /// Refuses.
    Refuse(&'static str),
    /// A status, with a message.
    Status(&'static str),
    /// An error in the stream, after one token.
    ErrorEvent,
    /// Closes after one token, in the middle of the body.
    CutInStream,
    /// Ends the body as it should be ended, without a finish reason.
    EndEarly,
    /// Closes before the headers.
    CutBeforeHeaders,
    /// Says nothing more, after one token.
    Stall,
    /// An event that is no JSON.
    Nonsense,
    /// Nobody gets an answer to anything within the second after this time of the server, everybody at its end.
    Pause(Duration),
}

/// At once, as asked.
pub const ANSWER: Does = Does::Answer {
    first: Duration::ZERO,
    gap: Duration::ZERO,
};

/// A server on a thread of its own.
pub struct Server {
    /// Its address.
    pub url: String,
    /// What it saw.
    pub seen: Arc<Seen>,
}

/// What it saw.
#[derive(Default)]
pub struct Seen {
    /// Completions asked for.
    pub completions: AtomicU64,
    /// Connections that were closed while an answer was under way.
    pub hung_up: AtomicU64,
    /// Of completions, in order.
    pub keys: std::sync::Mutex<Vec<String>>,
}

/// What connections share.
struct Shared {
    does: fn(u64) -> Does,
    start: Instant,
    seen: Arc<Seen>,
}

impl Server {
    /// `does` says what becomes of each completion, by number.
    pub fn start(does: fn(u64) -> Does) -> Self {
        let seen = Arc::new(Seen::default());
        let shared = Arc::new(Shared {
            does,
            start: Instant::now(),
            seen: Arc::clone(&seen),
        });
        let (sender, address) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = { runtime }.enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                sender.send(listener.local_addr().unwrap()).unwrap();
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    tokio::spawn(serve(stream, Arc::clone(&shared)));
                }
            });
        });
        let url = format!("http://{}", address.recv().unwrap());
        Self { url, seen }
    }
}

async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    let Some((head, body)) = read_request(&mut stream).await else {
        return;
    };
    if head.starts_with("GET /v1/models") {
        let models = json!({"data": [{"id": "tiny", "vocab_size": 5000}]});
        write_page(&mut stream, &models).await;
    } else if head.starts_with("GET /health") {
        let served = shared.seen.completions.load(Ordering::SeqCst);
        write_page(
            &mut stream,
            &json!({"status": "ok", "kv_bytes_used": served}),
        )
        .await;
    } else {
        let number = shared.seen.completions.fetch_add(1, Ordering::SeqCst);
        let key = head.lines().find(|line| line.starts_with("authorization:"));
        let key = key.unwrap_or_default().to_owned();
        shared.seen.keys.lock().unwrap().push(key);
        let body: Value = serde_json::from_slice(&body).unwrap();
        if complete(&mut stream, (shared.does)(number), &body, &shared)
            .await
            .is_err()
        {
            shared.seen.hung_up.fetch_add(1, Ordering::SeqCst);
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        let count = stream
            .read(&mut buffer)
            .await
            .ok()
            .filter(|count| *count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
    };
    let head = String::from_utf8_lossy(&bytes[..end])
        .to_ascii_lowercase()
        .replace("get ", "GET ");
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
    while bytes.len() < end + length {
        let count = stream
            .read(&mut buffer)
            .await
            .ok()
            .filter(|count| *count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
    }
    Some((head, bytes[end..].to_vec()))
}

async fn write_page(stream: &mut TcpStream, page: &Value) {
    let body = page.to_string();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    let _ = stream.write_all((head + &body).as_bytes()).await;
}

/// The client went away.
struct Gone;

async fn complete(
    stream: &mut TcpStream,
    does: Does,
    body: &Value,
    shared: &Shared,
) -> Result<(), Gone> {
    let tokens = body["max_tokens"].as_u64().unwrap();
    let prompt = body["prompt"].as_array().map_or(0, Vec::len);
    let zero = Duration::ZERO;
    match does {
        Does::Answer { first, gap } => answer(stream, prompt, tokens, (first, gap), 1, true).await,
        Does::AnswerUncounted => answer(stream, prompt, tokens, (zero, zero), 1, false).await,
        Does::AnswerInPairs => answer(stream, prompt, tokens, (zero, zero), 2, true).await,
        Does::Refuse(head) | Does::Status(head) => {
            let text = json!({"error": {"message": "because"}}).to_string();
            let head = format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n", text.len());
            send(stream, &(head + &text)).await
        }
        Does::Pause(at) => {
            let (now, end) = (shared.start.elapsed(), at + Duration::from_secs(1));
            if now >= at && now < end {
                wait(stream, end - now).await?;
            }
            answer(stream, prompt, tokens, (zero, zero), 1, true).await
        }
        Does::CutBeforeHeaders => Ok(()),
        _ => {
            send(stream, HEAD).await?;
            event(stream, &chunk("a", None)).await?;
            match does {
                Does::ErrorEvent => {
                    event(stream, &json!({"error": {"message": "broken"}}).to_string()).await
                }
                Does::Nonsense => event(stream, "{nonsense").await,
                Does::EndEarly => send(stream, "0\r\n\r\n").await,
                Does::Stall => wait(stream, Duration::from_secs(600)).await,
                _ => Ok(()),
            }
        }
    }
}

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

async fn answer(
    stream: &mut TcpStream,
    prompt: usize,
    tokens: u64,
    (first, gap): (Duration, Duration),
    per_event: u64,
    is_counted: bool,
) -> Result<(), Gone> {
    send(stream, HEAD).await?;
    wait(stream, first).await?;
    for i in 0..tokens.div_ceil(per_event) {
        if i > 0 {
            wait(stream, gap).await?;
        }
        event(stream, &chunk("a", None)).await?;
    }
    event(stream, &chunk("", Some("length"))).await?;
    if is_counted {
        let details = json!({"cached_tokens": prompt / 2});
        let usage = json!({"prompt_tokens": prompt, "completion_tokens": tokens, "prompt_tokens_details": details});
        event(stream, &json!({"choices": [], "usage": usage}).to_string()).await?;
    }
    event(stream, "[DONE]").await?;
    send(stream, "0\r\n\r\n").await
}

fn chunk(text: &str, finish_reason: Option<&str>) -> String {
    json!({"choices": [{"text": text, "finish_reason": finish_reason}], "usage": null}).to_string()
}

/// One event as one chunk of the body.
async fn event(stream: &mut TcpStream, data: &str) -> Result<(), Gone> {
    let event = format!("data: {data}\n\n");
    send(stream, &format!("{:x}\r\n{event}\r\n", event.len())).await
}

async fn send(stream: &mut TcpStream, text: &str) -> Result<(), Gone> {
    stream.write_all(text.as_bytes()).await.map_err(|_| Gone)
}

/// Waits, and notices when the client goes away.
async fn wait(stream: &mut TcpStream, time: Duration) -> Result<(), Gone> {
    if time.is_zero() {
        return Ok(());
    }
    let mut byte = [0];
    match tokio::time::timeout(time, stream.read(&mut byte)).await {
        Ok(_) => Err(Gone),
        Err(_) => Ok(()),
    }
}
