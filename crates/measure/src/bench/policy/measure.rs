//! Step costs, measured on the model.

use anyhow::{Result, ensure};
use ucuz_tensor::cache::BLOCK_TOKENS;

use super::Options;
use super::cost::Grid;
use crate::bench::Setup;
use crate::bench::ids::ids;
use crate::bench::session::{Capacity, Feed, Session};
use crate::{Host, repeat};

/// Steps whose mean is one measurement.
const STEPS: u32 = 4;

/// Times steps of every mix of sequences that go on and sequences that begin, as far as the axis names them.
///
/// Those that go on have the mean context of the workload in their cache; those that begin compute their whole prompt.
///
/// # Errors
/// More rows than a step may have, a context or KV memory that is too small, what the model reports.
pub fn measure(setup: &Setup<'_>, options: &Options, host: &mut dyn Host) -> Result<Grid> {
    let capacity = capacity(setup, options)?;
    let cache = setup.cache();
    setup.check_kv_memory(capacity.kv_bytes(&cache))?;
    let model = setup.load(cache, capacity.context, host)?;
    let mut session = Session::new(setup, model, capacity)?;
    session.share(capacity.sequences);
    let texts: Vec<Vec<u32>> = (0..capacity.sequences as u64)
        .map(|sequence| ids(sequence, capacity.context, session.vocab()))
        .collect();
    let axis = Grid::axis(options.slots);
    host.begin("step costs", (axis.len() * axis.len()) as u64);
    let context = options.workload.mean_context();
    for (sequence, text) in texts[..options.slots].iter().enumerate() {
        let ids = &text[..context];
        let start = 0;
        session.prefill(Feed {
            sequence,
            ids,
            start,
        })?;
    }
    let grid = Grid::of(axis, |decoding, starting| {
        let going_on = texts[..decoding].iter().enumerate();
        let going_on = going_on.map(|(sequence, text)| Feed {
            sequence,
            ids: &text[..context],
            start: context - 1,
        });
        let prompt = options.workload.prompt_tokens;
        let begin = options.slots..options.slots + starting;
        let begin = begin.map(|sequence| Feed {
            sequence,
            ids: &texts[sequence][..prompt],
            start: 0,
        });
        let feeds: Vec<Feed<'_>> = going_on.chain(begin).collect();
        host.advance(1);
        time(&mut session, &feeds, options.repetitions, host)
    })?;
    host.advance(1);
    host.end();
    Ok(grid)
}

/// Twice the slots: an axis names both kinds up to all slots.
fn capacity(setup: &Setup<'_>, options: &Options) -> Result<Capacity> {
    let (slots, workload) = (options.slots, &options.workload);
    let rows = slots * (workload.prompt_tokens + 1);
    ensure!(
        rows <= setup.step_rows,
        "{slots} slots with prompts of {} tokens make steps of up to {rows} tokens, --max-step-tokens is {}; raise it, or lower --slots or --prompt-tokens",
        workload.prompt_tokens,
        setup.step_rows
    );
    let longest = workload.longest();
    ensure!(
        longest <= setup.context,
        "the longest request has {longest} tokens, the context is {}; raise --context or lower --prompt-tokens",
        setup.context
    );
    let context = workload.mean_context().max(workload.prompt_tokens);
    Ok(Capacity {
        context,
        sequences: 2 * slots,
        step_rows: setup.step_rows,
        blocks: 2 * slots * context.div_ceil(BLOCK_TOKENS),
    })
}

fn time(
    session: &mut Session,
    feeds: &[Feed<'_>],
    repetitions: usize,
    host: &mut dyn Host,
) -> Result<f64> {
    let spread = repeat(host, repetitions, &mut |host| {
        let started = host.now();
        for _ in 0..STEPS {
            session.next(feeds)?;
        }
        Ok((host.now() - started) / STEPS)
    })?;
    Ok(spread.median)
}
