//! What the system tells of a process.

use std::fs;

/// A size out of the status of a process.
///
/// Source: proc_pid_status(5): the sizes are in KiB, whatever the unit says.
pub fn status_bytes(process: &str, name: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with(name))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}
