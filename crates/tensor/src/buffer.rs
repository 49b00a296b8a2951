//! Memory of a tensor: 64-byte aligned, zeroed, never resized.

use bytemuck::{AnyBitPattern, NoUninit, Pod, Zeroable};

use crate::error::{TensorError, TensorResult};

/// One cache line; its alignment is the alignment of every buffer.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

// SAFETY: `Line` is 64 plain bytes without padding (size 64 = alignment 64); all bit patterns are valid.
unsafe impl Zeroable for Line {}
// SAFETY: as above; it is Copy and 'static and holds no padding, pointer or niche.
unsafe impl Pod for Line {}

/// Alignment of every buffer in bytes.
pub const BUFFER_ALIGN_BYTES: usize = 64;

/// Host memory in whole cache lines.
///
/// It comes zeroed straight from the allocator, so the pages of a large buffer are touched only when first written:
/// reserving a KV pool costs address space, not memory.
pub struct Buffer {
    lines: Box<[Line]>,
    bytes: usize,
}

impl Buffer {
    /// Allocates `bytes` zeroed bytes for `what`.
    ///
    /// # Errors
    /// [`TensorError::OutOfMemory`] when the allocator refuses.
    pub fn zeroed(bytes: usize, what: &str) -> TensorResult<Self> {
        let lines =
            bytemuck::allocation::try_zeroed_slice_box(bytes.div_ceil(64)).map_err(|()| {
                TensorError::OutOfMemory {
                    what: what.to_owned(),
                    bytes,
                }
            })?;
        Ok(Self { lines, bytes })
    }

    /// Size in bytes, as asked for.
    pub fn len_bytes(&self) -> usize {
        self.bytes
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.bytes]
    }

    /// The bytes, writable.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.bytes]
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
