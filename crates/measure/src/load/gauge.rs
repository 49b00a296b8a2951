//! How many requests are under way, and how late the client's own timer is.

use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// How often the timer is looked at.
const LAG_EVERY: Duration = Duration::from_millis(50);

/// Requests under way, counted as they begin and end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct InFlight {
    /// Now.
    #[serde(skip)]
    pub now: usize,
    /// Most at once.
    pub max: usize,
    /// Sum over time, in request seconds.
    pub seconds: f64,
    /// When it last changed.
    #[serde(skip)]
    pub(super) at_s: f64,
}

impl InFlight {
    /// A request begins.
    pub(super) fn enter(&mut self, now_s: f64) {
        self.pass(now_s);
        self.now += 1;
        self.max = self.max.max(self.now);
    }

    /// A request has ended.
    pub(super) fn leave(&mut self, now_s: f64) {
        self.pass(now_s);
        self.now -= 1;
    }

    fn pass(&mut self, now_s: f64) {
        self.seconds += self.now as f64 * (now_s - self.at_s);
        self.at_s = now_s;
    }
}

/// Sleeps over and over until told to stop: by how many seconds each sleep was too long. A client that is short of a
/// processor shows here, whatever the server does.
pub(super) async fn lags(mut stop: watch::Receiver<bool>) -> Vec<f64> {
    let mut lags = Vec::new();
    loop {
        let due = Instant::now() + LAG_EVERY;
        tokio::select! {
            () = sleep_until(due) => lags.push(due.elapsed().as_secs_f64()),
            _ = stop.wait_for(|is_over| *is_over) => return lags,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::InFlight;

    #[test]
    fn requests_are_summed_over_time() {
        let mut gauge = InFlight::default();
        gauge.enter(1.0);
        gauge.enter(2.0);
        gauge.leave(4.0);
        gauge.leave(5.0);
        assert_eq!((gauge.now, gauge.max, gauge.seconds), (0, 2, 6.0));
    }
}
