//! How long work is shown to people: a bar on a terminal, a few plain lines elsewhere.
//!
//! Here: the `Progress` trait and its two ways of showing. Everything goes to stderr; stdout belongs
//! to the command's result. Not here: what is being done.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Receives what the store does, in order: notes, and stages of `begin`, `set`..., `end`.
pub trait Progress {
    /// One line about a decision or an event.
    fn note(&mut self, text: &str);
    /// A stage starts; `total_bytes` if known.
    fn begin(&mut self, what: &str, total_bytes: Option<u64>);
    /// Bytes of the stage done so far; may go back when a download restarts.
    fn set(&mut self, done_bytes: u64);
    /// The stage ended, well or not.
    fn end(&mut self);
}

/// The right kind for stderr: a bar on a terminal, plain lines otherwise.
pub fn on_stderr() -> Box<dyn Progress> {
    if std::io::stderr().is_terminal() {
        Box::new(Bar { bar: None })
    } else {
        Box::new(Lines::default())
    }
}

/// Bytes for people, decimal units as downloads are usually shown: "98.4 MB".
pub fn size_text(bytes: u64) -> String {
    let units = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} B"),
    }
}

struct Bar {
    bar: Option<ProgressBar>,
}

impl Progress for Bar {
    fn note(&mut self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| note!("{text}")),
            None => note!("{text}"),
        }
    }

    fn begin(&mut self, what: &str, total_bytes: Option<u64>) {
        let (bar, template) = match total_bytes {
            Some(total) => (
                ProgressBar::new(total),
                "{msg} {wide_bar} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {eta}",
            ),
            None => (ProgressBar::no_length(), "{spinner} {msg} {decimal_bytes}"),
        };
        bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        self.bar = Some(bar.with_message(what.to_owned()));
    }

    fn set(&mut self, done_bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(
                bar.length()
                    .map_or(done_bytes, |total| done_bytes.min(total)),
            );
        }
    }

    fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// Plain lines: one at the start of a stage, then one per fifth of it.
#[derive(Default)]
struct Lines {
    what: String,
    total_bytes: Option<u64>,
    fifths_shown: u64,
}

impl Progress for Lines {
    fn note(&mut self, text: &str) {
        note!("{text}");
    }

    fn begin(&mut self, what: &str, total_bytes: Option<u64>) {
        let size = total_bytes
            .map(|total| format!(" ({})", size_text(total)))
            .unwrap_or_default();
        note!("{what}{size}");
        *self = Self {
            what: what.to_owned(),
            total_bytes,
            fifths_shown: 0,
        };
    }

    fn set(&mut self, done_bytes: u64) {
        let Some(total) = self.total_bytes.filter(|total| *total > 0) else {
            return;
        };
        let fifths = (u128::from(done_bytes) * 5 / u128::from(total)).min(5) as u64;
        if fifths > self.fifths_shown {
            self.fifths_shown = fifths;
            note!("{}: {} %", self.what, fifths * 20);
        }
    }

    fn end(&mut self) {}
}
