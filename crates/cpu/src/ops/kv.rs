//! Storing this step's keys and values.

use ucuz_tensor::backend::HeadShape;
use ucuz_tensor::cache::{BLOCK_TOKENS, LayerCache};
use ucuz_tensor::{Batch, KvDtype, KvPool, View};

use crate::arch::generic::kv;
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
    let dtype = cache.spec.groups[layer.group].dtype;
    let parts = 2 * heads.kv_heads;
    let part_len = BLOCK_TOKENS * heads.head_dim;
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
    match dtype {
        KvDtype::Bf16 => {
            let words = Disjoint::new(bytemuck::cast_slice_mut::<u8, u16>(cache.layer_mut(layer)));
            run(pool, (tasks, each), &|part| {
                call.store(part, |start, token, x| {
                    // SAFETY: `part` is the task's own, and no two parts of a block overlap.
                    let words = unsafe { words.range(start..start + part_len) };
                    if part % 2 == 0 {
                        kv::store_key(words, token, x);
                    } else {
                        kv::store_value(words, token, x);
                    }
                });
            });
        }
        KvDtype::F32 => {
            let words = Disjoint::new(bytemuck::cast_slice_mut::<u8, f32>(cache.layer_mut(layer)));
            run(pool, (tasks, each), &|part| {
                call.store(part, |start, token, x| {
                    // SAFETY: as above.
                    kv::store_f32(unsafe { words.range(start..start + part_len) }, token, x);
                });
            });
        }
        // `check_cache` refused it when the pool was made.
        KvDtype::Int8 => {}
    }
}

fn run(pool: &ThreadPool, (tasks, each): (usize, usize), store: &(dyn Fn(usize) + Sync)) {
    pool.run(tasks, &|task, _| {
        (task * each..(task + 1) * each).for_each(store)
    });
}

struct StoreCall<'a> {
    group: usize,
    qkv: View<'a>,
    heads: &'a HeadShape,
    batch: &'a Batch,
}

impl StoreCall<'_> {
    /// Calls `write(first number of the part, token of the block, numbers)` for every row; parts are keys and values of
    /// the heads in turn.
    fn store(&self, part: usize, write: impl Fn(usize, usize, &[f32])) {
        let HeadShape {
            heads,
            kv_heads,
            head_dim,
        } = *self.heads;
        let column = (heads + part % 2 * kv_heads + part / 2) * head_dim;
        let part_len = BLOCK_TOKENS * head_dim;
        for sequence in 0..self.batch.num_sequences() {
            for row in self.batch.sequence_rows(sequence) {
                let position = self.batch.positions[row] as usize;
                let place = self.batch.slot_of(self.group, sequence, position);
                if let Some((block, token)) = place {
                    let start = (block * 2 * kv_heads + part) * part_len;
                    write(start, token, &self.qkv.row(row)[column..column + head_dim]);
                }
            }
        }
    }
}
