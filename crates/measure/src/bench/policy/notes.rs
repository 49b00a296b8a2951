//! What the numbers mean, in words that follow from them.

use super::arrivals::Arrivals;
use super::compare::Side;
use super::{PolicyResult, Real};

/// What the article reports for its own model and machine: throughput, and "more than" this latency.
const ARTICLE: (f64, f64) = (1.6, 10.0);
/// Throughputs that read as the article's when rounded as it does.
const ARTICLE_THROUGHPUT_MIN: f64 = 1.55;

/// What the conventions are.
pub fn conventions(result: &PolicyResult) -> String {
    format!(
        "{} requests with prompts of {} tokens; {} tokens of answers, half of them of at most {} tokens, the longest of {}; {} slots. \
         Static: a batch is formed from what waits and runs until its longest member has ended. Padded: members that ended are computed \
         until then, as the textbook has it; leaving: they drop out of the computation, and only their slots stay empty. A gain is static over \
         continuous for time and continuous over static for throughput, so above 1 continuous is better. Latency is from arrival until the \
         request is handed back: with its batch under static; the column of the last token counts each member's own instead. First word: a batch \
         as one against the first token of a stream. Means over seeds with their 95 % interval.",
        result.workload.requests,
        result.workload.prompt_tokens,
        result.workload.tokens,
        result.workload.median,
        result.workload.longest,
        result.slots
    )
}

/// Where the article's two factors are met, found in the scan.
pub fn article(result: &PolicyResult) -> String {
    let points = result.scan.iter();
    let met: Vec<String> = points
        .filter(|p| p.throughput >= ARTICLE_THROUGHPUT_MIN && p.latency > ARTICLE.1)
        .map(|p| format!("{:.1} with {}", p.fixed_share, p.arrivals.name()))
        .collect();
    let most = |of: fn(&super::ScanPoint) -> f64, only: fn(Arrivals) -> bool| {
        let points = result.scan.iter().filter(|p| only(p.arrivals));
        points.map(of).fold(0.0, f64::max)
    };
    let is_at_once = |arrivals| arrivals == Arrivals::AllAtOnce;
    let is_any = |_| true;
    let held = match met.is_empty() {
        true => format!(
            "nowhere in this table (the largest latency gain is {:.1}x)",
            most(|p| p.latency, is_any)
        ),
        false => format!("at fixed shares of {}", met.join(", ")),
    };
    format!(
        "An article reports {}x throughput and more than {}x latency for these lengths. Both at once hold {held}: padded batches, handed back as one, \
         a step that grows with its sequences, and requests that come over time. With all requests at once latency gains {:.1}x at most, because everybody \
         queues under both policies; with a constant step cost padding is free.",
        ARTICLE.0,
        ARTICLE.1,
        most(|p| p.latency, is_at_once)
    )
}

/// What a run's time divides into, beside the simulation's.
pub fn real(pair: &Real, tokens: u64) -> String {
    let pairs = pair.real.sides.iter().zip(&pair.simulated.sides);
    let part = |(real, simulated): (&Side, &Side)| {
        format!(
            "{} {:.0} steps of {:.2} ms (simulated {:.0} of {:.2})",
            real.policy.name(),
            real.steps,
            step_ms(real, tokens),
            simulated.steps,
            step_ms(simulated, tokens),
        )
    };
    let parts: Vec<String> = pairs.map(part).collect();
    format!(
        "{}, time through steps, waiting for arrivals included: {}.",
        pair.real.arrivals.name(),
        parts.join("; ")
    )
}

/// The whole time through the steps.
fn step_ms(side: &Side, tokens: u64) -> f64 {
    tokens as f64 / side.tokens_per_s.value / side.steps * 1e3
}
