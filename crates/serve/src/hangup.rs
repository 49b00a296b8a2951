//! Noticing that a client is gone while its request runs.
//!
//! The HTTP library notices by reading on, but not while bytes of a next request lie in its buffer:
//! a client that sends two requests in one write and leaves would keep the first one running.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(250);

/// A stream and its [`Hangup`]. Both live in one task, so the lock is never waited for.
pub(crate) struct WatchedStream(Arc<Mutex<TcpStream>>);

/// Sees the other side close, whether or not all its bytes were read.
pub(crate) struct Hangup(Arc<Mutex<TcpStream>>);

/// Splits off the watcher.
pub(crate) fn watched(stream: TcpStream) -> (WatchedStream, Hangup) {
    let stream = Arc::new(Mutex::new(stream));
    (WatchedStream(Arc::clone(&stream)), Hangup(stream))
}

fn lock(stream: &Mutex<TcpStream>) -> MutexGuard<'_, TcpStream> {
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hangup {
    /// Waits until the client has closed its side.
    pub(crate) async fn wait(self) {
        while !self.is_closed() {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// What the system last told; nothing is read.
    fn is_closed(&self) -> bool {
        let stream = lock(&self.0);
        let ready = pin!(stream.ready(Interest::READABLE));
        let ready = ready.poll(&mut Context::from_waker(Waker::noop()));
        matches!(ready, Poll::Ready(Ok(ready)) if ready.is_read_closed())
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *lock(&self.0)).poll_read(cx, buffer)
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *lock(&self.0)).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *lock(&self.0)).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *lock(&self.0)).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *lock(&self.0)).poll_shutdown(cx)
    }
}
