//! The generic tier: plain Rust over arrays of 16 lanes, the oracle of bits.
//!
//! Functions marked `#[inline(always)]` are compiled once more inside the faster tiers, where the same text becomes vector code.

pub mod activation;
pub mod attention;
pub mod attention_f32;
pub mod ceiling;
pub mod codebook;
pub mod float;
pub mod integer;
pub mod kv;
pub mod lanes;
pub mod norm;
pub mod rope;
pub mod row_scaled;
pub(crate) mod stored;
