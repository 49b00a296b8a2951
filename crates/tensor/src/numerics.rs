//! Canonical scalar arithmetic shared by every backend.
//!
//! Every function here is made of IEEE additions, multiplications, divisions and integer operations in one written
//! order, without fused multiply-add and without the system's mathematical library, so that the bits are the same on
//! every machine and a vector kernel can reproduce them lane by lane. All are branch-free where a loop over them should
//! vectorise.
//!
//! Not here: anything over matrices; those are operations of a queue.

mod bf16;
mod exp;
mod int8;
mod ln;
mod rope;
mod sum;

pub use bf16::{BF16_TINY, bf16_bits, bf16_round, bf16_value};
pub use exp::{
    EXP2_FRACTION, LOG2_E, exp, exp2_fraction, exp2_integer, gelu_tanh, round_even, sigmoid, silu,
    tanh,
};
pub use int8::{CODE_ABSMAX_MIN, RowScale};
pub use ln::ln;
pub use rope::{inverse_frequencies, rope_table};
pub use sum::{STRIDED_LANES, square_sum16, strided_sum16, tree_sum16};
