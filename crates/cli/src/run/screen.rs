//! How an answer looks where it is written.

use std::env;
use std::io::{self, IsTerminal};

use super::markdown::{Markdown, Pen, Style};
use crate::visible::Visible;

/// What is done to an answer before it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Nothing is written.
    Hidden,
    /// Its own bytes, for pipes and files; no thoughts.
    Exact,
    /// Its own characters, those that a terminal obeys made visible.
    Plain,
    /// The same, with Markdown as styles.
    Styled,
}

impl Look {
    /// What suits stdout; `wanted` is the most that is asked for.
    pub fn of_stdout(wanted: Look) -> Look {
        match io::stdout().is_terminal() {
            true if wanted == Self::Styled && !has_styles() => Self::Plain,
            true => wanted,
            false => Self::Exact,
        }
    }
}

/// Whether the terminal has styles and its user wants them.
///
/// Source: <https://no-color.org>: set, and not empty.
fn has_styles() -> bool {
    let is_unwanted = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !is_unwanted && !is_dumb()
}

/// Whether the terminal knows no control sequences.
pub fn is_dumb() -> bool {
    let name = env::var_os("TERM").unwrap_or_default();
    name.is_empty() || name == "dumb"
}

/// One answer on its way to the screen.
#[derive(Debug)]
pub struct Painter {
    look: Look,
    visible: Visible,
    markdown: Markdown,
    pen: Pen,
    /// Thoughts were the last that was written.
    is_thinking: bool,
}

impl Painter {
    /// The start of an answer.
    pub fn new(look: Look) -> Self {
        Self {
            look,
            visible: Visible::default(),
            markdown: Markdown::new(),
            pen: Pen::default(),
            is_thinking: false,
        }
    }

    /// What to write for more of the thoughts before an answer.
    pub fn thoughts(&mut self, text: &str) -> String {
        let mut shown = String::new();
        if matches!(self.look, Look::Hidden | Look::Exact) {
            return shown;
        }
        if !self.is_thinking && self.look == Look::Plain {
            shown.push_str("<think>\n");
        }
        self.is_thinking = true;
        let mut clean = String::new();
        self.visible.push(text, &mut clean);
        let style = match self.look {
            Look::Styled => Style::DIM,
            _ => Style::NONE,
        };
        self.pen.write(&mut shown, &clean, style);
        shown
    }

    /// What to write for more of the answer.
    pub fn answer(&mut self, text: &str) -> String {
        let mut shown = String::new();
        if !text.is_empty() {
            self.end_thoughts(&mut shown, "\n\n");
        }
        let mut clean = String::new();
        match self.look {
            Look::Hidden => {}
            Look::Exact => shown.push_str(text),
            Look::Plain => self.visible.push(text, &mut shown),
            Look::Styled => {
                self.visible.push(text, &mut clean);
                self.markdown.push(&clean, &mut shown);
            }
        }
        shown
    }

    /// What is left to write; the terminal has its own style again.
    pub fn finish(&mut self) -> String {
        let mut shown = String::new();
        self.end_thoughts(&mut shown, "");
        let mut clean = String::new();
        self.visible.finish(&mut clean);
        match self.look {
            Look::Hidden | Look::Exact => {}
            Look::Plain => shown.push_str(&clean),
            Look::Styled => {
                self.markdown.push(&clean, &mut shown);
                self.markdown.finish(&mut shown);
            }
        }
        shown
    }

    fn end_thoughts(&mut self, shown: &mut String, gap: &str) {
        if std::mem::take(&mut self.is_thinking) {
            self.visible.finish(shown);
            self.pen.change(shown, Style::NONE);
            if self.look == Look::Plain {
                shown.push_str("\n</think>");
            }
            shown.push_str(gap);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = "**Bo\u{1b}[31mld**\u{9b}2J and\r\n*\u{202e}evil*\r`\u{7}`\r";

    fn show(look: Look, pieces: &[&str]) -> String {
        let mut painter = Painter::new(look);
        let mut shown: String = pieces.iter().map(|piece| painter.answer(piece)).collect();
        shown.push_str(&painter.finish());
        shown
    }

    #[test]
    fn an_answer_gives_a_terminal_no_orders() {
        let shown = show(Look::Styled, &[ANSWER]);
        assert_eq!(
            shown,
            "\x1b[1mBo\\u{1b}[31mld\x1b[0m\\u{9b}2J and\n\x1b[3m\\u{202e}evil\x1b[0m\\u{d}\x1b[36m\\u{7}\x1b[0m\\u{d}"
        );
        let plain = show(Look::Plain, &[ANSWER]);
        assert_eq!(
            plain,
            "**Bo\\u{1b}[31mld**\\u{9b}2J and\n*\\u{202e}evil*\\u{d}`\\u{7}`\\u{d}"
        );
        let mut thinking = Painter::new(Look::Styled);
        let thought = thinking.thoughts("a\u{1b}[2Jb") + &thinking.finish();
        assert_eq!(thought, "\x1b[2ma\\u{1b}[2Jb\x1b[0m");
    }

    #[test]
    fn pipes_get_the_answer_as_it_is() {
        assert_eq!(show(Look::Exact, &[ANSWER]), ANSWER);
        assert_eq!(show(Look::Hidden, &[ANSWER]), "");
    }

    #[test]
    fn how_an_answer_is_cut_changes_nothing() {
        for look in [Look::Exact, Look::Plain, Look::Styled] {
            let whole = show(look, &[ANSWER]);
            for cut in (0..ANSWER.len()).filter(|cut| ANSWER.is_char_boundary(*cut)) {
                assert_eq!(
                    show(look, &[&ANSWER[..cut], &ANSWER[cut..]]),
                    whole,
                    "{cut}"
                );
            }
        }
    }

    #[test]
    fn thoughts_are_set_apart_on_a_terminal_and_stay_out_of_pipes() {
        let think = |look| {
            let mut painter = Painter::new(look);
            let shown = painter.thoughts("so ") + &painter.thoughts("so") + &painter.answer("Yes.");
            shown + &painter.finish()
        };
        assert_eq!(think(Look::Styled), "\x1b[2mso so\x1b[0m\n\nYes.");
        assert_eq!(think(Look::Plain), "<think>\nso so\n</think>\n\nYes.");
        assert_eq!(think(Look::Exact), "Yes.");
    }
}
