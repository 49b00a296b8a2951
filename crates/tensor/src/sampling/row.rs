//! One row of logits to one token: [`sample_row`].
//!
//! Order: log-probabilities from the raw logits; then penalties, logit bias, constraints; temperature; top-k, top-p,
//! min-p; argmax of `logit / T + gumbel`.
//!
//! Sources: raw-logit log-probabilities and the formulas of the penalties are vLLM's (`v1/sample/sampler.py`,
//! `model_executor/layers/utils.py`); the repetition penalty is CTRL's (Keskar et al. 2019, section 4.1); temperature,
//! top-k, top-p, min-p in this order, each on what the one before it left, is Hugging Face's
//! (`generation/utils.py::_get_logits_processor`). Bias comes after penalties: the caller's explicit word is the last.
//!
//! Cost, one core: greedy reads the row twice (49k ids: 200 kB, about 20 us). Top-p adds one `exp` an id and a scatter
//! into a histogram (152k ids: about 0.5 ms). Noise is drawn only where it could win.

use super::noise::{GUMBEL_MAX, NoiseKey, exp, gumbel, least_bits, ln};
use super::select::{BUCKETS, Scale, likelier, nucleus, nucleus_of, top_n};
use super::{RowFault, SampleRow, SampledRow, SamplingParams, Take};

/// Memory that [`sample_row`] works in; one a thread.
#[derive(Debug)]
pub struct SampleScratch {
    /// Logits after penalties, bias and constraints; a forbidden id is -inf.
    logits: Vec<f32>,
    /// Candidates of a selection.
    ids: Vec<u32>,
    /// Masses by distance from the largest logit.
    histogram: Vec<u64>,
}

impl SampleScratch {
    /// Scratch for rows of `vocab` logits.
    pub fn new(vocab: usize) -> Self {
        Self {
            logits: vec![0.0; vocab],
            ids: Vec::with_capacity(vocab),
            histogram: vec![0; BUCKETS],
        }
    }
}

/// Chooses (or scores) a token for one row of `logits: [vocab]`; a pure function of its arguments.
///
/// Ids outside of the vocabulary in counts, bias and constraints are ignored; a mask too short forbids what it lacks, and
/// one that is not ready is waited for.
///
/// # Errors
/// [`RowFault::NonFinite`] when a logit is NaN or infinite; [`RowFault::EmptyMask`] when no id is allowed, or the id to
/// score is outside of the vocabulary, or there is no id to choose: hidden rows are not sampled.
pub fn sample_row(
    logits: &[f32],
    row: &SampleRow<'_>,
    scratch: &mut SampleScratch,
) -> Result<SampledRow, RowFault> {
    let max = finite_max(logits)?;
    let token = match row.take {
        Take::Score(id) if (id as usize) < logits.len() => id,
        Take::Score(_) | Take::Hidden => return Err(RowFault::EmptyMask),
        Take::Sample if is_plain(row) => choose(logits, max, row, scratch),
        Take::Sample => {
            let mut adjusted = std::mem::take(&mut scratch.logits);
            let token =
                adjust(&mut adjusted, logits, row).map(|max| choose(&adjusted, max, row, scratch));
            scratch.logits = adjusted;
            token?
        }
    };
    let wants_logprob = row.logprobs.is_some() || matches!(row.take, Take::Score(_));
    if !wants_logprob {
        return Ok(SampledRow {
            token,
            logprob: None,
            top: Vec::new(),
            hidden: Vec::new(),
        });
    }
    let normalizer = ln(sum_exp(logits, max));
    let logprob = |id: u32| (f64::from(logits[id as usize] - max) - normalizer) as f32;
    top_n(logits, row.logprobs.unwrap_or(0) as usize, &mut scratch.ids);
    scratch
        .ids
        .sort_unstable_by(|&a, &b| likelier(logits, a, b));
    Ok(SampledRow {
        token,
        logprob: Some(logprob(token)),
        top: scratch.ids.iter().map(|&id| (id, logprob(id))).collect(),
        hidden: Vec::new(),
    })
}

/// The largest logit.
fn finite_max(logits: &[f32]) -> Result<f32, RowFault> {
    const EXPONENT: u32 = 0x7f80_0000;
    let mut maxima = [f32::NEG_INFINITY; 16];
    let mut exponents = [0u32; 16];
    for chunk in logits.chunks(16) {
        for ((max, exponent), &logit) in maxima.iter_mut().zip(&mut exponents).zip(chunk) {
            *max = if logit > *max { logit } else { *max };
            *exponent = (*exponent).max(logit.to_bits() & EXPONENT);
        }
    }
    if exponents.contains(&EXPONENT) {
        return Err(RowFault::NonFinite);
    }
    let max = maxima.into_iter().fold(f32::NEG_INFINITY, f32::max);
    if max == f32::NEG_INFINITY {
        Err(RowFault::EmptyMask)
    } else {
        Ok(max)
    }
}

/// `Σ exp(logit - max)`: 16 strided lanes, then a fixed tree.
fn sum_exp(logits: &[f32], max: f32) -> f64 {
    let mut lanes = [0.0f64; 16];
    let (chunks, tail) = logits.as_chunks::<16>();
    for chunk in chunks {
        for (lane, &logit) in lanes.iter_mut().zip(chunk) {
            *lane += f64::from(exp(logit - max));
        }
    }
    for (lane, &logit) in lanes.iter_mut().zip(tail) {
        *lane += f64::from(exp(logit - max));
    }
    let mut width = 8;
    while width > 0 {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
        width /= 2;
    }
    lanes[0]
}

fn has_penalties(params: &SamplingParams) -> bool {
    params.repetition_penalty != 1.0
        || params.presence_penalty != 0.0
        || params.frequency_penalty != 0.0
}

/// Whether the logits are used as they came.
fn is_plain(row: &SampleRow<'_>) -> bool {
    let penalized = has_penalties(row.params) && !row.counts.is_empty();
    !penalized && row.params.logit_bias.is_empty() && row.mask.is_none() && row.forbidden.is_empty()
}

/// Writes penalized, biased and constrained logits and returns the largest.
fn adjust(adjusted: &mut Vec<f32>, logits: &[f32], row: &SampleRow<'_>) -> Result<f32, RowFault> {
    adjusted.clear();
    adjusted.extend_from_slice(logits);
    let params = row.params;
    for count in row.counts {
        let Some(logit) = adjusted.get_mut(count.id as usize) else {
            continue;
        };
        if count.prompt + count.output > 0 {
            let penalty = params.repetition_penalty;
            *logit = if *logit > 0.0 {
                *logit / penalty
            } else {
                *logit * penalty
            };
        }
        if count.output > 0 {
            *logit -= params.frequency_penalty * count.output as f32 + params.presence_penalty;
        }
    }
    for &(id, bias) in &params.logit_bias {
        if let Some(logit) = adjusted.get_mut(id as usize) {
            *logit += bias;
        }
    }
    let touched = row.counts.iter().map(|count| count.id);
    let touched = touched.chain(params.logit_bias.iter().map(|&(id, _)| id));
    let is_finite = |id: u32| {
        adjusted
            .get(id as usize)
            .is_none_or(|logit| logit.is_finite())
    };
    if !touched.into_iter().all(is_finite) {
        return Err(RowFault::NonFinite);
    }
    constrain(adjusted, row);
    let max = adjusted.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if max == f32::NEG_INFINITY {
        Err(RowFault::EmptyMask)
    } else {
        Ok(max)
    }
}

/// Sets what mask and forbidden ids exclude to -inf.
fn constrain(adjusted: &mut [f32], row: &SampleRow<'_>) {
    if let Some(mask) = row.mask {
        let mask = mask.bits();
        for (word, chunk) in adjusted.chunks_mut(32).enumerate() {
            let allowed = mask.get(word).copied().unwrap_or(0);
            for (bit, logit) in chunk.iter_mut().enumerate() {
                if allowed >> bit & 1 == 0 {
                    *logit = f32::NEG_INFINITY;
                }
            }
        }
    }
    for &id in row.forbidden {
        if let Some(logit) = adjusted.get_mut(id as usize) {
            *logit = f32::NEG_INFINITY;
        }
    }
}

/// The token of adjusted logits whose largest is `max`.
fn choose(logits: &[f32], max: f32, row: &SampleRow<'_>, scratch: &mut SampleScratch) -> u32 {
    let best = first_equal(logits, max);
    let params = row.params;
    let is_greedy = params.temperature <= 0.0 || params.temperature.is_nan();
    if is_greedy || params.top_k == 1 {
        return best;
    }
    let scale = Scale {
        max,
        inverse_temperature: (1.0 / params.temperature).clamp(f32::MIN_POSITIVE, f32::MAX),
    };
    let cut = cut(logits, scale, params, scratch);
    let key = NoiseKey {
        seed: params.seed,
        sample: row.sample,
        position: row.position,
    };
    Race {
        logits,
        cut,
        key,
        temperature: f64::from(params.temperature),
    }
    .winner(best)
}

fn first_equal(logits: &[f32], value: f32) -> u32 {
    for (base, chunk) in (0u32..).step_by(64).zip(logits.chunks(64)) {
        if chunk
            .iter()
            .fold(false, |any, &logit| any | (logit == value))
        {
            let offset = chunk.iter().position(|&logit| logit == value).unwrap_or(0);
            return base + offset as u32;
        }
    }
    0
}

/// What top-k, top-p and min-p leave: always a prefix in order of likelihood, so one (logit, id) tells it.
#[derive(Debug, Clone, Copy)]
struct Cut {
    /// Logit of the last id kept.
    logit: f32,
    /// The last id kept.
    id: u32,
    /// Least `(logit - max) / T`, from min-p.
    nats: f32,
    scale: Scale,
}

impl Cut {
    #[inline(always)]
    fn keeps(&self, id: u32, logit: f32) -> bool {
        let kept = logit > self.logit || (logit == self.logit && id <= self.id);
        kept && self.scale.nats(logit) >= self.nats
    }

    /// Whether some id with this logit may be kept.
    #[inline(always)]
    fn may_keep(&self, logit: f32) -> bool {
        logit >= self.logit && self.scale.nats(logit) >= self.nats
    }
}

fn cut(logits: &[f32], scale: Scale, params: &SamplingParams, scratch: &mut SampleScratch) -> Cut {
    let (ids, top_k) = (&mut scratch.ids, params.top_k as usize);
    let by_rank = top_k > 0 && top_k < logits.len();
    if by_rank {
        top_n(logits, top_k, ids);
    }
    let last = if params.top_p < 1.0 {
        Some(match by_rank {
            true => nucleus_of(logits, scale, params.top_p, ids),
            false => nucleus(logits, scale, params.top_p, ids, &mut scratch.histogram),
        })
    } else if by_rank {
        ids.iter().copied().max_by(|&a, &b| likelier(logits, a, b))
    } else {
        None
    };
    let nats = match params.min_p {
        p if p > 0.0 => ln(f64::from(p.clamp(f32::MIN_POSITIVE, 1.0))) as f32,
        _ => f32::NEG_INFINITY,
    };
    Cut {
        logit: last.map_or(f32::MIN, |id| logits[id as usize].max(f32::MIN)),
        id: last.unwrap_or(u32::MAX),
        nats,
        scale,
    }
}

/// The argmax of `logit / T + gumbel` over what a cut keeps.
struct Race<'a> {
    logits: &'a [f32],
    cut: Cut,
    key: NoiseKey,
    temperature: f64,
}

/// Ids of one bound check; a multiple of the 4 ids of one noise block.
const RACE_CHUNK: usize = 64;

impl Race<'_> {
    /// The winner; `best` is the likeliest id, whose score sets the first bar.
    ///
    /// Exact: a chunk is left out only when its largest logit with the largest noise stays below the bar, an id only
    /// when its random bits are too few for the noise it would need.
    fn winner(&self, best: u32) -> u32 {
        let bits = self.key.bits(best / 4)[best as usize % 4];
        let mut leader = (self.score(self.logits[best as usize], bits), best);
        for (base, chunk) in (0u32..)
            .step_by(RACE_CHUNK)
            .zip(self.logits.chunks(RACE_CHUNK))
        {
            let max = chunk
                .iter()
                .fold(f32::NEG_INFINITY, |m, &l| if l > m { l } else { m });
            // A tie counts for the lower id, and rounding may make one: ask for a hair less.
            let bar = leader.0 - 1e-9 * (1.0 + leader.0.abs());
            let needed = bar - f64::from(max) / self.temperature;
            if self.cut.may_keep(max) && needed <= GUMBEL_MAX {
                self.run_chunk(base, chunk, needed, &mut leader);
            }
        }
        leader.1
    }

    fn run_chunk(&self, base: u32, chunk: &[f32], needed: f64, leader: &mut (f64, u32)) {
        let least = least_bits(needed);
        for (block, logits) in (base / 4..).zip(chunk.chunks(4)) {
            if !logits.iter().any(|&logit| self.cut.may_keep(logit)) {
                continue;
            }
            let bits = self.key.bits(block);
            for ((id, &logit), bits) in (block * 4..).zip(logits).zip(bits) {
                if bits >= least && self.cut.keeps(id, logit) {
                    let score = self.score(logit, bits);
                    if score > leader.0 || (score == leader.0 && id < leader.1) {
                        *leader = (score, id);
                    }
                }
            }
        }
    }

    fn score(&self, logit: f32, bits: u32) -> f64 {
        f64::from(logit) / self.temperature + gumbel(bits)
    }
}

#[cfg(test)]
#[path = "row_tests.rs"]
mod tests;
