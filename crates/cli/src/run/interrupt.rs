//! Ctrl-C in a chat: it stops an answer; at the prompt it ends the program.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;

use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};

/// What a shell reports of a program that SIGINT ended.
const EXIT_INTERRUPTED: i32 = 130;

/// Nothing runs: Ctrl-C ends the program.
const IDLE: u8 = 0;
/// An answer runs: Ctrl-C stops it.
const ANSWERING: u8 = 1;
/// The answer is to stop.
const STOPPED: u8 = 2;

/// Watches for Ctrl-C. Shared by the chat and one thread that waits for the signal.
#[derive(Debug, Clone)]
pub struct Interrupt(Arc<AtomicU8>);

impl Interrupt {
    /// Leaves Ctrl-C alone: it ends the program at any time.
    pub fn never() -> Self {
        Self(Arc::new(AtomicU8::new(IDLE)))
    }

    /// Takes over Ctrl-C for the rest of the program.
    ///
    /// # Errors
    /// The system lets no thread start or no signal be watched.
    pub fn watch() -> Result<Self> {
        let interrupt = Self::never();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot watch for ctrl-C")?;
        let mut signals = {
            let _inside = runtime.enter();
            signal(SignalKind::interrupt()).context("cannot watch for ctrl-C")?
        };
        let seen = interrupt.clone();
        thread::Builder::new()
            .name("ucuz-interrupt".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    while signals.recv().await.is_some() {
                        if seen.press() {
                            note!("");
                            process::exit(EXIT_INTERRUPTED);
                        }
                    }
                });
            })
            .context("cannot watch for ctrl-C")?;
        Ok(interrupt)
    }

    /// Ctrl-C was pressed; returns whether the program is to end.
    fn press(&self) -> bool {
        let (order, other) = (Ordering::AcqRel, Ordering::Acquire);
        match self.0.compare_exchange(ANSWERING, STOPPED, order, other) {
            Ok(_) => false,
            Err(state) => state == IDLE,
        }
    }

    /// An answer begins.
    pub fn begin(&self) {
        self.0.store(ANSWERING, Ordering::Release);
    }

    /// The answer is over.
    pub fn end(&self) {
        self.0.store(IDLE, Ordering::Release);
    }

    /// Whether the answer is to stop.
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Acquire) == STOPPED
    }
}

#[cfg(test)]
mod tests {
    use super::Interrupt;

    #[test]
    fn a_press_stops_an_answer_and_otherwise_ends_the_program() {
        let interrupt = Interrupt::never();
        assert!(interrupt.press(), "at the prompt");
        interrupt.begin();
        assert!(!interrupt.is_stopped());
        assert!(!interrupt.press(), "during an answer");
        assert!(interrupt.is_stopped());
        assert!(!interrupt.press(), "while the answer stops");
        interrupt.end();
        assert!(!interrupt.is_stopped());
        assert!(interrupt.press(), "at the next prompt");
    }
}
