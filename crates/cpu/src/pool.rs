//! A fork-join thread pool whose fork costs single-digit microseconds while a step runs.
//!
//! Worker 0 is the calling thread. Workers spin inside a step and shortly after a job, then park; a job never waits for a
//! worker that is still asleep: whoever is awake claims the tasks, and a late worker finds the job closed. Who computes a
//! task is free, what it sums is fixed, so results do not depend on the number of threads.
//!
//! Not here: what the tasks are. `ops` and `repack` call [`ThreadPool::run`]; bodies must not block on each other.

use std::any::Any;
use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::{arch, detect};

/// What a pool runs: `body(task, worker)`.
pub type Body<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// How long a worker spins for the next job inside a step: longer than any serial part of one.
const SPIN_IN_STEP: Duration = Duration::from_micros(500);
/// How long a worker spins after a job outside of a step (loading runs jobs back to back).
const SPIN_OUTSIDE: Duration = Duration::from_micros(50);
/// Pauses between two looks at the clock.
const SPINS_PER_LOOK: u32 = 32;
/// Pauses before the caller, waiting for workers, lets the system run somebody else.
const SPINS_BEFORE_YIELD: u32 = 4096;

/// Set in the state while the job accepts workers; the generation lies above, the number of joined workers below.
const OPEN: u64 = 1 << 31;
const JOINED: u64 = OPEN - 1;

/// Threads that share the tasks of one job at a time.
#[derive(Debug)]
pub struct ThreadPool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    busy: AtomicBool,
}

/// One cache line pair for itself, so that the words that threads fight over do not share one.
#[repr(align(128))]
struct Padded<T>(T);

#[derive(Clone, Copy)]
struct Job {
    tasks: usize,
    body: *const Body<'static>,
}

struct Shared {
    /// `[generation: 32][open: 1][joined: 31]`.
    state: Padded<AtomicU64>,
    /// The next unclaimed task.
    next: Padded<AtomicUsize>,
    /// Written only while the state is closed and nobody has joined.
    job: UnsafeCell<Option<Job>>,
    payload: Mutex<Option<Box<dyn Any + Send>>>,
    spin: bool,
    in_step: AtomicBool,
    stop: AtomicBool,
    asleep: AtomicUsize,
    /// Counts [`ThreadPool::begin_step`]s; sleepers get up when it changes.
    steps: Mutex<u64>,
    wake: Condvar,
}

// SAFETY: `job` is the only field that is not Sync by itself. It is written by the thread that holds `busy`, while the state
// is closed with nobody joined, and read only between joining (acquire) and leaving (release).
unsafe impl Sync for Shared {}
// SAFETY: the raw pointer inside `job` is dereferenced only while the borrow it came from is alive, see `ThreadPool::run`.
unsafe impl Send for Shared {}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("spin", &self.spin)
            .finish_non_exhaustive()
    }
}

impl ThreadPool {
    /// A pool of `threads` threads, the caller of [`ThreadPool::run`] included; 0 counts as 1.
    ///
    /// With `pin`, worker `i` stays on the `i`-th allowed CPU (the caller is left alone). Without `spin` workers park at once.
    /// A thread that the system refuses is left out: [`ThreadPool::threads`] says how many there are.
    pub fn new(threads: usize, pin: bool, spin: bool) -> Self {
        let shared = Arc::new(Shared {
            state: Padded(AtomicU64::new(0)),
            next: Padded(AtomicUsize::new(0)),
            job: UnsafeCell::new(None),
            payload: Mutex::new(None),
            spin,
            in_step: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            asleep: AtomicUsize::new(0),
            steps: Mutex::new(0),
            wake: Condvar::new(),
        });
        let spawn = |worker: usize| {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new()
                .name(format!("ucuz-cpu-{worker}"))
                .spawn(move || {
                    if pin {
                        detect::pin_to_allowed_cpu(worker);
                    }
                    shared.work(worker);
                })
                .ok()
        };
        let workers = (1..threads.max(1)).map_while(spawn).collect();
        Self {
            shared,
            workers,
            busy: AtomicBool::new(false),
        }
    }

    /// Number of threads, the caller included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Says that jobs will follow each other closely: wakes the workers and keeps them spinning.
    pub fn begin_step(&self) {
        if self.workers.is_empty() || !self.shared.spin {
            return;
        }
        self.shared.in_step.store(true, Ordering::Relaxed);
        *lock(&self.shared.steps) += 1;
        self.shared.wake.notify_all();
    }

    /// Says that no job follows for a while: workers park.
    pub fn end_step(&self) {
        self.shared.in_step.store(false, Ordering::Relaxed);
    }

    /// Runs `body(task, worker)` for every task in `0..tasks`, claimed from an atomic counter; returns when all are done.
    ///
    /// One task or one thread runs inline, and so does a job started while another one runs (from a body, or from another
    /// thread). `worker` is below [`ThreadPool::threads`] and no two bodies of one job run at once with the same one.
    ///
    /// # Panics
    /// When a body panics, with its payload, once no task runs any more; the pool stays usable.
    pub fn run(&self, tasks: usize, body: &Body<'_>) {
        if tasks <= 1 || self.workers.is_empty() || self.busy.swap(true, Ordering::Acquire) {
            for task in 0..tasks {
                body(task, 0);
            }
            return;
        }
        let payload = self.fork_join(tasks, body);
        self.busy.store(false, Ordering::Release);
        if let Some(payload) = payload {
            resume_unwind(payload);
        }
    }

    fn fork_join(&self, tasks: usize, body: &Body<'_>) -> Option<Box<dyn Any + Send>> {
        let shared = &*self.shared;
        // SAFETY: only the lifetime changes. Every use of the pointer is by a worker that joined, and this function returns
        // only after the job is closed and all that joined have left.
        let body: *const Body<'static> = unsafe { std::mem::transmute(std::ptr::from_ref(body)) };
        let job = Job { tasks, body };
        // SAFETY: the state is closed with nobody joined (start, or the end of the last call), and `busy` keeps others out.
        unsafe { *shared.job.get() = Some(job) };
        shared.next.0.store(0, Ordering::Relaxed);
        let generation = (shared.state.0.load(Ordering::Relaxed) >> 32).wrapping_add(1);
        shared
            .state
            .0
            .store(generation << 32 | OPEN, Ordering::SeqCst);
        if shared.asleep.load(Ordering::SeqCst) > 0 {
            drop(lock(&shared.steps));
            shared.wake.notify_all();
        }
        shared.claim(job, 0);
        shared.state.0.fetch_and(!OPEN, Ordering::AcqRel);
        let mut spins = 0;
        while shared.state.0.load(Ordering::Acquire) & JOINED != 0 {
            spins += 1;
            if spins < SPINS_BEFORE_YIELD {
                spin_loop()
            } else {
                std::thread::yield_now()
            }
        }
        lock(&shared.payload).take()
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        drop(lock(&self.shared.steps));
        self.shared.wake.notify_all();
        for worker in self.workers.drain(..) {
            // A worker catches every panic of a body, so there is nothing to report here.
            let _ = worker.join();
        }
    }
}

impl Shared {
    /// Life of a worker.
    fn work(&self, worker: usize) {
        let mut seen = 0;
        while let Some(generation) = self.next_job(seen) {
            seen = generation;
            // A foreign library may have changed the rounding of this thread; a panic here would leave the caller waiting.
            if !arch::float_modes_are_default() {
                arch::reset_float_modes();
            }
            // SAFETY: this worker has joined, so nobody writes `job` until it leaves.
            if let Some(job) = unsafe { *self.job.get() } {
                self.claim(job, worker);
            }
            self.state.0.fetch_sub(1, Ordering::Release);
        }
    }

    /// Claims tasks until none is left; a panic is kept for the caller.
    fn claim(&self, job: Job, worker: usize) {
        // SAFETY: the caller of `run` is still inside it: it waits for all that joined, and is itself in the other case.
        let body = unsafe { &*job.body };
        loop {
            let task = self.next.0.fetch_add(1, Ordering::Relaxed);
            if task >= job.tasks {
                return;
            }
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| body(task, worker))) {
                lock(&self.payload).get_or_insert(payload);
            }
        }
    }

    /// Joins the next job, waiting for it; `None` when the pool ends.
    fn next_job(&self, seen: u64) -> Option<u64> {
        let mut idle_since = None;
        let mut spins = 0;
        loop {
            if let Some(generation) = self.join(seen) {
                return Some(generation);
            }
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            spin_loop();
            spins += 1;
            if self.spin && spins % SPINS_PER_LOOK != 0 {
                continue;
            }
            let since = *idle_since.get_or_insert_with(Instant::now);
            let in_step = self.in_step.load(Ordering::Relaxed);
            let budget = if in_step { SPIN_IN_STEP } else { SPIN_OUTSIDE };
            if !self.spin || since.elapsed() > budget {
                self.park(seen);
                idle_since = None;
            }
        }
    }

    /// Joins the job if it is open and new.
    fn join(&self, seen: u64) -> Option<u64> {
        let mut state = self.state.0.load(Ordering::Acquire);
        while state & OPEN != 0 && state >> 32 != seen {
            match self.state.0.compare_exchange_weak(
                state,
                state + 1,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(state >> 32),
                Err(now) => state = now,
            }
        }
        None
    }

    /// Sleeps until a new job, a new step or the end.
    fn park(&self, seen: u64) {
        let mut steps = lock(&self.steps);
        let entered = *steps;
        self.asleep.fetch_add(1, Ordering::SeqCst);
        loop {
            let state = self.state.0.load(Ordering::SeqCst);
            let has_job = state & OPEN != 0 && state >> 32 != seen;
            if has_job || *steps != entered || self.stop.load(Ordering::SeqCst) {
                break;
            }
            steps = self
                .wake
                .wait(steps)
                .unwrap_or_else(PoisonError::into_inner);
        }
        self.asleep.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Nothing that is locked here can be left half-changed, so a poisoned lock is as good as any.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A mutable slice that tasks write in disjoint ranges.
#[derive(Debug)]
pub struct Disjoint<'a, T> {
    start: *mut T,
    len: usize,
    owner: PhantomData<&'a mut [T]>,
}

// SAFETY: it hands out `&mut [T]` to other threads, which `T: Send` allows; that ranges do not overlap is the promise of
// whoever calls `range`.
unsafe impl<T: Send> Sync for Disjoint<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Disjoint<'_, T> {}

impl<'a, T> Disjoint<'a, T> {
    /// Borrows the whole slice for as long as ranges of it are in use.
    pub fn new(slice: &'a mut [T]) -> Self {
        Self {
            start: slice.as_mut_ptr(),
            len: slice.len(),
            owner: PhantomData,
        }
    }

    /// Length of the whole slice.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the whole slice is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the slice begins: for kernels that write rows apart from each other, under the promise of [`Disjoint::range`].
    pub(crate) fn start(&self) -> *mut T {
        self.start
    }

    /// One range, writable.
    ///
    /// # Safety
    /// No two live ranges overlap.
    ///
    /// # Panics
    /// When the range leaves the slice.
    #[allow(clippy::mut_from_ref, reason = "disjointness is the caller's promise")]
    pub unsafe fn range(&self, range: Range<usize>) -> &mut [T] {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "{range:?} of {}",
            self.len
        );
        // SAFETY: inside the slice by the assertion, which is borrowed mutably for 'a; not aliased by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pools() -> Vec<ThreadPool> {
        [(1, true), (2, true), (2, false), (5, true), (5, false)]
            .map(|(threads, spin)| ThreadPool::new(threads, false, spin))
            .into()
    }

    #[test]
    fn every_task_runs_exactly_once_with_its_own_worker() {
        for pool in pools() {
            for tasks in [0, 1, 2, 3, 7, 64, 1000] {
                let counts: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                let inside: Vec<AtomicBool> = (0..pool.threads())
                    .map(|_| AtomicBool::new(false))
                    .collect();
                pool.run(tasks, &|task, worker| {
                    assert!(!inside[worker].swap(true, Ordering::SeqCst));
                    counts[task].fetch_add(1, Ordering::SeqCst);
                    inside[worker].store(false, Ordering::SeqCst);
                });
                assert!(counts.iter().all(|count| count.load(Ordering::SeqCst) == 1));
            }
        }
    }

    #[test]
    fn many_small_jobs_in_and_out_of_steps_complete() {
        for pool in pools() {
            let sum = AtomicUsize::new(0);
            for step in 0..200 {
                pool.begin_step();
                for _ in 0..10 {
                    pool.run(4, &|task, _| {
                        sum.fetch_add(task, Ordering::Relaxed);
                    });
                }
                if step % 3 != 0 {
                    pool.end_step();
                }
            }
            assert_eq!(sum.load(Ordering::Relaxed), 200 * 10 * 6);
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_stays_usable() {
        for pool in pools() {
            let done = AtomicUsize::new(0);
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                pool.run(8, &|task, _| {
                    if task == 3 {
                        resume_unwind(Box::new("task 3"));
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                });
            }));
            let payload = outcome.expect_err("the panic is propagated");
            assert_eq!(payload.downcast_ref::<&str>(), Some(&"task 3"));
            done.store(0, Ordering::Relaxed);
            pool.run(8, &|_, _| {
                done.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(done.load(Ordering::Relaxed), 8);
        }
    }

    #[test]
    fn a_job_inside_a_job_runs_inline() {
        let pool = ThreadPool::new(3, false, false);
        let sum = AtomicUsize::new(0);
        pool.run(4, &|_, _| {
            pool.run(4, &|task, worker| {
                assert_eq!(worker, 0);
                sum.fetch_add(task, Ordering::Relaxed);
            });
        });
        assert_eq!(sum.load(Ordering::Relaxed), 24);
    }

    #[test]
    fn tasks_write_disjoint_ranges_of_one_slice() {
        let pool = ThreadPool::new(2, false, true);
        let mut values = vec![0; 64];
        let disjoint = Disjoint::new(&mut values);
        pool.run(8, &|task, _| {
            // SAFETY: each task has its own eight places.
            let range = unsafe { disjoint.range(task * 8..task * 8 + 8) };
            range.fill(task);
        });
        assert!(values.iter().enumerate().all(|(i, v)| *v == i / 8));
    }
}
