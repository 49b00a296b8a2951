//! The same tokens, scores and log-probabilities however the work was cut, mixed or interrupted.

use super::*;

const WINDOWS: [&[Option<usize>]; 3] = [&[None], &[None, Some(40)], &[Some(70)]];

fn requests() -> Vec<Request> {
    let lengths = [1, 2, 31, 32, 33, 61, 96, 130];
    (0u32..)
        .zip(lengths)
        .map(|(seed, len)| busy_request(seed, len, 40))
        .collect()
}

fn options(
    step_rows: usize,
    sequences: usize,
    windows: &[Option<usize>],
    blocks: usize,
) -> SimOptions {
    let mut options = SimOptions::new(step_rows, sequences, 4096, blocks);
    options.windows = windows.to_vec();
    options.blocks = vec![blocks; windows.len()];
    options
}

/// Runs all requests at once; each must equal its solo run. Returns the preemptions.
fn check(options: SimOptions, depth: usize) -> u64 {
    let windows = options.windows.clone();
    let mut bench = Bench::new(options, 100, depth);
    let submitted: Vec<_> = requests()
        .into_iter()
        .map(|r| (bench.submit(r.clone()).1, r))
        .collect();
    bench.run();
    for (receiver, request) in submitted {
        assert_eq!(results(&receiver), solo(&request, &windows), "{request:?}");
        let (reason, usage) = receiver.done().unwrap();
        assert_eq!(reason, FinishReason::Length);
        assert_eq!(usage.completion_tokens, 40);
    }
    bench.handle.stats().totals.preemptions
}

#[test]
fn alone_equals_in_a_batch_of_seven_others() {
    for windows in WINDOWS {
        assert_eq!(check(options(4096, 8, windows, 512), 1), 0);
    }
}

#[test]
fn whole_prompt_equals_chunks() {
    for windows in WINDOWS {
        for rows in [1, 2, 16, 61] {
            for depth in [1, 2] {
                check(options(rows, rows.min(8), windows, 512), depth);
            }
        }
    }
}

#[test]
fn undisturbed_equals_preempted_and_resumed() {
    for windows in WINDOWS {
        for depth in [1, 2] {
            let preemptions = check(options(64, 8, windows, 8), depth);
            assert!(preemptions > 0, "the pool was to be too small");
        }
    }
}

#[test]
fn depth_changes_nothing() {
    for depth in [1, 2, 3] {
        check(options(16, 4, &[None, Some(40)], 20), depth);
    }
}

#[test]
fn nano_vllm_217_preempted_at_a_block_border() {
    // The older one's fourth block is taken from the younger one when that has computed 33 tokens.
    let mut bench = Bench::new(options(256, 2, &[None], 5), 10, 1);
    let (older, younger) = (request(1, 94, 20), request(2, 31, 20));
    let (_, first) = bench.submit(older.clone());
    let (_, second) = bench.submit(younger.clone());
    bench.turns(3);
    let rows = bench.handle.stats().totals.computed_rows;
    assert_eq!(rows, 96 + 33);
    bench.turns(1);
    assert_eq!(bench.handle.stats().waiting, 1);
    bench.run();
    assert_eq!(second.done().unwrap().1.preemptions, 1);
    assert_eq!(results(&first), solo(&older, &[None]));
    assert_eq!(results(&second), solo(&younger, &[None]));
}

#[test]
fn nano_vllm_144_prompt_of_whole_blocks_sent_twice() {
    for blocks in 1..4 {
        let request = Request {
            prompt_logprobs: None,
            pool: None,
            ..busy_request(9, blocks * 32, 5)
        };
        let mut bench = Bench::new(options(4096, 8, &[None], 512), 10, 1);
        let (_, first) = bench.submit(request.clone());
        bench.run();
        let (_, second) = bench.submit(request.clone());
        bench.run();
        assert_eq!(results(&first), results(&second));
        let usage = second.done().unwrap().1;
        assert_eq!(usage.cached_tokens as usize, blocks * 32 - 32);
    }
}

#[test]
fn nano_vllm_208_equal_prompts_in_one_step() {
    let request = busy_request(4, 100, 12);
    let mut bench = Bench::new(options(24, 8, &[None], 512), 10, 1);
    let receivers: Vec<_> = (0..4).map(|_| bench.submit(request.clone()).1).collect();
    bench.run();
    for receiver in receivers {
        assert_eq!(results(&receiver), solo(&request, &[None]));
    }
}

#[test]
fn llama_cpp_23652_full_pool_preempts_and_everybody_finishes() {
    // Four long generations, blocks for two.
    let mut bench = Bench::new(options(64, 4, &[None], 14), 10, 1);
    let requests: Vec<_> = (0..4).map(|seed| request(seed, 20, 200)).collect();
    let receivers: Vec<_> = requests.iter().map(|r| bench.submit(r.clone()).1).collect();
    bench.run();
    assert!(bench.handle.stats().totals.preemptions > 0);
    for (receiver, request) in receivers.iter().zip(&requests) {
        assert_eq!(results(receiver), solo(request, &[None]));
    }
    let oldest = receivers[0].done().unwrap().1;
    assert_eq!(oldest.preemptions, 0, "the oldest is never preempted");
}

#[test]
fn a_thousand_requests_leave_an_empty_pool() {
    let mut bench = Bench::new(options(48, 6, &[None, Some(40)], 16), 2000, 1);
    let receivers: Vec<_> = (0..1000)
        .map(|i| bench.submit(request(i, 1 + i as usize % 90, 1 + i % 17)).1)
        .collect();
    bench.run();
    assert!(
        receivers
            .iter()
            .all(|r| r.num_ends() == 1 && r.done().is_some())
    );
    assert_eq!(bench.handle.stats().totals.length, 1000);
}

#[test]
fn a_decoding_sequence_moves_on_in_every_step_of_a_long_prefill() {
    let mut bench = Bench::new(options(16, 4, &[None], 512), 10, 1);
    let (_, chat) = bench.submit(request(1, 4, 100));
    bench.turns(3);
    bench.submit(request(2, 1000, 2));
    let before = chat.tokens().len();
    bench.turns(20);
    assert_eq!(chat.tokens().len(), before + 20);
}

#[test]
fn a_newcomer_is_not_admitted_only_to_be_thrown_out() {
    let mut bench = Bench::new(options(64, 2, &[None], 2), 10, 1);
    let receivers: Vec<_> = (0..2)
        .map(|seed| bench.submit(request(seed, 31, 20)).1)
        .collect();
    bench.run();
    assert!(
        receivers
            .iter()
            .all(|r| r.done().unwrap().1.preemptions == 0)
    );
}
