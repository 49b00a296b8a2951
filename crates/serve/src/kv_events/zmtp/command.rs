//! What a command says.

use super::ZmtpError;

/// A command of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Command<'a> {
    /// The properties of its socket.
    Ready { properties: &'a [u8] },
    /// It wants messages that begin so.
    Subscribe { prefix: &'a [u8] },
    /// It wants them no more.
    Cancel { prefix: &'a [u8] },
    /// It wants the context back.
    Ping { context: &'a [u8] },
    /// Nothing that needs an answer.
    Other,
}

/// Bytes of PING's time to live, before its context.
const TTL_BYTES: usize = 2;

const CONTEXT_BYTES_MAX: usize = 16;

impl<'a> Command<'a> {
    pub(in super::super) fn parse(body: &'a [u8]) -> Result<Self, ZmtpError> {
        let (name, data) = named(body).ok_or(ZmtpError::Malformed)?;
        Ok(match name {
            b"READY" => Self::Ready { properties: data },
            b"SUBSCRIBE" => Self::Subscribe { prefix: data },
            b"CANCEL" => Self::Cancel { prefix: data },
            b"PING" => {
                let context = data.get(TTL_BYTES..).ok_or(ZmtpError::Malformed)?;
                if context.len() > CONTEXT_BYTES_MAX {
                    return Err(ZmtpError::Malformed);
                }
                Self::Ping { context }
            }
            _ => Self::Other,
        })
    }
}

/// A name behind its length of one byte, and what follows.
fn named(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(length))
}

/// The property `Socket-Type`; names are compared without case.
pub(super) fn socket_type(mut properties: &[u8]) -> Option<&[u8]> {
    loop {
        let (name, rest) = named(properties)?;
        let (length, rest) = rest.split_first_chunk()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (value, rest) = rest.split_at_checked(length)?;
        if name.eq_ignore_ascii_case(b"Socket-Type") {
            return Some(value);
        }
        properties = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_apart() {
        let prefix = &b"kv@"[..];
        for (body, expected) in [
            (&b"\x05READY"[..], Some(Command::Ready { properties: b"" })),
            (b"\x09SUBSCRIBEkv@", Some(Command::Subscribe { prefix })),
            (b"\x06CANCELkv@", Some(Command::Cancel { prefix })),
            (b"\x04PING\0\x05ab", Some(Command::Ping { context: b"ab" })),
            (b"\x04PONGab", Some(Command::Other)),
            (b"\x05ERROR\x03bad", Some(Command::Other)),
            (b"\x04PING\0", None),
            (b"\x04PING\0\x05seventeen bytes xx", None),
            (b"\x06READY", None),
            (b"", None),
        ] {
            assert_eq!(Command::parse(body).ok(), expected, "{body:?}");
        }
    }

    #[test]
    fn the_socket_type_is_found_among_properties() {
        for (properties, expected) in [
            (&b"\x0bSocket-Type\0\0\0\x03SUB"[..], Some(&b"SUB"[..])),
            (
                b"\x08Identity\0\0\0\0\x0bsocket-type\0\0\0\x03REQ",
                Some(b"REQ"),
            ),
            (b"\x08Identity\0\0\0\0", None),
            (b"\x0bSocket-Type\xff\xff\xff\xffSUB", None),
            (b"\x0bSocket-Type\0\0\0\x04SUB", None),
            (b"\x0bSocket-Type\0\0", None),
            (b"\xffSocket-Type", None),
            (b"", None),
        ] {
            assert_eq!(socket_type(properties), expected, "{properties:?}");
        }
    }
}
