//! What a line is, judged by its beginning.

/// Most bytes of a line that are held back while it is not decided what they mean.
pub const HELD_BYTES_MAX: usize = 400;

/// What a line begins with. Counts are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// More of the line is needed.
    Wait,
    /// A heading; its marks and the space behind them take `marks`.
    Heading { level: usize, marks: usize },
    /// A quote: white space and mark take `marks`.
    Quote { marks: usize },
    /// An item of a list: `indent` of white space, then two of mark and space.
    Item { indent: usize },
    /// A line across.
    Rule,
    /// The line that opens a block of code.
    Fence(Fence),
    /// Nothing of the kind.
    Text,
}

/// How a block of code was opened, which is how it is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    mark: char,
    len: usize,
}

/// Judges `line`, which is all of it when `ended`. `quoted`: it stands behind the mark of a quote, where no code begins.
pub fn begin(line: &str, ended: bool, quoted: bool) -> Begin {
    let rest = line.trim_start_matches([' ', '\t']);
    let indent = line.len() - rest.len();
    if line.len() > HELD_BYTES_MAX {
        return Begin::Text;
    }
    match rest.chars().next() {
        None if ended => Begin::Text,
        None => Begin::Wait,
        Some('#') => heading(rest, ended, indent),
        Some('>') if rest.len() == 1 && !ended => Begin::Wait,
        Some('>') => Begin::Quote {
            marks: indent + 1 + usize::from(rest[1..].starts_with(' ')),
        },
        Some(mark @ ('-' | '*' | '+' | '_')) => rule_or_item(rest, mark, ended, indent),
        Some(mark @ ('`' | '~')) if !quoted => fence(rest, mark, ended),
        Some(_) => Begin::Text,
    }
}

fn heading(rest: &str, ended: bool, indent: usize) -> Begin {
    let level = run(rest, '#');
    match rest[level..].chars().next() {
        None if !ended && level <= 6 => Begin::Wait,
        Some(' ') if level <= 6 => Begin::Heading {
            level,
            marks: indent + level + 1,
        },
        _ => Begin::Text,
    }
}

fn rule_or_item(rest: &str, mark: char, ended: bool, indent: usize) -> Begin {
    let is_item = mark != '_' && rest[1..].starts_with(' ');
    let is_open = rest.chars().all(|c| c == mark || c == ' ');
    if is_open && !ended {
        Begin::Wait
    } else if is_open && mark != '+' && rest.matches(mark).count() >= 3 {
        Begin::Rule
    } else if is_item {
        Begin::Item { indent }
    } else {
        Begin::Text
    }
}

fn fence(rest: &str, mark: char, ended: bool) -> Begin {
    let len = run(rest, mark);
    let info = &rest[len..];
    if info.is_empty() && !ended {
        Begin::Wait
    } else if len < 3 || (mark == '`' && info.contains('`')) {
        Begin::Text
    } else if !ended {
        Begin::Wait
    } else {
        Begin::Fence(Fence { mark, len })
    }
}

impl Fence {
    /// Whether `line` closes the code; `None` when more of it is needed.
    pub fn is_closed_by(self, line: &str, ended: bool) -> Option<bool> {
        let ended = ended || line.len() > HELD_BYTES_MAX;
        let rest = line.trim_start_matches([' ', '\t']);
        let len = run(rest, self.mark);
        let is_open = rest[len..].trim_end().is_empty() && (rest.len() == len || len >= self.len);
        match (is_open, ended) {
            (true, false) => None,
            (is_open, _) => Some(is_open && len >= self.len),
        }
    }
}

/// How many `mark`s `text` begins with.
pub fn run(text: &str, mark: char) -> usize {
    text.len() - text.trim_start_matches(mark).len()
}
