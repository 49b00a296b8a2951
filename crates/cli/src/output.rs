//! What a subcommand prints on stdout.

use std::io::{self, ErrorKind, Write};

use anyhow::Result;

/// Prints `text` in one piece.
///
/// # Errors
/// A reader that went away ([`is_closed`]), a full disk.
pub fn print(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    Ok(stdout.flush()?)
}

/// Whether the reader of stdout went away, as `head` does: nothing is left to do, and nothing is wrong.
pub fn is_closed(error: &anyhow::Error) -> bool {
    let io = error.root_cause().downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}
