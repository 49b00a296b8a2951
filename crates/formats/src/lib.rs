//! Floor 1: checkpoints on disk, as hostile bytes, turned into one description that the rest can trust.
//!
//! Here: [GGUF](gguf) and [safetensors] readers and small writers, Hugging Face `config.json`, what both say
//! of the model as one [`ModelConfig`], the memory-mapped [`Checkpoint`], and [`prepared`] weights on disk.
//! Deliberately not here: decoding of numbers (`ucuz-tensor`), tokenizers and templates (`ucuz-text`; only their bytes
//! are found here), mathematics of a model (`ucuz-models`). Used by `models`, `llm`, `cli`.
//!
//! Nothing read from a file sizes an allocation before it was compared with a limit and with the bytes that are there.

#![deny(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap
)]

pub mod checkpoint;
pub mod config;
pub mod config_json;
pub mod error;
mod expected;
mod family;
pub mod generation;
pub mod gguf;
mod hf;
mod hf_names;
pub mod limits;
pub mod mmap;
pub mod prepared;
pub mod safetensors;
pub mod summary;
mod template;
mod validate;

pub use checkpoint::{Checkpoint, TensorRef};
pub use config::ModelConfig;
pub use error::FormatError;
