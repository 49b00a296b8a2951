//! How many users the engine lets in, against what was computed: the same rules on a simulated runner.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::sync::Arc;

use ucuz_engine::sim::{ManualClock, SimOptions, SimRunner};
use ucuz_engine::{
    Closed, Engine, EngineConfig, Event, EventSink, Request, RequestClass, Runner, Stats,
};
use ucuz_measure::bench::memory::ramp::{Pool, fill};
use ucuz_measure::bench::policy::LENGTHS;
use ucuz_tensor::sampling::SamplingParams;

const USERS: usize = 200;
const CONTEXT: usize = 1024;

struct Deaf;

impl EventSink for Deaf {
    fn send(&mut self, _: Event) -> Result<(), Closed> {
        Ok(())
    }

    fn is_closed(&self) -> bool {
        false
    }
}

/// The fullest that the engine is before it throws somebody out.
fn real(options: SimOptions, pasts: &[usize]) -> Stats {
    let (runner, _) = SimRunner::new(options);
    let config = EngineConfig::plain(USERS);
    let clock = Arc::new(ManualClock::default());
    let (mut engine, handle) = Engine::new(Box::new(runner), config, clock);
    for &past in pasts {
        let request = Request {
            prompt: vec![1; past],
            params: SamplingParams::greedy(),
            sample: 0,
            max_tokens: (CONTEXT - past) as u32,
            min_tokens: 0,
            stop_ids: Vec::new(),
            logprobs: None,
            prompt_logprobs: None,
            pool: None,
            constraint: None,
            class: RequestClass::default(),
        };
        handle.submit(request, Box::new(Deaf)).unwrap();
    }
    let mut peak = Stats::default();
    for _ in 0..3000 {
        engine.turn().unwrap();
        engine.check_integrity();
        let stats = handle.stats();
        if stats.totals.preemptions > 0 {
            break;
        }
        if stats.running > peak.running {
            peak = Stats::clone(&stats);
        }
    }
    peak
}

#[test]
fn as_many_users_run_as_was_computed() {
    let pasts = |prompt: usize| LENGTHS.iter().cycle().map(move |n| prompt + *n as usize);
    for (windows, blocks) in [
        (vec![None], vec![120]),
        (vec![None], vec![301]),
        (vec![None, Some(64)], vec![200, 170]),
        (vec![Some(100)], vec![150]),
    ] {
        for (step_rows, prompt) in [(64, 16), (512, 16), (512, 200), (8192, 16)] {
            let pasts: Vec<usize> = pasts(prompt).take(USERS).collect();
            let mut options = SimOptions::new(step_rows, USERS, CONTEXT, 0);
            (options.windows, options.blocks) = (windows.clone(), blocks.clone());
            let what = format!("{windows:?} {blocks:?}, {step_rows} rows, prompts of {prompt}");
            let (probe, _) = SimRunner::new(SimOptions {
                windows: windows.clone(),
                blocks: blocks.clone(),
                ..SimOptions::new(step_rows, USERS, CONTEXT, 0)
            });
            let full = fill(
                &Pool {
                    spec: probe.cache(),
                    blocks: &blocks,
                    step_rows,
                    sequences: USERS,
                },
                &pasts,
            );
            let peak = real(options, &pasts);
            assert_eq!(peak.running, full.users, "{what}");
            let used: Vec<usize> = peak.groups.iter().map(|group| group.used).collect();
            assert_eq!(used, full.used, "{what}");
            assert_eq!(peak.totals.steps, full.steps as u64, "{what}");
        }
    }
}
