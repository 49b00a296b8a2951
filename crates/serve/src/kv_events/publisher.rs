//! From the queue to every endpoint: numbers, encodes, and announces anew what can be found when batches were lost.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use super::encode::{Taint, payload};
use super::events::Events;
use super::hub::KvEventCounters;
use super::mirror::Mirror;
use super::options::KvEncoding;
use super::outlet::Outlet;
use super::queue::{Queue, Taken};

/// Most blocks that one batch announces: about 160 KB.
const ANNOUNCED_BLOCKS: usize = 1024;

/// The one that publishes.
pub(super) struct Publisher {
    pub queue: Arc<Queue>,
    pub mirror: Mirror,
    pub outlets: Vec<Arc<Outlet>>,
    pub taint: Taint,
    pub clock: fn() -> SystemTime,
    pub counters: Arc<KvEventCounters>,
}

impl Publisher {
    /// Says that nothing is there yet, then what changes, for ever.
    pub(super) async fn run(mut self) {
        self.publish(&Events::cleared());
        loop {
            let taken = self.queue.take().await;
            self.tell(taken).await;
        }
    }

    /// Publishes what was waiting; if some of it is lost, what can be found now in its place.
    pub(super) async fn tell(&mut self, taken: Taken) {
        if taken.num_lost == 0 {
            for batch in taken.batches {
                self.publish(&Events::of(&batch));
                self.mirror.apply(batch);
                // Many may wait; peers need their turn.
                tokio::task::yield_now().await;
            }
            return;
        }
        let replaced = taken.num_lost + taken.batches.len() as u64;
        self.counters.dropped.fetch_add(replaced, Ordering::Relaxed);
        tracing::warn!(
            replaced,
            "KV events came too fast; telling anew what is cached"
        );
        self.mirror.apply_net(taken.net);
        for batch in taken.batches {
            self.mirror.apply(batch);
        }
        self.publish(&Events::cleared());
        for events in self.mirror.announcement(ANNOUNCED_BLOCKS) {
            self.publish(&events);
            tokio::task::yield_now().await;
        }
    }

    /// One batch for every endpoint, encoded once for each encoding in use.
    fn publish(&self, events: &Events) {
        let now = (self.clock)().duration_since(UNIX_EPOCH);
        let seconds = now.map_or(0.0, |time| time.as_secs_f64());
        for encoding in [KvEncoding::Array, KvEncoding::Map] {
            let mut outlets = self.outlets.iter().filter(|o| o.encoding == encoding);
            let Some(first) = outlets.next() else {
                continue;
            };
            let payload = payload(encoding, seconds, events.as_slice(), &self.taint);
            let payload = Bytes::from(payload);
            first.push(payload.clone());
            outlets.for_each(|outlet| outlet.push(payload.clone()));
        }
        self.counters.batches.fetch_add(1, Ordering::Relaxed);
    }
}
