//! Splitting rows among threads.

use std::ops::Range;

use crate::pool::ThreadPool;

/// Numbers below which waking another thread costs more than it brings.
const TASK_NUMBERS: usize = 8192;

/// Runs `body` over `0..rows` in ranges of at least 8192 numbers, `row_numbers` a row.
pub(super) fn for_rows(
    pool: &ThreadPool,
    rows: usize,
    row_numbers: usize,
    body: &(dyn Fn(Range<usize>) + Sync),
) {
    let share = rows.div_ceil(4 * pool.threads());
    let step = TASK_NUMBERS.div_ceil(row_numbers.max(1)).max(share).max(1);
    pool.run(rows.div_ceil(step), &|task, _| {
        body(task * step..((task + 1) * step).min(rows));
    });
}
