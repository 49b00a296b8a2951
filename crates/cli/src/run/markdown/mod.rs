//! Markdown as it streams, in the styles of a terminal: what is written is never taken back.
//!
//! ```text
//! line ──► block::begin ──► heading | item | quote | rule | fence | text ──► inline::first ──► Pen
//! ```
//! Characters are taken one by one, and each is decided as early as it can be; so how the text is cut into pieces changes no
//! byte. What is held back is at most [`block::HELD_BYTES_MAX`] bytes of one line, and nothing beyond its end.
//!
//! A subset: headings, lists, quotes, rules, fenced code; emphasis, strong emphasis, struck text, code. Links, tables and
//! all else stay as they are written. Control characters are not dealt with here: see [`crate::visible`].

mod block;
mod inline;
mod style;
#[cfg(test)]
mod tests;

use block::{Begin, Fence};
pub use style::{Pen, Style};

/// A rule on the screen.
const RULE: &str = "────────────────────────";

/// Where in the text the next character stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// At the start of a line, or of what a quote holds.
    Start { quoted: bool },
    /// In a line of text.
    Text,
    /// In a line of code.
    Code(Fence),
    /// At the start of a line of code.
    CodeStart(Fence),
}

/// A text under way.
#[derive(Debug)]
pub struct Markdown {
    pen: Pen,
    place: Place,
    /// The style of the line.
    style: Style,
    /// What of the line is not decided.
    held: String,
    /// The character before it, in the line's text.
    before: Option<char>,
}

impl Markdown {
    /// The start of a text.
    pub fn new() -> Self {
        Self {
            pen: Pen::default(),
            place: Place::Start { quoted: false },
            style: Style::NONE,
            held: String::new(),
            before: None,
        }
    }

    /// Takes more text and appends to `shown` what is decided.
    pub fn push(&mut self, text: &str, shown: &mut String) {
        for c in text.chars() {
            if c == '\n' {
                self.end_line(shown);
                shown.push('\n');
            } else {
                self.held.push(c);
                self.settle(shown, false);
            }
        }
    }

    /// The end of the text; the terminal has its own style again.
    pub fn finish(&mut self, shown: &mut String) {
        self.end_line(shown);
    }

    fn end_line(&mut self, shown: &mut String) {
        self.settle(shown, true);
        self.pen.change(shown, Style::NONE);
        self.style = Style::NONE;
        self.before = None;
        self.place = match self.place {
            Place::Code(fence) | Place::CodeStart(fence) => Place::CodeStart(fence),
            Place::Start { .. } | Place::Text => Place::Start { quoted: false },
        };
    }

    /// Writes what can be decided; all of it when the line has `ended`.
    fn settle(&mut self, shown: &mut String, ended: bool) {
        loop {
            let is_decided = match self.place {
                Place::Start { quoted } => self.start(shown, ended, quoted),
                Place::CodeStart(fence) => self.code_start(shown, ended, fence),
                Place::Text => return self.text(shown, ended),
                Place::Code(_) => {
                    self.pen.write(shown, &self.held, Style::CODE);
                    return self.held.clear();
                }
            };
            if !is_decided || (self.held.is_empty() && ended) {
                return;
            }
        }
    }

    /// Decides what the line is; false when it cannot be yet.
    fn start(&mut self, shown: &mut String, ended: bool, quoted: bool) -> bool {
        self.place = Place::Text;
        match block::begin(&self.held, ended, quoted) {
            Begin::Wait => {
                self.place = Place::Start { quoted };
                return false;
            }
            Begin::Text => {}
            Begin::Heading { level, marks } => {
                self.style = match level {
                    1 | 2 => Style::BOLD | Style::UNDERLINE,
                    _ => Style::BOLD,
                };
                self.held.drain(..marks);
            }
            Begin::Quote { marks } => {
                self.replace(shown, marks, "│ ");
                self.place = Place::Start { quoted: true };
            }
            Begin::Item { indent } => {
                let space: String = self.held.drain(..indent).collect();
                self.pen.write(shown, &space, Style::NONE);
                self.replace(shown, 2, "• ");
            }
            Begin::Rule => self.replace(shown, self.held.len(), RULE),
            Begin::Fence(fence) => {
                self.mark_line(shown);
                self.place = Place::CodeStart(fence);
            }
        }
        true
    }

    /// Decides whether a line of code is one or closes the code; false when it cannot be yet.
    fn code_start(&mut self, shown: &mut String, ended: bool, fence: Fence) -> bool {
        match fence.is_closed_by(&self.held, ended) {
            None => return false,
            Some(true) => {
                self.mark_line(shown);
                self.place = Place::Text;
            }
            Some(false) => self.place = Place::Code(fence),
        }
        true
    }

    fn text(&mut self, shown: &mut String, ended: bool) {
        while !self.held.is_empty() {
            let piece = inline::first(&self.held, self.before, ended);
            let taken = inline::draw(&mut self.pen, shown, &self.held, piece, self.style, 0);
            if taken == 0 {
                return;
            }
            self.before = self.held[..taken].chars().next_back();
            self.held.drain(..taken);
        }
    }

    /// Writes `mark` for the first `len` bytes.
    fn replace(&mut self, shown: &mut String, len: usize, mark: &str) {
        self.held.drain(..len);
        self.pen.write(shown, mark, Style::DIM);
    }

    /// Writes the line as it is, as something that is not content.
    fn mark_line(&mut self, shown: &mut String) {
        self.pen.write(shown, &self.held, Style::DIM);
        self.held.clear();
    }
}
