//! What a line holds: emphasis, code, marks that are meant as they stand.
//!
//! A mark is one only when its counterpart stands in the same line, at most [`HELD_BYTES_MAX`] bytes on; until that is known it
//! is held back, and when it is none it is shown as it came. So no character is lost, and none is drawn twice.

use super::block::{HELD_BYTES_MAX, run};
use super::style::{Pen, Style};

/// Spans inside each other; deeper ones are plain text.
const DEPTH_MAX: usize = 8;

/// What a backslash takes the meaning of. Not brackets: `\(` and `\[` are how models begin formulas.
const ESCAPED: &str = "\\`*_#+-.!|~<>";

/// What may begin something.
const SPECIAL: [char; 5] = ['\\', '`', '*', '_', '~'];

/// The first thing in a text. Counts are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// More of the line is needed.
    Wait,
    /// So much plain text.
    Text(usize),
    /// A backslash, and the character that it protects.
    Escaped,
    /// A span: marks of `marks` on each side, `inner` between them.
    Span {
        style: Style,
        marks: usize,
        inner: usize,
    },
}

/// The first thing in `rest`, which is not empty. `before`: the character in front of it; `ended`: nothing follows.
pub fn first(rest: &str, before: Option<char>, ended: bool) -> Piece {
    let ended = ended || rest.len() > HELD_BYTES_MAX;
    match rest.find(SPECIAL) {
        None => Piece::Text(rest.len()),
        Some(0) => special(rest, before, ended),
        Some(at) => Piece::Text(at),
    }
}

/// The same where `rest` begins with a special character.
fn special(rest: &str, before: Option<char>, ended: bool) -> Piece {
    let mark = rest.chars().next().unwrap_or_default();
    if mark == '\\' {
        return match rest[1..].chars().next() {
            None if !ended => Piece::Wait,
            Some(next) if ESCAPED.contains(next) => Piece::Escaped,
            _ => Piece::Text(1),
        };
    }
    let len = run(rest, mark);
    let Some(next) = rest[len..].chars().next() else {
        return if ended { Piece::Text(len) } else { Piece::Wait };
    };
    if mark == '`' {
        return span(rest, Mark::code(len), ended);
    }
    let is_in_word = match mark {
        '_' => before.is_some_and(char::is_alphanumeric),
        // In Chinese and Japanese no space stands before emphasis.
        _ => before.is_some_and(|c| c.is_ascii_alphanumeric()),
    };
    let opened = Mark::emphasis(mark, len).filter(|_| !is_in_word && !next.is_whitespace());
    opened.map_or(Piece::Text(len), |mark| span(rest, mark, ended))
}

/// A mark that may open a span.
#[derive(Clone, Copy)]
struct Mark {
    letter: char,
    len: usize,
    style: Style,
}

impl Mark {
    fn code(len: usize) -> Self {
        Self {
            letter: '`',
            len,
            style: Style::CODE,
        }
    }

    /// What a run of `len` means; three are emphasis in strong emphasis.
    fn emphasis(letter: char, len: usize) -> Option<Self> {
        let (len, style) = match (letter, len) {
            ('~', 2) => (2, Style::STRIKE),
            ('*' | '_', 1) => (1, Style::ITALIC),
            ('*' | '_', 2 | 3) => (2, Style::BOLD),
            _ => return None,
        };
        Some(Self { letter, len, style })
    }

    /// Where in a run of `len` marks this one closes: bytes of the run that belong to the content.
    fn closes(self, len: usize) -> Option<usize> {
        match self.letter {
            '`' | '~' => (len == self.len).then_some(0),
            _ if self.len == 1 => (len % 2 == 1).then(|| len - 1),
            _ => len.checked_sub(self.len),
        }
    }

    /// Whether the mark may close between these two characters.
    fn fits(self, before: Option<char>, after: Option<char>) -> bool {
        match self.letter {
            '`' => true,
            '_' if after.is_some_and(char::is_alphanumeric) => false,
            _ => before.is_some_and(|c| !c.is_whitespace()),
        }
    }
}

/// The span that `rest` opens with `mark`, or the mark as text.
fn span(rest: &str, mark: Mark, ended: bool) -> Piece {
    let inside = &rest[mark.len..];
    let mut at = run(inside, mark.letter);
    while let Some(found) = inside[at..].find([mark.letter, '`']) {
        let start = at + found;
        let letter = if inside[start..].starts_with('`') {
            '`'
        } else {
            mark.letter
        };
        let len = run(&inside[start..], letter);
        at = start + len;
        if at == inside.len() && !ended {
            return Piece::Wait;
        }
        if letter != mark.letter {
            // Code within emphasis: its letters are no marks.
            match code_end(inside, at, len) {
                Some(end) => at = end,
                None if !ended => return Piece::Wait,
                None => {}
            }
            continue;
        }
        let before = inside[..start].chars().next_back();
        let after = inside[at..].chars().next();
        if let Some(content) = mark.closes(len).filter(|_| mark.fits(before, after)) {
            return Piece::Span {
                style: mark.style,
                marks: mark.len,
                inner: start + content,
            };
        }
    }
    match ended {
        true => Piece::Text(run(rest, mark.letter)),
        false => Piece::Wait,
    }
}

/// Where code ends that was opened by `len` backticks before `at`.
fn code_end(text: &str, mut at: usize, len: usize) -> Option<usize> {
    while let Some(found) = text[at..].find('`') {
        let closing = run(&text[at + found..], '`');
        at += found + closing;
        if closing == len {
            return Some(at);
        }
    }
    None
}

/// Writes what stands inside a span, which is whole.
pub fn write(pen: &mut Pen, shown: &mut String, text: &str, style: Style, depth: usize) {
    let (mut rest, mut before) = (text, None);
    while !rest.is_empty() {
        let piece = match depth < DEPTH_MAX {
            true => first(rest, before, true),
            false => Piece::Text(rest.len()),
        };
        let taken = draw(pen, shown, rest, piece, style, depth);
        before = rest[..taken].chars().next_back();
        rest = &rest[taken..];
    }
}

/// Writes the first thing of `rest`; returns the bytes it took.
pub fn draw(
    pen: &mut Pen,
    shown: &mut String,
    rest: &str,
    piece: Piece,
    style: Style,
    depth: usize,
) -> usize {
    match piece {
        Piece::Wait => 0,
        Piece::Text(len) => {
            pen.write(shown, &rest[..len], style);
            len
        }
        Piece::Escaped => {
            pen.write(shown, &rest[1..2], style);
            2
        }
        Piece::Span {
            style: added,
            marks,
            inner,
        } => {
            let content = &rest[marks..marks + inner];
            match added {
                Style::CODE => pen.write(shown, unpadded(content), style | added),
                _ => write(pen, shown, content, style | added, depth + 1),
            }
            marks + inner + marks
        }
    }
}

/// Code without the space on each side that sets a backtick in it apart from the marks.
fn unpadded(code: &str) -> &str {
    let inner = code
        .strip_prefix(' ')
        .and_then(|code| code.strip_suffix(' '));
    inner.filter(|code| !code.trim().is_empty()).unwrap_or(code)
}
