//! Scoped threads for one operation. Who computes an item is free, what it sums is fixed.

use std::thread;

/// Multiplications below which an operation runs on the calling thread: starting one costs about 30 us.
pub const SPREAD_WORK_MIN: usize = 1 << 20;

/// Runs `work` over all items, item `i` with scratch `i % scratch.len()`, one thread a scratch.
pub fn spread<S: Send, T: Send>(
    scratch: &mut [S],
    items: impl Iterator<Item = T>,
    work: impl Fn(&mut S, T) + Sync,
) {
    if let [scratch] = scratch {
        return items.for_each(|item| work(scratch, item));
    }
    let mut shares: Vec<Vec<T>> = scratch.iter().map(|_| Vec::new()).collect();
    for (i, item) in items.enumerate() {
        shares[i % scratch.len()].push(item);
    }
    thread::scope(|scope| {
        for (scratch, share) in scratch.iter_mut().zip(shares) {
            let work = &work;
            scope.spawn(move || share.into_iter().for_each(|item| work(scratch, item)));
        }
    });
}
