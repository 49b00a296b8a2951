//! What the numbers mean, in words that follow from them.

use super::PolicyResult;
use super::arrivals::Arrivals;
use super::study::ScanPoint;

/// What the article reports for its own model and machine: throughput, and "more than" this latency.
const ARTICLE: (f64, f64) = (1.6, 10.0);

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
    let at_once = points.clone().filter(|p| p.arrivals == Arrivals::AllAtOnce);
    let at_once = at_once.map(|p| p.latency).fold(0.0, f64::max);
    let above: Vec<&ScanPoint> = points.filter(|p| p.latency > ARTICLE.1).collect();
    let distance = |p: &ScanPoint| (p.throughput - ARTICLE.0).abs();
    let nearest = above
        .iter()
        .min_by(|a, b| distance(a).total_cmp(&distance(b)));
    let held = match nearest {
        None => "nowhere in this table".to_owned(),
        Some(point) => format!(
            "in {} of {} cells, nearest at a fixed share of {} and {} ({:.2}x / {:.1}x)",
            above.len(),
            result.scan.len(),
            point.fixed_share,
            point.arrivals.name(),
            point.throughput,
            point.latency
        ),
    };
    format!(
        "An article reports {}x throughput and more than {}x latency for output lengths of this skew, simulated with the step costs of its machine. \
         Latency gains over {}x here {held}. It takes all three: requests that come over time, batches that are padded and handed back as one, and steps \
         that cost more with more sequences. With all requests at once everybody queues under both policies, so latency gains {at_once:.1}x at most; \
         with a constant step cost padding is free.",
        ARTICLE.0, ARTICLE.1, ARTICLE.1
    )
}
