//! How much memory a served model takes, known before a byte of it is loaded.
//!
//! Weights, KV pool and workspace are what is then allocated, to the byte; the rest are bounds. Pages are resident once
//! they are touched: the whole plan is, when the pool is full and the queue too.

use ucuz_formats::Checkpoint;
use ucuz_models::{ModelSpec, cache_spec};
use ucuz_tensor::backend::Limits;
use ucuz_tensor::layout::PanelLayout;
use ucuz_tensor::{Backend, CacheSpec, OnLoad};
use ucuz_text::limits::{GRAMMAR_CACHE_BYTES, MATCHER_BYTES};

use crate::load::{LlmOptions, PROMPT_TOKENS_MAX, limits, workspace_bytes};
use crate::{LlmError, LlmResult};

/// Tensors that keep their format whatever is asked for: the two ends of a model.
const ENDS: [&str; 2] = ["token_embd.weight", "output.weight"];

/// Bytes that the prefix index keeps of one block: tokens, names, place.
const INDEX_BLOCK_BYTES: usize = 256;

/// Bytes of a prompt token inside: its id as the client's request and as the engine's sequence, its share of a name.
const QUEUED_TOKEN_BYTES: usize = 12;

/// Bytes of a request inside beside its prompt: its places in engine, server and connection.
const REQUEST_BYTES: usize = 24 << 10;

/// Bytes that the tokenizer takes of each entry beside its text: tables of ids, texts and merges.
const VOCABULARY_ENTRY_BYTES: usize = 120;

/// Bytes that the trie of the vocabulary and its copies take of each entry: `llguidance` keeps about a dozen.
const TRIE_ENTRY_BYTES: usize = 400;

/// What a served model takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Weights as the kernels read them.
    pub weight_bytes: usize,
    /// Matrices of a step, logits, the backend's scratch, rotary tables.
    pub workspace_bytes: usize,
    /// Keys and values.
    pub kv_pool_bytes: usize,
    /// Names of cached prefixes, when every block has one.
    pub index_bytes: usize,
    /// Tables of the tokenizer, about.
    pub tokenizer_bytes: usize,
    /// The vocabulary's trie, compiled grammars that are kept, and the automata of as many constrained texts as may run; none of
    /// it before the first constrained request.
    pub grammar_bytes: usize,
    /// Requests that run and wait, when as many are inside as may.
    pub queue_bytes: usize,
    /// Blocks of each cache group.
    pub(crate) blocks: Vec<usize>,
    /// Sizes that no step exceeds.
    pub(crate) limits: Limits,
    pub(crate) cache: CacheSpec,
    /// Tokens that the model is loaded for; the pool may hold fewer, see `limits`.
    pub(crate) context: usize,
}

impl MemoryPlan {
    /// Plans `checkpoint` on `backend`, reading no weight.
    ///
    /// # Errors
    /// A context or KV memory that does not fit, with the numbers.
    pub fn new(
        checkpoint: &Checkpoint,
        backend: &dyn Backend,
        options: &LlmOptions,
    ) -> LlmResult<Self> {
        let config = &checkpoint.config;
        let context = context(options, config.context)?;
        let spec = ModelSpec {
            config: config.clone(),
            cache: cache_spec(config, options.kv_dtype),
        };
        let mut limits = limits(&spec, (options.max_sequences, context), options.step_rows);
        let weight_bytes = weight_bytes(checkpoint, options.weights.on_load);
        let workspace_bytes = workspace_bytes(config, backend, &limits);
        let kv_memory = kv_memory(options, weight_bytes + workspace_bytes);
        let blocks = ucuz_engine::plan_blocks(&spec.cache, &limits, kv_memory)
            .map_err(|error| LlmError::invalid("kv-memory", error.to_string()))?;
        limits.context = served_context(options, &limits, &spec.cache, &blocks)?;
        let is_indexed = options.scheduling.prefix_key.is_some();
        Ok(Self {
            weight_bytes,
            workspace_bytes,
            kv_pool_bytes: spec.cache.bytes(&blocks),
            index_bytes: match is_indexed {
                true => blocks.iter().sum::<usize>() * INDEX_BLOCK_BYTES,
                false => 0,
            },
            tokenizer_bytes: config.vocab * VOCABULARY_ENTRY_BYTES,
            grammar_bytes: config.vocab * TRIE_ENTRY_BYTES
                + GRAMMAR_CACHE_BYTES
                + options.max_sequences * MATCHER_BYTES,
            queue_bytes: queue_bytes(options),
            blocks,
            limits,
            cache: spec.cache,
            context,
        })
    }

    /// Tokens that one request may hold.
    pub fn context(&self) -> usize {
        self.limits.context
    }

    /// All of it but what grammars take, which is a bound far above what most ask for, and nothing before the first.
    pub fn total_bytes(&self) -> usize {
        self.weight_bytes
            + self.workspace_bytes
            + self.kv_pool_bytes
            + self.index_bytes
            + self.tokenizer_bytes
            + self.queue_bytes
    }
}

/// Bytes of all weights in memory.
fn weight_bytes(checkpoint: &Checkpoint, on_load: OnLoad) -> usize {
    let tensors = checkpoint.tensors().map(|tensor| {
        let elements = tensor.shape.iter().product::<usize>();
        let format = match ENDS.contains(&tensor.name) {
            true => tensor.format,
            false => on_load.format(tensor.format),
        };
        let layout = match *tensor.shape {
            [rows, cols] => PanelLayout::converted(tensor.format, format, rows, cols).ok(),
            _ => None,
        };
        let bytes = layout.and_then(|layout| layout.checked_bytes());
        // Vectors are f32.
        bytes.unwrap_or(elements.saturating_mul(4))
    });
    tensors.sum()
}

/// The option, else half of what is free beside `other`; `plan_blocks` takes no more than can be used.
fn kv_memory(options: &LlmOptions, other: usize) -> usize {
    let free = options.available_memory_bytes.saturating_sub(other as u64);
    usize::try_from(options.kv_memory_bytes.unwrap_or(free / 2)).unwrap_or(usize::MAX)
}

fn queue_bytes(options: &LlmOptions) -> usize {
    let tokens = options.scheduling.max_prompt_tokens;
    let requests = options.max_sequences + options.max_waiting;
    tokens.unwrap_or(PROMPT_TOKENS_MAX) * QUEUED_TOKEN_BYTES + requests * REQUEST_BYTES
}

/// A request that fits the context must fit the pool: a context that was asked for is refused when it does not, the
/// model's own is cut to what does.
fn served_context(
    options: &LlmOptions,
    limits: &Limits,
    cache: &CacheSpec,
    blocks: &[usize],
) -> LlmResult<usize> {
    let holds = ucuz_engine::longest_sequence(cache, limits, blocks);
    match options.context {
        Some(context) if context > holds => Err(LlmError::invalid(
            "kv-memory",
            format!(
                "the KV memory holds {holds} tokens, the context asked for has {context}; raise --kv-memory or lower --context"
            ),
        )),
        _ => Ok(holds),
    }
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
