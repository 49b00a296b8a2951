//! The half of ZMTP 3.1 that a listening PUB or ROUTER needs, with no security mechanism (NULL).
//!
//! Here: greeting, READY, frames, PING. Not here: what frames mean (`subscriber`, `replay`).
//! Nothing a peer sends is kept beyond [`FRAME_BYTES_MAX`], and a length is checked before anything is sized by it.
//!
//! Written here since the crate `zeromq` 0.7.0 sizes a buffer by a frame's length, so that nine bytes from any peer end
//! the process; closes connections that send PING; and lets a slow subscriber hold 100,000 messages of any size.
//!
//! Source: ZeroMQ RFC 37 (ZMTP 3.1) and 23 (3.0).

mod command;
mod connection;
mod frame;

use std::io;
use std::time::Duration;

pub(super) use command::Command;
pub(super) use connection::{Connection, SocketKind};
pub(super) use frame::{Frame, More};
#[cfg(test)]
pub(super) use frame::{Input, write_frame};

/// Most bytes of a frame that a peer may send: a topic, a number, the properties of its socket.
pub(super) const FRAME_BYTES_MAX: usize = 4096;

/// Time for greeting and READY.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Time that a peer may leave bytes unread that are ready for it.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum ZmtpError {
    #[error("the peer is gone")]
    Closed,
    #[error("the peer left ready bytes unread")]
    Stalled,
    #[error("no handshake in time")]
    Late,
    #[error("the peer does not speak ZMTP 3")]
    NotZmtp,
    #[error("the peer wants another security mechanism than NULL")]
    Mechanism,
    #[error("a socket of this kind is not served here")]
    SocketKind,
    #[error("a frame of {bytes} bytes, limit {FRAME_BYTES_MAX}")]
    TooLong { bytes: u64 },
    #[error("more subscriptions than the limit")]
    TooMany,
    #[error("a frame that is not as ZMTP says")]
    Malformed,
    #[error(transparent)]
    Io(#[from] io::Error),
}
