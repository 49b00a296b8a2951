//! Server-Sent Events out of bytes that arrive in any pieces.
//!
//! Source: WHATWG HTML, section 9.2.6 "Interpreting an event stream". Only `data` fields are kept: names, ids and retry times
//! of events mean nothing here.

/// Longest line, and longest data of an event, in bytes.
pub const EVENT_BYTES_MAX: usize = 4 << 20;

/// An event or a line of more than [`EVENT_BYTES_MAX`] bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is longer than {EVENT_BYTES_MAX} bytes")]
pub struct EventTooLong;

/// What was read of a stream and is no event yet.
#[derive(Debug, Clone, Default)]
pub struct SseParser {
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// The last byte was a carriage return: a line feed that follows belongs to it.
    is_after_return: bool,
    is_after_first_line: bool,
}

impl SseParser {
    /// Takes the next bytes and adds the data of each event that they complete.
    ///
    /// # Errors
    /// [`EventTooLong`]; the stream cannot be read on.
    pub fn feed(&mut self, bytes: &[u8], events: &mut Vec<Vec<u8>>) -> Result<(), EventTooLong> {
        for piece in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let (text, end) = match piece {
                [text @ .., end @ (b'\n' | b'\r')] => (text, Some(*end)),
                text => (text, None),
            };
            let is_rest_of_return = self.is_after_return && text.is_empty() && end == Some(b'\n');
            self.is_after_return = end == Some(b'\r');
            if is_rest_of_return {
                continue;
            }
            if self.line.len() + text.len() > EVENT_BYTES_MAX {
                return Err(EventTooLong);
            }
            self.line.extend_from_slice(text);
            if end.is_some() {
                self.end_line(events)?;
            }
        }
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<Vec<u8>>) -> Result<(), EventTooLong> {
        let line = std::mem::take(&mut self.line);
        let mut text = line.as_slice();
        if !self.is_after_first_line {
            self.is_after_first_line = true;
            text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
        }
        if text.is_empty() {
            let data = std::mem::take(&mut self.data);
            if std::mem::take(&mut self.has_data) {
                events.push(data);
            }
        } else if let Some(value) = data_of(text) {
            self.push_data(value)?;
        }
        // The allocation serves the next line.
        self.line = line;
        self.line.clear();
        Ok(())
    }

    fn push_data(&mut self, value: &[u8]) -> Result<(), EventTooLong> {
        if self.data.len() + value.len() >= EVENT_BYTES_MAX {
            return Err(EventTooLong);
        }
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        self.data.extend_from_slice(value);
        Ok(())
    }
}

/// The value of a line `data: value`; `None` for other fields and comments.
fn data_of(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"data")?;
    match rest {
        [] => Some(rest),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(pieces: &[&[u8]]) -> Vec<String> {
        let (mut parser, mut events) = (SseParser::default(), Vec::new());
        for piece in pieces {
            parser.feed(piece, &mut events).unwrap();
        }
        let text = |event| String::from_utf8(event).unwrap();
        events.into_iter().map(text).collect()
    }

    /// (stream, events).
    const STREAMS: &[(&str, &[&str])] = &[
        ("data: a\n\ndata: b\n\n", &["a", "b"]),
        ("data: a\r\n\r\ndata: b\r\n\r\n", &["a", "b"]),
        ("data: a\r\rdata: b\r\r", &["a", "b"]),
        ("data: a\r\n\ndata: b\n\r\n", &["a", "b"]),
        ("data:a\ndata:  b\n\n", &["a\n b"]),
        (": waiting\n\ndata: a\n\n", &["a"]),
        ("event: error\nid: 1\ndata: {\"x\": 1}\n\n", &["{\"x\": 1}"]),
        ("\u{feff}data: a\n\n", &["a"]),
        ("data\n\n", &[""]),
        ("data: a\ndata\n\n", &["a\n"]),
        ("database: no\n\ndata: é\u{1F600}\n\n", &["é\u{1F600}"]),
        ("data: a\n\ndata: never ended\n", &["a"]),
        ("\n\n\n", &[]),
        ("", &[]),
    ];

    #[test]
    fn events_are_the_same_however_the_bytes_are_cut() {
        for (stream, expected) in STREAMS {
            let bytes = stream.as_bytes();
            assert_eq!(parsed(&[bytes]), *expected, "{stream:?}");
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(parsed(&single), *expected, "{stream:?} byte by byte");
            for first in 0..=bytes.len() {
                for second in first..=bytes.len() {
                    let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                    assert_eq!(parsed(&pieces), *expected, "{stream:?} {first} {second}");
                }
            }
        }
    }

    #[test]
    fn endless_lines_and_endless_events_are_refused() {
        let mut events = Vec::new();
        let long = vec![b'x'; EVENT_BYTES_MAX];
        let mut parser = SseParser::default();
        parser.feed(&long, &mut events).unwrap();
        assert_eq!(parser.feed(b"x", &mut events), Err(EventTooLong));

        let mut parser = SseParser::default();
        let line = [b"data: ".as_slice(), &long[..EVENT_BYTES_MAX / 2], b"\n"].concat();
        parser.feed(&line, &mut events).unwrap();
        assert_eq!(parser.feed(&line, &mut events), Err(EventTooLong));
        assert!(events.is_empty());
    }
}
