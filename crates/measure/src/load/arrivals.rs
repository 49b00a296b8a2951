//! When requests are due: pure functions of the choice and the seed.

use std::time::Duration;

use serde::Serialize;

use super::random::{Random, Use};

/// Most requests of a run: their records are kept until the end.
pub const REQUESTS_MAX: usize = 1_000_000;

/// How requests arrive.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Arrivals {
    /// Closed loop: each worker sends its next request when the one before has ended. The server sets the pace, so a slow
    /// server is asked less.
    Closed {
        /// Workers.
        workers: usize,
    },
    /// Open loop, independent users: the gaps are exponential.
    Poisson {
        /// Requests a second in the mean.
        rate: f64,
    },
    /// Open loop with equal gaps.
    Constant {
        /// Requests a second.
        rate: f64,
    },
    /// Open loop, several requests at once.
    Bursts {
        /// Requests at once.
        size: usize,
        /// Seconds from one burst to the next.
        every_s: f64,
    },
}

/// When no further requests are sent; those under way are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// After that many.
    Requests(usize),
    /// After that many seconds.
    Seconds(f64),
}

impl Arrivals {
    /// When each request is due, from the start of the run, ascending; `None` for a closed loop, whose times the server decides.
    ///
    /// At most [`REQUESTS_MAX`] + 1, so that a longer schedule can be told from one that just fits.
    pub fn schedule(&self, end: End, seed: u64) -> Option<Vec<Duration>> {
        let mut random = Random::new(seed, Use::Arrivals, 0);
        let mut clock = 0.0;
        let mut due = |index: usize| match *self {
            Self::Closed { .. } => None,
            Self::Poisson { rate } => {
                clock += random.exponential() / rate;
                Some(clock)
            }
            Self::Constant { rate } => Some(index as f64 / rate),
            Self::Bursts { size, every_s } => Some((index / size.max(1)) as f64 * every_s),
        };
        let mut schedule = Vec::new();
        while schedule.len() <= REQUESTS_MAX {
            let at = due(schedule.len())?;
            let is_over = match end {
                End::Requests(count) => schedule.len() >= count,
                End::Seconds(seconds) => at >= seconds,
            };
            let Some(at) = Duration::try_from_secs_f64(at).ok().filter(|_| !is_over) else {
                break;
            };
            schedule.push(at);
        }
        Some(schedule)
    }

    /// Requests a second that the schedule asks for in the long run; `None` for a closed loop.
    pub fn rate(&self) -> Option<f64> {
        match *self {
            Self::Closed { .. } => None,
            Self::Poisson { rate } | Self::Constant { rate } => Some(rate),
            Self::Bursts { size, every_s } => Some(size as f64 / every_s),
        }
    }

    /// The same in words.
    pub fn words(&self) -> String {
        match self {
            Self::Closed { workers } => format!("closed loop of {workers}"),
            Self::Poisson { rate } => format!("Poisson, {rate} a second"),
            Self::Constant { rate } => format!("constant, {rate} a second"),
            Self::Bursts { size, every_s } => format!("bursts of {size} every {every_s} s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(arrivals: Arrivals, end: End) -> Vec<f64> {
        let schedule = arrivals.schedule(end, 1).unwrap();
        schedule.iter().map(Duration::as_secs_f64).collect()
    }

    #[test]
    fn schedules_are_what_they_say() {
        let constant = Arrivals::Constant { rate: 4.0 };
        assert_eq!(seconds(constant, End::Requests(3)), [0.0, 0.25, 0.5]);
        assert_eq!(seconds(constant, End::Seconds(1.0)), [0.0, 0.25, 0.5, 0.75]);
        let bursts = Arrivals::Bursts {
            size: 2,
            every_s: 3.0,
        };
        assert_eq!(seconds(bursts, End::Requests(5)), [0.0, 0.0, 3.0, 3.0, 6.0]);
        assert_eq!(seconds(bursts, End::Seconds(3.5)), [0.0, 0.0, 3.0, 3.0]);
        assert_eq!(bursts.rate(), Some(2.0 / 3.0));
    }

    #[test]
    fn a_closed_loop_has_no_schedule() {
        let closed = Arrivals::Closed { workers: 3 };
        assert_eq!(closed.schedule(End::Requests(3), 1), None);
        assert_eq!(closed.rate(), None);
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_spread_of_an_exponential() {
        let times = seconds(Arrivals::Poisson { rate: 50.0 }, End::Requests(20_000));
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean * 50.0 - 1.0).abs() < 0.03, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.05);
        assert!(times.is_sorted());
    }

    #[test]
    fn the_seed_decides() {
        let poisson = Arrivals::Poisson { rate: 2.0 };
        let end = End::Seconds(20.0);
        assert_eq!(poisson.schedule(end, 5), poisson.schedule(end, 5));
        assert_ne!(poisson.schedule(end, 5), poisson.schedule(end, 6));
        assert!(
            poisson
                .schedule(end, 5)
                .unwrap()
                .iter()
                .all(|t| t.as_secs_f64() < 20.0)
        );
    }

    #[test]
    fn endless_schedules_are_cut_where_they_can_be_refused() {
        let schedule = Arrivals::Constant { rate: 1e9 }.schedule(End::Seconds(1e9), 0);
        assert_eq!(schedule.unwrap().len(), REQUESTS_MAX + 1);
    }
}
