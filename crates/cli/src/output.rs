//! What a subcommand prints on stdout.

use std::io::{self, ErrorKind, Write};

use anyhow::Result;

/// Prints `text` in one piece.
///
/// # Errors
/// A reader that went away ([`is_closed`]), a full disk.
pub fn print(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        outcome => Ok(outcome?),
    }
}
