//! Flags that mean the same wherever a model is loaded, and the loading itself.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;
use ucuz_cpu::{Tier, detect};
use ucuz_formats::Checkpoint;
use ucuz_llm::{
    CacheListener, Llm, LlmOptions, Loading, MemoryPlan, PROMPT_TOKENS_MAX, Scheduling,
};
use ucuz_tensor::{Activations, Backend, KvDtype, OnLoad, WeightOptions};

use crate::backends::{self, BackendName, BackendOptions};
use crate::size::ByteSize;
use crate::store::prepared::{PreparedCache, WORTH_KEEPING_BYTES, Weights};
use crate::store::{self, ModelRef, Resolved, progress};

/// Longest that a step should take while somebody gets tokens: a long prompt then delays the next token by no more.
const STEP_TARGET: Duration = Duration::from_millis(200);

/// The model that is meant when none is named.
pub const DEFAULT_MODEL: &str = "smollm2";

/// Precision of the KV cache, as a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KvDtypeName {
    /// 2 bytes a number
    Bf16,
    /// 1 byte a number and a scale of 4 bytes for each key and value
    Int8,
    /// 4 bytes a number, for tests
    F32,
}

/// How activations meet stored integers, as a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ActivationsName {
    /// One code and one scale per 32 numbers: 8 bits
    Int8,
    /// Two int8 digits and one scale per 256 numbers: 12 bits
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

/// What becomes of the stored formats, as a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnLoadName {
    /// Weights keep the codes and scales of the file
    AsStored,
    /// Projections become int8 codes with one scale a row, activations int8 with one scale a token: the fastest prefill, less exact
    #[value(name = "w8a8")]
    W8A8,
}

/// Which kernels, how much memory, where models lie: what every command that runs a model takes.
#[derive(Debug, Clone, clap::Args)]
pub struct ModelArgs {
    /// Where to run
    #[arg(long, value_enum, default_value = "cpu")]
    pub backend: BackendName,
    /// Force the kernels of one tier: generic, avx2, avx512, amx [default: the fastest this processor has, but amx only when asked for]
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
    /// Precision of keys and values [default: bf16; f32 with --backend reference]
    #[arg(long, value_enum)]
    pub kv_dtype: Option<KvDtypeName>,
    /// How activations meet stored integers: two int8 digits (12 bits) keep the model's answers, one is less work
    #[arg(long, value_enum, default_value = "int8x2")]
    pub activations: ActivationsName,
    /// What becomes of the stored formats of projections; w8a8 is for speed, it makes the answers less exact
    #[arg(long, value_enum, default_value = "as-stored")]
    pub on_load: OnLoadName,
    /// Tokens computed in one step [default: 512, and while somebody gets tokens as many as take 0.2 s, measured at start and ever after]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u16).range(1..=16384))]
    pub max_step_tokens: Option<u16>,
    #[command(flatten)]
    pub store: store::Options,
}

/// Whether weights are kept as the kernels read them, for the next start.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct PreparedArgs {
    /// Disk space for prepared weights in the cache folder: a model of 256 MiB or more then starts without repacking; 0 keeps none
    #[arg(long, value_name = "SIZE", default_value = "16GiB")]
    pub prepared_cache: ByteSize,
}

/// How many requests share the engine.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct BatchArgs {
    /// Requests that run at once
    #[arg(long, default_value_t = Self::SEQUENCES, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub max_sequences: u16,
    /// Requests that may wait; more get 429 with the time to retry
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(0..=65536))]
    pub max_waiting: u32,
    /// Prompt tokens of all requests that run or wait; more get 429 with the time to retry
    #[arg(long, value_name = "TOKENS", default_value_t = Self::PROMPT_TOKENS, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_prompt_tokens: u32,
    /// Refuse requests whose first token cannot be expected within this time, ms (a request may ask for its own by the header x-slo-ttft-ms) [default: none is refused]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..))]
    pub slo_ttft: Option<u32>,
    /// Compute every prompt anew, even where another began alike
    #[arg(long)]
    pub no_prefix_cache: bool,
}

impl BatchArgs {
    /// Requests at once unless others are named.
    pub const SEQUENCES: u16 = 64;

    /// Prompt tokens inside at once unless others are named.
    pub const PROMPT_TOKENS: u32 = PROMPT_TOKENS_MAX as u32;

    /// One request at a time, for a person at a terminal; the next may wait for one that is being stopped.
    pub const ALONE: Self = Self {
        max_sequences: 1,
        max_waiting: 1,
        max_prompt_tokens: Self::PROMPT_TOKENS,
        slo_ttft: None,
        no_prefix_cache: false,
    };

    /// How the engine treats requests, with a fresh key for names of cached prefixes.
    ///
    /// # Errors
    /// No random numbers from the system.
    fn scheduling(&self) -> Result<Scheduling> {
        let mut key = [0; 16];
        getrandom::fill(&mut key).context("the system gives no random numbers")?;
        Ok(Scheduling {
            max_prompt_tokens: Some(self.max_prompt_tokens as usize),
            first_token_within: self.slo_ttft.map(|ms| Duration::from_millis(ms.into())),
            prefix_key: (!self.no_prefix_cache).then_some(key),
            // A person at a terminal waits for the first answer, not for a forecast.
            warm_up: self.max_sequences > 1,
            mask_threads: mask_threads(),
            ..Scheduling::default()
        })
    }
}

/// Threads for masks of constrained requests: one to eight cores, since a mask costs a small part of a step's row.
fn mask_threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / 8).clamp(1, 8)
}

/// How to run a model for many requests.
#[derive(Debug, Clone, clap::Args)]
pub struct EngineArgs {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    batch: BatchArgs,
    #[command(flatten)]
    prepared: PreparedArgs,
}

impl EngineArgs {
    /// As [`ModelArgs::resolve`].
    ///
    /// # Errors
    /// What the store reports.
    pub fn resolve(&self, model: Option<&str>) -> Result<Resolved> {
        self.model.resolve(model)
    }

    /// As [`ModelArgs::open`].
    ///
    /// # Errors
    /// A damaged or unsupported file, a tier that is not there.
    pub fn open(&self, path: &Path, name: &str) -> Result<Opened<'_>> {
        self.model.open(path, name, self.batch, self.prepared)
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
    /// Tokens of a step unless others are named.
    pub const STEP_TOKENS: u16 = 512;

    /// Tokens of the largest step.
    pub fn step_rows(&self) -> usize {
        usize::from(self.max_step_tokens.unwrap_or(Self::STEP_TOKENS))
    }

    /// Precision of keys and values: what was asked for; else the oracle rounds nothing.
    pub fn kv_dtype(&self) -> KvDtype {
        match (self.kv_dtype, self.backend) {
            (Some(KvDtypeName::Bf16), _) | (None, BackendName::Cpu) => KvDtype::Bf16,
            (Some(KvDtypeName::Int8), _) => KvDtype::Int8,
            (Some(KvDtypeName::F32), _) | (None, BackendName::Reference) => KvDtype::F32,
        }
    }

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

    /// What the arithmetic of weights is.
    pub fn weights(&self) -> WeightOptions {
        WeightOptions {
            activations: self.activations.activations(),
            on_load: match self.on_load {
                OnLoadName::AsStored => OnLoad::AsStored,
                OnLoadName::W8A8 => OnLoad::W8A8,
            },
        }
    }

    /// Opens a model's files and the backend; nothing is loaded yet.
    ///
    /// # Errors
    /// A damaged or unsupported file, a tier that is not there.
    pub fn open(
        &self,
        path: &Path,
        name: &str,
        batch: BatchArgs,
        prepared: PreparedArgs,
    ) -> Result<Opened<'_>> {
        let checkpoint =
            Checkpoint::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        let backend = self.open_backend()?;
        let options = LlmOptions {
            name: name.to_owned(),
            kv_dtype: self.kv_dtype(),
            weights: self.weights(),
            context: self.context.map(|tokens| tokens as usize),
            max_sequences: usize::from(batch.max_sequences),
            step_rows: self.step_rows(),
            kv_memory_bytes: self.kv_memory.map(|size| size.0),
            available_memory_bytes: detect::available_memory_bytes().unwrap_or(2 << 30),
            max_waiting: batch.max_waiting as usize,
            scheduling: Scheduling {
                step_target: self.max_step_tokens.is_none().then_some(STEP_TARGET),
                ..batch.scheduling()?
            },
        };
        Ok(Opened {
            args: self,
            prepared,
            checkpoint,
            backend,
            options,
        })
    }

    /// Where the weights come from: prepared earlier, to be kept, or neither.
    fn destination(
        &self,
        checkpoint: &Checkpoint,
        backend: &dyn Backend,
        PreparedArgs { prepared_cache }: PreparedArgs,
    ) -> Result<Weights> {
        if prepared_cache.0 == 0 || self.backend == BackendName::Reference {
            return Ok(Weights::memory());
        }
        let cache = PreparedCache {
            folder: self.store.cache_dir()?.join("prepared"),
            bytes_max: prepared_cache.0,
            worth_bytes: WORTH_KEEPING_BYTES,
        };
        Ok(cache.open(checkpoint, backend, self.weights().on_load))
    }
}

/// A model that is about to be loaded.
pub struct Opened<'a> {
    args: &'a ModelArgs,
    prepared: PreparedArgs,
    checkpoint: Checkpoint,
    backend: Arc<dyn Backend>,
    options: LlmOptions,
}

impl Opened<'_> {
    /// What it will take in memory.
    ///
    /// # Errors
    /// A context or KV memory that does not fit.
    pub fn plan(&self) -> Result<MemoryPlan> {
        let plan = MemoryPlan::new(&self.checkpoint, self.backend.as_ref(), &self.options);
        Ok(plan?)
    }

    /// Lets `listener` hear what its prefix cache holds.
    pub fn listen(&mut self, listener: Option<Box<dyn CacheListener>>) {
        self.options.scheduling.cache_listener = listener;
    }

    /// Loads it and starts its engine, with progress on stderr.
    ///
    /// # Errors
    /// A damaged or unsupported file, memory.
    pub fn load(self) -> Result<Llm> {
        let (checkpoint, backend) = (self.checkpoint, self.backend);
        let mut weights = self
            .args
            .destination(&checkpoint, backend.as_ref(), self.prepared)?;
        let mut progress = progress::on_stderr();
        let title = format!("loading {}", self.options.name);
        progress.begin(&title, Some(checkpoint.file_bytes()));
        let mut done = 0;
        let loading = Loading {
            destination: &mut weights,
            progress: &mut |bytes| {
                done += bytes;
                progress.set(done);
            },
        };
        let llm = Llm::load_into(loading, &checkpoint, backend, self.options);
        progress.end();
        let llm = llm?;
        weights.finish(&checkpoint);
        Ok(llm)
    }
}
