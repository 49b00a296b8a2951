//! Generating, both ways.

use anyhow::{Context, Result, ensure};
use ucuz_models::{Model, Workspace};
use ucuz_tensor::CacheSpec;
use ucuz_tensor::cache::BLOCK_TOKENS;

use super::compare::{self, Side};
use super::{AGAIN_MAX_S, CacheResult, Options};
use crate::bench::ids::ids;
use crate::bench::session::{Capacity, Feed, Session};
use crate::bench::setup::Setup;
use crate::bench::work::{Counter, Span, Work};
use crate::bench::{ModelFacts, ascending};
use crate::{Host, Provenance};

/// Whether the past is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    With,
    Without,
}

impl Way {
    const fn name(self) -> &'static str {
        match self {
            Self::With => "with the cache",
            Self::Without => "without",
        }
    }

    /// First position that the step to `end` tokens computes.
    const fn start(self, end: usize) -> usize {
        match self {
            Self::With => end - 1,
            Self::Without => 0,
        }
    }

    /// Where layers keep keys and values.
    fn cache(self, setup: &Setup<'_>) -> CacheSpec {
        let mut cache = setup.cache();
        if self == Self::Without {
            cache.groups.iter_mut().for_each(|group| group.layers = 1);
            cache.layers.iter_mut().for_each(|layer| layer.index = 0);
        }
        cache
    }

    /// What generating `tokens` needs at once.
    fn capacity(self, tokens: usize) -> Capacity {
        Capacity {
            context: tokens,
            sequences: 1,
            step_rows: tokens - self.start(tokens),
            blocks: tokens.div_ceil(BLOCK_TOKENS),
        }
    }
}

/// One pass: the tokens, and at each length the time and the memory so far.
struct Pass {
    tokens: Vec<u32>,
    seconds: Vec<f64>,
    peak_bytes: Vec<Option<u64>>,
}

/// Measures.
///
/// # Errors
/// Lengths beyond the context, too little KV memory, what the model or the backend reports.
pub fn run(
    setup: &Setup<'_>,
    options: &Options,
    about: (Provenance, ModelFacts),
    host: &mut dyn Host,
) -> Result<CacheResult> {
    let options = Options {
        lengths: ascending(options.lengths.clone()),
        ..options.clone()
    };
    ensure!(
        options.lengths.first().is_some_and(|length| *length > 0),
        "lengths are at least 1, and there is at least one"
    );
    let with = side(setup, &options, Way::With, host)?;
    let without = side(setup, &options, Way::Without, host)?;
    Ok(compare::result(&options.lengths, about, &with, &without))
}

/// All passes one way.
fn side(setup: &Setup<'_>, options: &Options, way: Way, host: &mut dyn Host) -> Result<Side> {
    let longest = *options.lengths.last().context("no length")?;
    ensure!(
        longest <= setup.context,
        "{longest} tokens exceed the context of {}; raise --context or generate fewer",
        setup.context
    );
    let (cache, capacity) = (way.cache(setup), way.capacity(longest));
    setup.check_kv_memory(capacity.kv_bytes(&cache))?;
    let model = setup.load(cache.clone(), longest, host)?;
    let memory =
        |length: &usize| memory_bytes(setup, &cache, model.as_ref(), way.capacity(*length));
    let memory_bytes: Vec<u64> = options.lengths.iter().map(memory).collect();
    let loaded_bytes = match host.reset_peak_memory() {
        true => host.peak_memory_bytes(),
        false => None,
    };
    let mut session = Session::new(setup, model, capacity)?;
    let first = pass(&mut session, (way, 1), &options.lengths, host)?;
    let mut side = Side {
        peak_bytes: first
            .peak_bytes
            .iter()
            .map(|peak| Some(peak.as_ref()?.saturating_sub(loaded_bytes?)))
            .collect(),
        memory_bytes,
        work: count(&Counter::new(setup)?, way, &options.lengths),
        seconds: first.seconds.iter().map(|seconds| vec![*seconds]).collect(),
        tokens: vec![first.tokens],
        logits: Vec::new(),
    };
    let quick = first.seconds.iter().filter(|s| **s <= AGAIN_MAX_S).count();
    for number in 2..=options.repetitions {
        if quick == 0 {
            break;
        }
        let again = pass(&mut session, (way, number), &options.lengths[..quick], host)?;
        for (all, seconds) in side.seconds.iter_mut().zip(&again.seconds) {
            all.push(*seconds);
        }
        side.tokens.push(again.tokens);
    }
    side.logits = logits(&mut session, way, &options.lengths, &side.tokens[0])?;
    Ok(side)
}

/// Generates up to the last of `lengths` tokens, ascending.
fn pass(
    session: &mut Session,
    (way, number): (Way, usize),
    lengths: &[usize],
    host: &mut dyn Host,
) -> Result<Pass> {
    let longest = lengths.last().copied().unwrap_or(0);
    let rows: usize = (1..=longest).map(|end| end - way.start(end)).sum();
    host.begin(&format!("{}, pass {number}", way.name()), rows as u64);
    let mut text = first_token(session);
    let (mut seconds, mut at_length) = (0.0, Vec::with_capacity(lengths.len()));
    let mut peak_bytes = Vec::with_capacity(lengths.len());
    for end in 1..=longest {
        let start = way.start(end);
        let started = host.now();
        let tokens = session.next(&[Feed {
            sequence: 0,
            ids: &text,
            start,
        }])?;
        seconds += (host.now() - started).as_secs_f64();
        text.extend(tokens);
        if lengths.contains(&end) {
            at_length.push(seconds);
            peak_bytes.push(host.peak_memory_bytes());
        }
        host.advance((end - start) as u64);
    }
    host.end();
    Ok(Pass {
        tokens: text,
        seconds: at_length,
        peak_bytes,
    })
}

/// The prompt.
fn first_token(session: &Session) -> Vec<u32> {
    ids(0, 1, session.vocab())
}

/// The logits that follow each of `lengths` tokens of `text`.
fn logits(
    session: &mut Session,
    way: Way,
    lengths: &[usize],
    text: &[u32],
) -> Result<Vec<Vec<f32>>> {
    // With the cache, a step at a past position writes what lies there already.
    let row = |&end: &usize| {
        session.logits(Feed {
            sequence: 0,
            ids: &text[..end],
            start: way.start(end),
        })
    };
    lengths.iter().map(row).collect()
}

/// Work of all steps up to each length.
fn count(counter: &Counter, way: Way, lengths: &[usize]) -> Vec<Work> {
    let mut work = Work::default();
    let mut at_length = Vec::with_capacity(lengths.len());
    for end in 1..=lengths.last().copied().unwrap_or(0) {
        let start = way.start(end);
        work += counter.step(&[Span { start, end }], 1);
        if lengths.contains(&end) {
            at_length.push(work);
        }
    }
    at_length
}

/// Keys, values, workspace and scratch of a runner with just this capacity.
fn memory_bytes(
    setup: &Setup<'_>,
    cache: &CacheSpec,
    model: &dyn Model,
    capacity: Capacity,
) -> u64 {
    let limits = capacity.limits(setup, model.spec().cols_max());
    let workspace = Workspace::bytes(&model.spec().config, &limits);
    capacity.kv_bytes(cache) + (workspace + setup.backend.scratch_bytes(&limits)) as u64
}
