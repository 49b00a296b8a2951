//! Speed and memory, measured: one file a bench.
