//! What a run is to do.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Serialize;

use super::arrivals::{Arrivals, End, REQUESTS_MAX};
use super::request::{Api, RequestShape};
use super::target::{Header, Target};

/// Most tokens of a prompt or an answer.
pub const TOKENS_MAX: usize = 1 << 20;
/// Most connections at once.
pub const IN_FLIGHT_MAX: usize = 65_536;
/// Longest run, in seconds.
pub const SECONDS_MAX: f64 = 7.0 * 86_400.0;

/// A run.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadPlan {
    /// Where requests go.
    pub target: Target,
    /// Name of the model; what `/v1/models` lists first where not named.
    pub model: Option<String>,
    /// Headers of all requests, probes included.
    pub headers: Vec<Header>,
    /// Keys of tenants, taken in turn; may be empty.
    pub keys: Vec<Header>,
    /// What requests look like.
    pub shape: RequestShape,
    /// How they arrive.
    pub arrivals: Arrivals,
    /// When they end.
    pub end: End,
    /// Requests one after the other before the run, which do not count.
    pub warm_up: usize,
    /// Decides arrivals, prompts and hang-ups.
    pub seed: u64,
    /// How long a request may take.
    pub timeout: Duration,
    /// Most requests of an open loop at once. A request that finds no place waits, and its delay is the client's.
    pub in_flight_max: usize,
    /// Pages to ask for while the load runs.
    pub probes: Vec<String>,
    /// A process whose memory is looked at each second.
    pub pid: Option<u32>,
    /// Seconds after which memory should not grow any more.
    pub settle_s: f64,
}

/// The plan as a result names it: without keys and headers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlanFacts {
    /// Address of the server.
    pub url: String,
    /// Model that was asked for.
    pub model: String,
    /// What requests look like; with the range of ids that was used.
    pub requests: RequestShape,
    /// How they arrive.
    pub arrivals: Arrivals,
    /// When they end.
    pub end: End,
    /// Requests before the run.
    pub warm_up: usize,
    /// The seed.
    pub seed: u64,
    /// How long a request may take.
    pub timeout_s: f64,
    /// Most requests of an open loop at once.
    pub in_flight_max: usize,
    /// Tenants that took turns.
    pub tenants: usize,
    /// Seconds after which memory should not grow any more.
    pub settle_s: f64,
}

impl LoadPlan {
    /// Refuses what cannot be run.
    ///
    /// # Errors
    /// The rule, the value and the way out.
    pub fn check(&self) -> Result<()> {
        self.check_shape()?;
        self.check_arrivals()?;
        ensure!(
            !self.timeout.is_zero(),
            "a request may take no time at all; give it a timeout of some seconds"
        );
        for path in &self.probes {
            ensure!(
                path.starts_with('/') && path.parse::<hyper::Uri>().is_ok(),
                "{path:?} is no path of a page; write it with a slash first, e.g. /health"
            );
        }
        Ok(())
    }

    fn check_shape(&self) -> Result<()> {
        let shape = &self.shape;
        let (prompt, shared) = (shape.prompt_tokens, shape.shared_tokens);
        ensure!(
            (1..=TOKENS_MAX).contains(&prompt),
            "a prompt has {prompt} tokens; it takes 1 to {TOKENS_MAX}"
        );
        ensure!(
            shared <= prompt,
            "{shared} shared tokens do not fit a prompt of {prompt}; share fewer, or make prompts longer"
        );
        let odd = shape
            .output_tokens
            .iter()
            .find(|n| !(1..=TOKENS_MAX).contains(*n));
        ensure!(
            !shape.output_tokens.is_empty() && odd.is_none(),
            "an answer has {} tokens; it takes 1 to {TOKENS_MAX}",
            odd.unwrap_or(&0)
        );
        if let Some((low, high)) = shape.ids {
            ensure!(
                low < high,
                "no token id lies from {low} up to, and without, {high}; name the lower end first"
            );
        }
        ensure!(
            (0.0..=1.0).contains(&shape.disconnect_share),
            "a share of {} cannot hang up; it lies from 0 to 1",
            shape.disconnect_share
        );
        Ok(())
    }

    fn check_arrivals(&self) -> Result<()> {
        match self.arrivals {
            Arrivals::Closed { workers } => ensure!(
                (1..=IN_FLIGHT_MAX).contains(&workers),
                "a closed loop has {workers} workers; it takes 1 to {IN_FLIGHT_MAX}"
            ),
            Arrivals::Poisson { rate } | Arrivals::Constant { rate } => ensure!(
                rate > 0.0 && rate.is_finite(),
                "{rate} requests a second cannot be sent; the rate is above 0"
            ),
            Arrivals::Bursts { size, every_s } => ensure!(
                size > 0 && every_s > 0.0 && every_s.is_finite(),
                "bursts of {size} every {every_s} s cannot be sent; both are above 0"
            ),
        }
        match self.end {
            End::Requests(count) => ensure!(
                (1..=REQUESTS_MAX).contains(&count),
                "{count} requests are asked for; a run has 1 to {REQUESTS_MAX}"
            ),
            End::Seconds(seconds) => ensure!(
                seconds > 0.0 && seconds <= SECONDS_MAX,
                "a run takes {seconds} s; it lasts over 0 and at most {SECONDS_MAX} s"
            ),
        }
        ensure!(
            (1..=IN_FLIGHT_MAX).contains(&self.in_flight_max),
            "{} requests may be under way at once; it takes 1 to {IN_FLIGHT_MAX}",
            self.in_flight_max
        );
        Ok(())
    }

    /// The plan for a result.
    pub(super) fn facts(&self, model: &str, ids: (u32, u32)) -> PlanFacts {
        let mut requests = self.shape.clone();
        requests.ids = (requests.api == Api::Completions).then_some(ids);
        PlanFacts {
            url: self.target.url(),
            model: model.to_owned(),
            requests,
            arrivals: self.arrivals,
            end: self.end,
            warm_up: self.warm_up,
            seed: self.seed,
            timeout_s: self.timeout.as_secs_f64(),
            in_flight_max: self.in_flight_max,
            tenants: self.keys.len().max(1),
            settle_s: self.settle_s,
        }
    }
}
