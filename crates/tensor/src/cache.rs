//! The shape of the KV cache and the memory that holds it.
//!
//! [`PagedGroup::token_bytes`] and [`CacheSpec::bytes`] are the only size formulas; what is allocated equals them to the
//! byte. How a block is laid out inside is the backend's business.

use crate::buffer::Buffer;
use crate::error::TensorResult;

/// Tokens of one KV block.
pub const BLOCK_TOKENS: usize = 32;

/// Marks a block-table entry whose block was freed because it fell behind the attention window.
pub const NO_BLOCK: u32 = u32::MAX;

/// Precision of cached keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KvDtype {
    /// 4 bytes, for tests of exactness and accuracy.
    F32,
    /// 2 bytes, the default.
    Bf16,
    /// 1 byte and one f32 scale per token, head and side: `absmax / 127`, see [`crate::numerics::RowScale`].
    Int8,
}

impl KvDtype {
    /// All precisions, widest first.
    pub const ALL: [Self; 3] = [Self::F32, Self::Bf16, Self::Int8];

    /// Bytes of one number.
    pub const fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
            Self::Int8 => 1,
        }
    }

    /// Bytes of the scale that one token of one head carries, per side (K or V).
    pub const fn scale_bytes(self) -> usize {
        match self {
            Self::F32 | Self::Bf16 => 0,
            Self::Int8 => 4,
        }
    }

    /// Name as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
        }
    }
}

/// Layers that share block tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PagedGroup {
    /// Number of layers.
    pub layers: usize,
    /// Key and value heads of a layer.
    pub kv_heads: usize,
    /// Numbers of one key.
    pub k_dim: usize,
    /// Numbers of one value.
    pub v_dim: usize,
    /// Precision.
    pub dtype: KvDtype,
    /// Tokens that a query sees, itself included; `None` sees all.
    pub window: Option<usize>,
}

impl PagedGroup {
    /// Bytes of one token in all layers of the group:
    /// `layers · kv_heads · ((k_dim + v_dim) · bytes + 2 · scale bytes)`.
    pub const fn token_bytes(&self) -> usize {
        let head = (self.k_dim + self.v_dim) * self.dtype.bytes() + 2 * self.dtype.scale_bytes();
        self.layers * self.kv_heads * head
    }

    /// Bytes of one block in all layers of the group.
    pub const fn block_bytes(&self) -> usize {
        self.token_bytes() * BLOCK_TOKENS
    }

    /// Bytes of one block in one layer: the stride between blocks. A layer's blocks lie together.
    pub const fn layer_block_bytes(&self) -> usize {
        self.block_bytes() / self.layers
    }
}

/// Where a layer's keys and values live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerCache {
    /// Index into [`CacheSpec::groups`].
    pub group: usize,
    /// Index of the layer within the group.
    pub index: usize,
}

/// What one model caches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheSpec {
    /// Groups of layers with the same shape and window.
    pub groups: Vec<PagedGroup>,
    /// Layer number to its place.
    pub layers: Vec<LayerCache>,
}

impl CacheSpec {
    /// Bytes of one token over all groups (a window group counts while the token is inside the window).
    pub fn token_bytes(&self) -> usize {
        self.groups.iter().map(PagedGroup::token_bytes).sum()
    }

    /// Bytes of `blocks[group]` blocks in each group.
    pub fn bytes(&self, blocks: &[usize]) -> usize {
        self.groups
            .iter()
            .zip(blocks)
            .map(|(group, n)| group.block_bytes() * n)
            .sum()
    }
}

/// The blocks of all groups.
///
/// A group's buffer is `[layers][blocks][layer_block_bytes]`; it comes from zeroed address space, so a block that was
/// never written costs no memory. Blocks are reused without clearing: readers mask what is not theirs.
#[derive(Debug)]
pub struct KvPool {
    /// What the pool holds.
    pub spec: CacheSpec,
    /// Blocks of each group.
    pub blocks: Vec<usize>,
    /// One buffer a group.
    pub buffers: Vec<Buffer>,
}

impl KvPool {
    /// Reserves `blocks[group]` blocks in each group.
    ///
    /// # Errors
    /// [`crate::TensorError::OutOfMemory`] when the allocator refuses.
    pub fn zeroed(spec: &CacheSpec, blocks: &[usize]) -> TensorResult<Self> {
        assert_eq!(spec.groups.len(), blocks.len(), "one block count a group");
        let buffers = spec
            .groups
            .iter()
            .zip(blocks)
            .map(|(group, n)| Buffer::zeroed(group.block_bytes().saturating_mul(*n), "the KV pool"))
            .collect::<TensorResult<Vec<_>>>()?;
        Ok(Self {
            spec: spec.clone(),
            blocks: blocks.to_vec(),
            buffers,
        })
    }

    /// Bytes reserved.
    pub fn len_bytes(&self) -> usize {
        self.buffers.iter().map(Buffer::len_bytes).sum()
    }

    /// The blocks `[blocks][layer_block_bytes]` of one layer.
    pub fn layer(&self, layer: LayerCache) -> &[u8] {
        let bytes = self.spec.groups[layer.group].layer_block_bytes() * self.blocks[layer.group];
        &self.buffers[layer.group].bytes()[layer.index * bytes..(layer.index + 1) * bytes]
    }

    /// The blocks `[blocks][layer_block_bytes]` of one layer, writable.
    pub fn layer_mut(&mut self, layer: LayerCache) -> &mut [u8] {
        let bytes = self.spec.groups[layer.group].layer_block_bytes() * self.blocks[layer.group];
        &mut self.buffers[layer.group].bytes_mut()[layer.index * bytes..(layer.index + 1) * bytes]
    }
}
