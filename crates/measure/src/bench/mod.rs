//! Speed and memory, measured: one file a bench.

pub mod kernels;
