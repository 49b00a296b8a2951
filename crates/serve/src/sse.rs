//! Server-Sent Events: outputs of the samples become frames; frames that are ready go out together.

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_core::Stream;
use serde::Serialize;
use tokio::time::{Instant, Sleep, sleep};
use ucuz_llm::Output;

use crate::error::ApiError;
use crate::samples::Samples;
use crate::unwind;

/// Bytes after which a write is not made larger by further outputs.
const FULL_BYTES: usize = 16 << 10;

/// How one endpoint writes its answer as chunks.
pub(crate) trait Chunks: Send + Unpin + 'static {
    /// What comes before the first output.
    fn open(&mut self, frames: &mut Frames);

    /// One output of one choice.
    ///
    /// # Errors
    /// The stream ends with this error.
    fn output(
        &mut self,
        choice: usize,
        output: Output,
        frames: &mut Frames,
    ) -> Result<(), ApiError>;

    /// What comes after the last output.
    fn close(&mut self, frames: &mut Frames);

    /// What ends a stream that fails, in place of the rest.
    fn fail(&mut self, error: &ApiError, frames: &mut Frames) {
        frames.push(&error.body());
    }
}

/// Frames that wait to be written.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
}

impl Frames {
    /// Adds a line that readers pass over, and that keeps the connection open.
    pub(crate) fn comment(&mut self, text: &str) {
        self.bytes.extend_from_slice(b": ");
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.extend_from_slice(b"\n\n");
    }

    /// What waits, which then waits no more.
    pub(crate) fn take(&mut self) -> Bytes {
        Bytes::from(std::mem::take(&mut self.bytes))
    }

    /// Adds one event with JSON data.
    pub(crate) fn push(&mut self, data: &impl Serialize) {
        self.add("", data);
    }

    /// Adds one event with a name and JSON data.
    pub(crate) fn push_named(&mut self, name: &'static str, data: &impl Serialize) {
        self.add(name, data);
    }

    /// Adds the event with which OpenAI ends chunks.
    pub(crate) fn done(&mut self) {
        self.bytes.extend_from_slice(b"data: [DONE]\n\n");
    }

    fn add(&mut self, name: &'static str, data: &impl Serialize) {
        let start = self.bytes.len();
        if !name.is_empty() {
            self.bytes.extend_from_slice(b"event: ");
            self.bytes.extend_from_slice(name.as_bytes());
            self.bytes.push(b'\n');
        }
        self.bytes.extend_from_slice(b"data: ");
        // JSON of our own types holds no line break, and writing it to memory does not fail.
        if serde_json::to_writer(&mut self.bytes, data).is_err() {
            self.bytes.truncate(start);
            return;
        }
        self.bytes.extend_from_slice(b"\n\n");
    }
}

/// The response to a streaming request.
pub(crate) fn response(samples: Samples, chunks: impl Chunks, keep_alive: Duration) -> Response {
    let mut frames = Frames::default();
    let mut chunks = chunks;
    chunks.open(&mut frames);
    let stream = ChunkStream {
        samples: Some(samples),
        chunks,
        frames,
        keep_alive,
        silence: Box::pin(sleep(keep_alive)),
        span: tracing::Span::current(),
    };
    stream_response(Body::from_stream(stream))
}

/// A body of events, with the headers that keep whoever passes it on from collecting it.
pub(crate) fn stream_response(body: Body) -> Response {
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Asks nginx not to collect the stream.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// The body; dropping it closes what still runs.
struct ChunkStream<C> {
    /// `None` once the last frame is made.
    samples: Option<Samples>,
    chunks: C,
    frames: Frames,
    keep_alive: Duration,
    silence: Pin<Box<Sleep>>,
    /// The request's, for what is logged after the handler has returned.
    span: tracing::Span,
}

impl<C: Chunks> ChunkStream<C> {
    /// Turns all outputs that are ready into frames.
    fn collect(&mut self, cx: &mut Context<'_>) {
        while self.frames.bytes.len() < FULL_BYTES {
            let Some(samples) = &mut self.samples else {
                return;
            };
            match samples.poll_next(cx) {
                Poll::Pending => return,
                Poll::Ready(Some((choice, output))) => {
                    if let Err(error) = self.chunks.output(choice, output, &mut self.frames) {
                        self.chunks.fail(&error, &mut self.frames);
                        self.samples = None;
                    }
                }
                Poll::Ready(None) => {
                    self.chunks.close(&mut self.frames);
                    self.samples = None;
                }
            }
        }
    }
}

impl<C: Chunks> Stream for ChunkStream<C> {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let span = self.span.clone();
        let collected = catch_unwind(AssertUnwindSafe(|| span.in_scope(|| self.collect(cx))));
        if let Err(panic) = collected {
            let error = unwind::error(panic.as_ref());
            let stream = &mut *self;
            stream.chunks.fail(&error, &mut stream.frames);
            self.samples = None;
        }
        if self.frames.bytes.is_empty() {
            if self.samples.is_none() {
                return Poll::Ready(None);
            }
            if self.silence.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.frames.comment("waiting");
        }
        let next = Instant::now() + self.keep_alive;
        self.silence.as_mut().reset(next);
        Poll::Ready(Some(Ok(self.frames.take())))
    }
}
