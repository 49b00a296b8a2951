//! Storing this step's keys and values.

use ucuz_tensor::backend::HeadShape;
use ucuz_tensor::cache::LayerCache;
use ucuz_tensor::{Batch, KvDtype, KvPool, View};

use crate::arch::generic::kv::{self, Side};
use crate::pool::{Disjoint, ThreadPool};

/// Fewer numbers than this are stored by the calling thread.
const TASK_NUMBERS: usize = 8192;

/// Writes the keys and values of `qkv: [rows, (heads + 2 kv_heads) head_dim]` to their rows' places, in the pool's precision.
///
/// Rows whose block is gone (behind a window) are left out. Tasks are (kv head, side): ranges of a block, so that no
/// batch, however wrong, makes two tasks write one place.
pub fn kv_store(
    pool: &ThreadPool,
    cache: &mut KvPool,
    layer: LayerCache,
    qkv: View<'_>,
    heads: &HeadShape,
    batch: &Batch,
) {
    let group = &cache.spec.groups[layer.group];
    let (dtype, parts) = (group.dtype, 2 * heads.kv_heads);
    let part_bytes = group.layer_block_bytes() / parts;
    let call = StoreCall {
        group: layer.group,
        qkv,
        heads,
        batch,
    };
    let tasks = if qkv.num_rows() * parts * heads.head_dim < TASK_NUMBERS {
        1
    } else {
        parts
    };
    let each = parts / tasks;
    let bytes = Disjoint::new(cache.layer_mut(layer));
    pool.run(tasks, &|task, _| {
        for part in task * each..(task + 1) * each {
            let write = writer(dtype, Side::of_part(part));
            call.store(part, |index, token, x| {
                let start = index * part_bytes;
                // SAFETY: `part` is the task's own, and no two parts of a block overlap.
                let bytes = unsafe { bytes.range(start..start + part_bytes) };
                write(bytes, token, x);
            });
        }
    });
}

/// Writes the numbers of one token into one part of a block.
type Writer = fn(part: &mut [u8], token: usize, x: &[f32]);

fn writer(dtype: KvDtype, side: Side) -> Writer {
    match (dtype, side) {
        (KvDtype::F32, _) => {
            |part, token, x| kv::store_f32(bytemuck::cast_slice_mut(part), token, x)
        }
        (KvDtype::Bf16, Side::Key) => {
            |part, token, x| kv::store_key(bytemuck::cast_slice_mut(part), token, x)
        }
        (KvDtype::Bf16, Side::Value) => {
            |part, token, x| kv::store_value(bytemuck::cast_slice_mut(part), token, x)
        }
        (KvDtype::Int8, Side::Key) => kv::store_key_int8,
        (KvDtype::Int8, Side::Value) => kv::store_value_int8,
    }
}

struct StoreCall<'a> {
    group: usize,
    qkv: View<'a>,
    heads: &'a HeadShape,
    batch: &'a Batch,
}

impl StoreCall<'_> {
    /// Calls `write(which part of the layer, token of the block, numbers)` for every row; parts of a block are keys and
    /// values of the heads in turn.
    fn store(&self, part: usize, write: impl Fn(usize, usize, &[f32])) {
        let HeadShape {
            heads,
            kv_heads,
            head_dim,
        } = *self.heads;
        let column = (heads + part % 2 * kv_heads + part / 2) * head_dim;
        for sequence in 0..self.batch.num_sequences() {
            for row in self.batch.sequence_rows(sequence) {
                let position = self.batch.positions[row] as usize;
                let place = self.batch.slot_of(self.group, sequence, position);
                if let Some((block, token)) = place {
                    let index = block * 2 * kv_heads + part;
                    write(index, token, &self.qkv.row(row)[column..column + head_dim]);
                }
            }
        }
    }
}
