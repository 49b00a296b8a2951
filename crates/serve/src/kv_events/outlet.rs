//! One endpoint's batches: the publisher adds them, subscribers and requesters read them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::watch;

use super::hub::KvEventCounters;
use super::options::{KvEncoding, KvEventsOptions};
use super::ring::{Ring, RingLimits};

/// What one endpoint has sent.
#[derive(Debug)]
pub(super) struct Outlet {
    pub encoding: KvEncoding,
    pub topic: String,
    /// Whether a replayed batch has the topic before its number.
    pub replay_topic: bool,
    pub counters: Arc<KvEventCounters>,
    /// Held by the publisher and by the tasks of peers, for one push or one look.
    ring: Mutex<Ring>,
    /// Number of the batch to come.
    end: watch::Sender<u64>,
}

impl Outlet {
    pub(super) fn new(
        options: &KvEventsOptions,
        counters: Arc<KvEventCounters>,
        limits: RingLimits,
    ) -> Arc<Self> {
        Arc::new(Self {
            encoding: options.encoding,
            topic: options.topic.clone(),
            replay_topic: options.replay_topic,
            counters,
            ring: Mutex::new(Ring::new(limits)),
            end: watch::Sender::new(0),
        })
    }

    /// Adds a batch.
    pub(super) fn push(&self, payload: Bytes) {
        let end = {
            let mut ring = self.ring();
            ring.push(payload);
            ring.end()
        };
        self.end.send_replace(end);
    }

    /// Looks at what is kept; nobody else can meanwhile.
    pub(super) fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of new batches.
    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.end.subscribe()
    }
}
