//! How requests end, are refused, counted and scored.

use super::*;

fn small() -> Bench {
    Bench::new(SimOptions::new(64, 4, 256, 32), 4, 1)
}

fn tokens_of(request: &Request) -> Vec<u32> {
    let token = |event: &Event| match event {
        Event::Token(token) => Some(token.id),
        _ => None,
    };
    solo(request, &[None]).iter().filter_map(token).collect()
}

#[test]
fn a_stop_id_ends_the_request_and_is_not_sent() {
    let tokens = tokens_of(&request(3, 10, 20));
    let stop = tokens[6];
    let first = tokens.iter().position(|&token| token == stop).unwrap();
    let mut bench = small();
    let (_, receiver) = bench.submit(Request {
        stop_ids: vec![stop, stop],
        ..request(3, 10, 20)
    });
    bench.run();
    assert_eq!(receiver.tokens(), tokens[..first]);
    let (reason, usage) = receiver.done().unwrap();
    assert_eq!(
        (reason, usage.completion_tokens as usize),
        (FinishReason::Stop, first)
    );
    assert_eq!(bench.handle.stats().totals.stopped, 1);
}

#[test]
fn min_tokens_forbids_stop_ids_until_then() {
    let reply: sim::Reply = Arc::new(|_| Some(7));
    let mut options = SimOptions::new(64, 4, 256, 32);
    options.reply = Some(reply);
    let mut bench = Bench::new(options, 4, 1);
    let stopping = Request {
        stop_ids: vec![7],
        min_tokens: 5,
        ..request(1, 3, 20)
    };
    let (_, receiver) = bench.submit(stopping);
    bench.run();
    let (reason, usage) = receiver.done().unwrap();
    assert_eq!((reason, usage.completion_tokens), (FinishReason::Stop, 5));
    assert!(!receiver.tokens().contains(&7));
}

#[test]
fn a_script_is_followed() {
    let script = [5, 6, 7, 8];
    let mut options = SimOptions::new(64, 4, 256, 32);
    options.reply = Some(Arc::new(move |history: &[u32]| {
        script.get(history.len() - 3).copied()
    }));
    let mut bench = Bench::new(options, 4, 1);
    let (_, receiver) = bench.submit(request(1, 3, 4));
    bench.run();
    assert_eq!(receiver.tokens(), script);
}

#[test]
fn prompt_scores_come_before_the_first_token() {
    let mut bench = small();
    let (_, receiver) = bench.submit(busy_request(5, 80, 3));
    bench.run();
    let events = receiver.events();
    let Event::PromptScored(scores) = &events[0] else {
        panic!("{events:?}")
    };
    let ids: Vec<u32> = scores.iter().map(|score| score.id).collect();
    assert_eq!(ids, prompt(5, 80)[1..]);
    assert!(
        scores
            .iter()
            .all(|s| s.logprob < 0.0 && s.top.len() == 2 && s.top[0].1 >= s.logprob)
    );
    let Event::Token(token) = &events[1] else {
        panic!("{events:?}")
    };
    assert!(token.logprob.unwrap() < 0.0 && token.top.len() == 3);
}

#[test]
fn scoring_only_ends_without_a_token() {
    for len in [1, 2, 32, 33, 100] {
        let mut bench = small();
        let scoring = Request {
            prompt_logprobs: Some(0),
            ..request(5, len, 0)
        };
        let (_, receiver) = bench.submit(scoring.clone());
        bench.run();
        let events = receiver.events();
        assert_eq!(events.len(), 2, "{events:?}");
        let Event::PromptScored(scores) = &events[0] else {
            panic!("{events:?}")
        };
        assert_eq!(scores.len(), len - 1);
        let (reason, usage) = receiver.done().unwrap();
        assert_eq!((reason, usage.completion_tokens), (FinishReason::Length, 0));
        assert_eq!(bench.handle.stats().totals.computed_rows as usize, len - 1);
    }
}

#[test]
fn no_scores_are_sent_unless_asked_for() {
    let mut bench = small();
    let (_, receiver) = bench.submit(request(5, 80, 3));
    bench.run();
    let events = receiver.events();
    assert_eq!(events.len(), 4);
    assert!(
        events[..3]
            .iter()
            .all(|e| matches!(e, Event::Token(t) if t.logprob.is_none() && t.top.is_empty()))
    );
}

#[test]
fn bad_requests_are_refused_with_the_rule() {
    let bench = small();
    let refuse = |request: Request, text: &str| {
        let error = bench
            .handle
            .submit(request, Receiver::default().sink())
            .unwrap_err();
        assert_eq!(error.to_string(), text);
    };
    let base = || request(1, 4, 4);
    refuse(
        Request {
            prompt: vec![],
            ..base()
        },
        "prompt is empty, but must be at least one token",
    );
    refuse(
        Request {
            prompt: vec![97],
            ..base()
        },
        "prompt is 97, but must be a token id below 97",
    );
    refuse(
        Request {
            max_tokens: 0,
            ..base()
        },
        "max_tokens is 0, but must be at least 1 unless the prompt is scored or pooled",
    );
    refuse(
        Request {
            min_tokens: 5,
            ..base()
        },
        "min_tokens is 5, but must be at most max_tokens (4)",
    );
    let many = Request {
        prompt_logprobs: Some(9999),
        ..base()
    };
    refuse(many, "prompt_logprobs is 9999, but must be at most 1024");
    let params = |edit: fn(&mut SamplingParams)| {
        let mut request = base();
        edit(&mut request.params);
        request
    };
    refuse(
        params(|p| p.temperature = -1.0),
        "temperature is -1, but must be 0 or more",
    );
    refuse(
        params(|p| p.temperature = f32::NAN),
        "temperature is NaN, but must be 0 or more",
    );
    refuse(
        params(|p| p.top_p = 1.5),
        "top_p is 1.5, but must be from 0 to 1",
    );
    refuse(
        params(|p| p.repetition_penalty = 0.0),
        "repetition_penalty is 0, but must be above 0",
    );
    refuse(
        params(|p| p.logit_bias = vec![(1, f32::INFINITY)]),
        "logit_bias is inf, but must be finite",
    );
    assert_eq!(bench.handle.stats().totals.requests, 0);
}

#[test]
fn too_long_and_too_large_are_refused_at_the_door() {
    let bench = Bench::new(SimOptions::new(64, 4, 256, 5), 4, 1);
    let submit = |request| bench.handle.submit(request, Receiver::default().sink());
    let too_long = SubmitError::TooLong {
        prompt: 200,
        max_tokens: 57,
        limit: 256,
    };
    assert_eq!(submit(request(1, 200, 57)), Err(too_long));
    let too_large = SubmitError::LargerThanPool { needs: 6, has: 5 };
    assert_eq!(submit(request(1, 100, 62)), Err(too_large));
    assert!(submit(request(1, 100, 61)).is_ok());
    let mut bench = bench;
    bench.run();
}

#[test]
fn a_full_house_is_told_when_to_retry_and_others_are_unaffected() {
    let mut bench = small();
    let requests: Vec<_> = (0..8).map(|seed| request(seed, 50, 30)).collect();
    let mut receivers: Vec<_> = requests[..4]
        .iter()
        .map(|r| bench.submit(r.clone()).1)
        .collect();
    bench.turns(4);
    receivers.extend(requests[4..].iter().map(|r| bench.submit(r.clone()).1));
    bench.turns(1);
    let refused = bench
        .handle
        .submit(request(9, 5, 5), Receiver::default().sink());
    let Err(SubmitError::Full {
        waiting: 8,
        retry_after_s,
    }) = refused
    else {
        panic!("{refused:?}")
    };
    assert!(retry_after_s >= 1);
    bench.run();
    for (receiver, request) in receivers.iter().zip(&requests) {
        assert_eq!(results(receiver), solo(request, &[None]));
    }
    bench.submit(request(9, 5, 5));
    bench.run();
}

#[test]
fn a_vanished_client_is_noticed_within_one_turn() {
    // Queued, in prefill, in decode.
    let mut bench = Bench::new(SimOptions::new(16, 2, 256, 32), 4, 1);
    let other = request(1, 10, 60);
    let (_, kept) = bench.submit(other.clone());
    bench.turns(2);
    let (_, prefilling) = bench.submit(request(2, 100, 9));
    let (_, queued) = bench.submit(request(3, 9, 9));
    bench.turns(1);
    let stats = bench.handle.stats();
    assert_eq!((stats.running, stats.waiting), (2, 1));
    for gone in [&queued, &prefilling] {
        gone.hang_up();
        bench.turns(1);
    }
    let stats = bench.handle.stats();
    assert_eq!(
        (stats.running, stats.waiting, stats.totals.disconnected),
        (1, 0, 2)
    );
    bench.run();
    assert_eq!(results(&kept), solo(&other, &[None]));
    let (_, decoding) = bench.submit(request(4, 9, 90));
    bench.turns(8);
    decoding.hang_up();
    bench.turns(1);
    bench.assert_empty();
}

#[test]
fn five_hundred_vanish_at_any_moment_and_nothing_is_kept() {
    let mut bench = Bench::new(SimOptions::new(24, 4, 512, 20), 1000, 1);
    let kept = busy_request(1, 40, 100);
    let (_, survivor) = bench.submit(kept.clone());
    for i in 0..500u32 {
        let (_, receiver) = bench.submit(request(i, 1 + i as usize * 7 % 150, 50));
        bench.turns(i as usize % 4);
        receiver.hang_up();
    }
    bench.run();
    assert_eq!(results(&survivor), solo(&kept, &[None]));
    assert_eq!(bench.handle.stats().totals.disconnected, 500);
}

#[test]
fn closing_ends_at_once_and_a_stop_string_corrects_the_usage() {
    let mut bench = small();
    let (id, receiver) = bench.submit(request(1, 10, 50));
    bench.turns(10);
    bench
        .handle
        .close(id, CloseReason::StopString { accepted_tokens: 4 });
    bench.run();
    let (reason, usage) = receiver.done().unwrap();
    assert_eq!((reason, usage.completion_tokens), (FinishReason::Closed, 4));
    let (id, receiver) = bench.submit(request(1, 10, 50));
    bench.handle.close(id, CloseReason::Cancelled);
    bench.run();
    assert_eq!(receiver.done().unwrap().1.completion_tokens, 0);
    bench.handle.close(id, CloseReason::Cancelled);
    bench.run();
    let totals = bench.handle.stats().totals;
    assert_eq!((totals.stop_string, totals.cancelled), (1, 1));
    assert_eq!(receiver.num_ends(), 1);
}

#[test]
fn times_are_told_in_usage() {
    let mut bench = Bench::new(SimOptions::new(64, 1, 256, 32), 4, 1);
    bench.submit(request(1, 10, 11));
    let (_, receiver) = bench.submit(request(2, 30, 5));
    bench.clock.advance(Duration::from_millis(100));
    bench.run();
    // The first takes 10 + 10 rows at 1 ms each, this one 30, then 4.
    let usage = receiver.done().unwrap().1;
    assert_eq!(
        (usage.queue_ms, usage.first_token_ms, usage.total_ms),
        (120, 150, 154)
    );
    let stats = bench.handle.stats();
    assert!((stats.rows_per_second - 1000.0).abs() < 1e-6, "{stats:?}");
    assert_eq!(stats.totals.computed_rows, 54);
}

#[test]
fn draining_finishes_what_is_inside_and_takes_nothing_new() {
    let mut bench = small();
    let (_, receiver) = bench.submit(request(1, 10, 5));
    bench.handle.drain();
    let refused = bench
        .handle
        .submit(request(1, 10, 5), Receiver::default().sink());
    assert_eq!(refused, Err(SubmitError::Draining));
    while bench.turn().unwrap() != Turn::Ended {}
    assert_eq!(receiver.tokens().len(), 5);
    assert_eq!(bench.handle.health().life, Life::Draining);
}

#[test]
fn shutdown_cancels_what_is_inside() {
    let mut bench = small();
    let (_, receiver) = bench.submit(request(1, 10, 50));
    bench.turns(3);
    bench.handle.shutdown();
    assert_eq!(bench.turn().unwrap(), Turn::Ended);
    assert_eq!(receiver.done().unwrap().0, FinishReason::Closed);
    bench.assert_empty();
}

#[test]
fn a_prompt_is_pooled_alike_however_it_is_cut() {
    let pooled = |pooling, step_rows, others: u32| {
        let mut bench = Bench::new(SimOptions::new(step_rows, 4, 4096, 64), 10, 1);
        let request = Request {
            max_tokens: 0,
            pool: Some(pooling),
            ..request(1, 150, 0)
        };
        // Its prefix is cached by then, which may not change the mean.
        let (_, first) = bench.submit(request.clone());
        bench.run();
        let rest: Vec<_> = (0..others)
            .map(|seed| bench.submit(super::request(seed + 5, 70, 8)))
            .collect();
        let (_, again) = bench.submit(request);
        bench.run();
        assert!(rest.iter().all(|(_, receiver)| receiver.done().is_some()));
        let vectors = [first, again].map(|receiver| match &receiver.events()[..] {
            [
                Event::Pooled(vector),
                Event::Done {
                    reason: FinishReason::Length,
                    usage,
                },
            ] => {
                assert_eq!((usage.prompt_tokens, usage.completion_tokens), (150, 0));
                vector.clone()
            }
            other => panic!("{other:?}"),
        });
        assert_eq!(vectors[0], vectors[1]);
        bench.assert_empty();
        vectors[0].clone()
    };
    for pooling in [Pooling::Mean, Pooling::Last] {
        let whole = pooled(pooling, 512, 0);
        assert!(whole.iter().all(|value| *value > 0.0));
        assert_eq!(pooled(pooling, 16, 3), whole);
    }
    assert_ne!(pooled(Pooling::Mean, 64, 0), pooled(Pooling::Last, 64, 0));
}
