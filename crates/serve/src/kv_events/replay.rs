//! One requester of batches that were sent already.
//!
//! A request is `["", number]`, as REQ sends it; each reply is `["", number, payload]`, or with the topic before the
//! number; the last one has the number -1 and no payload. What is not a request is dropped without an answer.

use std::sync::Arc;

use tokio::net::TcpStream;

use super::outlet::Outlet;
use super::zmtp::{Command, Connection, Frame, More, SocketKind, ZmtpError};

/// Number of the reply after the last batch.
const END: [u8; 8] = [0xff; 8];

/// Bytes that are written at once; one batch may be more.
const CHUNK_BYTES: usize = 64 << 10;

/// Answers requests one after the other until the requester is gone. It is not listened to while it does not read.
pub(super) async fn serve(stream: TcpStream, outlet: Arc<Outlet>) -> Result<(), ZmtpError> {
    let mut connection = Connection::greet(stream, SocketKind::Router).await?;
    let mut requests = RequestReader::default();
    let mut running = None;
    loop {
        while running.is_none()
            && let Some(frame) = connection.take_frame()?
        {
            if !frame.is_command {
                running = requests.hear(frame).map(|first| Replay {
                    next: first,
                    end: outlet.ring().end(),
                });
            } else if let Command::Ping { context } = Command::parse(&frame.body)? {
                connection.pong(context);
            }
        }
        if connection.is_flushed() {
            running = running.and_then(|replay| replay.write(&mut connection, &outlet));
        }
        if running.is_none() || !connection.is_flushed() {
            connection.turn(std::future::pending()).await?;
        }
    }
}

/// What is still to be sent of an answer.
#[derive(Debug, Clone, Copy)]
struct Replay {
    next: u64,
    /// Number of the first batch that was not there at the request.
    end: u64,
}

impl Replay {
    /// Writes a part of it; what is left.
    fn write(mut self, connection: &mut Connection, outlet: &Outlet) -> Option<Self> {
        let chunk = outlet.ring().chunk(self.next, CHUNK_BYTES);
        self.next = chunk.first;
        for payload in &chunk.payloads {
            if self.next >= self.end {
                break;
            }
            reply(connection, outlet, &self.next.to_be_bytes(), payload);
            self.next += 1;
        }
        if self.next < self.end {
            return Some(self);
        }
        reply(connection, outlet, &END, b"");
        None
    }
}

fn reply(connection: &mut Connection, outlet: &Outlet, number: &[u8; 8], payload: &[u8]) {
    match outlet.replay_topic {
        true => connection.write(&[b"", outlet.topic.as_bytes(), number, payload]),
        false => connection.write(&[b"", number, payload]),
    }
}

/// Makes requests of frames.
#[derive(Debug, Default)]
pub(super) struct RequestReader {
    /// Frames of the message so far.
    num_frames: usize,
    /// Whether they are those of a request.
    is_good: bool,
}

impl RequestReader {
    /// Takes the next frame; the number asked for, once a request is whole.
    pub(super) fn hear(&mut self, frame: Frame) -> Option<u64> {
        let index = self.num_frames;
        self.num_frames = index.saturating_add(1);
        let number = <[u8; 8]>::try_from(frame.body.as_slice());
        self.is_good = match index {
            0 => frame.body.is_empty(),
            1 => self.is_good && number.is_ok(),
            _ => false,
        };
        if frame.more == More::Yes {
            return None;
        }
        let is_good = self.is_good && index == 1;
        *self = Self::default();
        number.ok().filter(|_| is_good).map(u64::from_be_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv_events::zmtp::{FRAME_BYTES_MAX, Input, write_frame};

    /// Feeds `bytes` in pieces of `piece`; the requests in them, or those before the connection had to be closed.
    fn requests(bytes: &[u8], piece: usize) -> Vec<u64> {
        let (mut input, mut reader) = (Input::default(), RequestReader::default());
        let mut found = Vec::new();
        for piece in bytes.chunks(piece) {
            input.push(piece);
            loop {
                match input.take_frame() {
                    Ok(Some(frame)) => {
                        assert!(frame.body.len() <= FRAME_BYTES_MAX);
                        if !frame.is_command {
                            found.extend(reader.hear(frame));
                        }
                    }
                    Ok(None) => break,
                    Err(_) => return found,
                }
            }
        }
        found
    }

    fn message(frames: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (index, frame) in frames.iter().enumerate() {
            let more = if index + 1 < frames.len() {
                More::Yes
            } else {
                More::No
            };
            write_frame(&mut bytes, frame, more);
        }
        bytes
    }

    #[test]
    fn only_requests_are_answered() {
        let seven = 7u64.to_be_bytes();
        let good = message(&[b"", &seven]);
        for bad in [
            &[&seven[..]][..],
            &[b""],
            &[b"", b""],
            &[b"", &seven[1..]],
            &[b"", b"123456789"],
            &[b"x", &seven],
            &[b"", &seven, b""],
            &[b"", b"", &seven],
        ] {
            let bytes = [good.clone(), message(bad), good.clone()].concat();
            for piece in [1, 2, 5, 1000] {
                assert_eq!(requests(&bytes, piece), [7, 7], "{bad:?}");
            }
        }
        let last = message(&[b"", &[0xff; 8]]);
        assert_eq!(requests(&last, 3), [u64::MAX]);
    }

    /// Mutated requests: whatever comes, nothing is kept, nothing breaks, and the pieces do not matter.
    #[test]
    fn any_bytes_are_read() {
        let mut state = 1u64;
        let mut draw = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as usize
        };
        let number = 1234u64.to_be_bytes();
        for _ in 0..20_000 {
            let mut bytes = message(&[b"", &number]).repeat(1 + draw() % 4);
            for _ in 0..draw() % 6 {
                let at = draw() % bytes.len();
                match draw() % 3 {
                    0 => bytes[at] = draw() as u8,
                    1 => bytes.insert(at, draw() as u8),
                    _ => bytes.truncate(at.max(1)),
                }
            }
            let whole = requests(&bytes, bytes.len());
            assert_eq!(requests(&bytes, 1), whole, "{bytes:?}");
            assert!(whole.len() <= bytes.len() / 12);
        }
    }
}
