//! Characters that a terminal obeys, made visible.
//!
//! What a model, a file or a server says may hold escape sequences: on a terminal they move the cursor, rewrite what was
//! read, set titles, write to the clipboard, or make the terminal type. So nothing foreign reaches a terminal but through here.
//! Pipes and files get what was said, unchanged.

/// Whether a terminal obeys `c` instead of showing it, or shows its neighbours in another order.
///
/// These are the control characters (C0, DEL, C1) but newline and tab, and the embeddings, overrides and isolates of
/// bidirectional text.
///
/// Source: Unicode 17, UAX #9, table 4; CVE-2021-42574 for what the latter are misused for.
pub fn steers(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        c => c.is_control(),
    }
}

/// `text` with every character that [steers] written as `\u{1b}`.
pub fn visible(text: &str) -> String {
    let (mut filter, mut shown) = (Visible::default(), String::with_capacity(text.len()));
    filter.push(text, &mut shown);
    filter.finish(&mut shown);
    shown
}

/// The same for a text that comes in pieces; how it is cut changes nothing.
#[derive(Debug, Default)]
pub struct Visible {
    /// A carriage return that a newline may follow; the two are one newline.
    held_return: bool,
}

impl Visible {
    /// Takes more text and appends what can be shown of it.
    pub fn push(&mut self, text: &str, shown: &mut String) {
        for c in text.chars() {
            if c != '\n' {
                self.finish(shown);
            }
            self.held_return = c == '\r';
            match c {
                '\r' => {}
                c if steers(c) => shown.extend(c.escape_unicode()),
                c => shown.push(c),
            }
        }
    }

    /// The end of the text.
    pub fn finish(&mut self, shown: &mut String) {
        if std::mem::take(&mut self.held_return) {
            shown.extend('\r'.escape_unicode());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cursor, colour, title, clipboard, a C1 introducer, a bell, a line rewritten, text reversed.
    const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;title\u{7}\u{1b}]52;c;aGk=\u{1b}\\\u{9b}31m\u{8}\rfake\r\n\u{7f}\u{0}\u{202e}txt.exe\u{2066}";

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        let shown = visible(HOSTILE);
        assert!(!shown.chars().any(steers), "{shown:?}");
        assert!(
            shown.starts_with(r"\u{1b}[2J\u{1b}]0;title\u{7}"),
            "{shown}"
        );
        assert!(shown.contains("\\u{d}fake\n\\u{7f}"), "{shown}");
        assert!(shown.contains(r"\u{202e}txt.exe\u{2066}"), "{shown}");
        for byte in 0..=0x9f_u8 {
            let c = char::from(byte);
            let is_kept = visible(&c.to_string()) == c.to_string();
            let expected = !c.is_control() || c == '\n' || c == '\t';
            assert_eq!(is_kept, expected, "{c:?}");
        }
    }

    #[test]
    fn words_are_left_alone() {
        let text = "Ünïcode 漢字 👩‍🚀 עברית\tand\n\nnewlines \\u{1b}";
        assert_eq!(visible(text), text);
    }

    #[test]
    fn pieces_of_any_size_show_the_same() {
        let whole = visible(HOSTILE);
        for cut in (0..=HOSTILE.len()).filter(|cut| HOSTILE.is_char_boundary(*cut)) {
            let (mut filter, mut shown) = (Visible::default(), String::new());
            filter.push(&HOSTILE[..cut], &mut shown);
            filter.push(&HOSTILE[cut..], &mut shown);
            filter.finish(&mut shown);
            assert_eq!(shown, whole, "cut at {cut}");
        }
    }
}
