//! Styles of a terminal, and the pen that changes them only where it must.

use std::ops::BitOr;

/// How characters look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style(u8);

impl Style {
    /// As the terminal has it.
    pub const NONE: Style = Style(0);
    /// Strong emphasis and headings.
    pub const BOLD: Style = Style(1);
    /// Marks that are not content.
    pub const DIM: Style = Style(2);
    /// Emphasis.
    pub const ITALIC: Style = Style(4);
    /// The larger headings.
    pub const UNDERLINE: Style = Style(8);
    /// What is struck out.
    pub const STRIKE: Style = Style(16);
    /// Code.
    pub const CODE: Style = Style(32);

    /// The parameter of "select graphic rendition" that switches each of them on.
    ///
    /// Source: ECMA-48, 8.3.117.
    const CODES: [(Style, &'static str); 6] = [
        (Style::BOLD, "1"),
        (Style::DIM, "2"),
        (Style::ITALIC, "3"),
        (Style::UNDERLINE, "4"),
        (Style::STRIKE, "9"),
        (Style::CODE, "36"),
    ];

    fn holds(self, other: Style) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Style {
    type Output = Style;

    fn bitor(self, other: Style) -> Style {
        Style(self.0 | other.0)
    }
}

/// Writes text in styles; knows which one the terminal has.
#[derive(Debug, Default)]
pub struct Pen {
    style: Style,
}

impl Pen {
    /// Appends `text` in `style` to `shown`.
    pub fn write(&mut self, shown: &mut String, text: &str, style: Style) {
        if !text.is_empty() {
            self.change(shown, style);
            shown.push_str(text);
        }
    }

    /// Gives the terminal `style`.
    pub fn change(&mut self, shown: &mut String, style: Style) {
        if self.style == style {
            return;
        }
        if self.style != Style::NONE {
            shown.push_str("\x1b[0m");
        }
        let codes = Style::CODES
            .iter()
            .filter(|(one, _)| style.holds(*one))
            .map(|(_, code)| *code);
        let codes = codes.collect::<Vec<_>>().join(";");
        if !codes.is_empty() {
            shown.push_str(&format!("\x1b[{codes}m"));
        }
        self.style = style;
    }
}
