//! Operations, one file each: they check nothing (the queue did), split the work into tasks and call a tier's kernels.

pub mod activation;
pub mod attention;
pub mod elementwise;
pub mod embed;
pub mod kv;
pub mod linear;
pub mod norm;
pub mod packing;
mod product;
pub mod rope;
mod rows;
pub mod sample;
mod tiled;
