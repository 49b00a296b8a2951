//! Users on the real engine.

use std::sync::mpsc::{Sender, channel};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use ucuz_llm::{
    Closed, Event, EventSink, GenerateRequest, Generation, Input, Life, Llm, SamplingOptions, Stats,
};

use super::RealCount;
use crate::Host;
use crate::bench::ids::ids;

/// Events after which the number of users counts as settled, for each user: so many steps without a newcomer.
const SETTLED: usize = 16;

/// Tells of tokens and of failures.
struct Bell(Sender<Option<String>>);

impl EventSink for Bell {
    fn send(&mut self, event: Event) -> Result<(), Closed> {
        let told = match event {
            Event::Failed { text, .. } => Some(text),
            _ => None,
        };
        self.0.send(told).map_err(|_| Closed)
    }

    fn is_closed(&self) -> bool {
        false
    }
}

/// The fullest that the engine was.
#[derive(Default)]
struct Peak {
    stats: Stats,
    /// Events since somebody came.
    since: usize,
}

impl Peak {
    /// Looks at the engine; whether the count is over.
    fn look(&mut self, stats: Stats) -> bool {
        if stats.totals.preemptions > 0 {
            return true;
        }
        self.since += 1;
        if stats.running > self.stats.running {
            self.since = 0;
            self.stats = stats;
        }
        self.since > SETTLED * self.stats.running.max(8)
    }
}

/// Sends users with these pasts, all at once; how many ran together before anybody was thrown out.
///
/// Leaves the engine shut down.
pub fn count(
    llm: &Llm,
    pasts: &[usize],
    expected: usize,
    host: &mut dyn Host,
) -> Result<RealCount> {
    host.begin("users", expected as u64);
    let (sender, bells) = channel();
    let mut generations: Vec<Generation> = Vec::with_capacity(pasts.len() + 1);
    // While one long step is under way everybody else can line up, so that the first of them come in together.
    let opener = llm.info().context - 1;
    generations.push(submit(llm, (pasts.len(), opener), &sender)?);
    for (user, &past) in pasts.iter().enumerate() {
        generations.push(submit(llm, (user, past), &sender)?);
    }
    let (mut peak, mut told) = (Peak::default(), 0);
    loop {
        if let Some(failure) = bells.recv().context("the engine ended by itself")? {
            bail!("a user's request failed: {failure}");
        }
        let is_over = peak.look(Stats::clone(&llm.stats()));
        let users = peak.stats.running.min(expected);
        host.advance((users - told) as u64);
        told = users;
        if is_over {
            break;
        }
    }
    host.advance((expected - told) as u64);
    host.end();
    llm.shutdown();
    llm.join();
    if let Life::Dead(why) = llm.health().life {
        bail!("the engine died: {why}");
    }
    let stats = peak.stats;
    Ok(RealCount {
        users: stats.running,
        used_bytes: stats.kv_bytes_used,
        used: stats.groups.iter().map(|group| group.used).collect(),
        steps: stats.totals.steps,
    })
}

/// A user who goes on to the end of the context.
fn submit(
    llm: &Llm,
    (user, past): (usize, usize),
    bell: &Sender<Option<String>>,
) -> Result<Generation> {
    let info = llm.info();
    let request = GenerateRequest {
        max_tokens: u32::try_from(info.context - past).ok(),
        ignore_eos: true,
        sampling: SamplingOptions {
            temperature: Some(0.0),
            ..SamplingOptions::default()
        },
        ..GenerateRequest::new(Input::Tokens(ids(user as u64, past, info.vocab)))
    };
    let prepared = llm.prepare(&request, 0, SystemTime::UNIX_EPOCH)?;
    Ok(llm.start(&prepared, 0, Box::new(Bell(bell.clone())))?)
}
