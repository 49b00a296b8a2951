//! Memory of a tensor: 64-byte aligned, zeroed, never resized.

use bytemuck::{AnyBitPattern, NoUninit};

use crate::error::{TensorError, TensorResult};

/// Alignment of every buffer in bytes: one cache line.
pub const BUFFER_ALIGN_BYTES: usize = 64;

/// What is asked of the allocator. Its alignment is the largest for which zeroed memory still comes untouched from the
/// system; a type aligned to a cache line would be cleared by hand, and a KV pool would cost its whole size at start.
type Unit = u128;

/// Host memory, zeroed and aligned to cache lines.
///
/// It comes zeroed straight from the system, so the pages of a large buffer are touched only when first written: reserving
/// a KV pool costs address space, not memory.
pub struct Buffer {
    units: Box<[Unit]>,
    /// Bytes before the first aligned one; fixed, since the box never moves.
    skip: usize,
    bytes: usize,
}

impl Buffer {
    /// Allocates `bytes` zeroed bytes for `what`.
    ///
    /// # Errors
    /// [`TensorError::OutOfMemory`] when the allocator refuses.
    pub fn zeroed(bytes: usize, what: &str) -> TensorResult<Self> {
        let refused = || TensorError::OutOfMemory {
            what: what.to_owned(),
            bytes,
        };
        let room = bytes.checked_add(BUFFER_ALIGN_BYTES).ok_or_else(refused)?;
        let units: Box<[Unit]> =
            bytemuck::allocation::try_zeroed_slice_box(room.div_ceil(size_of::<Unit>()))
                .map_err(|()| refused())?;
        let address = units.as_ptr().addr();
        let skip = address.next_multiple_of(BUFFER_ALIGN_BYTES) - address;
        Ok(Self { units, skip, bytes })
    }

    /// Size in bytes, as asked for.
    pub fn len_bytes(&self) -> usize {
        self.bytes
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.units)[self.skip..self.skip + self.bytes]
    }

    /// The bytes, writable.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.units)[self.skip..self.skip + self.bytes]
    }

    /// The buffer as a slice of `T`; trailing bytes that do not fill a `T` are left out.
    pub fn cast<T: AnyBitPattern>(&self) -> &[T] {
        let size = size_of::<T>();
        bytemuck::cast_slice(&self.bytes()[..self.bytes / size * size])
    }

    /// The buffer as a writable slice of `T`; trailing bytes that do not fill a `T` are left out.
    pub fn cast_mut<T: AnyBitPattern + NoUninit>(&mut self) -> &mut [T] {
        let whole = self.bytes / size_of::<T>() * size_of::<T>();
        bytemuck::cast_slice_mut(&mut self.bytes_mut()[..whole])
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes)", self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::{BUFFER_ALIGN_BYTES, Buffer};

    #[test]
    fn buffers_are_aligned_zeroed_and_of_the_size_asked_for() {
        for bytes in [0, 1, 63, 64, 65, 4096, 1 << 20] {
            let mut buffer = Buffer::zeroed(bytes, "a test").unwrap();
            assert_eq!(buffer.bytes().len(), bytes);
            assert!(
                buffer
                    .bytes()
                    .as_ptr()
                    .addr()
                    .is_multiple_of(BUFFER_ALIGN_BYTES)
            );
            assert!(buffer.bytes().iter().all(|byte| *byte == 0));
            buffer.bytes_mut().fill(7);
            assert!(buffer.cast::<u8>().iter().all(|byte| *byte == 7));
        }
    }

    #[test]
    fn reserving_does_not_touch_the_memory() {
        // Far more than a test machine has; touching it would end the test.
        let resident = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status
                .lines()
                .find(|line| line.starts_with("VmRSS:"))
                .unwrap()
                .to_owned();
            line.split_whitespace()
                .nth(1)
                .unwrap()
                .parse::<u64>()
                .unwrap()
        };
        let before_kib = resident();
        let Ok(buffer) = Buffer::zeroed(8 << 30, "a test") else {
            eprintln!("skipped: this system does not overcommit 8 GiB");
            return;
        };
        assert_eq!(buffer.len_bytes(), 8 << 30);
        assert!(resident() - before_kib < 100 << 10, "8 GiB were touched");
    }

    #[test]
    fn an_impossible_size_is_an_error() {
        assert!(Buffer::zeroed(usize::MAX, "a test").is_err());
        assert!(Buffer::zeroed(usize::MAX / 2, "a test").is_err());
    }
}
