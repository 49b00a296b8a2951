//! Loading a model and starting its engine.

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use ucuz_engine::{CacheListener, Engine, EngineConfig, SystemClock};
use ucuz_formats::{Checkpoint, ModelConfig};
use ucuz_models::registry::LoadOptions;
use ucuz_models::{ModelRunner, ModelSpec, RunnerOptions, Workspace, rope_bytes};
use ucuz_tensor::backend::Limits;
use ucuz_tensor::destination::{Anonymous, Destination};
use ucuz_tensor::{Backend, CacheSpec, KvDtype, WeightOptions};
use ucuz_text::{ChatTemplate, TemplateTokens, Tokenizer};

use crate::info::ModelInfo;
use crate::llm::{Llm, LlmParts};
use crate::plan::MemoryPlan;
use crate::tokenizer::tokenizer;
use crate::{LlmError, LlmResult};

/// Most logit rows computed at once: enough for a decode batch, little memory for a large vocabulary.
pub const LOGIT_ROWS: usize = 32;

/// How a model is loaded.
pub struct LlmOptions {
    /// Id to serve it under.
    pub name: String,
    /// Precision of the KV cache.
    pub kv_dtype: KvDtype,
    /// What the arithmetic of weights is.
    pub weights: WeightOptions,
    /// Tokens that one request may hold; what the model was trained for when absent.
    pub context: Option<usize>,
    /// Requests that run at once.
    pub max_sequences: usize,
    /// Tokens computed in one step.
    pub step_rows: usize,
    /// Bytes of the KV pool; the smaller of what all sequences could use and half of what is free when absent.
    pub kv_memory_bytes: Option<u64>,
    /// Free memory, for the default above.
    pub available_memory_bytes: u64,
    /// Requests that may wait.
    pub max_waiting: usize,
    /// How the engine treats requests.
    pub scheduling: Scheduling,
}

/// How the engine treats requests that share it.
#[derive(Default)]
pub struct Scheduling {
    /// Prompt tokens of all requests inside; [`PROMPT_TOKENS_MAX`] when absent.
    pub max_prompt_tokens: Option<usize>,
    /// Requests whose first token cannot be expected within this time are refused, unless they ask for another time.
    pub first_token_within: Option<Duration>,
    /// Key of the names of cached prefixes, drawn anew for each process; no prefix is shared when absent.
    pub prefix_key: Option<[u8; 16]>,
    /// Time that a step should not exceed while somebody generates; every step is filled when absent.
    pub step_target: Option<Duration>,
    /// Whether two steps are run before the first request, so that what steps cost is known.
    pub warm_up: bool,
    /// Threads that make the masks of constrained requests, beside the step; 0 stands for 1.
    pub mask_threads: usize,
    /// Hears what can be found in the prefix cache.
    pub cache_listener: Option<Box<dyn CacheListener>>,
}

/// Prompt tokens that may be inside at once unless another number is named: 4 MiB of ids.
pub const PROMPT_TOKENS_MAX: usize = 1 << 20;

/// What a model is loaded through.
pub struct Loading<'a> {
    /// Where the bytes of its weights come to lie.
    pub destination: &'a mut dyn Destination,
    /// Hears of stored bytes as they are in place.
    pub progress: &'a mut dyn FnMut(u64),
}

/// A model in memory, ready for an engine.
struct Loaded {
    runner: ModelRunner,
    weight_bytes: usize,
    cache: CacheSpec,
    limits: Limits,
    kv_pool_bytes: usize,
}

impl Llm {
    /// Loads `checkpoint` onto `backend` and starts the engine; `progress` hears of stored bytes as they are in place.
    ///
    /// # Errors
    /// A tokenizer, template, tensor or size that is damaged or not supported, each by name; memory.
    pub fn load(
        checkpoint: &Checkpoint,
        backend: Arc<dyn Backend>,
        options: LlmOptions,
        progress: &mut dyn FnMut(u64),
    ) -> LlmResult<Self> {
        let loading = Loading {
            destination: &mut Anonymous,
            progress,
        };
        Self::load_into(loading, checkpoint, backend, options)
    }

    /// As [`Llm::load`], with the bytes of the weights where `loading` has them.
    ///
    /// # Errors
    /// As [`Llm::load`].
    pub fn load_into(
        loading: Loading<'_>,
        checkpoint: &Checkpoint,
        backend: Arc<dyn Backend>,
        options: LlmOptions,
    ) -> LlmResult<Self> {
        let plan = MemoryPlan::new(checkpoint, backend.as_ref(), &options)?;
        // The vocabulary is indexed on another core while the weights are laid out.
        let (text, loaded) = std::thread::scope(|scope| {
            let text = scope.spawn(|| text_side(checkpoint));
            let loaded = load_model(loading, checkpoint, backend.as_ref(), (&options, plan));
            let text = text.join().unwrap_or_else(|_| {
                Err(LlmError::Unavailable {
                    why: "building the tokenizer failed; please report it".to_owned(),
                })
            });
            (text, loaded)
        });
        let ((tokenizer, template), loaded) = (text?, loaded?);
        if tokenizer.vocab_size() > checkpoint.config.vocab {
            return Err(LlmError::invalid(
                "model",
                format!(
                    "the tokenizer has {} tokens, the embedding {} rows; the files do not belong together",
                    tokenizer.vocab_size(),
                    checkpoint.config.vocab
                ),
            ));
        }
        let info = info(
            checkpoint,
            backend.as_ref(),
            &options,
            &loaded,
            (&tokenizer, template.is_some()),
        );
        let config = engine_config(options);
        let handle = Engine::spawn(
            Box::new(loaded.runner),
            config,
            Arc::new(SystemClock::start()),
        )
        .map_err(|error| LlmError::Unavailable {
            why: format!("no thread for it: {error}"),
        })?;
        Ok(Self::from_parts(LlmParts {
            tokenizer,
            template,
            handle,
            info,
        }))
    }
}

fn engine_config(options: LlmOptions) -> EngineConfig {
    let scheduling = options.scheduling;
    EngineConfig {
        max_waiting: options.max_waiting,
        max_prompt_tokens: scheduling.max_prompt_tokens.unwrap_or(PROMPT_TOKENS_MAX),
        first_token_within: scheduling.first_token_within,
        depth: 1,
        prefix_key: scheduling.prefix_key,
        step_target: scheduling.step_target,
        warm_up: scheduling.warm_up,
        mask_threads: scheduling.mask_threads,
        cache_listener: scheduling.cache_listener,
    }
}

fn text_side(checkpoint: &Checkpoint) -> LlmResult<(Arc<Tokenizer>, Option<ChatTemplate>)> {
    let tokenizer = Arc::new(tokenizer(&checkpoint.tokenizer)?);
    let source = checkpoint
        .chat_template
        .as_deref()
        .filter(|source| !source.trim().is_empty());
    let template = source
        .map(|source| ChatTemplate::new(Some(source), &TemplateTokens::new(Arc::clone(&tokenizer))))
        .transpose()?;
    Ok((tokenizer, template))
}

fn load_model(
    loading: Loading<'_>,
    checkpoint: &Checkpoint,
    backend: &dyn Backend,
    (options, plan): (&LlmOptions, MemoryPlan),
) -> LlmResult<Loaded> {
    let load = LoadOptions {
        backend,
        cache: plan.cache.clone(),
        context: plan.context,
        weights: options.weights,
        progress: Box::new(loading.progress),
    };
    let model = ucuz_models::load_into(loading.destination, checkpoint, load)?;
    let weight_bytes = model.weight_bytes();
    if weight_bytes != plan.weight_bytes {
        let planned = plan.weight_bytes;
        tracing::warn!(
            planned,
            weight_bytes,
            "the weights take other memory than planned"
        );
    }
    let (limits, blocks) = (plan.limits, plan.blocks);
    let runner = ModelRunner::new(backend, model, RunnerOptions { limits, blocks })?;
    Ok(Loaded {
        runner,
        weight_bytes,
        cache: plan.cache,
        limits,
        kv_pool_bytes: plan.kv_pool_bytes,
    })
}

/// Limits of an engine that runs so many sequences of up to so many tokens, with `step_rows` tokens a step.
pub fn limits(spec: &ModelSpec, (sequences, context): (usize, usize), step_rows: usize) -> Limits {
    Limits {
        step_rows,
        sequences,
        logit_rows: LOGIT_ROWS.min(step_rows),
        context,
        cols_max: spec.cols_max(),
        vocab: spec.config.vocab,
    }
}

/// Bytes that an engine with these limits works in, beside the weights and the KV cache: matrices of a step, the backend's
/// scratch, rotary tables.
pub fn workspace_bytes(config: &ModelConfig, backend: &dyn Backend, limits: &Limits) -> usize {
    Workspace::bytes(config, limits)
        + backend.scratch_bytes(limits)
        + rope_bytes(config, limits.context)
}

fn info(
    checkpoint: &Checkpoint,
    backend: &dyn Backend,
    options: &LlmOptions,
    loaded: &Loaded,
    (tokenizer, has_template): (&Tokenizer, bool),
) -> ModelInfo {
    let config = &checkpoint.config;
    let (mut parameters, mut stored) = (0u64, 0u64);
    for tensor in checkpoint.tensors() {
        parameters += tensor.shape.iter().map(|n| *n as u64).product::<u64>();
        stored += tensor.bytes.len() as u64;
    }
    ModelInfo {
        name: options.name.clone(),
        architecture: config.architecture.clone(),
        parameters,
        bits_per_weight: stored as f64 * 8.0 / parameters.max(1) as f64,
        file_bytes: checkpoint.file_bytes(),
        weight_bytes: loaded.weight_bytes as u64,
        context: loaded.limits.context,
        trained_context: config.context,
        vocab: config.vocab,
        kv_dtype: options.kv_dtype,
        kv_bytes_per_token: loaded.cache.token_bytes(),
        kv_pool_bytes: loaded.kv_pool_bytes,
        exactness: backend.describe().exactness,
        defaults: checkpoint.generation.clone(),
        has_template,
        fingerprint: digest(checkpoint, (options.kv_dtype, options.weights), tokenizer),
    }
}

/// What [`ModelInfo::fingerprint`] is once `checkpoint` is loaded with these choices.
///
/// # Errors
/// A tokenizer that is missing, damaged or not supported.
pub fn fingerprint(
    checkpoint: &Checkpoint,
    kv_dtype: KvDtype,
    weights: WeightOptions,
) -> LlmResult<String> {
    let tokenizer = tokenizer(&checkpoint.tokenizer)?;
    Ok(digest(checkpoint, (kv_dtype, weights), &tokenizer))
}

/// Equal for equal arithmetic, configuration, tensor table, vocabulary and cache precision.
///
/// The weights themselves are not hashed: that would read every page at start.
fn digest(
    checkpoint: &Checkpoint,
    (kv_dtype, weights): (KvDtype, WeightOptions),
    tokenizer: &Tokenizer,
) -> String {
    let mut hash = Sha256::new();
    hash.update(format!(
        "{} {} {} {} {:?}",
        ucuz_tensor::ARITHMETIC_VERSION,
        kv_dtype.name(),
        weights.activations.name(),
        weights.on_load.name(),
        checkpoint.config
    ));
    for tensor in checkpoint.tensors() {
        hash.update(format!(
            "{} {} {:?}",
            tensor.name, tensor.format, tensor.shape
        ));
    }
    hash.update(tokenizer.fingerprint());
    let digest = hash.finalize();
    let hex: String = digest
        .iter()
        .take(6)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("ucuz-a{}-{hex}", ucuz_tensor::ARITHMETIC_VERSION)
}
