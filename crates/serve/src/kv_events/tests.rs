//! The way of an event from the engine to bytes.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use ucuz_engine::sim::{ManualClock, SimOptions, SimRunner};
use ucuz_engine::{
    Closed, Engine, EngineConfig, Event, EventSink, Handle, Request, RequestClass, Turn, Usage,
};
use ucuz_llm::{BlockHash, CacheEvent, CacheScope};
use ucuz_tensor::sampling::SamplingParams;

use super::encode::{Taint, payload};
use super::events::{Events, Told};
use super::golden;
use super::hub::KvEventCounters;
use super::mirror::Mirror;
use super::options::{KvEncoding, KvEventsOptions};
use super::outlet::Outlet;
use super::publisher::Publisher;
use super::queue::{Listener, Queue, QueueLimits};
use super::ring::RingLimits;

const TAINT: Taint = Taint { key: [9; 16] };
const EVERYBODY: CacheScope = CacheScope([0; 16]);
const SOMEBODY: CacheScope = CacheScope([5; 16]);

fn stored(hash: u128, parent: Option<u128>, scope: CacheScope, tokens: [u32; 32]) -> CacheEvent {
    CacheEvent::Stored {
        hash: BlockHash(hash),
        parent: parent.map(BlockHash),
        scope,
        tokens: Box::new(tokens),
    }
}

fn plain(hash: u128, parent: Option<u128>) -> CacheEvent {
    stored(hash, parent, EVERYBODY, [hash as u32; 32])
}

fn removed(hash: u128) -> CacheEvent {
    let hash = BlockHash(hash);
    CacheEvent::Removed { hash }
}

/// Names in each event: stored ones behind their parent, removed ones negated.
fn told(events: &Events) -> Vec<(Option<u64>, Vec<i64>)> {
    let told = |event: &Told| match event {
        Told::Cleared => (None, vec![]),
        Told::Removed(hashes) => (None, hashes.iter().map(|&h| -(h as i64)).collect()),
        Told::Stored(run) => (run.parent, run.hashes.iter().map(|&h| h as i64).collect()),
    };
    events.as_slice().iter().map(told).collect()
}

#[test]
fn neighbours_of_one_chain_are_told_together() {
    let mixed = stored(9, Some(8), SOMEBODY, [9; 32]);
    for (batch, expected) in [
        (vec![], vec![]),
        (
            vec![plain(1, None), plain(2, Some(1)), plain(3, Some(2))],
            vec![(None, vec![1, 2, 3])],
        ),
        (
            vec![plain(2, Some(1)), plain(3, Some(1))],
            vec![(Some(1), vec![2]), (Some(1), vec![3])],
        ),
        (
            vec![plain(1, None), plain(2, None), plain(3, Some(2))],
            vec![(None, vec![1]), (None, vec![2, 3])],
        ),
        (
            vec![plain(8, None), mixed],
            vec![(None, vec![8]), (Some(8), vec![9])],
        ),
        (
            vec![removed(4), removed(3), plain(5, Some(2)), removed(6)],
            vec![(None, vec![-4, -3]), (Some(2), vec![5]), (None, vec![-6])],
        ),
        // Names that differ only above 63 bits are told as one, but never joined by it.
        (
            vec![plain(1 << 63 | 7, None), plain(8, Some(7))],
            vec![(None, vec![7]), (Some(7), vec![8])],
        ),
    ] {
        assert_eq!(told(&Events::of(&batch)), expected, "{batch:?}");
    }
    let batch = [plain(1, None), plain(2, Some(1))];
    let events = Events::of(&batch);
    let [Told::Stored(run)] = events.as_slice() else {
        panic!("one run")
    };
    assert_eq!(run.tokens, [[1; 32], [2; 32]].concat());
    assert_eq!(run.block_size(), 32);
}

#[test]
fn payloads_are_those_of_msgpack() {
    let tokens = |seed: u32| std::array::from_fn(|i| (i as u32 * 7919 + seed) % 151_936);
    let (first, second) = ((1 << 62) + 5, 300);
    let batch = [
        stored(first, None, EVERYBODY, tokens(0)),
        stored(second, Some(first), EVERYBODY, tokens(1)),
        stored(u128::MAX, Some(second), SOMEBODY, tokens(100_000)),
        removed(u128::MAX),
        removed(second),
    ];
    let events = Events::of(&batch);
    let all = [Events::cleared().as_slice(), events.as_slice()].concat();
    for (encoding, expected) in [
        (KvEncoding::Array, golden::ARRAY),
        (KvEncoding::Map, golden::MAP),
    ] {
        let bytes = payload(encoding, 1.5, &all, &TAINT);
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text, expected, "{encoding:?}");
    }
}

#[test]
fn a_taint_hides_scope_and_process() {
    let other = Taint { key: [8; 16] };
    assert_eq!(TAINT.of(EVERYBODY), None);
    assert_eq!(TAINT.of(SOMEBODY).map(|salt| salt.len()), Some(32));
    assert_eq!(TAINT.of(SOMEBODY), TAINT.of(SOMEBODY));
    assert_ne!(TAINT.of(SOMEBODY), TAINT.of(CacheScope([6; 16])));
    assert_ne!(TAINT.of(SOMEBODY), other.of(SOMEBODY));
    assert!(!format!("{TAINT:?}").contains('9'));
}

/// A publisher of one endpoint whose queue holds `limits`, with what it has sent.
fn publisher(limits: QueueLimits) -> (Publisher, Arc<Outlet>) {
    let counters = Arc::new(KvEventCounters::default());
    let options = KvEventsOptions::default();
    let outlet = Outlet::new(&options, Arc::clone(&counters), RingLimits::STANDARD);
    let publisher = Publisher {
        queue: Queue::new(limits),
        mirror: Mirror::default(),
        outlets: vec![Arc::clone(&outlet)],
        taint: TAINT,
        clock: || SystemTime::UNIX_EPOCH + Duration::from_millis(1500),
        counters,
    };
    (publisher, outlet)
}

fn sent(outlet: &Outlet) -> Vec<Vec<u8>> {
    let chunk = outlet.ring().chunk(0, usize::MAX);
    chunk.payloads.iter().map(|p| p.to_vec()).collect()
}

fn expected(batches: &[Events]) -> Vec<Vec<u8>> {
    let bytes = |events: &Events| payload(KvEncoding::Array, 1.5, events.as_slice(), &TAINT);
    batches.iter().map(bytes).collect()
}

#[tokio::test]
async fn each_batch_is_one_message() {
    let (mut publisher, outlet) = publisher(QueueLimits::STANDARD);
    let batches = [vec![plain(1, None)], vec![plain(2, Some(1)), removed(9)]];
    for batch in batches.clone() {
        publisher.queue.push(batch);
    }
    let taken = publisher.queue.take().await;
    publisher.tell(taken).await;
    assert_eq!(sent(&outlet), expected(&batches.map(|b| Events::of(&b))));
    assert_eq!(publisher.mirror.blocks().len(), 2);
    assert_eq!(publisher.counters.batches_total(), 2);
    assert_eq!(publisher.counters.dropped_total(), 0);
    assert!(publisher.queue.try_take().is_none());
}

#[tokio::test]
async fn what_is_lost_is_made_good_by_an_announcement() {
    for (batches, events) in [(2, 100), (100, 2), (0, 0)] {
        let (mut publisher, outlet) = publisher(QueueLimits { batches, events });
        publisher.mirror.apply(vec![
            plain(1, None),
            plain(2, Some(1)),
            plain(3, Some(2)),
            plain(50, None),
        ]);
        for batch in [
            vec![removed(3)],
            vec![plain(4, Some(2)), removed(50)],
            vec![plain(5, Some(4)), removed(5), plain(50, None)],
            vec![plain(6, Some(1))],
            vec![plain(7, Some(6))],
        ] {
            publisher.queue.push(batch);
        }
        let taken = publisher.queue.try_take().unwrap();
        assert!(taken.num_lost > 0 && taken.batches.len() <= batches.min(5));
        publisher.tell(taken).await;
        let mut all = Events::default();
        for (hash, parent) in [
            (50, None),
            (1, None),
            (6, Some(1)),
            (7, Some(6)),
            (2, Some(1)),
            (4, Some(2)),
        ] {
            let parent = parent.map(BlockHash);
            all.stored(BlockHash(hash), parent, EVERYBODY, &[hash as u32; 32]);
        }
        assert_eq!(sent(&outlet), expected(&[Events::cleared(), all]));
        assert_eq!(publisher.counters.dropped_total(), 5);
    }
}

#[test]
fn an_announcement_has_parents_first_and_pieces() {
    let mut mirror = Mirror::default();
    // Two chains from one root, and one whose beginning is gone.
    for (hash, parent) in [
        (3, Some(2)),
        (2, Some(1)),
        (1, None),
        (13, Some(12)),
        (12, Some(1)),
    ] {
        mirror.apply(vec![plain(hash, parent)]);
    }
    mirror.apply(vec![plain(31, Some(30))]);
    let pieces: Vec<_> = mirror.announcement(2).iter().map(told).collect();
    let expected = [
        vec![(Some(30), vec![31]), (None, vec![1])],
        vec![(Some(1), vec![12, 13])],
        vec![(Some(1), vec![2, 3])],
    ];
    assert_eq!(pieces, expected);
    assert!(Mirror::default().announcement(2).is_empty());
}

/// Keeps the end of a request.
#[derive(Clone, Default)]
struct Ending(Arc<Mutex<Option<Usage>>>);

impl EventSink for Ending {
    fn send(&mut self, event: Event) -> Result<(), Closed> {
        match event {
            Event::Done { usage, .. } => *self.0.lock().unwrap() = Some(usage),
            Event::Failed { text, .. } => panic!("{text}"),
            Event::PromptScored(_) | Event::Pooled(_) | Event::Token(_) => {}
        }
        Ok(())
    }

    fn is_closed(&self) -> bool {
        false
    }
}

/// An engine with `blocks` blocks that tells `queue` what it caches, turned by hand.
fn engine(blocks: usize, queue: &Arc<Queue>) -> (Engine, Handle) {
    let (runner, _) = SimRunner::new(SimOptions::new(64, 4, 400, blocks));
    let config = EngineConfig {
        prefix_key: Some([3; 16]),
        cache_listener: Some(Box::new(Listener(Arc::clone(queue)))),
        ..EngineConfig::plain(16)
    };
    Engine::new(Box::new(runner), config, Arc::new(ManualClock::default()))
}

fn request(prompt: &[u32], scope: CacheScope) -> Request {
    Request {
        prompt: prompt.to_vec(),
        params: SamplingParams::greedy(),
        sample: 0,
        max_tokens: 40,
        min_tokens: 40,
        stop_ids: Vec::new(),
        constraint: None,
        logprobs: None,
        prompt_logprobs: None,
        pool: None,
        class: RequestClass {
            scope,
            ..RequestClass::default()
        },
    }
}

/// Leading blocks of `prompt` that `mirror` has; the last token is always computed.
fn leading_blocks(mirror: &Mirror, prompt: &[u32], scope: CacheScope) -> usize {
    let (blocks, _) = prompt[..prompt.len() - 1].as_chunks::<32>();
    let mut parent = None;
    let known = |tokens: &&[u32; 32]| {
        let next = mirror.blocks().iter().find(|(_, block)| {
            block.parent == parent && block.scope == scope && *block.tokens == **tokens
        });
        parent = next.map(|(hash, _)| *hash);
        parent.is_some()
    };
    blocks.iter().take_while(known).count()
}

/// Random prompts that share beginnings, in a pool too small for them all: what the mirror has is what the engine finds,
/// however much of the queue was lost.
#[test]
fn the_mirror_has_what_the_engine_finds() {
    let small = QueueLimits {
        batches: 3,
        events: 8,
    };
    for limits in [QueueLimits::STANDARD, small] {
        let queue = Queue::new(limits);
        let (mut engine, handle) = engine(24, &queue);
        let mut mirror = Mirror::default();
        let (mut hits, mut lost, mut removals) = (0, 0, 0);
        let mut state = 7u64;
        let mut draw = move |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as usize % below
        };
        for _ in 0..200 {
            let (first, second) = (draw(3) as u32, draw(3) as u32);
            let half = |seed: u32| (0..100).map(move |i| (i * 7 + seed) % 97);
            let prompt: Vec<u32> = half(first).chain(half(50 + second)).collect();
            let prompt = &prompt[..1 + draw(200)];
            let scope = [EVERYBODY, SOMEBODY][draw(4) / 3];
            let before = leading_blocks(&mirror, prompt, scope);
            let ending = Ending::default();
            let sink = Box::new(ending.clone());
            handle.submit(request(prompt, scope), sink).unwrap();
            while engine.turn().unwrap() != Turn::Idle {}
            engine.check_integrity();
            let usage = ending.0.lock().unwrap().unwrap();
            assert_eq!(usage.cached_tokens as usize, before * 32, "{prompt:?}");
            hits += before;
            if let Some(taken) = queue.try_take() {
                lost += taken.num_lost;
                removals += taken.net.removed.len();
                mirror.apply_net(taken.net);
                for batch in taken.batches {
                    let is_removal = |e: &&CacheEvent| matches!(e, CacheEvent::Removed { .. });
                    removals += batch.iter().filter(is_removal).count();
                    mirror.apply(batch);
                }
            }
            let cached = handle.stats().groups[0].cached;
            assert_eq!(mirror.blocks().len(), cached);
        }
        assert!(
            hits > 100 && removals > 100,
            "{hits} hits, {removals} removals"
        );
        assert_eq!(lost > 0, limits.batches == 3, "{lost} lost");
    }
}
