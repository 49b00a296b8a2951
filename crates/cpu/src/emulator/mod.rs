//! Tile instructions in software, for tests on machines without AMX.
//!
//! ```text
//! a kernel executes `tdpbssd`  ─►  the processor knows no such instruction  ─►  SIGILL, on the same thread
//!   ─►  the handler decodes the bytes at the instruction pointer, executes them on this thread's [`unit::Unit`] and the
//!       registers and memory of the interrupted code, and moves the pointer past them  ─►  the kernel goes on
//! ```
//! So the very machine code of the kernels runs, operands, strides, shapes and all; what is taken on trust is the unit's
//! description in the manual. Where a rule of the manual is broken, the emulator says which and aborts: a processor would fault.
//! Speed means nothing here: a tile instruction takes microseconds.
//!
//! Only with the feature `test-support`, for dev-dependencies; no product can reach it.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod decode;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod signal;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod unit;

use crate::backend::{CpuBackend, CpuOptions};
use crate::detect::Tier;
use crate::table::Kernels;

/// The kernels of `tier`; those of the AMX tier with emulated tiles on a machine that has AVX-512 alone.
pub fn kernels(tier: Tier) -> Option<&'static Kernels> {
    Kernels::for_tier(tier).or_else(|| match tier {
        Tier::Amx => emulated_amx(),
        _ => None,
    })
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn emulated_amx() -> Option<&'static Kernels> {
    Kernels::for_tier(Tier::Avx512)?;
    signal::install();
    Some(Kernels::amx_undetected())
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn emulated_amx() -> Option<&'static Kernels> {
    None
}

/// A backend of `tier` with so many threads, unpinned and without spinning; tiles are emulated as [`kernels`] says.
pub fn backend(tier: Tier, threads: usize) -> Option<CpuBackend> {
    let options = CpuOptions::quiet(tier, threads);
    Some(CpuBackend::with_kernels(kernels(tier)?, options))
}

/// The tiers that can be tested here, slowest first; says which ones cannot, and whether tiles are emulated.
pub fn tiers() -> Vec<Tier> {
    let (here, missing): (Vec<_>, Vec<_>) = Tier::ALL
        .into_iter()
        .partition(|tier| kernels(*tier).is_some());
    for tier in missing {
        eprintln!("skipped: no {tier} on this machine");
    }
    here
}

/// Whether the probe that guards the tier against units with another order of sums passes; call where tiles execute.
///
/// # Panics
/// Where they do not: [`kernels`] has none for [`Tier::Amx`].
pub fn adds_in_canonical_order() -> bool {
    assert!(kernels(Tier::Amx).is_some(), "tiles execute nowhere here");
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: the tier's kernels may run, so tile instructions execute.
        unsafe { crate::arch::amx::state::adds_in_canonical_order() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Tile instructions emulated on this thread so far; `None` where a processor executes them.
pub fn instructions_of_this_thread() -> Option<u64> {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    {
        let native = Kernels::for_tier(Tier::Amx).is_some();
        (!native && kernels(Tier::Amx).is_some()).then(signal::instructions_of_this_thread)
    }
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    None
}
