//! Loading a model and starting its engine.

use std::sync::Arc;
use std::time::SystemTime;

use sha2::{Digest, Sha256};
use ucuz_engine::{Engine, EngineConfig, EventSink, Handle, Health, Request, Stats, SystemClock};
use ucuz_formats::Checkpoint;
use ucuz_models::registry::LoadOptions;
use ucuz_models::{Model, ModelRunner, RunnerOptions, Workspace, cache_spec};
use ucuz_tensor::backend::Limits;
use ucuz_tensor::{Activations, Backend, CacheSpec, KvDtype};
use ucuz_text::{
    ChatTemplate, DecodeOptions, Detokenizer, LeadingSpace, RenderOptions, Special, SpecialText,
    StopMatcher, TemplateTokens, Tokenizer, encode_chat,
};

use crate::generation::{Generation, GenerationParts};
use crate::info::ModelInfo;
use crate::prepare::{Prepared, Rules, resolve};
use crate::request::{GenerateRequest, Input};
use crate::tokenizer::tokenizer;
use crate::{LlmError, LlmResult};

/// Most logit rows computed at once: enough for a decode batch, little memory for a large vocabulary.
const LOGIT_ROWS: usize = 32;

/// Most bytes of a rendered chat prompt, per token of context; longer text cannot fit anyway.
const PROMPT_BYTES_PER_TOKEN: usize = 64;

/// How a model is loaded.
#[derive(Debug, Clone)]
pub struct LlmOptions {
    /// Id to serve it under.
    pub name: String,
    /// Precision of the KV cache.
    pub kv_dtype: KvDtype,
    /// How activations meet stored integers.
    pub activations: Activations,
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
}

/// A loaded model with its engine.
pub struct Llm {
    tokenizer: Arc<Tokenizer>,
    template: Option<ChatTemplate>,
    handle: Handle,
    info: ModelInfo,
    end_ids: Vec<u32>,
}

/// What an [`Llm`] is made of, for callers with an engine of their own (tests, simulations).
pub struct LlmParts {
    /// Ids and text.
    pub tokenizer: Arc<Tokenizer>,
    /// The chat template, if there is one.
    pub template: Option<ChatTemplate>,
    /// The engine.
    pub handle: Handle,
    /// Facts.
    pub info: ModelInfo,
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
        // The vocabulary is indexed on another core while the weights are laid out.
        let (text, loaded) = std::thread::scope(|scope| {
            let text = scope.spawn(|| text_side(checkpoint));
            let loaded = load_model(checkpoint, backend.as_ref(), &options, progress);
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
        let config = EngineConfig {
            max_waiting: options.max_waiting,
            depth: 1,
        };
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

    /// Puts a facade over an engine that runs already.
    pub fn from_parts(parts: LlmParts) -> Self {
        let LlmParts {
            tokenizer,
            template,
            handle,
            info,
        } = parts;
        let mut end_ids = tokenizer.eog_ids().to_vec();
        end_ids.extend(
            info.defaults
                .eos_ids
                .iter()
                .filter(|id| (**id as usize) < info.vocab),
        );
        end_ids.sort_unstable();
        end_ids.dedup();
        Self {
            tokenizer,
            template,
            handle,
            info,
            end_ids,
        }
    }

    /// Facts of the model.
    pub fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// State of the engine thread.
    pub fn health(&self) -> Health {
        self.handle.health()
    }

    /// Numbers of the engine at the end of its last step.
    pub fn stats(&self) -> Stats {
        self.handle.stats()
    }

    /// Refuses new requests and lets the others finish.
    pub fn drain(&self) {
        self.handle.drain();
    }

    /// Refuses new requests and cancels the others.
    pub fn shutdown(&self) {
        self.handle.shutdown();
    }

    /// Waits until the engine thread has ended.
    pub fn join(&self) {
        self.handle.join();
    }

    /// Encodes a request's prompt, resolves its defaults and checks every rule.
    ///
    /// `entropy` seeds the noise when the request has no seed; `now` is what a template's clock shows.
    ///
    /// # Errors
    /// [`LlmError::Invalid`] and [`LlmError::ContextLength`] with the rule, the value and the way out.
    pub fn prepare(
        &self,
        request: &GenerateRequest,
        entropy: u64,
        now: SystemTime,
    ) -> LlmResult<Prepared> {
        let prompt = match &request.input {
            Input::Tokens(ids) => ids.clone(),
            Input::Text(text) => self.tokenizer.encode_prompt(text, Special::Parse)?,
            Input::Chat(messages) => {
                let template = self.template.as_ref().ok_or_else(|| {
                    let message =
                        "this model has no chat template; use /v1/completions with a plain prompt";
                    LlmError::invalid("messages", message)
                })?;
                let now = now.duration_since(SystemTime::UNIX_EPOCH).ok();
                let options = RenderOptions {
                    now_unix_s: now.and_then(|d| i64::try_from(d.as_secs()).ok()),
                    ..RenderOptions::new(self.info.context.saturating_mul(PROMPT_BYTES_PER_TOKEN))
                };
                encode_chat(&self.tokenizer, &template.render(messages, &options)?)?
            }
        };
        let rules = Rules {
            vocab: self.info.vocab,
            context: self.info.context,
            defaults: &self.info.defaults,
            end_ids: &self.end_ids,
        };
        resolve(request, prompt, &rules, entropy)
    }

    /// Starts sample `sample` of a prepared request; its events go to `sink`, which feeds the [`Generation`].
    ///
    /// # Errors
    /// [`LlmError::Full`] when too many wait, [`LlmError::Unavailable`] when the engine drains or died.
    pub fn start(
        &self,
        prepared: &Prepared,
        sample: u32,
        sink: Box<dyn EventSink>,
    ) -> LlmResult<Generation> {
        let stops = StopMatcher::new(&prepared.stop)?;
        let options = DecodeOptions {
            special: if prepared.skip_special_tokens {
                SpecialText::Hide
            } else {
                SpecialText::Show
            },
            leading_space: if prepared.is_chat {
                LeadingSpace::Strip
            } else {
                LeadingSpace::Keep
            },
        };
        let request = Request {
            prompt: prepared.prompt.to_vec(),
            params: prepared.params.clone(),
            sample,
            max_tokens: prepared.max_tokens,
            min_tokens: prepared.min_tokens,
            stop_ids: prepared.stop_ids.clone(),
            logprobs: prepared.logprobs,
            prompt_logprobs: prepared.prompt_logprobs,
        };
        let id = self.handle.submit(request, sink)?;
        Ok(Generation::new(GenerationParts {
            handle: self.handle.clone(),
            id,
            tokenizer: Arc::clone(&self.tokenizer),
            detokenizer: Detokenizer::new(Arc::clone(&self.tokenizer), options),
            stops,
            stop_strings: prepared.stop.clone(),
        }))
    }

    /// Token ids of a text, special tokens parsed, nothing added.
    ///
    /// # Errors
    /// A text over the tokenizer's limit.
    pub fn tokenize(&self, text: &str) -> LlmResult<Vec<u32>> {
        Ok(self.tokenizer.encode(text, Special::Parse)?)
    }

    /// Text of token ids, special tokens shown.
    ///
    /// # Errors
    /// An id outside of the vocabulary.
    pub fn detokenize(&self, ids: &[u32]) -> LlmResult<String> {
        if let Some(id) = ids.iter().find(|id| **id as usize >= self.info.vocab) {
            let message = format!(
                "token id {id} is outside of the vocabulary, which ends at {}",
                self.info.vocab - 1
            );
            return Err(LlmError::invalid("tokens", message));
        }
        let options = DecodeOptions {
            special: SpecialText::Show,
            leading_space: LeadingSpace::Keep,
        };
        Ok(self.tokenizer.decode(ids, options))
    }

    /// Bytes of one token; empty for ids without text.
    pub fn token_bytes(&self, id: u32) -> &[u8] {
        self.tokenizer.token_bytes(id).unwrap_or_default()
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
    checkpoint: &Checkpoint,
    backend: &dyn Backend,
    options: &LlmOptions,
    progress: &mut dyn FnMut(u64),
) -> LlmResult<Loaded> {
    let config = &checkpoint.config;
    let context = context(options, config.context)?;
    let cache = cache_spec(config, options.kv_dtype);
    let load = LoadOptions {
        backend,
        cache: cache.clone(),
        context,
        activations: options.activations,
        progress: Box::new(progress),
    };
    let model = ucuz_models::load(checkpoint, load)?;
    let limits = Limits {
        step_rows: options.step_rows,
        sequences: options.max_sequences,
        logit_rows: LOGIT_ROWS.min(options.step_rows),
        context,
        cols_max: model.spec().cols_max(),
        vocab: config.vocab,
    };
    let kv_memory = kv_memory(options, model.as_ref(), backend, &limits);
    let blocks = ucuz_engine::plan_blocks(&cache, &limits, kv_memory)
        .map_err(|error| LlmError::invalid("kv-memory", error.to_string()))?;
    let (weight_bytes, kv_pool_bytes) = (model.weight_bytes(), cache.bytes(&blocks));
    let runner = ModelRunner::new(backend, model, RunnerOptions { limits, blocks })?;
    Ok(Loaded {
        runner,
        weight_bytes,
        cache,
        limits,
        kv_pool_bytes,
    })
}

/// Tokens of one request: the option within what the model was trained for.
fn context(options: &LlmOptions, trained: usize) -> LlmResult<usize> {
    match options.context {
        None => Ok(trained),
        Some(0) => Err(LlmError::invalid(
            "context",
            "the context is 0 tokens; give at least 1",
        )),
        Some(context) if context > trained => Err(LlmError::invalid(
            "context",
            format!(
                "the context is {context} tokens, the model was trained for {trained}; lower --context"
            ),
        )),
        Some(context) => Ok(context),
    }
}

/// The option, else half of what is free once the workspace is there; `plan_blocks` takes no more than can be used.
fn kv_memory(
    options: &LlmOptions,
    model: &dyn Model,
    backend: &dyn Backend,
    limits: &Limits,
) -> usize {
    let other = Workspace::bytes(&model.spec().config, limits)
        + backend.scratch_bytes(limits)
        + model.weight_bytes();
    let free = options.available_memory_bytes.saturating_sub(other as u64);
    usize::try_from(options.kv_memory_bytes.unwrap_or(free / 2)).unwrap_or(usize::MAX)
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
        fingerprint: fingerprint(checkpoint, options, tokenizer),
    }
}

/// Equal for equal arithmetic, configuration, tensor table, vocabulary and cache precision.
///
/// The weights themselves are not hashed: that would read every page at start.
fn fingerprint(checkpoint: &Checkpoint, options: &LlmOptions, tokenizer: &Tokenizer) -> String {
    let mut hash = Sha256::new();
    hash.update(format!(
        "{} {} {} {:?}",
        ucuz_tensor::ARITHMETIC_VERSION,
        options.kv_dtype.name(),
        options.activations.name(),
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
