//! Watches the engine's loop: when it has stalled for too long or is dead, requests are told and the server ends.
//!
//! Not here: what "stalled" means (`Health::is_stalled`, the engine's), the process's exit code (`cli`).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use ucuz_llm::{Life, Llm};

/// How often the engine is looked at; a dead one is known within a second.
const PERIOD: Duration = Duration::from_millis(250);

/// Why a server ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It was told to.
    Asked,
    /// The engine died; the text is for the operator.
    Died(String),
    /// The engine's loop did not move for as long as `--stall-exit` allows.
    Stalled,
}

/// Exit code of a process whose engine died or stood still: EX_SOFTWARE.
///
/// Source: sysexits(3).
const ENGINE_LOST: u8 = 70;

impl Ending {
    /// What the process should exit with.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Asked => 0,
            Self::Died(_) | Self::Stalled => ENGINE_LOST,
        }
    }
}

/// Tells streams and waiting handlers that nothing more comes.
#[derive(Debug, Clone)]
pub(crate) struct Verdict(watch::Receiver<bool>);

impl Verdict {
    /// Ready once the engine is given up.
    pub(crate) async fn given_up(mut self) {
        if self.0.wait_for(|&is_over| is_over).await.is_err() {
            // The server has ended in order; nobody is given up.
            std::future::pending().await
        }
    }
}

/// The one who decides.
#[derive(Debug)]
pub(crate) struct Watchdog {
    sender: watch::Sender<bool>,
}

impl Watchdog {
    pub(crate) fn new() -> (Self, Verdict) {
        let (sender, receiver) = watch::channel(false);
        (Self { sender }, Verdict(receiver))
    }

    /// Waits until the engine is dead or has stalled for `stall_exit` beyond the bound of its step, and says so to all.
    pub(crate) async fn watch(&self, llm: &Arc<Llm>, stall_exit: Duration) -> Ending {
        let mut stalled_since = None;
        let mut was_stalled = false;
        loop {
            let health = llm.health();
            if let Life::Dead(why) = health.life {
                // Its requests have been told by the engine itself.
                return Ending::Died(why);
            }
            let is_stalled = health.is_stalled();
            if is_stalled != was_stalled {
                report(is_stalled, health.last_step_age);
                was_stalled = is_stalled;
            }
            if is_stalled {
                let since = *stalled_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= stall_exit {
                    self.sender.send_replace(true);
                    return Ending::Stalled;
                }
            } else {
                stalled_since = None;
            }
            sleep(PERIOD).await;
        }
    }
}

fn report(is_stalled: bool, age: Duration) {
    let seconds = age.as_secs_f64();
    match is_stalled {
        true => tracing::error!(seconds, "the engine's step takes too long"),
        false => tracing::warn!("the engine moves on"),
    }
}
