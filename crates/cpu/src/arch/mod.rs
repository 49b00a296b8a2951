//! Kernels, one folder a tier, one file an operation. `generic` is portable and the oracle of bits; the others equal it with `==`.
//!
//! Only [`crate::table`] names the kernels of a tier.

pub mod generic;
pub mod store;

#[cfg(target_arch = "x86_64")]
pub(crate) mod shape;

#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;

/// Asks for the first cache line of `numbers`, to write to it soon.
pub fn prefetch_write(numbers: &[f32]) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: a hint about any address.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(numbers.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = numbers;
}

/// How far ahead of the weights in use memory is asked for, in bytes, where they are read one after the other: some 600 ns at
/// the 10 GB/s that memory gives a core. With 2,048 a small model decodes at nine tenths of the speed (Emerald Rapids).
pub const AHEAD_BYTES: usize = 6144;

/// Asks for `lines` cache lines of weights that come `ahead` bytes after `next`; they may lie past the panel, in another
/// one, or nowhere.
///
/// A step of few rows reads each weight once and computes long enough between two loads that neither the processor's own
/// prefetching nor its reordering reaches the next ones: without this, 16 rows of Q4_1 take 1.9 times as long (Zen 5).
#[inline(always)]
pub fn prefetch_weights(next: *const u8, ahead: usize, lines: usize) {
    #[cfg(target_arch = "x86_64")]
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    #[cfg(target_arch = "x86_64")]
    for line in 0..lines {
        let place = next.wrapping_add(ahead + line * 64);
        // SAFETY: a hint about any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (next, ahead, lines);
}

/// Default MXCSR without its six exception flags: all exceptions masked, round to nearest even, denormals kept.
#[cfg(target_arch = "x86_64")]
const MXCSR_DEFAULT: u32 = 0x1F80;
#[cfg(target_arch = "x86_64")]
const MXCSR_FLAGS: u32 = 0x3F;

/// Whether this thread rounds to nearest even and keeps denormals, which every canonical sum relies on.
pub fn float_modes_are_default() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let mut modes = 0u32;
        // SAFETY: `stmxcsr` writes four bytes to the given place and nothing else.
        unsafe {
            core::arch::asm!("stmxcsr [{}]", in(reg) &raw mut modes, options(nostack, preserves_flags));
        }
        modes & !MXCSR_FLAGS == MXCSR_DEFAULT
    }
    #[cfg(not(target_arch = "x86_64"))]
    true
}

/// Sets this thread's float modes to the default; a new thread inherits whatever its parent had.
pub fn reset_float_modes() {
    #[cfg(target_arch = "x86_64")]
    {
        let modes = MXCSR_DEFAULT;
        // SAFETY: loads a valid MXCSR, the one that the compiler assumes.
        unsafe {
            core::arch::asm!("ldmxcsr [{}]", in(reg) &raw const modes, options(nostack, preserves_flags));
        }
    }
}
