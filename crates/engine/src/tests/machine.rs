//! Random lives of an engine: whatever happens in whatever order, the books balance and survivors get their tokens.

use proptest::prelude::*;

use super::*;
use crate::sim::SimFault;

#[derive(Debug, Clone)]
enum Act {
    Submit {
        seed: u32,
        len: usize,
        max_tokens: u32,
        is_busy: bool,
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
}

fn act() -> impl Strategy<Value = Act> {
    let fault = prop_oneof![
        Just(SimFault::Row),
        Just(SimFault::Launch),
        Just(SimFault::Wait)
    ];
    prop_oneof![
        4 => (0..9u32, 1..120usize, 1..40u32, any::<bool>()).prop_map(
            |(seed, len, max_tokens, is_busy)| Act::Submit { seed, len, max_tokens, is_busy }
        ),
        1 => (0..9u32, 1..120usize).prop_map(|(seed, len)| Act::Score { seed, len }),
        8 => (1..12usize).prop_map(Act::Turn),
        1 => any::<usize>().prop_map(Act::Close),
        1 => (any::<usize>(), 0..9u32).prop_map(|(which, n)| Act::StopString(which, n)),
        1 => any::<usize>().prop_map(Act::HangUp),
        1 => fault.prop_map(Act::Fault),
    ]
}

#[derive(Debug, Clone)]
struct Shape {
    step_rows: usize,
    sequences: usize,
    blocks: usize,
    windows: Vec<Option<usize>>,
    depth: usize,
}

fn shape() -> impl Strategy<Value = Shape> {
    let windows = prop_oneof![
        Just(vec![None]),
        Just(vec![None, Some(33)]),
        Just(vec![Some(1), None]),
        Just(vec![Some(50)]),
    ];
    (1..70usize, 1..6usize, 5..14usize, windows, 1..4usize).prop_map(
        |(step_rows, sequences, blocks, windows, depth)| Shape {
            step_rows,
            sequences: sequences.min(step_rows),
            blocks,
            windows,
            depth,
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
    let mut bench = Bench::new(options, 5, shape.depth);
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
        } => {
            let make = if is_busy { busy_request } else { request };
            submit(bench, lives, make(seed, len, max_tokens));
        }
        Act::Score { seed, len } => {
            submit(
                bench,
                lives,
                Request {
                    prompt_logprobs: Some(1),
                    ..request(seed, len, 0)
                },
            );
        }
        Act::Turn(n) => bench.turns(n),
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

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2_000,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(2),
        ..ProptestConfig::default()
    })]

    #[test]
    fn books_balance_and_survivors_get_their_tokens(
        shape in shape(),
        acts in prop::collection::vec(act(), 1..60),
    ) {
        live(&shape, &acts);
    }
}
