//! Greetings and frames, as bytes.
//!
//! ```text
//! greeting: ff 00*8 7f | major minor | mechanism, 20 bytes | as-server | 00*31
//! frame:    flags | length, 1 byte or (long) 8 big-endian | body
//! ```

use super::{FRAME_BYTES_MAX, ZmtpError};

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;
const RESERVED: u8 = !(MORE | LONG | COMMAND);

const GREETING_BYTES: usize = 64;

/// What is said first: ZMTP 3.1, NULL.
pub(super) const GREETING: [u8; GREETING_BYTES] = {
    let mut greeting = [0; GREETING_BYTES];
    (greeting[0], greeting[9]) = (0xff, 0x7f);
    (greeting[10], greeting[11]) = (3, 1);
    let mut i = 0;
    while i < MECHANISM.len() {
        greeting[12 + i] = MECHANISM[i];
        i += 1;
    }
    greeting
};

const MECHANISM: [u8; 4] = *b"NULL";

/// Whether a frame is followed by another of the same message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum More {
    Yes,
    No,
}

/// One frame of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Frame {
    pub is_command: bool,
    pub more: More,
    pub body: Vec<u8>,
}

/// Bytes of a peer that are not yet read as frames.
#[derive(Debug, Default)]
pub(in super::super) struct Input {
    bytes: Vec<u8>,
}

impl Input {
    pub(in super::super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Whether the longest frame is not yet there.
    pub(super) fn has_room(&self) -> bool {
        self.bytes.len() < 9 + FRAME_BYTES_MAX
    }

    /// Takes the peer's greeting, once it is whole. Its minor version does not matter: what it
    /// sends in 3.0 and what it sends in 3.1 are both understood.
    pub(super) fn take_greeting(&mut self) -> Result<Option<()>, ZmtpError> {
        let is_signature = |bytes: &[u8]| match *bytes {
            [0xff, .., 0x7f, major] => major >= 3,
            _ => false,
        };
        // A peer of an older version may wait after these, so they are judged early.
        if self.bytes.len() >= 11 && !is_signature(&self.bytes[..11]) {
            return Err(ZmtpError::NotZmtp);
        }
        if self.bytes.len() < GREETING_BYTES {
            return Ok(None);
        }
        if self.bytes[12..32] != GREETING[12..32] {
            return Err(ZmtpError::Mechanism);
        }
        self.bytes.drain(..GREETING_BYTES);
        Ok(Some(()))
    }

    /// Takes the next frame, once it is whole.
    pub(in super::super) fn take_frame(&mut self) -> Result<Option<Frame>, ZmtpError> {
        let (flags, length, head) = match *self.bytes.as_slice() {
            [flags, a, b, c, d, e, f, g, h, ..] if flags & LONG != 0 => {
                (flags, u64::from_be_bytes([a, b, c, d, e, f, g, h]), 9)
            }
            [flags, length, ..] if flags & LONG == 0 => (flags, u64::from(length), 2),
            _ => return Ok(None),
        };
        if flags & RESERVED != 0 || flags & (COMMAND | MORE) == COMMAND | MORE {
            return Err(ZmtpError::Malformed);
        }
        let body_bytes = match usize::try_from(length) {
            Ok(bytes) if bytes <= FRAME_BYTES_MAX => bytes,
            _ => return Err(ZmtpError::TooLong { bytes: length }),
        };
        if self.bytes.len() < head + body_bytes {
            return Ok(None);
        }
        let body = self.bytes[head..head + body_bytes].to_vec();
        self.bytes.drain(..head + body_bytes);
        Ok(Some(Frame {
            is_command: flags & COMMAND != 0,
            more: match flags & MORE {
                0 => More::No,
                _ => More::Yes,
            },
            body,
        }))
    }
}

/// Writes a frame of a message.
pub(in super::super) fn write_frame(out: &mut Vec<u8>, body: &[u8], more: More) {
    let flags = match more {
        More::Yes => MORE,
        More::No => 0,
    };
    write(out, flags, &[body]);
}

/// Writes a command: its name, then what belongs to it.
pub(super) fn write_command(out: &mut Vec<u8>, name: &[u8], data: &[u8]) {
    write(out, COMMAND, &[&[name.len() as u8], name, data]);
}

fn write(out: &mut Vec<u8>, flags: u8, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    match u8::try_from(length) {
        Ok(length) => out.extend([flags, length]),
        Err(_) => {
            out.push(flags | LONG);
            out.extend((length as u64).to_be_bytes());
        }
    }
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written_however_they_arrive() {
        for length in [0, 1, 254, 255, 256, 4096] {
            let body: Vec<u8> = (0..length).map(|i| i as u8).collect();
            let mut bytes = Vec::new();
            write_frame(&mut bytes, &body, More::Yes);
            write_frame(&mut bytes, b"end", More::No);
            write_command(&mut bytes, b"PING", b"xy");
            let mut input = Input::default();
            let mut frames = Vec::new();
            for byte in bytes {
                input.push(&[byte]);
                frames.extend(input.take_frame().unwrap());
            }
            let frame = |is_command, more, body: &[u8]| Frame {
                is_command,
                more,
                body: body.to_vec(),
            };
            let expected = [
                frame(false, More::Yes, &body),
                frame(false, More::No, b"end"),
                frame(true, More::No, b"\x04PINGxy"),
            ];
            assert_eq!(frames, expected, "{length}");
        }
    }

    #[test]
    fn lengths_and_flags_are_judged_before_the_body_comes() {
        let long = |length: u64| [&[LONG][..], &length.to_be_bytes()].concat();
        for (bytes, is_bad) in [
            (long(4096), false),
            (long(4097), true),
            (long(1 << 46), true),
            (long(u64::MAX), true),
            (vec![COMMAND | MORE, 0], true),
            (vec![8, 0], true),
            (vec![LONG, 0], false),
            (vec![], false),
        ] {
            let mut input = Input::default();
            input.push(&bytes);
            assert_eq!(input.take_frame().is_err(), is_bad, "{bytes:?}");
        }
    }

    #[test]
    fn greetings_of_others_are_refused() {
        let with = |at: usize, byte: u8| {
            let mut greeting = GREETING;
            greeting[at] = byte;
            greeting.to_vec()
        };
        for (bytes, expected) in [
            (GREETING.to_vec(), Some(true)),
            (with(11, 0), Some(true)),
            (with(10, 4), Some(true)),
            (with(32, 1), Some(true)),
            (with(10, 2), None),
            (with(0, 1), None),
            (with(9, 0), None),
            (with(12, b'C'), None),
            (with(16, b'L'), None),
            (GREETING[..63].to_vec(), Some(false)),
            (b"GET / HTTP/1.1\r\n".to_vec(), None),
        ] {
            let mut input = Input::default();
            input.push(&bytes);
            let taken = input.take_greeting().ok().map(|whole| whole.is_some());
            assert_eq!(taken, expected, "{bytes:?}");
        }
    }
}
