//! Random lives of an engine: whatever happens in whatever order, the books balance and survivors get their tokens.

use proptest::prelude::*;

use super::*;
use crate::sim::SimFault;

#[derive(Debug, Clone)]
enum Act {
    Submit {
        /// Prompts of one seed begin alike.
        seed: u32,
        len: usize,
        max_tokens: u32,
        is_busy: bool,
        class: RequestClass,
    },
    Score {
        seed: u32,
        len: usize,
    },
    Turn(usize),
    Close(usize),
    StopString(usize, u32),
    HangUp(usize),
    Fault(SimFault),
    /// The clock jumps, as after a pause of the whole machine.
    Pause(u64),
}

fn class() -> impl Strategy<Value = RequestClass> {
    (0..3u32, -1..2i32, 0..2u8).prop_map(|(tenant, priority, scope)| RequestClass {
        tenant: TenantId(tenant),
        priority,
        scope: CacheScope([scope; 16]),
        first_token_within: None,
    })
}

fn act() -> impl Strategy<Value = Act> {
    let fault = prop_oneof![
        Just(SimFault::Row),
        Just(SimFault::Launch),
        Just(SimFault::Wait)
    ];
    prop_oneof![
        4 => (0..5u32, 1..120usize, 1..40u32, any::<bool>(), class()).prop_map(
            |(seed, len, max_tokens, is_busy, class)| {
                Act::Submit { seed, len, max_tokens, is_busy, class }
            }
        ),
        1 => (0..9u32, 1..120usize).prop_map(|(seed, len)| Act::Score { seed, len }),
        8 => (1..12usize).prop_map(Act::Turn),
        1 => any::<usize>().prop_map(Act::Close),
        1 => (any::<usize>(), 0..9u32).prop_map(|(which, n)| Act::StopString(which, n)),
        1 => any::<usize>().prop_map(Act::HangUp),
        1 => fault.prop_map(Act::Fault),
        1 => (0..100u64).prop_map(Act::Pause),
    ]
}

#[derive(Debug, Clone)]
struct Shape {
    step_rows: usize,
    sequences: usize,
    blocks: usize,
    windows: Vec<Option<usize>>,
    depth: usize,
    /// Bits of the names of cached blocks; few make different blocks share names.
    name_bits: u32,
    /// Time that a step should not exceed while somebody generates, ms.
    step_target: Option<u64>,
}

fn shape() -> impl Strategy<Value = Shape> {
    let windows = prop_oneof![
        Just(vec![None]),
        Just(vec![None, Some(33)]),
        Just(vec![Some(1), None]),
        Just(vec![Some(50)]),
    ];
    let names = prop_oneof![Just(128), 0..4u32];
    let target = prop::option::of(1..50u64);
    let sizes = (1..70usize, 1..6usize, 5..14usize, 1..4usize);
    (sizes, windows, names, target).prop_map(
        |((step_rows, sequences, blocks, depth), windows, name_bits, step_target)| Shape {
            step_rows,
            sequences: sequences.min(step_rows),
            blocks,
            windows,
            depth,
            name_bits,
            step_target,
        },
    )
}

struct Life {
    id: RequestId,
    receiver: Receiver,
    request: Request,
    /// Closed, hung up: only a prefix of its events is promised.
    is_cut: bool,
}

fn live(shape: &Shape, acts: &[Act]) {
    let mut options = SimOptions::new(shape.step_rows, shape.sequences, 160, shape.blocks);
    options.windows = shape.windows.clone();
    options.blocks = vec![shape.blocks; shape.windows.len()];
    let config = EngineConfig {
        step_target: shape.step_target.map(Duration::from_millis),
        ..config(5, shape.depth)
    };
    let mut bench = Bench::with(options, config);
    bench.engine.weaken_names(shape.name_bits);
    let mut lives: Vec<Life> = Vec::new();
    for act in acts {
        perform(&mut bench, &mut lives, act);
    }
    bench.run();
    for life in &lives {
        check_end(life, &shape.windows);
    }
}

fn perform(bench: &mut Bench, lives: &mut Vec<Life>, act: &Act) {
    let pick = |lives: &mut Vec<Life>, which: usize| match lives.len() {
        0 => None,
        n => {
            let life = &mut lives[which % n];
            life.is_cut = true;
            Some((life.id, life.receiver.clone()))
        }
    };
    match *act {
        Act::Submit {
            seed,
            len,
            max_tokens,
            is_busy,
            class,
        } => {
            let make = if is_busy { busy_request } else { request };
            let request = Request {
                // Prompts that are scored are never taken from the cache.
                prompt_logprobs: None,
                pool: None,
                class,
                ..make(seed, len, max_tokens)
            };
            submit(bench, lives, request);
        }
        Act::Score { seed, len } => {
            let pool = [None, Some(Pooling::Mean), Some(Pooling::Last)][seed as usize % 3];
            let request = Request {
                prompt_logprobs: pool.is_none().then_some(1),
                pool,
                ..request(seed, len, 0)
            };
            submit(bench, lives, request);
        }
        Act::Turn(n) => bench.turns(n),
        Act::Pause(seconds) => bench.clock.advance(Duration::from_secs(seconds)),
        Act::Fault(fault) => bench.control.inject(Some(fault)),
        Act::Close(which) => {
            if let Some((id, _)) = pick(lives, which) {
                bench.handle.close(id, CloseReason::Cancelled);
            }
        }
        Act::StopString(which, accepted_tokens) => {
            if let Some((id, _)) = pick(lives, which) {
                bench
                    .handle
                    .close(id, CloseReason::StopString { accepted_tokens });
            }
        }
        Act::HangUp(which) => {
            if let Some((_, receiver)) = pick(lives, which) {
                receiver.hang_up();
            }
        }
    }
}

fn submit(bench: &Bench, lives: &mut Vec<Life>, request: Request) {
    let receiver = Receiver::default();
    match bench.handle.submit(request.clone(), receiver.sink()) {
        Ok(id) => lives.push(Life {
            id,
            receiver,
            request,
            is_cut: false,
        }),
        Err(error) => {
            let is_expected = matches!(
                error,
                SubmitError::Full { .. } | SubmitError::LargerThanPool { .. }
            );
            assert!(is_expected, "{error:?}");
        }
    }
}

/// One end each, and everything before it equal to the solo run, or a prefix of it.
fn check_end(life: &Life, windows: &[Option<usize>]) {
    let mut events = life.receiver.events();
    let is_gone = life.receiver.is_gone.load(Ordering::Relaxed);
    let ends = life.receiver.num_ends();
    assert!(ends == 1 || (ends == 0 && is_gone), "{events:?}");
    let end = if ends == 1 { events.pop() } else { None };
    let expected = solo(&life.request, windows);
    let is_whole = match &end {
        Some(Event::Done { reason, .. }) => *reason == FinishReason::Length,
        Some(Event::Failed { kind, .. }) => {
            assert!(matches!(kind, FailureKind::Row | FailureKind::Step));
            false
        }
        _ => false,
    };
    assert!(
        is_whole || life.is_cut || matches!(end, Some(Event::Failed { .. })),
        "{end:?}"
    );
    match is_whole {
        true => assert_eq!(events, expected),
        false => assert_eq!(events, expected[..events.len()]),
    }
}

/// A failing life is printed, shrunk, with its shape and acts; the seed repeats it.
#[test]
fn books_balance_and_survivors_get_their_tokens() {
    let config = ProptestConfig {
        cases: if is_long() { 10_000 } else { 1_500 },
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(2),
        ..ProptestConfig::default()
    };
    let most = if is_long() { 240 } else { 80 };
    let operations = std::cell::Cell::new(0);
    let acts = prop::collection::vec(act(), 1..most);
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let outcome = runner.run(&(shape(), acts), |(shape, acts)| {
        operations.set(operations.get() + acts.len() as u64);
        live(&shape, &acts);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    eprintln!("{} operations", operations.get());
}
