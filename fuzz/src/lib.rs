//! What the fuzz targets share: a bound on memory, a bound on error texts, a scratch folder.
//!
//! Here: the checks that hold for every reader of foreign bytes beyond "it does not panic". Not here: what a reader
//! promises about its result; that is in its target. Used by `targets/*.rs` only.

use std::alloc::System;
use std::fmt::Display;
use std::path::Path;
use std::sync::Once;

use cap::Cap;

#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

/// What a reader may hold beside what is proportional to its input: tables, compiled patterns.
pub const BASE_BYTES: usize = 24 << 20;
/// What it may hold for each byte of input.
const BYTES_PER_INPUT_BYTE: usize = 512;
/// Longest text of an error whose input is a few kilobytes.
const ERROR_BYTES: usize = 24 << 10;

/// Runs `body` with memory bounded by the size of its input; more ends the process with the
/// allocation on the stack. So a size that a file only claims cannot be allocated unnoticed.
///
/// # Panics
/// When `body` does; its report is written without the bound.
pub fn bounded<T>(input_bytes: usize, body: impl FnOnce() -> T) -> T {
    bounded_above(BASE_BYTES, input_bytes, body)
}

/// As [`bounded`], for what has a bound of its own that lies above [`BASE_BYTES`].
///
/// # Panics
/// When `body` does; its report is written without the bound.
pub fn bounded_above<T>(base_bytes: usize, input_bytes: usize, body: impl FnOnce() -> T) -> T {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // A backtrace needs memory too.
            let _ = MEMORY.set_limit(usize::MAX);
            report(info);
        }));
    });
    let budget = base_bytes + BYTES_PER_INPUT_BYTE * input_bytes;
    let limit = MEMORY.allocated().saturating_add(budget);
    assert!(
        MEMORY.set_limit(limit).is_ok(),
        "the budget lies above what is in use"
    );
    let result = body();
    assert!(MEMORY.set_limit(usize::MAX).is_ok(), "no limit fits");
    result
}

/// An error's text exists, and does not repeat more of the input than a reader of it bears.
pub fn check_error(error: &impl Display) {
    let text = error.to_string();
    assert!(!text.is_empty(), "an error has a text");
    assert!(
        text.len() <= ERROR_BYTES,
        "an error of {} bytes",
        text.len()
    );
}

/// A folder that lives as long as the process.
///
/// # Panics
/// When the system has no room for one.
pub fn scratch() -> tempfile::TempDir {
    tempfile::Builder::new()
        .prefix("ucuz-fuzz-")
        .tempdir()
        .expect("a temporary folder")
}

/// Writes a file of the scratch folder anew.
///
/// # Panics
/// When the system has no room for it.
pub fn put(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).expect("room for a small file");
}
