//! One subscriber: what it wants, and how far it has read.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::net::TcpStream;

use super::hub::KvEventCounters;
use super::outlet::Outlet;
use super::zmtp::{Command, Connection, Frame, More, SocketKind, ZmtpError};

/// Most subscriptions of one subscriber.
const SUBSCRIPTIONS_MAX: usize = 64;

/// Bytes that are written at once; one batch may be more.
const CHUNK_BYTES: usize = 64 << 10;

/// Sends `outlet`'s batches until the subscriber is gone.
pub(super) async fn serve(stream: TcpStream, outlet: Arc<Outlet>) -> Result<(), ZmtpError> {
    let mut connection = Connection::greet(stream, SocketKind::Pub).await?;
    let _counted = Counted::new(&outlet.counters);
    let mut wants = Subscriptions::default();
    let mut end = outlet.watch();
    let mut next = 0;
    loop {
        let did_match = wants.matches(&outlet.topic);
        while let Some(frame) = connection.take_frame()? {
            if let Some(context) = wants.hear(&frame)? {
                connection.pong(context);
            }
        }
        let matches = wants.matches(&outlet.topic);
        end.borrow_and_update();
        if matches && !did_match {
            next = outlet.ring().end();
        }
        if matches && connection.is_flushed() {
            next = write(&mut connection, &outlet, next);
        }
        // Unless it has to read first, new batches wake it.
        let is_idle = connection.is_flushed();
        let wake = async {
            if !is_idle || end.changed().await.is_err() {
                std::future::pending().await
            }
        };
        connection.turn(wake).await?;
    }
}

/// Writes batches from number `from` on; the number to go on with.
fn write(connection: &mut Connection, outlet: &Outlet, from: u64) -> u64 {
    let chunk = outlet.ring().chunk(from, CHUNK_BYTES);
    let missed = chunk.first - from;
    outlet.counters.dropped.fetch_add(missed, Ordering::Relaxed);
    let mut next = chunk.first;
    for payload in &chunk.payloads {
        connection.write(&[outlet.topic.as_bytes(), &next.to_be_bytes(), payload]);
        next += 1;
    }
    next
}

/// Counts a subscriber for as long as it is there.
struct Counted<'a>(&'a KvEventCounters);

impl<'a> Counted<'a> {
    fn new(counters: &'a KvEventCounters) -> Self {
        counters.subscribers.fetch_add(1, Ordering::Relaxed);
        Self(counters)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.subscribers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a subscriber wants: messages whose topic begins with one of these.
#[derive(Debug, Default)]
struct Subscriptions {
    prefixes: Vec<Vec<u8>>,
    /// Whether the rest of a message of several frames, which means nothing, is to come.
    is_inside: bool,
}

impl Subscriptions {
    fn matches(&self, topic: &str) -> bool {
        let mut prefixes = self.prefixes.iter();
        prefixes.any(|prefix| topic.as_bytes().starts_with(prefix))
    }

    /// Takes a frame; the context of a PING, to be sent back. Subscriptions are commands since
    /// ZMTP 3.1, before that messages with a 1 or 0 in front.
    fn hear<'a>(&mut self, frame: &'a Frame) -> Result<Option<&'a [u8]>, ZmtpError> {
        if frame.is_command {
            match Command::parse(&frame.body)? {
                Command::Subscribe { prefix } => self.add(prefix)?,
                Command::Cancel { prefix } => self.remove(prefix),
                Command::Ping { context } => return Ok(Some(context)),
                Command::Ready { .. } | Command::Other => {}
            }
            return Ok(None);
        }
        let is_whole = !self.is_inside && frame.more == More::No;
        self.is_inside = frame.more == More::Yes;
        match frame.body.split_first() {
            Some((1, prefix)) if is_whole => self.add(prefix)?,
            Some((0, prefix)) if is_whole => self.remove(prefix),
            _ => {}
        }
        Ok(None)
    }

    /// The same prefix counts as often as it is wanted.
    fn add(&mut self, prefix: &[u8]) -> Result<(), ZmtpError> {
        if self.prefixes.len() >= SUBSCRIPTIONS_MAX {
            return Err(ZmtpError::TooMany);
        }
        self.prefixes.push(prefix.to_vec());
        Ok(())
    }

    fn remove(&mut self, prefix: &[u8]) {
        let mut prefixes = self.prefixes.iter();
        if let Some(index) = prefixes.position(|known| known == prefix) {
            self.prefixes.swap_remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(is_command: bool, more: More, body: &[u8]) -> Frame {
        let body = body.to_vec();
        Frame {
            is_command,
            more,
            body,
        }
    }

    #[test]
    fn both_forms_of_subscriptions_are_heard() {
        let mut wants = Subscriptions::default();
        let message = |body: &[u8]| frame(false, More::No, body);
        let command = |body: &[u8]| frame(true, More::No, body);
        for (heard, matches) in [
            (message(b"\x01kv@b"), false),
            (message(b"\x01kv@a"), true),
            (command(b"\x09SUBSCRIBEkv@"), true),
            (message(b"\x00kv@a"), true),
            (message(b"\x00kv"), true),
            (command(b"\x06CANCELkv@"), false),
            (command(b"\x09SUBSCRIBE"), true),
            (message(b"\x01"), true),
            (message(b"\x00"), true),
            (message(b"\x00"), false),
            (message(b"\x02kv"), false),
            (message(b""), false),
            (frame(false, More::Yes, b"\x01"), false),
            (message(b"\x01"), false),
            (command(b"\x04PING\0\x01x"), false),
            (message(b"\x01kv@a@model"), true),
        ] {
            wants.hear(&heard).unwrap();
            assert_eq!(wants.matches("kv@a@model"), matches, "{heard:?}");
        }
    }

    #[test]
    fn subscriptions_have_a_limit() {
        let mut wants = Subscriptions::default();
        let heard = frame(false, More::No, b"\x01x");
        let taken = (0..1000).take_while(|_| wants.hear(&heard).is_ok());
        assert_eq!(taken.count(), SUBSCRIPTIONS_MAX);
    }
}
