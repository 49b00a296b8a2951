//! Floor 2: models as mathematics over a [`Queue`](ucuz_tensor::Queue).
//!
//! One short file an architecture, built from [`blocks`], listed in [`registry::ARCHITECTURES`]; and the [`ModelRunner`],
//! which owns a model, its queue, its KV pool and its workspace and runs one step at a time.
//!
//! Deliberately not here: number formats (a model never names one), scheduling, text. The engine drives the runner; `llm`,
//! `measure` and `compress` load models through [`load`].

pub mod blocks;
mod decoder;
mod dense;
mod error;
mod gemma3;
mod llama;
mod loader;
mod qwen3;
pub mod registry;
mod rope;
mod runner;
mod spec;

pub use error::{ModelError, ModelResult};
pub use loader::Loader;
pub use registry::{ARCHITECTURES, load, load_into};
pub use rope::rope_bytes;
pub use runner::{ModelRunner, RunnerOptions};
pub use spec::{Forward, Model, ModelSpec, Workspace, cache_spec};
