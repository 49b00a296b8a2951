//! The CPU's ceilings: loops of the kernel table on all threads of the pool, against the clock.
//!
//! Memory: [`Effort::memory_bytes`] written once, then read front to back, each thread on stretches of its own. Cache: each
//! thread reads the same [`CACHE_BYTES`] again and again. Rates: registers only. Rounds are first raised until a run is long
//! enough for the clock, then runs of one length are counted, so a burst of a boosted clock shows as the best run and what
//! the machine sustains as the median.

use std::time::Instant;

use ucuz_tensor::buffer::Buffer;
use ucuz_tensor::{Ceiling, CeilingKind, TensorResult};

use crate::detect;
use crate::pool::ThreadPool;
use crate::table::{CeilingLoops, RateLoop};

/// What a thread reads to measure its cache: past the first level, inside the second of any processor since 2013.
const CACHE_BYTES: usize = 192 << 10;
/// Stretches of memory that a thread reads on average; they even out what one thread loses to its neighbours.
const TASKS_PER_THREAD: usize = 4;
/// Bytes that a reading loop takes at a time, at most.
const LOOP_BYTES: usize = 512;
/// Memory that is read when more than four times as much is free.
const MEMORY_BYTES: usize = 1 << 30;

/// How long to measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Effort {
    /// Bytes that one run of the memory ceiling reads.
    pub(crate) memory_bytes: usize,
    /// Seconds that one run of another ceiling takes.
    pub(crate) run_seconds: f64,
    /// Number of runs.
    pub(crate) runs: usize,
}

impl Effort {
    /// What a report is worth: 1 GiB or a quarter of what is free, five runs of a tenth of a second.
    pub(crate) fn full() -> Self {
        let free = detect::available_memory_bytes().map_or(MEMORY_BYTES, |bytes| bytes as usize);
        Self {
            memory_bytes: (free / 4).clamp(MEMORY_BYTES / 64, MEMORY_BYTES),
            run_seconds: 0.1,
            runs: 5,
        }
    }
}

/// Measures one ceiling on all threads of `pool`.
///
/// # Errors
/// `OutOfMemory` when there is no room for what the memory ceiling reads.
pub(crate) fn measure(
    pool: &ThreadPool,
    loops: &CeilingLoops,
    kind: CeilingKind,
    effort: &Effort,
) -> TensorResult<Ceiling> {
    pool.begin_step();
    let ceiling = match kind {
        CeilingKind::Memory => memory(pool, loops.read, effort),
        CeilingKind::Cache => cache(pool, loops.read, effort),
        CeilingKind::Int8 => Ok(rate(pool, &loops.int8, kind, effort)),
        CeilingKind::Bf16 => Ok(rate(pool, &loops.bf16, kind, effort)),
        CeilingKind::Float32 => Ok(rate(pool, &loops.float32, kind, effort)),
    };
    pool.end_step();
    ceiling
}

fn memory(pool: &ThreadPool, read: fn(&[u8]), effort: &Effort) -> TensorResult<Ceiling> {
    let buffer = written(effort.memory_bytes)?;
    let run = || each_stretch(pool, buffer.bytes(), &|bytes| read(bytes));
    let seconds: Vec<f64> = (0..effort.runs).map(|_| timed(run)).collect();
    let bytes = effort.memory_bytes as f64;
    Ok(Ceiling::of_runs(CeilingKind::Memory, bytes, &seconds))
}

fn cache(pool: &ThreadPool, read: fn(&[u8]), effort: &Effort) -> TensorResult<Ceiling> {
    let bytes = pool.threads() * TASKS_PER_THREAD * CACHE_BYTES;
    let buffer = written(bytes)?;
    let run = |rounds: usize| {
        let again = |bytes: &[u8]| (0..rounds).for_each(|_| read(bytes));
        timed(|| each_stretch(pool, buffer.bytes(), &again))
    };
    Ok(of_rounds(CeilingKind::Cache, bytes, effort, run))
}

fn rate(pool: &ThreadPool, work: &RateLoop, kind: CeilingKind, effort: &Effort) -> Ceiling {
    let tasks = pool.threads() * TASKS_PER_THREAD;
    let run = |rounds: usize| timed(|| pool.run(tasks, &|_, _| (work.run)(rounds)));
    of_rounds(kind, tasks * work.operations, effort, run)
}

/// A ceiling from runs of equal length: `work` units a round, `run` rounds in so many seconds.
fn of_rounds(
    kind: CeilingKind,
    work: usize,
    effort: &Effort,
    run: impl Fn(usize) -> f64,
) -> Ceiling {
    let mut rounds = 1;
    // A run of a tenth of the length tells the speed well enough to choose the length.
    let rounds = loop {
        let seconds = run(rounds);
        if seconds * 10.0 >= effort.run_seconds {
            break (rounds as f64 * effort.run_seconds / seconds).ceil() as usize;
        }
        rounds *= 2;
    };
    let seconds: Vec<f64> = (0..effort.runs).map(|_| run(rounds)).collect();
    Ceiling::of_runs(kind, work as f64 * rounds as f64, &seconds)
}

fn timed(body: impl FnOnce()) -> f64 {
    let start = Instant::now();
    body();
    // A clock that does not move would make the rate infinite.
    start.elapsed().as_secs_f64().max(1e-9)
}

/// Memory whose pages exist: untouched ones would all be the system's one page of zeros.
fn written(bytes: usize) -> TensorResult<Buffer> {
    let mut buffer = Buffer::zeroed(bytes, "the memory that a ceiling reads")?;
    buffer.bytes_mut().fill(1);
    Ok(buffer)
}

/// Gives each task of the pool its own stretch of `bytes`.
fn each_stretch(pool: &ThreadPool, bytes: &[u8], body: &(dyn Fn(&[u8]) + Sync)) {
    let tasks = pool.threads() * TASKS_PER_THREAD;
    let size = (bytes.len() / tasks + 1).next_multiple_of(LOOP_BYTES);
    pool.run(tasks, &|task, _| {
        if let Some(stretch) = bytes.chunks(size).nth(task) {
            body(stretch);
        }
    });
}

#[cfg(test)]
mod tests {
    use ucuz_tensor::{Backend, CeilingKind};

    use super::*;
    use crate::detect::CpuFeatures;
    use crate::table::Kernels;
    use crate::{CpuBackend, CpuOptions, Tier};

    const BRIEF: Effort = Effort {
        memory_bytes: 1 << 20,
        run_seconds: 1e-4,
        runs: 2,
    };

    #[test]
    fn every_tier_has_every_ceiling() {
        for tier in CpuFeatures::detect().tiers() {
            let loops = Kernels::for_tier(tier).unwrap().ceiling;
            for threads in [1, 2] {
                let pool = ThreadPool::new(threads, false, false);
                for kind in CeilingKind::ALL {
                    let ceiling = measure(&pool, loops, kind, &BRIEF).unwrap();
                    assert_eq!((ceiling.kind, ceiling.runs), (kind, BRIEF.runs));
                    assert!(
                        ceiling.median > 0.0 && ceiling.best.is_finite(),
                        "{ceiling:?}"
                    );
                    assert!(ceiling.best >= ceiling.median, "{ceiling:?}");
                }
            }
        }
    }

    #[test]
    fn every_byte_is_in_one_stretch() {
        for threads in [1, 3] {
            let pool = ThreadPool::new(threads, false, false);
            for len in [0, 1, LOOP_BYTES, 100 * LOOP_BYTES + 7] {
                let bytes = vec![1u8; len];
                let seen = std::sync::atomic::AtomicUsize::new(0);
                each_stretch(&pool, &bytes, &|stretch| {
                    seen.fetch_add(stretch.len(), std::sync::atomic::Ordering::Relaxed);
                });
                assert_eq!(seen.into_inner(), len);
            }
        }
    }

    #[test]
    fn a_backend_measures_with_full_effort() {
        let backend = CpuBackend::new(CpuOptions::quiet(Tier::Generic, 1)).unwrap();
        let ceiling = backend.ceiling(CeilingKind::Float32).unwrap().unwrap();
        assert_eq!(ceiling.runs, Effort::full().runs);
    }
}
