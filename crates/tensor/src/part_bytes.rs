//! The bytes of a weight's part: memory of its own, or a range of memory that others share, e.g. a mapped file.
//!
//! Here: [`PartBytes`] and [`SharedMemory`]. Kernels read both alike. Not here: files (`formats` maps them).

use std::ops::Range;
use std::sync::Arc;

use bytemuck::AnyBitPattern;

use crate::buffer::{BUFFER_ALIGN_BYTES, Buffer};
use crate::error::{TensorError, TensorResult};

/// Memory that several parts lie in. It gives the same bytes at the same place at every call.
pub trait SharedMemory: Send + Sync {
    /// All of it.
    fn bytes(&self) -> &[u8];
}

/// Read-only bytes aligned to cache lines, as kernels expect them.
pub struct PartBytes(Source);

enum Source {
    Own(Buffer),
    Shared {
        memory: Arc<dyn SharedMemory>,
        range: Range<usize>,
    },
}

impl PartBytes {
    /// The bytes `range` of `memory`, kept alive with it.
    ///
    /// # Errors
    /// [`TensorError::Shape`] when the range does not lie in the memory or does not start at a cache line.
    pub fn shared(memory: Arc<dyn SharedMemory>, range: Range<usize>) -> TensorResult<Self> {
        let all = memory.bytes();
        let Some(bytes) = all.get(range.clone()) else {
            let what = "bytes of a part in shared memory";
            return Err(TensorError::shape(what, 0..all.len(), range));
        };
        let address = bytes.as_ptr().addr();
        if !address.is_multiple_of(BUFFER_ALIGN_BYTES) {
            let rule = format!("a multiple of {BUFFER_ALIGN_BYTES}");
            return Err(TensorError::shape("address of a part", rule, address));
        }
        Ok(Self(Source::Shared { memory, range }))
    }

    /// Whether the bytes lie in memory of their own rather than in shared memory.
    pub fn is_own(&self) -> bool {
        matches!(self.0, Source::Own(_))
    }

    /// Size in bytes.
    pub fn len_bytes(&self) -> usize {
        match &self.0 {
            Source::Own(buffer) => buffer.len_bytes(),
            Source::Shared { range, .. } => range.len(),
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            Source::Own(buffer) => buffer.bytes(),
            Source::Shared { memory, range } => &memory.bytes()[range.clone()],
        }
    }

    /// The bytes as a slice of `T`; trailing bytes that do not fill a `T` are left out.
    pub fn cast<T: AnyBitPattern>(&self) -> &[T] {
        let bytes = self.bytes();
        bytemuck::cast_slice(&bytes[..bytes.len() / size_of::<T>() * size_of::<T>()])
    }
}

impl From<Buffer> for PartBytes {
    fn from(buffer: Buffer) -> Self {
        Self(Source::Own(buffer))
    }
}

impl std::fmt::Debug for PartBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Source::Own(buffer) => buffer.fmt(f),
            Source::Shared { range, .. } => write!(f, "shared bytes {range:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Shared(Buffer);

    impl SharedMemory for Shared {
        fn bytes(&self) -> &[u8] {
            self.0.bytes()
        }
    }

    fn memory() -> Arc<dyn SharedMemory> {
        let mut buffer = Buffer::zeroed(256, "a test").unwrap();
        for (value, byte) in (0..=u8::MAX).zip(buffer.bytes_mut()) {
            *byte = value;
        }
        Arc::new(Shared(buffer))
    }

    #[test]
    fn shared_bytes_equal_own_ones() {
        let memory = memory();
        let shared = PartBytes::shared(Arc::clone(&memory), 64..141).unwrap();
        let mut buffer = Buffer::zeroed(77, "a test").unwrap();
        buffer.bytes_mut().copy_from_slice(&memory.bytes()[64..141]);
        let own = PartBytes::from(buffer);
        assert!(own.is_own() && !shared.is_own());
        assert_eq!(own.len_bytes(), shared.len_bytes());
        assert_eq!(own.bytes(), shared.bytes());
        assert_eq!(own.cast::<u32>(), shared.cast::<u32>());
        assert_eq!(shared.cast::<u32>().len(), 19, "one byte is left over");
    }

    #[test]
    fn ranges_outside_or_askew_are_refused() {
        for range in [0..257, 192..300, 1..2, 32..64, usize::MAX - 1..usize::MAX] {
            let refused = PartBytes::shared(memory(), range.clone());
            assert!(
                matches!(refused, Err(TensorError::Shape { .. })),
                "{range:?}"
            );
        }
    }
}
