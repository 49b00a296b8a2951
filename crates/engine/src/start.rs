//! How an engine begins.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use ucuz_tensor::Batch;
use ucuz_tensor::sampling::SamplingParams;

use crate::cache_event::CacheListener;
use crate::clock::Clock;
use crate::constraint::MaskWorkers;
use crate::cost::CostFit;
use crate::engine::Engine;
use crate::handle::{Handle, Life, Published, Shared, lock};
use crate::prefix::PrefixHasher;
use crate::publish::FIRST_BOUND;
use crate::runner::Runner;
use crate::scheduler::Scheduler;
use crate::sequences::Sequences;

/// Choices beside the runner's limits.
pub struct EngineConfig {
    /// Requests taken in beyond `Limits::sequences`; more are refused with a time to retry.
    pub max_waiting: usize,
    /// Prompt tokens of all requests inside; more are refused with a time to retry.
    pub max_prompt_tokens: usize,
    /// Requests whose first token cannot be expected within this time are refused, unless they ask for another time.
    pub first_token_within: Option<Duration>,
    /// Steps in flight: 1 where the runner computes on the engine's own thread.
    pub depth: usize,
    /// Key of the names of cached prefixes, drawn anew for each process; `None` shares no prefix.
    pub prefix_key: Option<[u8; 16]>,
    /// Time that a step should not exceed while somebody generates; `None` fills every step.
    pub step_target: Option<Duration>,
    /// Whether two steps are run before the first request, so that what steps cost is known.
    pub warm_up: bool,
    /// Threads that make the masks of constrained requests, beside the step; at least 1, none before the first such request.
    pub mask_threads: usize,
    /// Hears what can be found in the prefix cache.
    pub cache_listener: Option<Box<dyn CacheListener>>,
}

impl EngineConfig {
    /// One step in flight, no prefix shared, every step filled, nothing refused but for want of one of `max_waiting` places.
    pub fn plain(max_waiting: usize) -> Self {
        Self {
            max_waiting,
            max_prompt_tokens: usize::MAX,
            first_token_within: None,
            depth: 1,
            prefix_key: None,
            step_target: None,
            warm_up: false,
            mask_threads: 1,
            cache_listener: None,
        }
    }
}

impl Engine {
    /// Starts the engine on its own thread, and waits until it has warmed up when it is to: who comes at once is then judged
    /// by what steps cost.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn spawn(
        runner: Box<dyn Runner>,
        config: EngineConfig,
        clock: Arc<dyn Clock>,
    ) -> io::Result<Handle> {
        let warms_up = config.warm_up;
        let (mut engine, handle) = Self::new(runner, config, clock);
        let (sender, is_warm) = channel();
        engine.warming_up = warms_up.then_some(sender);
        let thread = std::thread::Builder::new().name("ucuz-engine".to_owned());
        *lock(&handle.shared.thread) = Some(thread.spawn(move || engine.run())?);
        // Nothing is ever sent: the sender goes when the steps are done, or with the engine.
        let _ = is_warm.recv();
        Ok(handle)
    }

    /// An engine that the caller turns, and its handle; it does not warm up.
    pub fn new(
        runner: Box<dyn Runner>,
        config: EngineConfig,
        clock: Arc<dyn Clock>,
    ) -> (Self, Handle) {
        let (limits, cache) = (*runner.limits(), runner.cache().clone());
        let mut scheduler = Scheduler::new(limits, cache.groups.clone(), runner.blocks());
        scheduler.hasher = config.prefix_key.map(PrefixHasher::new);
        scheduler.step_target = config.step_target;
        scheduler.masks = MaskWorkers::new(config.mask_threads);
        if config.cache_listener.is_some() {
            scheduler.pool.record_events();
        }
        let published = Published {
            stats: Arc::default(),
            life: Life::Serving,
            turn_at: clock.now(),
            step_bound: FIRST_BOUND,
            is_busy: false,
        };
        let shared = Arc::new(Shared {
            clock,
            limits,
            cache,
            blocks: runner.blocks().to_vec(),
            places: limits.sequences + config.max_waiting,
            tokens_max: config.max_prompt_tokens,
            first_token_within: config.first_token_within,
            door: Arc::clone(&scheduler.door),
            latencies: Arc::clone(&scheduler.latencies),
            is_draining: AtomicBool::new(false),
            next_id: AtomicU64::new(1),
            published: ArcSwap::from_pointee(published.clone()),
            watchers: AtomicUsize::new(0),
            view: ArcSwapOption::empty(),
            thread: Mutex::new(None),
        });
        let (sender, inbox) = channel();
        let mut engine = Self {
            runner,
            scheduler,
            sequences: Sequences::default(),
            inbox,
            shared: Arc::clone(&shared),
            in_flight: VecDeque::new(),
            depth: config.depth.max(1),
            batch: Batch::default(),
            greedy: SamplingParams::greedy(),
            fit: CostFit::default(),
            rows_per_second: 0.0,
            last_step: Duration::ZERO,
            slow_step: Duration::ZERO,
            published,
            listener: config.cache_listener,
            recorder: None,
            warming_up: None,
            is_draining: false,
        };
        engine.publish();
        (
            engine,
            Handle {
                shared,
                inbox: sender,
            },
        )
    }
}
