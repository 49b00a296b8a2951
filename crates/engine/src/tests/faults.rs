//! What breaks, and who pays for it.

use super::*;
use crate::sim::SimFault;

fn bench(depth: usize) -> Bench {
    Bench::new(SimOptions::new(64, 4, 256, 32), 4, depth)
}

#[test]
fn a_bad_row_ends_only_its_sequence() {
    let mut bench = bench(1);
    let requests: Vec<_> = (0..3).map(|seed| request(seed, 20, 20)).collect();
    let receivers: Vec<_> = requests.iter().map(|r| bench.submit(r.clone()).1).collect();
    bench.turns(5);
    bench.control.inject(Some(SimFault::Row));
    bench.run();
    let failed = receivers
        .iter()
        .filter(|r| r.failure() == Some(FailureKind::Row))
        .count();
    assert_eq!(failed, 1);
    for (receiver, request) in receivers.iter().zip(&requests) {
        if receiver.failure().is_none() {
            assert_eq!(results(receiver), solo(request, &[None]));
        }
    }
}

#[test]
fn a_failed_step_is_computed_again_unseen() {
    for depth in [1, 2] {
        for fault in [SimFault::Launch, SimFault::Wait] {
            let mut bench = bench(depth);
            let requests: Vec<_> = (0..3).map(|seed| busy_request(seed, 90, 60)).collect();
            let receivers: Vec<_> = requests.iter().map(|r| bench.submit(r.clone()).1).collect();
            for wait in [0, 1, 4, 9] {
                bench.turns(wait);
                bench.control.inject(Some(fault));
                bench.turns(12);
            }
            bench.run();
            for (receiver, request) in receivers.iter().zip(&requests) {
                assert_eq!(results(receiver), solo(request, &[None]));
            }
            assert_eq!(bench.handle.stats().totals.step_errors, 4);
        }
    }
}

#[test]
fn a_step_that_fails_twice_ends_its_requests_and_the_engine_goes_on() {
    for depth in [1, 2] {
        let mut bench = bench(depth);
        let (_, receiver) = bench.submit(request(1, 40, 20));
        bench.turns(5);
        bench.control.inject(Some(SimFault::Wait));
        bench.control.inject(Some(SimFault::Launch));
        bench.run();
        assert_eq!(receiver.failure(), Some(FailureKind::Step));
        let (_, receiver) = bench.submit(request(2, 40, 20));
        bench.run();
        assert_eq!(results(&receiver), solo(&request(2, 40, 20), &[None]));
    }
}

#[test]
fn an_endless_fault_in_a_long_recompute_ends() {
    // Each second step fails: chunks succeed, but no result is ever read.
    let mut bench = Bench::new(SimOptions::new(16, 1, 256, 32), 4, 1);
    for _ in 0..100 {
        bench.control.inject(None);
        bench.control.inject(Some(SimFault::Wait));
    }
    let (_, receiver) = bench.submit(request(1, 60, 20));
    bench.run();
    assert_eq!(receiver.failure(), Some(FailureKind::Step));
}

#[test]
fn a_lost_device_or_a_panic_fails_everybody_and_is_told() {
    for (fault, kind) in [
        (SimFault::Device, FailureKind::Device),
        (SimFault::Panic, FailureKind::Engine),
    ] {
        let mut bench = bench(1);
        let receivers: Vec<_> = (0..6).map(|s| bench.submit(request(s, 20, 20)).1).collect();
        bench.turns(3);
        let late = bench.submit(request(9, 20, 20)).1;
        bench.control.inject(Some(fault));
        let Bench { engine, handle, .. } = bench;
        engine.run();
        assert!(
            receivers
                .iter()
                .chain([&late])
                .all(|r| r.failure() == Some(kind))
        );
        assert!(receivers.iter().all(|r| r.num_ends() == 1));
        let health = handle.health();
        assert!(matches!(health.life, Life::Dead(_)) && !health.is_alive());
        let refused = handle.submit(request(1, 2, 3), Receiver::default().sink());
        assert_eq!(refused, Err(SubmitError::Dead));
        let stats = handle.stats();
        assert_eq!(
            (stats.totals.failed, stats.running, stats.waiting),
            (7, 0, 0)
        );
    }
}
