//! One peer: bytes in, bytes out, neither waiting for the other.

use std::future::Future;
use std::io;

use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};

use super::command::{Command, socket_type};
use super::frame::{Frame, GREETING, Input, More, write_command, write_frame};
use super::{HANDSHAKE_TIMEOUT, STALL_TIMEOUT, ZmtpError};

/// Bytes that may wait for a peer; it is not listened to while there are more.
const OUTPUT_BYTES_MAX: usize = 64 << 10;

/// What a listening socket is, and whom it talks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum SocketKind {
    Pub,
    Router,
}

impl SocketKind {
    fn name(self) -> &'static [u8] {
        match self {
            Self::Pub => b"PUB",
            Self::Router => b"ROUTER",
        }
    }

    fn talks_to(self, peer: &[u8]) -> bool {
        match self {
            Self::Pub => matches!(peer, b"SUB" | b"XSUB"),
            Self::Router => matches!(peer, b"REQ" | b"DEALER" | b"ROUTER"),
        }
    }
}

/// A peer that is greeted.
#[derive(Debug)]
pub(in super::super) struct Connection {
    stream: TcpStream,
    input: Input,
    output: Vec<u8>,
    /// Bytes of `output` that are sent.
    sent: usize,
    /// When the peer last took something, or had nothing to take.
    moved: Instant,
}

impl Connection {
    /// Exchanges greetings and READY.
    pub(in super::super) async fn greet(
        stream: TcpStream,
        kind: SocketKind,
    ) -> Result<Self, ZmtpError> {
        let mut connection = Self {
            stream,
            input: Input::default(),
            output: GREETING.to_vec(),
            sent: 0,
            moved: Instant::now(),
        };
        let handshake = timeout(HANDSHAKE_TIMEOUT, connection.handshake(kind));
        handshake.await.map_err(|_| ZmtpError::Late)??;
        Ok(connection)
    }

    async fn handshake(&mut self, kind: SocketKind) -> Result<(), ZmtpError> {
        while self.input.take_greeting()?.is_none() {
            self.turn(std::future::pending()).await?;
        }
        let name = kind.name();
        let property = [
            b"\x0bSocket-Type",
            &(name.len() as u32).to_be_bytes()[..],
            name,
        ];
        write_command(&mut self.output, b"READY", &property.concat());
        let frame = loop {
            match self.input.take_frame()? {
                Some(frame) => break frame,
                None => self.turn(std::future::pending()).await?,
            }
        };
        if !frame.is_command {
            return Err(ZmtpError::Malformed);
        }
        let Command::Ready { properties } = Command::parse(&frame.body)? else {
            return Err(ZmtpError::Malformed);
        };
        let peer = socket_type(properties).ok_or(ZmtpError::Malformed)?;
        match kind.talks_to(peer) {
            true => Ok(()),
            false => Err(ZmtpError::SocketKind),
        }
    }

    /// The next frame that has arrived.
    pub(in super::super) fn take_frame(&mut self) -> Result<Option<Frame>, ZmtpError> {
        self.input.take_frame()
    }

    /// Whether the peer has taken all that was written.
    pub(in super::super) fn is_flushed(&self) -> bool {
        self.output.is_empty()
    }

    /// Writes a message, to be sent by [`Connection::turn`].
    pub(in super::super) fn write(&mut self, frames: &[&[u8]]) {
        if let Some((last, leading)) = frames.split_last() {
            for frame in leading {
                write_frame(&mut self.output, frame, More::Yes);
            }
            write_frame(&mut self.output, last, More::No);
        }
    }

    /// Writes the answer to PING.
    pub(in super::super) fn pong(&mut self, context: &[u8]) {
        write_command(&mut self.output, b"PONG", context);
    }

    /// Waits until bytes came or went, or `wake` is ready.
    pub(in super::super) async fn turn(
        &mut self,
        wake: impl Future<Output = ()>,
    ) -> Result<(), ZmtpError> {
        let listens = self.input.has_room() && self.output.len() <= OUTPUT_BYTES_MAX;
        let speaks = !self.output.is_empty();
        if !speaks {
            self.moved = Instant::now();
        }
        tokio::select! {
            ready = self.stream.readable(), if listens => {
                ready?;
                self.read()
            }
            ready = self.stream.writable(), if speaks => {
                ready?;
                self.send()
            }
            () = sleep_until(self.moved + STALL_TIMEOUT), if speaks => Err(ZmtpError::Stalled),
            () = wake => Ok(()),
        }
    }

    fn read(&mut self) -> Result<(), ZmtpError> {
        let mut bytes = [0; 1024];
        match self.stream.try_read(&mut bytes) {
            Ok(0) => Err(ZmtpError::Closed),
            Ok(count) => {
                self.input.push(&bytes[..count]);
                Ok(())
            }
            Err(error) => not_yet(error),
        }
    }

    fn send(&mut self) -> Result<(), ZmtpError> {
        match self.stream.try_write(&self.output[self.sent..]) {
            Ok(count) => {
                self.sent += count;
                self.moved = Instant::now();
            }
            Err(error) => return not_yet(error),
        }
        if self.sent == self.output.len() {
            self.sent = 0;
            self.output.clear();
            self.output.shrink_to(2 * OUTPUT_BYTES_MAX);
        }
        Ok(())
    }
}

fn not_yet(error: io::Error) -> Result<(), ZmtpError> {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(()),
        _ => Err(error.into()),
    }
}
