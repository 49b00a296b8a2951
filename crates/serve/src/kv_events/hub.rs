//! All endpoints of KV events: bound before the model is loaded, running once there is a runtime.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use tokio::task::JoinSet;
use ucuz_llm::CacheListener;

use super::encode::Taint;
use super::mirror::Mirror;
use super::options::{KvEventsOptions, TcpEndpoint};
use super::outlet::Outlet;
use super::publisher::Publisher;
use super::queue::{Listener, Queue, QueueLimits};
use super::ring::RingLimits;
use super::{peers, replay, subscriber};
use crate::error::ServeError;

/// What became of batches; written by the publisher and by subscribers' tasks, read by `/metrics`.
#[derive(Debug, Default)]
pub struct KvEventCounters {
    pub(super) batches: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) subscribers: AtomicU64,
}

impl KvEventCounters {
    /// Batches published, the first (nothing is there yet) and those that announce anew included.
    pub fn batches_total(&self) -> u64 {
        self.batches.load(Ordering::Relaxed)
    }

    /// Batches of the engine that an announcement replaced, and batches that a slow subscriber missed.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Subscribers that are connected.
    pub fn subscribers(&self) -> u64 {
        self.subscribers.load(Ordering::Relaxed)
    }
}

/// Endpoints that listen; peers that come early wait until [`KvEventHub::start`].
#[derive(Debug)]
pub struct KvEventHub {
    queue: Arc<Queue>,
    counters: Arc<KvEventCounters>,
    sockets: Vec<Sockets>,
    taint: Taint,
}

/// The sockets of one endpoint.
#[derive(Debug)]
struct Sockets {
    outlet: Arc<Outlet>,
    publish: TcpListener,
    replay: Option<TcpListener>,
}

/// Where one endpoint listens: the real ports when 0 was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvEventAddresses {
    /// For subscribers.
    pub publish: SocketAddr,
    /// For replays.
    pub replay: Option<SocketAddr>,
}

/// Tasks that publish; they end when this is dropped.
#[derive(Debug)]
pub struct KvEventTasks {
    _tasks: JoinSet<()>,
}

impl KvEventHub {
    /// Listens at every endpoint of `options`. `key`, drawn anew for each process, keeps tenants from being guessed.
    ///
    /// # Errors
    /// [`ServeError::KvEvents`] when an address is taken, unknown or not allowed.
    pub fn bind(options: &[KvEventsOptions], key: [u8; 16]) -> Result<Self, ServeError> {
        let counters = Arc::new(KvEventCounters::default());
        let sockets = |options: &KvEventsOptions| {
            Ok(Sockets {
                outlet: Outlet::new(options, Arc::clone(&counters), RingLimits::STANDARD),
                publish: listen(&options.endpoint)?,
                replay: options.replay.as_ref().map(listen).transpose()?,
            })
        };
        let sockets = options.iter().map(sockets).collect::<Result<_, _>>()?;
        Ok(Self {
            queue: Queue::new(QueueLimits::STANDARD),
            counters,
            sockets,
            taint: Taint { key },
        })
    }

    /// What the engine tells its changes; it never waits.
    pub fn listener(&self) -> Box<dyn CacheListener> {
        Box::new(Listener(Arc::clone(&self.queue)))
    }

    /// The numbers for `/metrics`.
    pub fn counters(&self) -> Arc<KvEventCounters> {
        Arc::clone(&self.counters)
    }

    /// Where each endpoint listens, in the order of the options.
    ///
    /// # Errors
    /// The system does not say.
    pub fn addresses(&self) -> io::Result<Vec<KvEventAddresses>> {
        let address = |sockets: &Sockets| {
            let replay = sockets.replay.as_ref();
            Ok(KvEventAddresses {
                publish: sockets.publish.local_addr()?,
                replay: replay.map(TcpListener::local_addr).transpose()?,
            })
        };
        self.sockets.iter().map(address).collect()
    }

    /// Publishes from now on; call it in a runtime, with the clock of the events.
    ///
    /// # Errors
    /// The system refuses to wait for connections.
    pub fn start(self, clock: fn() -> SystemTime) -> io::Result<KvEventTasks> {
        let mut tasks = JoinSet::new();
        let mut outlets = Vec::new();
        for sockets in self.sockets {
            let outlet = sockets.outlet;
            let listener = tokio::net::TcpListener::from_std(sockets.publish)?;
            let shared = Arc::clone(&outlet);
            tasks.spawn(peers::accept(listener, move |stream| {
                subscriber::serve(stream, Arc::clone(&shared))
            }));
            if let Some(listener) = sockets.replay {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                let shared = Arc::clone(&outlet);
                tasks.spawn(peers::accept(listener, move |stream| {
                    replay::serve(stream, Arc::clone(&shared))
                }));
            }
            outlets.push(outlet);
        }
        let publisher = Publisher {
            queue: self.queue,
            mirror: Mirror::default(),
            outlets,
            taint: self.taint,
            clock,
            counters: self.counters,
        };
        tasks.spawn(publisher.run());
        Ok(KvEventTasks { _tasks: tasks })
    }
}

fn listen(endpoint: &TcpEndpoint) -> Result<TcpListener, ServeError> {
    let listen = || {
        let listener = TcpListener::bind((endpoint.host.as_str(), endpoint.port))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    let listener = listen().map_err(|source| ServeError::KvEvents {
        endpoint: endpoint.to_string(),
        source,
    })?;
    if !endpoint.is_loopback() {
        tracing::warn!(%endpoint, "whoever reaches this address can read the tokens of prompts");
    }
    Ok(listener)
}
