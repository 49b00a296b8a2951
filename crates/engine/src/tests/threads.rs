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
