//! The engine on its own thread.

use std::sync::mpsc::{Receiver as Channel, Sender, channel};

use super::*;

struct ChannelSink(Sender<Event>);

impl EventSink for ChannelSink {
    fn send(&mut self, event: Event) -> Result<(), Closed> {
        self.0.send(event).map_err(|_| Closed)
    }

    fn is_closed(&self) -> bool {
        false
    }
}

fn spawn() -> Handle {
    let (runner, _) = SimRunner::new(SimOptions::new(64, 4, 256, 16));
    Engine::spawn(
        Box::new(runner),
        config(60, 1),
        Arc::new(SystemClock::start()),
    )
    .unwrap()
}

fn submit(handle: &Handle, request: Request) -> Channel<Event> {
    let (sender, receiver) = channel();
    handle
        .submit(request, Box::new(ChannelSink(sender)))
        .unwrap();
    receiver
}

#[test]
fn sixteen_threads_get_their_solo_answers() {
    let handle = spawn();
    std::thread::scope(|scope| {
        for seed in 0..16u32 {
            let handle = handle.clone();
            scope.spawn(move || {
                let request = busy_request(seed, 10 + seed as usize * 5, 30);
                let mut events: Vec<Event> = submit(&handle, request.clone()).iter().collect();
                assert!(matches!(events.pop(), Some(Event::Done { .. })));
                assert_eq!(events, solo(&request, &[None]));
            });
        }
    });
    handle.drain();
    handle.join();
    assert_eq!(handle.health().life, Life::Stopped);
    assert_eq!(handle.stats().totals.length, 16);
}

#[test]
fn an_idle_engine_wakes_for_a_request_and_ends_with_its_last_handle() {
    let handle = spawn();
    for seed in 0..20 {
        assert_eq!(submit(&handle, request(seed, 5, 3)).iter().count(), 4);
        // Who sees the end of a request sees its blocks free.
        let stats = handle.stats();
        assert_eq!(
            (stats.running, stats.kv_bytes_used, stats.token_bytes),
            (0, 0, 0)
        );
    }
    let thread = crate::handle::lock(&handle.shared.thread).take().unwrap();
    let receiver = submit(&handle, request(1, 5, 100));
    drop(handle);
    thread.join().unwrap();
    assert_eq!(receiver.iter().count(), 101);
}

#[test]
fn who_comes_at_once_is_judged_by_what_steps_cost() {
    let clock = ManualClock::default();
    let pace = clock.clone();
    let mut options = SimOptions::new(64, 4, 2048, 64);
    options.pace = Some(Box::new(move |rows| {
        pace.advance(Duration::from_millis(rows as u64));
    }));
    let (runner, _) = SimRunner::new(options);
    let config = EngineConfig {
        warm_up: true,
        first_token_within: Some(Duration::from_millis(100)),
        ..config(10, 1)
    };
    let handle = Engine::spawn(Box::new(runner), config, Arc::new(clock)).unwrap();
    let (sender, _receiver) = channel();
    let refused = handle.submit(request(1, 1000, 5), Box::new(ChannelSink(sender)));
    assert!(
        matches!(refused, Err(SubmitError::Late { expected_ms, .. }) if expected_ms > 500),
        "{refused:?}"
    );
    submit(&handle, request(2, 20, 5)).iter().for_each(drop);
}
