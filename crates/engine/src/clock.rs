//! Time, passed in.

use std::time::{Duration, Instant};

/// Where the engine reads the time; tests pass one that they move by hand.
pub trait Clock: Send + Sync {
    /// Time since an origin of the clock's own; never goes back.
    fn now(&self) -> Duration;
}

/// The machine's monotonic clock.
#[derive(Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock that starts at zero.
    pub fn start() -> Self {
        Self {
            origin: Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }
}
