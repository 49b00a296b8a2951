//! Who goes first: tenants, priorities, deadlines, and room at the door.

use super::*;

fn options(step_rows: usize, sequences: usize) -> SimOptions {
    SimOptions::new(step_rows, sequences, 4096, 512)
}

fn of(tenant: u32, request: Request) -> Request {
    let mut request = request;
    request.class.tenant = TenantId(tenant);
    request
}

fn urgent(priority: i32, request: Request) -> Request {
    let mut request = request;
    request.class.priority = priority;
    request
}

#[test]
fn a_small_tenant_does_not_wait_behind_a_greedy_one() {
    let solo = {
        let mut bench = Bench::new(options(64, 4), 200, 1);
        let (_, small) = bench.submit(of(2, request(1, 200, 5)));
        bench.run();
        small.done().unwrap().1.first_token_ms
    };
    let mut bench = Bench::new(options(64, 4), 200, 1);
    let greedy: Vec<_> = (0..100)
        .map(|seed| bench.submit(of(1, request(seed + 10, 50, 40))).1)
        .collect();
    bench.turns(30);
    for round in 0..5 {
        let (_, small) = bench.submit(of(2, request(round, 200, 5)));
        while small.done().is_none() {
            bench.turns(1);
        }
        let first = small.done().unwrap().1.first_token_ms;
        assert!(first <= 2 * solo, "{first} ms, alone {solo} ms");
    }
    bench.run();
    let preempted = |r: &Receiver| r.done().unwrap().1.preemptions;
    assert!(
        greedy.iter().map(preempted).sum::<u32>() <= 5,
        "one slot for each"
    );
    assert_eq!(preempted(&greedy[0]), 0, "the oldest is never preempted");
}

#[test]
fn tenants_share_by_tokens_not_by_requests() {
    // One sends long requests, one short ones; both always have more waiting.
    let mut bench = Bench::new(options(64, 4), 2000, 1);
    let long: Vec<_> = (0..100).map(|s| of(1, request(s, 300, 20))).collect();
    let short: Vec<_> = (0..600).map(|s| of(2, request(s + 500, 20, 5))).collect();
    let long: Vec<_> = long.into_iter().map(|r| bench.submit(r).1).collect();
    let short: Vec<_> = short.into_iter().map(|r| bench.submit(r).1).collect();
    bench.turns(700);
    let ended = |all: &[Receiver]| all.iter().filter(|r| r.done().is_some()).count();
    let (long, short) = (ended(&long) * (300 + 40), ended(&short) * (20 + 10));
    let ratio = long as f64 / short as f64;
    assert!(
        long > 10_000 && (0.6..1.7).contains(&ratio),
        "{long} {short}"
    );
}

#[test]
fn lower_numbers_go_first_within_a_tenant_and_nobody_waits_for_ever() {
    let mut bench = Bench::new(options(64, 1), 2000, 1);
    let (_, running) = bench.submit(request(0, 10, 5));
    bench.turns(1);
    let order = [5, 0, -3, 0];
    let receivers: Vec<_> = (1u32..)
        .zip(order)
        .map(|(seed, priority)| bench.submit(urgent(priority, request(seed, 10, 5))).1)
        .collect();
    let mut finished = Vec::new();
    while finished.len() < order.len() {
        bench.turns(1);
        for (index, receiver) in receivers.iter().enumerate() {
            if receiver.done().is_some() && !finished.contains(&index) {
                finished.push(index);
            }
        }
    }
    assert!(running.done().is_some());
    assert_eq!(finished, [2, 1, 3, 0]);

    // A stream of urgent requests cannot hold up the patient one for longer than half a minute.
    bench.submit(urgent(-9, request(0, 10, 5)));
    bench.submit(urgent(-9, request(1, 10, 5)));
    let (_, patient) = bench.submit(urgent(9, request(2, 10, 5)));
    for seed in 3..500 {
        bench.submit(urgent(-9, request(seed, 10, 5)));
        bench.turns(5);
        bench.clock.advance(Duration::from_millis(100));
        if patient.done().is_some() {
            break;
        }
    }
    let queued = patient.done().unwrap().1.queue_ms;
    assert!((30_000..32_000).contains(&queued), "{queued} ms");
}

#[test]
fn generating_is_not_stalled_by_a_long_prompt() {
    let config = EngineConfig {
        step_target: Some(Duration::from_millis(100)),
        ..config(10, 1)
    };
    // Each row takes 1 ms.
    let mut bench = Bench::with(options(512, 4), config);
    let (_, chat) = bench.submit(request(1, 100, 200));
    bench.turns(5);
    bench.submit(request(2, 3000, 2));
    for _ in 0..20 {
        let before = (bench.clock.now(), chat.tokens().len());
        bench.turns(1);
        let took = bench.clock.now() - before.0;
        assert_eq!(chat.tokens().len(), before.1 + 1);
        assert!(took <= Duration::from_millis(101), "{took:?}");
        assert!(took >= Duration::from_millis(90), "{took:?}");
    }
}

#[test]
fn a_deadline_that_cannot_be_met_is_refused_at_once() {
    let mut bench = Bench::new(options(64, 4), 100, 1);
    bench.submit(request(1, 64, 3));
    bench.run();
    let within = |ms, len| {
        let mut request = request(2, len, 3);
        request.class.first_token_within = Some(Duration::from_millis(ms));
        request
    };
    // 1 ms a row, and the rest of a step.
    let refused = bench
        .handle
        .submit(within(300, 400), Receiver::default().sink());
    assert!(
        matches!(refused, Err(SubmitError::Late { within_ms: 300, expected_ms, .. }) if (390..450).contains(&expected_ms)),
        "{refused:?}"
    );
    let (_, met) = bench.submit(within(450, 400));
    bench.run();
    assert!(met.done().unwrap().1.first_token_ms <= 450);
    assert_eq!(bench.handle.refusals().late, 1);
}

#[test]
fn requests_and_tokens_inside_are_limited_and_the_time_to_retry_grows_with_the_backlog() {
    let config = EngineConfig {
        max_prompt_tokens: 5_000,
        ..config(20, 1)
    };
    let mut bench = Bench::with(options(64, 4), config);
    bench.submit(request(1, 64, 50));
    bench.run();
    let submit = |seed, len| {
        bench
            .handle
            .submit(request(seed, len, 50), Receiver::default().sink())
    };
    for seed in 0..10 {
        submit(seed, 400).unwrap();
    }
    let refused = submit(11, 2_000).unwrap_err();
    let SubmitError::FullOfTokens {
        inside,
        limit,
        retry_after_s,
        ..
    } = refused
    else {
        panic!("{refused:?}");
    };
    assert_eq!((inside, limit), (4_000, 5_000));
    // 4,000 rows of 1 ms and 500 tokens, each also 1 ms: 4.5 s.
    assert_eq!(retry_after_s, 5);
    for seed in 20..34 {
        submit(seed, 10).unwrap();
    }
    let refused = submit(40, 10).unwrap_err();
    assert!(matches!(refused, SubmitError::Full { waiting: 24, .. }));
    assert!(matches!(
        bench.handle.check_room(1),
        Err(SubmitError::Full { .. })
    ));
    bench.run();
    assert!(bench.handle.check_room(1).is_ok());
    let refusals = bench.handle.refusals();
    assert_eq!((refusals.full, refusals.tokens, refusals.late), (2, 1, 0));
}

#[test]
fn latencies_count_each_request_that_got_a_token() {
    let mut bench = Bench::new(options(64, 4), 100, 1);
    let receivers: Vec<_> = (0..10).map(|s| bench.submit(request(s, 20, 8)).1).collect();
    receivers[9].hang_up();
    bench.run();
    let latencies = bench.handle.latencies();
    assert_eq!(latencies.first_token.value().count, 9);
    assert_eq!(latencies.whole.value().count, 9);
    assert_eq!(latencies.between_tokens.value().count, 9 * 7);
    assert_eq!(latencies.queue.value().count, 9);
    let steps = bench.handle.stats().totals.steps;
    assert_eq!(latencies.step.value().count, steps);
}

#[test]
fn a_step_that_takes_three_times_its_bound_has_stalled() {
    let mut bench = Bench::new(options(512, 4), 100, 1);
    bench.submit(request(1, 500, 20));
    assert_eq!(bench.handle.health().step_bound, Duration::from_secs(600));
    bench.turns(5);
    // 1 ms a row: a step of 500 rows took half a second, which is less than what any step may take.
    assert_eq!(bench.handle.health().step_bound, Duration::from_secs(3));
    for (after_s, is_stalled) in [(1, false), (1, false), (2, true)] {
        bench.clock.advance(Duration::from_secs(after_s));
        assert_eq!(bench.handle.health().is_stalled(), is_stalled);
    }
    bench.turns(1);
    assert!(!bench.handle.health().is_stalled(), "it moved on");
    bench.run();
    bench.clock.advance(Duration::from_secs(1000));
    assert!(!bench.handle.health().is_stalled(), "idle");
}

#[test]
fn what_steps_cost_is_known_before_the_first_request() {
    let config = EngineConfig {
        warm_up: true,
        ..config(10, 1)
    };
    let mut bench = Bench::with(options(512, 4), config);
    bench.engine.warm_up().unwrap();
    bench.turns(1);
    let load = bench.handle.stats().load;
    let expected = load.cost.seconds(StepShape {
        rows: 300,
        reads: 1,
        attended: 300 * 301 / 2,
    });
    assert!(
        (0.25..0.35).contains(&expected),
        "{expected} s for 300 rows of 1 ms"
    );
    bench.assert_empty();
    let (_, receiver) = bench.submit(request(1, 100, 5));
    bench.run();
    assert_eq!(results(&receiver), solo(&request(1, 100, 5), &[None]));
}

#[test]
fn a_newcomer_cannot_shut_out_who_was_served_for_long() {
    let mut bench = Bench::new(options(64, 4), 500, 1);
    // B never waits and never pauses; A is served a lot meanwhile.
    let light = |seed| of(2, request(seed, 5, 300));
    let mut lights = vec![bench.submit(light(1)).1];
    let mut busy = Vec::new();
    for seed in 0..60 {
        busy.push(bench.submit(of(1, request(seed + 10, 400, 10))).1);
        bench.turns(12);
        if lights.last().is_some_and(|r| r.done().is_some()) {
            lights.push(bench.submit(light(seed + 100)).1);
        }
    }
    let greedy: Vec<_> = (0..100)
        .map(|seed| bench.submit(of(3, request(seed + 300, 50, 40))).1)
        .collect();
    let (_, next) = bench.submit(of(1, request(9, 50, 5)));
    while next.done().is_none() {
        bench.turns(1);
    }
    // The newcomer's credit is 4,096 tokens, 31 of its requests of 50 + 2 · 40.
    let ended = greedy.iter().filter(|r| r.done().is_some()).count();
    assert!(ended <= 40, "{ended} of the greedy went first");
    bench.run();
}

#[test]
fn a_loop_that_leaves_its_inbox_lying_has_stalled() {
    let mut bench = Bench::new(options(64, 4), 100, 1);
    bench.submit(request(1, 100, 20));
    bench.run();
    bench.clock.advance(Duration::from_secs(1000));
    assert!(!bench.handle.health().is_stalled(), "idle");
    bench.submit(request(2, 100, 20));
    assert!(!bench.handle.health().is_stalled(), "it just came");
    bench.clock.advance(Duration::from_secs(4));
    assert!(bench.handle.health().is_stalled());
    bench.turns(1);
    assert!(!bench.handle.health().is_stalled());
}

#[test]
fn long_answers_and_impatient_clients_do_not_mislead_the_forecast() {
    let mut bench = Bench::new(options(64, 4), 200, 1);
    for seed in 0..20 {
        bench.submit(request(seed, 10, 50));
        bench.run();
    }
    let mean = bench.handle.stats().load.mean_generated;
    assert!((49.0..51.0).contains(&mean), "{mean}");
    // Four that go on and on, and fifty that leave the queue.
    for seed in 0..4 {
        bench.submit(request(seed + 50, 10, 3000));
    }
    let gone: Vec<_> = (0..50)
        .map(|s| bench.submit(request(s, 10, 50)).1)
        .collect();
    bench.turns(200);
    gone.iter().for_each(Receiver::hang_up);
    bench.turns(1);
    let stats = bench.handle.stats();
    assert_eq!(stats.load.mean_generated, mean);
    assert!(stats.load.to_generate <= 4.0 * 51.0, "{:?}", stats.load);
}
