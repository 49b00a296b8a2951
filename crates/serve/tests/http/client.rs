//! Just enough of an HTTP client to see every byte.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A whole answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    /// Splits raw bytes, unchunking the body.
    pub fn parse(raw: &[u8]) -> Self {
        let text = String::from_utf8(raw.to_vec()).unwrap();
        let (head, body) = text
            .split_once("\r\n\r\n")
            .unwrap_or_else(|| panic!("cut: {text:?}"));
        let head = head.to_lowercase();
        let status = head[9..12].parse().unwrap();
        let is_chunked = head.contains("transfer-encoding: chunked");
        let body = if is_chunked {
            unchunk(body)
        } else {
            body.to_owned()
        };
        Self { status, head, body }
    }

    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| line.strip_prefix(&format!("{name}: ")))
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// The data of each event of a stream.
    pub fn events(&self) -> Vec<String> {
        let events = self
            .body
            .split_terminator("\n\n")
            .filter(|event| !event.starts_with(':'));
        events
            .map(|event| event.strip_prefix("data: ").expect(event).to_owned())
            .collect()
    }
}

fn unchunk(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((size, tail)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        body.push_str(&tail[..size]);
        rest = tail[size..].strip_prefix("\r\n").unwrap();
    }
    body
}

/// A POST as bytes.
pub fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// A GET as bytes.
pub fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").into_bytes()
}

/// Opens a connection and sends a request.
pub async fn send(address: SocketAddr, request: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request).await.unwrap();
    stream
}

/// Reads an answer to its end.
pub async fn finish(mut stream: TcpStream) -> Answer {
    let mut raw = Vec::new();
    stream.read_to_end(&mut raw).await.unwrap();
    Answer::parse(&raw)
}

/// Sends a request and reads its whole answer.
pub async fn ask(address: SocketAddr, request: &[u8]) -> Answer {
    finish(send(address, request).await).await
}

/// Reads until `text` has come.
pub async fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let mut raw = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let seen = String::from_utf8_lossy(&raw);
        if seen.contains(text) {
            return seen.into_owned();
        }
        let count = stream.read(&mut buffer).await.unwrap();
        assert!(count > 0, "the stream ended before {text:?}: {seen}");
        raw.extend_from_slice(&buffer[..count]);
    }
}
