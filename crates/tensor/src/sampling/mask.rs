//! The ids that a row may choose, when something beside the model decides: [`RowMask`].
//!
//! A mask is made beside the forward pass, on a thread of whoever makes it, and waited for when its row is sampled. It is
//! written once and read by one sampler, so there is no lock.

use std::sync::OnceLock;

/// Bit set of allowed ids (bit `id % 32` of word `id / 32`), possibly still in the making.
///
/// Whoever makes one must set it in every case, with no bits when something went wrong: the sampler waits for it.
#[derive(Debug, Default)]
pub struct RowMask {
    bits: OnceLock<Box<[u32]>>,
}

impl RowMask {
    /// A mask that is ready.
    pub fn new(bits: impl Into<Box<[u32]>>) -> Self {
        Self {
            bits: OnceLock::from(bits.into()),
        }
    }

    /// Makes it ready; whoever waits goes on. What was set first stays.
    pub fn set(&self, bits: impl Into<Box<[u32]>>) {
        let _ = self.bits.set(bits.into());
    }

    /// Waits until it is ready.
    pub fn bits(&self) -> &[u32] {
        self.bits.wait()
    }

    /// Whether it is ready.
    pub fn is_ready(&self) -> bool {
        self.bits.get().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bits_stay_and_wake_who_waits() {
        let mask = RowMask::default();
        assert!(!mask.is_ready());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| mask.bits().to_vec());
            mask.set([5]);
            mask.set([6]);
            assert_eq!(waiting.join().unwrap(), [5]);
        });
    }
}
