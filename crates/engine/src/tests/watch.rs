//! What who looks sees: the books of the pool, every step, and nothing when nobody looks.

use super::*;
use std::collections::HashSet;

/// Asserts that a view's map is what the pool and the sequences say at the same moment.
fn assert_balanced(bench: &Bench, view: &EngineView) {
    let books = bench.engine.scheduler.pool.stats();
    assert_eq!(view.stats.groups, books);
    let running = &bench.engine.sequences.running;
    let slots: HashSet<u32> = running
        .iter()
        .filter_map(|s| s.slot.map(|slot| slot.0))
        .collect();
    assert_eq!(view.running.len(), running.len());
    assert!(view.running.iter().all(|r| slots.contains(&r.slot)));
    for (map, group) in view.groups.iter().zip(&books) {
        let counts = map.counts;
        assert_eq!(map.total, group.total);
        assert_eq!(counts.cached, group.cached);
        assert_eq!(counts.free + counts.cached, group.free);
        assert_eq!(counts.held + counts.shared + counts.leaving, group.used);
        let of = |mark: fn(&BlockMark) -> bool| map.cells.iter().filter(|cell| mark(cell)).count();
        assert_eq!(of(|mark| matches!(mark, BlockMark::Held(_))), counts.held);
        assert_eq!(of(|mark| *mark == BlockMark::Shared), counts.shared);
        for cell in &map.cells {
            if let BlockMark::Held(slot) = cell {
                assert!(
                    slots.contains(slot),
                    "{slot} holds a block and does not run"
                );
            }
        }
    }
}

/// A bench whose every turn is due to be shown.
fn bench(blocks: usize, windows: &[Option<usize>], depth: usize) -> Bench {
    let mut options = SimOptions::new(48, 4, 400, blocks);
    options.windows = windows.to_vec();
    options.blocks = vec![blocks; windows.len()];
    Bench::new(options, 40, depth)
}

#[test]
fn a_view_is_the_books_of_its_turn() {
    let shapes: [(&[Option<usize>], usize); 3] =
        [(&[None], 1), (&[None, Some(40)], 1), (&[None, Some(33)], 3)];
    for (windows, depth) in shapes {
        let mut bench = bench(14, windows, depth);
        let watch = bench.handle.watch(1).unwrap();
        let mut receivers = Vec::new();
        for seed in 0..12 {
            // Every other one begins like the one before.
            receivers.push(bench.submit(request(seed / 2, 70 + seed as usize, 60)));
        }
        let (mut shared, mut preempted) = (0, 0);
        for turn in 0..2000 {
            bench.clock.advance(Duration::from_millis(60));
            let worked = bench.turn().unwrap();
            let view = watch.view().unwrap();
            assert_balanced(&bench, &view);
            shared += view.groups[0].counts.shared;
            preempted += view.steps.last().map_or(0, |step| step.preempted.len());
            if worked == Turn::Idle {
                break;
            }
            assert!(turn < 1999, "it ends");
        }
        assert!(shared > 0, "some blocks were shared");
        assert!(preempted > 0, "somebody gave way");
    }
}

#[test]
fn nothing_is_kept_when_nobody_looks() {
    let mut bench = bench(40, &[None], 1);
    bench.submit(request(1, 50, 20));
    bench.turns(5);
    let is_kept = |bench: &Bench| {
        let engine = &bench.engine;
        let has_view = engine.shared.view.load().is_some();
        (
            engine.recorder.is_some(),
            engine.scheduler.log.is_some(),
            has_view,
        )
    };
    assert_eq!(is_kept(&bench), (false, false, false));
    let watch = bench.handle.watch(2).unwrap();
    let second = bench.handle.watch(2).unwrap();
    assert!(bench.handle.watch(2).is_none(), "two look already");
    assert!(watch.view().is_none(), "the turn has not ended");
    bench.turns(2);
    assert_eq!(is_kept(&bench), (true, true, true));
    drop(second);
    bench.turns(1);
    assert!(watch.view().is_some());
    drop(watch);
    bench.turns(1);
    assert_eq!(is_kept(&bench), (false, false, false));
    bench.run();
}

#[test]
fn no_step_is_missed_between_two_looks() {
    let mut bench = bench(40, &[None], 1);
    let watch = bench.handle.watch(1).unwrap();
    for seed in 0..4 {
        bench.submit(request(seed, 30, 90));
    }
    let mut seen = 0;
    while bench.turn().unwrap() == Turn::Worked {
        let view = watch.view().unwrap();
        assert!(view.steps.len() <= STEPS_MAX);
        let before = seen;
        for step in view.steps.iter().filter(|step| step.step > before) {
            assert_eq!(step.step, seen + 1, "steps follow each other");
            let rows: usize = step.entries.iter().map(|entry| entry.rows).sum();
            assert_eq!(rows, step.rows);
            seen = step.step;
        }
    }
    let last = watch.view().unwrap();
    assert_eq!(
        last.steps.last().map(|step| step.step),
        Some(last.stats.totals.steps)
    );
    assert!(last.running.is_empty());
}

#[test]
fn a_prompt_is_read_in_chunks_and_then_written_on() {
    let mut bench = bench(40, &[None], 1);
    let watch = bench.handle.watch(1).unwrap();
    let (id, _) = bench.submit(request(3, 100, 3));
    bench.run();
    let view = watch.view().unwrap();
    let steps: Vec<_> = view
        .steps
        .iter()
        .map(|step| {
            let entry = step.entries[0];
            assert_eq!((entry.request, entry.slot), (id.0, 0));
            (entry.start, entry.rows, entry.phase, entry.token)
        })
        .collect();
    // A row takes a millisecond.
    let ms = Duration::from_millis;
    assert_eq!(
        steps,
        [
            (0, 48, Phase::Prefill, None),
            (48, 48, Phase::Prefill, None),
            (96, 4, Phase::Prefill, Some(TokenTime::First(ms(100)))),
            (100, 1, Phase::Decode, Some(TokenTime::Next(ms(1)))),
            (101, 1, Phase::Decode, Some(TokenTime::Next(ms(1)))),
        ]
    );
}
