//! A hub on loopback: a thread that answers each path from a script and remembers the requests.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// One answer; the last of a path's answers is given for ever.
#[derive(Clone)]
pub enum Answer {
    /// A body with headers; honours `Range` if the first field says so.
    Body {
        ranges: bool,
        headers: Vec<(&'static str, String)>,
        bytes: Vec<u8>,
    },
    /// As `Body` with ranges, but the connection ends after so many bytes of the body.
    Broken {
        etag: String,
        bytes: Vec<u8>,
        sent_bytes: usize,
    },
    /// A redirect with headers.
    Redirect {
        to: String,
        headers: Vec<(&'static str, String)>,
    },
    /// A bare status.
    Status(u16),
}

impl Answer {
    /// A body with ranges and no etag.
    pub fn body(bytes: impl Into<Vec<u8>>) -> Self {
        Self::Body {
            ranges: true,
            headers: Vec::new(),
            bytes: bytes.into(),
        }
    }

    /// A body with ranges and an etag.
    pub fn with_etag(bytes: impl Into<Vec<u8>>, etag: &str) -> Self {
        let headers = vec![("ETag", format!("\"{etag}\""))];
        Self::Body {
            ranges: true,
            headers,
            bytes: bytes.into(),
        }
    }
}

/// A request as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// With its query.
    pub path: String,
    /// The `Range` header.
    pub range: Option<String>,
    /// The `Authorization` header.
    pub authorization: Option<String>,
}

#[derive(Default)]
struct Shared {
    answers: Mutex<HashMap<String, Vec<Answer>>>,
    requests: Mutex<Vec<Request>>,
    ended: AtomicBool,
}

/// Serves until dropped.
pub struct FakeHub {
    /// `http://127.0.0.1:port`.
    pub url: String,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl FakeHub {
    /// Listens on a free port.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared::default());
        let seen = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if seen.ended.load(Ordering::SeqCst) {
                    return;
                }
                // A client that goes away is its own business.
                let _ = serve(&seen, stream);
            }
        });
        Self {
            url,
            shared,
            thread: Some(thread),
        }
    }

    /// Sets the answers of a path, in order.
    pub fn put(&self, path: &str, answers: impl Into<Vec<Answer>>) {
        self.shared
            .answers
            .lock()
            .unwrap()
            .insert(path.to_owned(), answers.into());
    }

    /// Puts a repository: its list (with sizes) and its files at commit `commit`.
    pub fn put_repo(&self, repo: &str, commit: &str, files: &[(&str, &[u8])]) {
        let list: Vec<String> = files
            .iter()
            .map(|(name, bytes)| format!("{{\"rfilename\":\"{name}\",\"size\":{}}}", bytes.len()))
            .collect();
        let json = format!("{{\"sha\":\"{commit}\",\"siblings\":[{}]}}", list.join(","));
        self.put(
            &format!("/api/models/{repo}?blobs=true"),
            [Answer::body(json)],
        );
        for (name, bytes) in files {
            let etag = format!("etag of {name}");
            let path = format!("/{repo}/resolve/{commit}/{name}");
            self.put(&path, [Answer::with_etag(*bytes, &etag)]);
        }
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// The requests of one path so far.
    pub fn requests_of(&self, path: &str) -> Vec<Request> {
        self.requests()
            .into_iter()
            .filter(|request| request.path == path)
            .collect()
    }
}

impl Drop for FakeHub {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.url.trim_start_matches("http://"));
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn serve(shared: &Shared, mut stream: TcpStream) -> std::io::Result<()> {
    let request = read_request(&stream)?;
    let answer = {
        let mut answers = shared.answers.lock().unwrap();
        match answers.get_mut(&request.path) {
            Some(list) if list.len() > 1 => list.remove(0),
            Some(list) => list[0].clone(),
            None => Answer::Status(404),
        }
    };
    shared.requests.lock().unwrap().push(request.clone());
    match answer {
        Answer::Status(status) => {
            write_head(&mut stream, status, &[("Content-Length", "0".into())])
        }
        Answer::Redirect { to, mut headers } => {
            headers.extend([("Location", to), ("Content-Length", "0".to_owned())]);
            write_head(&mut stream, 302, &headers)
        }
        Answer::Body {
            ranges,
            headers,
            bytes,
        } => {
            let offset = if ranges { offset_of(&request) } else { 0 };
            write_body(&mut stream, &headers, &bytes, offset, usize::MAX)
        }
        Answer::Broken {
            etag,
            bytes,
            sent_bytes,
        } => {
            let headers = [("ETag", format!("\"{etag}\""))];
            write_body(
                &mut stream,
                &headers,
                &bytes,
                offset_of(&request),
                sent_bytes,
            )
        }
    }
}

fn read_request(stream: &TcpStream) -> std::io::Result<Request> {
    let mut request = Request::default();
    for (i, line) in BufReader::new(stream).lines().enumerate() {
        let line = line?;
        match line.split_once(": ") {
            _ if i == 0 => request.path = line.split(' ').nth(1).unwrap_or_default().to_owned(),
            Some((name, value)) if name.eq_ignore_ascii_case("range") => {
                request.range = Some(value.to_owned());
            }
            Some((name, value)) if name.eq_ignore_ascii_case("authorization") => {
                request.authorization = Some(value.to_owned());
            }
            None if line.is_empty() => break,
            _ => {}
        }
    }
    Ok(request)
}

fn offset_of(request: &Request) -> usize {
    let range = request.range.as_deref().unwrap_or("bytes=0-");
    range
        .trim_start_matches("bytes=")
        .trim_end_matches('-')
        .parse()
        .unwrap()
}

fn write_head(
    stream: &mut TcpStream,
    status: u16,
    headers: &[(&str, String)],
) -> std::io::Result<()> {
    let mut head = format!("HTTP/1.1 {status} Said\r\nConnection: close\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all((head + "\r\n").as_bytes())
}

fn write_body(
    stream: &mut TcpStream,
    headers: &[(&'static str, String)],
    bytes: &[u8],
    offset: usize,
    sent_bytes: usize,
) -> std::io::Result<()> {
    let total = bytes.len();
    if offset > 0 && offset >= total {
        return write_head(stream, 416, &[("Content-Length", "0".into())]);
    }
    let mut headers = headers.to_vec();
    headers.push(("Content-Length", (total - offset).to_string()));
    if offset > 0 {
        headers.push((
            "Content-Range",
            format!("bytes {offset}-{}/{total}", total - 1),
        ));
    }
    write_head(stream, if offset > 0 { 206 } else { 200 }, &headers)?;
    let rest = &bytes[offset..];
    stream.write_all(&rest[..sent_bytes.min(rest.len())])
}
