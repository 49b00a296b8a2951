//! Ctrl-C: it stops an answer. Between answers it ends the program, or is left to the editor of lines.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;

use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};

/// What a shell reports of a program that SIGINT ended.
pub const EXIT_INTERRUPTED: u8 = 130;

/// What Ctrl-C does between answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idle {
    /// It ends the program.
    Ends,
    /// Nothing. The editor sees the key itself; one that comes just after an answer was meant for that.
    Stays,
}

/// Nothing runs.
const IDLE: u8 = 0;
/// An answer runs: Ctrl-C stops it.
const ANSWERING: u8 = 1;
/// The answer is to stop.
const STOPPED: u8 = 2;

/// Watches for Ctrl-C. Shared by who writes answers and one thread that waits for the signal.
#[derive(Debug, Clone)]
pub struct Interrupt {
    state: Arc<AtomicU8>,
    idle: Idle,
}

impl Interrupt {
    /// Leaves Ctrl-C alone: it ends the program at any time.
    pub fn never() -> Self {
        Self::new(Idle::Ends)
    }

    fn new(idle: Idle) -> Self {
        let state = Arc::new(AtomicU8::new(IDLE));
        Self { state, idle }
    }

    /// Takes over Ctrl-C for the rest of the program.
    ///
    /// # Errors
    /// The system lets no thread start or no signal be watched.
    pub fn watch(idle: Idle) -> Result<Self> {
        let interrupt = Self::new(idle);
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
                            process::exit(EXIT_INTERRUPTED.into());
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
        match self
            .state
            .compare_exchange(ANSWERING, STOPPED, order, other)
        {
            Ok(_) => false,
            Err(state) => state == IDLE && self.idle == Idle::Ends,
        }
    }

    /// An answer begins.
    pub fn begin(&self) {
        self.state.store(ANSWERING, Ordering::Release);
    }

    /// The answer is over.
    pub fn end(&self) {
        self.state.store(IDLE, Ordering::Release);
    }

    /// Whether the answer is to stop.
    pub fn is_stopped(&self) -> bool {
        self.state.load(Ordering::Acquire) == STOPPED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_press_stops_an_answer_and_otherwise_ends_the_program() {
        let interrupt = Interrupt::new(Idle::Ends);
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

    #[test]
    fn a_press_beside_an_editor_ends_nothing() {
        let interrupt = Interrupt::new(Idle::Stays);
        assert!(!interrupt.press(), "at the prompt");
        interrupt.begin();
        assert!(
            !interrupt.is_stopped(),
            "a press before an answer is not its end"
        );
        assert!(!interrupt.press());
        assert!(interrupt.is_stopped());
    }
}
