//! What a subcommand prints: results on stdout, notes on stderr. Names and texts in both may come from a file or a server, so on
//! a terminal they give it no orders.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, IsTerminal, Write};

use anyhow::Result;

use crate::visible::visible;

/// Says something to people on stderr, as `eprintln!` does.
macro_rules! note {
    ($($text:tt)*) => {
        $crate::output::note(format_args!($($text)*))
    };
}

/// See [`note!`]. A full disk or a closed pipe behind stderr stops nothing.
pub fn note(text: Arguments<'_>) {
    // One write, so that lines of two threads do not mix.
    let _ = io::stderr().write_all(visible(&format!("{text}\n")).as_bytes());
}

/// Prints `text` in one piece.
///
/// # Errors
/// A reader that went away ([`is_closed`]), a full disk.
pub fn print(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.is_terminal() {
        true => stdout.write_all(visible(text).as_bytes())?,
        false => stdout.write_all(text.as_bytes())?,
    }
    Ok(stdout.flush()?)
}

/// Whether the reader of stdout went away, as `head` does: nothing is left to do, and nothing is wrong.
pub fn is_closed(error: &anyhow::Error) -> bool {
    let io = error.root_cause().downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}
