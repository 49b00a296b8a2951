//! Shared prefixes: warm equals cold, whoever shares, however little room there is.

use super::*;

fn options(blocks: usize, windows: &[Option<usize>]) -> SimOptions {
    let mut options = SimOptions::new(64, 8, 4096, blocks);
    options.windows = windows.to_vec();
    options.blocks = vec![blocks; windows.len()];
    options
}

/// `len` tokens of which the first `shared` are those of all prompts.
fn beginning_alike(seed: u32, shared: usize, len: usize) -> Request {
    let mut request = request(seed, len, 12);
    let head = prompt(1000, shared);
    request.prompt[..shared].copy_from_slice(&head);
    request
}

#[test]
fn warm_equals_cold_and_says_what_was_cached() {
    for windows in [&[None][..], &[None, Some(40)], &[Some(70)]] {
        let mut bench = Bench::new(options(512, windows), 100, 1);
        for shared in [0, 31, 32, 33, 100, 160] {
            for (round, len) in [(1, 161), (2, 200), (3, 161)] {
                let request = beginning_alike(shared as u32 * 10 + round, shared, len);
                let (_, receiver) = bench.submit(request.clone());
                bench.run();
                assert_eq!(results(&receiver), solo(&request, windows));
                if round > 1 {
                    let cached = receiver.done().unwrap().1.cached_tokens as usize;
                    assert!(cached >= shared / 32 * 32, "{windows:?} {shared}: {cached}");
                }
            }
        }
        let totals = bench.handle.stats().totals;
        assert!(totals.prefix_hits > 0 && totals.prefix_hits < totals.prefix_queries);
    }
}

#[test]
fn a_conversation_finds_its_own_answers() {
    let mut bench = Bench::new(options(512, &[None]), 100, 1);
    let mut history = prompt(3, 50);
    for turn in 0..5 {
        let request = Request {
            prompt: history.clone(),
            ..request(0, 1, 40)
        };
        let (_, receiver) = bench.submit(request.clone());
        bench.run();
        assert_eq!(results(&receiver), solo(&request, &[None]));
        let cached = receiver.done().unwrap().1.cached_tokens as usize;
        // All but the last sampled token, whose keys nobody computed, and the block that it would fill.
        let expected = if turn == 0 {
            0
        } else {
            (history.len() - 21) / 32 * 32
        };
        assert_eq!(cached, expected);
        history.extend(receiver.tokens());
        history.extend(prompt(turn + 7, 20));
    }
}

#[test]
fn scopes_do_not_share_and_equal_scopes_do() {
    let mut bench = Bench::new(options(512, &[None]), 100, 1);
    for (scope, cached) in [(1, 0), (2, 0), (1, 96), (0, 0), (2, 96)] {
        let mut request = request(5, 100, 3);
        request.class.scope = CacheScope([scope; 16]);
        let (_, receiver) = bench.submit(request);
        bench.run();
        assert_eq!(receiver.done().unwrap().1.cached_tokens, cached, "{scope}");
    }
}

#[test]
fn equal_prompts_in_one_step_are_computed_once() {
    for rows in [24, 64] {
        let mut options = options(512, &[None]);
        options.limits.step_rows = rows;
        let mut bench = Bench::new(options, 100, 1);
        let requests = (0..6).map(|sample| Request {
            sample,
            ..request(4, 300, 8)
        });
        let requests: Vec<_> = requests.collect();
        let receivers: Vec<_> = requests.iter().map(|r| bench.submit(r.clone()).1).collect();
        bench.run();
        for (receiver, request) in receivers.iter().zip(&requests) {
            assert_eq!(results(receiver), solo(request, &[None]));
        }
        // 300 tokens once, the last 12 of each of the others, and 7 steps of everybody.
        let computed = bench.handle.stats().totals.computed_rows;
        assert_eq!(computed, 300 + 5 * 12 + 6 * 7);
    }
}

#[test]
fn whoever_waits_for_a_prefix_goes_on_when_its_maker_is_gone() {
    let mut bench = Bench::new(options(512, &[None]), 100, 1);
    let (maker, _) = bench.submit(request(4, 300, 8));
    let (_, waiter) = bench.submit(request(4, 300, 8));
    bench.turns(2);
    assert_eq!(bench.handle.stats().waiting, 1);
    bench.handle.close(maker, CloseReason::Cancelled);
    bench.run();
    assert_eq!(results(&waiter), solo(&request(4, 300, 8), &[None]));
    let cached = waiter.done().unwrap().1.cached_tokens;
    assert!((32..300).contains(&cached), "{cached}");
}

#[test]
fn vllm_480_eviction_churn_leaves_only_what_is_there() {
    for windows in [&[None][..], &[None, Some(40)]] {
        let mut bench = Bench::new(options(24, windows), 100, 1);
        for round in 0..3 {
            for seed in 0..40 {
                let request = beginning_alike(seed, 64, 150);
                let (_, receiver) = bench.submit(request.clone());
                bench.run();
                assert_eq!(
                    results(&receiver),
                    solo(&request, windows),
                    "{round} {seed}"
                );
            }
        }
    }
}

#[test]
fn a_preempted_sequence_finds_what_was_not_evicted() {
    let run = |prefix_key| {
        let config = EngineConfig {
            prefix_key,
            ..config(100, 1)
        };
        let mut bench = Bench::with(options(8, &[None]), config);
        // The pool is full when both hold half of it; the older one ends soon after.
        let requests = [request(1, 20, 140), request(2, 20, 200)];
        let receivers: Vec<_> = requests.iter().map(|r| bench.submit(r.clone()).1).collect();
        bench.run();
        for (receiver, request) in receivers.iter().zip(&requests) {
            assert_eq!(results(receiver), solo(request, &[None]));
        }
        let totals = bench.handle.stats().totals;
        assert!(totals.preemptions > 0);
        totals.computed_rows
    };
    let (cold, warm, once) = (run(None), run(Some([1; 16])), 20 + 139 + 20 + 199);
    assert!(once < warm && warm < cold, "{once} {warm} {cold}");
}

#[test]
fn without_a_key_nothing_is_shared() {
    let config = EngineConfig {
        prefix_key: None,
        ..config(10, 1)
    };
    let mut bench = Bench::with(options(512, &[None]), config);
    for _ in 0..2 {
        let (_, receiver) = bench.submit(request(1, 100, 3));
        bench.run();
        assert_eq!(receiver.done().unwrap().1.cached_tokens, 0);
    }
    let stats = bench.handle.stats();
    assert_eq!(
        (stats.totals.prefix_queries, stats.groups[0].cached),
        (0, 0)
    );
}
