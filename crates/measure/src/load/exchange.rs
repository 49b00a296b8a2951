//! One request: connect, send, read the stream, end in exactly one outcome.

use std::sync::Mutex;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::RETRY_AFTER;
use hyper::{Response, StatusCode};
use tokio::time::{Instant, timeout, timeout_at};

use super::chunk::{Chunk, Event, error_message};
use super::gauge::InFlight;
use super::http::{Connection, Link, read};
use super::record::{Outcome, Record, Stage, Times};
use super::request::{Hangup, Job};
use super::sse::SseParser;

/// Bytes that are read of an answer that reports an error.
const ERROR_BYTES_MAX: usize = 64 << 10;

/// Everything that requests of a run have in common.
pub(super) struct Client {
    pub link: Link,
    pub path: &'static str,
    pub timeout: Duration,
    /// The start of the run: all times count from here.
    pub start: Instant,
    /// Held by every request for the moment in which it begins or ends.
    pub in_flight: Mutex<InFlight>,
}

/// Why a request is over.
struct Ending {
    outcome: Outcome,
    detail: Option<String>,
}

impl Ending {
    fn new(outcome: Outcome, detail: impl Into<String>) -> Self {
        Self {
            outcome,
            detail: Some(detail.into()),
        }
    }

    fn plain(outcome: Outcome) -> Self {
        Self {
            outcome,
            detail: None,
        }
    }
}

/// What a stream has shown so far.
#[derive(Default)]
struct Reading {
    parser: SseParser,
    events: Vec<Vec<u8>>,
    is_done: bool,
}

impl Client {
    /// Seconds since the start of the run.
    pub(super) fn now_s(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Sends a request that is due at `intended_s`, or now, and waits for its end.
    pub(super) async fn perform(&self, job: &Job, intended_s: Option<f64>) -> Record {
        let sent_s = self.now_s();
        let mut record = Record::new(job, self.link.class(job.index), sent_s, intended_s);
        self.count(|gauge| gauge.enter(sent_s));
        let exchange = self.exchange(job, &mut record);
        let ending = match timeout(self.timeout, exchange).await {
            Ok(Ok(ending) | Err(ending)) => ending,
            Err(_) => Ending::new(
                Outcome::Timeout,
                format!("no end after {} s", self.timeout.as_secs_f64()),
            ),
        };
        let end_s = self.now_s();
        self.count(|gauge| gauge.leave(end_s));
        record.times.end_s = end_s;
        record.outcome = ending.outcome;
        record.detail = ending.detail;
        record.hung_up = (ending.outcome == Outcome::Disconnected).then(|| record.stage());
        record
    }

    fn count(&self, change: impl FnOnce(&mut InFlight)) {
        // A holder only adds numbers: what a panic leaves is as good as before.
        change(&mut self.in_flight.lock().unwrap_or_else(|e| e.into_inner()));
    }

    async fn exchange(&self, job: &Job, record: &mut Record) -> Result<Ending, Ending> {
        let connected = self.link.connect().await;
        let mut connection =
            connected.map_err(|error| Ending::new(Outcome::Unreachable, error.to_string()))?;
        record.times.connected_s = Some(self.now_s());
        let response = self.send(&mut connection, job, record).await?;
        record.times.headers_s = Some(self.now_s());
        record.status = Some(response.status().as_u16());
        if response.status() != StatusCode::OK {
            return Ok(refusal(response, record).await);
        }
        if matches!(job.hangup, Some(Hangup::BeforeHeaders(_))) {
            return Ok(Ending::plain(Outcome::Disconnected));
        }
        self.read(response.into_body(), job.hangup, record).await
    }

    async fn send(
        &self,
        connection: &mut Connection,
        job: &Job,
        record: &Record,
    ) -> Result<Response<Incoming>, Ending> {
        let request = self.link.post(self.path, record.class, job.body.clone());
        let sending = connection.send(request);
        let response = match job.hangup {
            Some(Hangup::BeforeHeaders(after)) => match timeout(after, sending).await {
                Ok(response) => response,
                Err(_) => return Err(Ending::plain(Outcome::Disconnected)),
            },
            _ => sending.await,
        };
        response.map_err(|error| Ending::new(Outcome::CutOff, words(&error)))
    }

    async fn read(
        &self,
        mut body: Incoming,
        hangup: Option<Hangup>,
        record: &mut Record,
    ) -> Result<Ending, Ending> {
        let deadline = match hangup {
            Some(Hangup::Prefill(after)) => Some(Instant::now() + after),
            _ => None,
        };
        let mut reading = Reading::default();
        loop {
            let frame = match deadline {
                Some(at) => timeout_at(at, body.frame())
                    .await
                    .map_err(|_| Ending::plain(Outcome::Disconnected))?,
                None => body.frame().await,
            };
            let now_s = self.now_s();
            match frame {
                Some(Ok(frame)) => {
                    let data = frame.into_data().unwrap_or_default();
                    reading.take(&data, now_s, hangup, record)?;
                }
                Some(Err(error)) if !reading.is_done => {
                    return Err(Ending::new(Outcome::CutOff, words(&error)));
                }
                _ => return Ok(finish(record)),
            }
        }
    }
}

impl Reading {
    /// Takes bytes of the stream, all of which came at one moment.
    fn take(
        &mut self,
        data: &[u8],
        now_s: f64,
        hangup: Option<Hangup>,
        record: &mut Record,
    ) -> Result<(), Ending> {
        let fed = self.parser.feed(data, &mut self.events);
        for event in std::mem::take(&mut self.events) {
            match Event::of(&event) {
                Event::Done => self.is_done = true,
                Event::Error(message) => return Err(Ending::new(Outcome::ErrorEvent, message)),
                Event::Chunk(chunk) => {
                    record.take(chunk, now_s);
                    if hangup.is_some_and(|hangup| is_due(hangup, record)) {
                        return Err(Ending::plain(Outcome::Disconnected));
                    }
                }
            }
        }
        fed.map_err(|error| Ending::new(Outcome::ErrorEvent, error.to_string()))
    }
}

/// Whether what has come of the answer is as far as the client lets it come.
fn is_due(hangup: Hangup, record: &Record) -> bool {
    let events = record.times.events_s.len();
    let is_over = record.finish_reason.is_some();
    match hangup {
        Hangup::Decode(event) => events >= event || is_over,
        Hangup::BeforeHeaders(_) | Hangup::Prefill(_) => events > 0 || is_over,
    }
}

/// The outcome of a stream that has ended.
fn finish(record: &Record) -> Ending {
    match record.finish_reason {
        Some(_) => Ending::plain(Outcome::Ok),
        None => Ending::new(Outcome::CutOff, "the stream ended without a finish_reason"),
    }
}

/// The outcome of a status other than 200.
async fn refusal(response: Response<Incoming>, record: &mut Record) -> Ending {
    let header = response.headers().get(RETRY_AFTER);
    record.retry_after = header.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let outcome = match response.status() {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Outcome::Refused,
        _ => Outcome::HttpError,
    };
    let body = read(response.into_body(), ERROR_BYTES_MAX).await;
    Ending::new(outcome, error_message(&body.unwrap_or_default()))
}

/// An error of HTTP with its cause, which says more.
fn words(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

impl Record {
    fn new(job: &Job, class: usize, sent_s: f64, intended_s: Option<f64>) -> Self {
        Self {
            index: job.index,
            class,
            outcome: Outcome::CutOff,
            status: None,
            retry_after: None,
            finish_reason: None,
            detail: None,
            hung_up: None,
            asked_prompt_tokens: job.prompt_tokens,
            asked_output_tokens: job.output_tokens,
            prompt_tokens: None,
            cached_tokens: None,
            output_tokens: None,
            times: Times {
                intended_s: intended_s.unwrap_or(sent_s),
                sent_s,
                ..Times::default()
            },
        }
    }

    fn take(&mut self, chunk: Chunk, now_s: f64) {
        if chunk.has_content {
            self.times.first_s.get_or_insert(now_s);
            self.times.last_s = Some(now_s);
            self.times.events_s.push(now_s);
        }
        if chunk.finish_reason.is_some() {
            self.finish_reason = chunk.finish_reason;
        }
        if let Some(usage) = chunk.usage {
            self.prompt_tokens = Some(usage.prompt_tokens);
            self.output_tokens = Some(usage.completion_tokens);
            self.cached_tokens = usage.cached_tokens();
        }
    }

    /// How far the answer has come.
    fn stage(&self) -> Stage {
        match (self.times.headers_s, self.times.first_s) {
            (_, Some(_)) => Stage::Decode,
            (Some(_), None) => Stage::Prefill,
            (None, None) => Stage::BeforeHeaders,
        }
    }
}
