//! Flags that mean the same wherever a model is loaded, and the loading itself.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::ValueEnum;
use ucuz_cpu::{Tier, detect};
use ucuz_formats::Checkpoint;
use ucuz_llm::{Llm, LlmOptions};
use ucuz_tensor::{Activations, Backend, KvDtype};

use crate::backends::{self, BackendName, BackendOptions};
use crate::size::ByteSize;
use crate::store::{self, ModelRef, Progress, Resolved, progress};

/// The model that is meant when none is named.
pub const DEFAULT_MODEL: &str = "smollm2";

/// Precision of the KV cache, as a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KvDtypeName {
    /// 2 bytes a number
    Bf16,
    /// 4 bytes a number, for tests
    F32,
}

/// How activations meet stored integers, as a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ActivationsName {
    /// One code and one scale per 32 numbers: 8 bits
    Int8,
    /// Two codes, the second for what the first leaves over: 15 bits
    #[value(name = "int8x2")]
    Int8Pair,
}

impl ActivationsName {
    /// What it names.
    pub const fn activations(self) -> Activations {
        match self {
            Self::Int8 => Activations::Int8,
            Self::Int8Pair => Activations::Int8Pair,
        }
    }
}

/// Which kernels, how much memory, where models lie: what every command that runs a model takes.
#[derive(Debug, Clone, clap::Args)]
pub struct ModelArgs {
    /// Where to run
    #[arg(long, value_enum, default_value = "cpu")]
    pub backend: BackendName,
    /// Force the kernels of one tier: generic, avx2, avx512 [default: the fastest this processor has]
    #[arg(long, value_parser = parse_tier)]
    pub cpu_tier: Option<Tier>,
    /// Threads that compute [default: physical cores within affinity and container limits]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Keep each computing thread on one core
    #[arg(long)]
    pub pin: bool,
    /// Tokens that one request may hold, prompt and answer [default: what the model was trained for]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(2..))]
    pub context: Option<u32>,
    /// Memory for keys and values, e.g. 448MiB [default: the context of every request at once, but at most half of what is free]
    #[arg(long, value_name = "SIZE")]
    pub kv_memory: Option<ByteSize>,
    /// Precision of keys and values
    #[arg(long, value_enum, default_value = "bf16")]
    pub kv_dtype: KvDtypeName,
    /// How activations meet stored integers: two int8 codes (15 bits) keep the model's answers, one is faster in prefill
    #[arg(long, value_enum, default_value = "int8x2")]
    pub activations: ActivationsName,
    /// Tokens computed in one step
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u16).range(1..=16384))]
    pub max_step_tokens: u16,
    #[command(flatten)]
    pub store: store::Options,
}

/// How many requests share the engine.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct BatchArgs {
    /// Requests that run at once
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub max_sequences: u16,
    /// Requests that may wait
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(0..=65536))]
    pub max_waiting: u32,
}

impl BatchArgs {
    /// One request at a time, for a person at a terminal; the next may wait for one that is being stopped.
    pub const ALONE: Self = Self {
        max_sequences: 1,
        max_waiting: 1,
    };
}

/// How to run a model for many requests.
#[derive(Debug, Clone, clap::Args)]
pub struct EngineArgs {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    batch: BatchArgs,
}

impl EngineArgs {
    /// As [`ModelArgs::resolve`].
    ///
    /// # Errors
    /// What the store reports.
    pub fn resolve(&self, model: Option<&str>) -> Result<Resolved> {
        self.model.resolve(model)
    }

    /// As [`ModelArgs::load`].
    ///
    /// # Errors
    /// A damaged or unsupported file, memory, a tier that is not there.
    pub fn load(&self, path: &Path, name: &str) -> Result<Llm> {
        self.model.load(path, name, self.batch)
    }
}

/// A tier by name, for clap.
///
/// # Errors
/// The names that are known.
pub fn parse_tier(text: &str) -> Result<Tier, String> {
    text.parse::<Tier>().map_err(|error| error.to_string())
}

impl ModelArgs {
    /// Finds or brings the model.
    ///
    /// # Errors
    /// What the store reports.
    pub fn resolve(&self, model: Option<&str>) -> Result<Resolved> {
        let reference = ModelRef::parse(model.unwrap_or(DEFAULT_MODEL))?;
        self.store
            .open()?
            .resolve(&reference, progress::on_stderr().as_mut())
    }

    /// Opens the backend.
    ///
    /// # Errors
    /// A tier that is not there.
    pub fn open_backend(&self) -> Result<Arc<dyn Backend>> {
        backends::open(BackendOptions {
            name: self.backend,
            tier: self.cpu_tier,
            threads: self.threads.map(usize::from),
            pin: self.pin,
        })
    }

    /// Precision of the KV cache.
    pub fn kv_dtype(&self) -> KvDtype {
        match (self.backend, self.kv_dtype) {
            // The oracle rounds nothing.
            (BackendName::Reference, _) | (_, KvDtypeName::F32) => KvDtype::F32,
            (_, KvDtypeName::Bf16) => KvDtype::Bf16,
        }
    }

    /// How activations meet stored integers.
    pub fn activations(&self) -> Activations {
        self.activations.activations()
    }

    /// Loads a model and starts its engine, with progress on stderr.
    ///
    /// # Errors
    /// A damaged or unsupported file, memory, a tier that is not there.
    pub fn load(&self, path: &Path, name: &str, batch: BatchArgs) -> Result<Llm> {
        let checkpoint =
            Checkpoint::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        let backend = self.open_backend()?;
        let options = LlmOptions {
            name: name.to_owned(),
            kv_dtype: self.kv_dtype(),
            activations: self.activations(),
            context: self.context.map(|tokens| tokens as usize),
            max_sequences: usize::from(batch.max_sequences),
            step_rows: usize::from(self.max_step_tokens),
            kv_memory_bytes: self.kv_memory.map(|size| size.0),
            available_memory_bytes: detect::available_memory_bytes().unwrap_or(2 << 30),
            max_waiting: batch.max_waiting as usize,
        };
        let mut progress = progress::on_stderr();
        progress.begin(&format!("loading {name}"), Some(checkpoint.file_bytes()));
        let llm = load_with(&checkpoint, backend, options, progress.as_mut());
        progress.end();
        Ok(llm?)
    }
}

fn load_with(
    checkpoint: &Checkpoint,
    backend: Arc<dyn Backend>,
    options: LlmOptions,
    progress: &mut dyn Progress,
) -> ucuz_llm::LlmResult<Llm> {
    let mut done = 0;
    Llm::load(checkpoint, backend, options, &mut |bytes| {
        done += bytes;
        progress.set(done);
    })
}
