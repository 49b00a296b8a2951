//! From named tensors of a checkpoint to weights in a backend's layout, shapes checked against the configuration.

use std::sync::Arc;

use ucuz_formats::{Checkpoint, ModelConfig, TensorRef};
use ucuz_tensor::backend::{AttentionOptions, Gate, HeadShape, RopeTable};
use ucuz_tensor::destination::Destination;
use ucuz_tensor::quant::decode_row;
use ucuz_tensor::weight::RawPart;
use ucuz_tensor::{CacheSpec, OnLoad, Tensor, TensorError, Weight, WeightOptions};

use crate::blocks::{Attention, Ends, FeedForward, HeadNorms, Linear, Norm};
use crate::registry::LoadOptions;
use crate::rope::rope_table;
use crate::{ModelError, ModelResult};

/// Reads one checkpoint for one backend.
pub struct Loader<'a> {
    /// The files.
    pub checkpoint: &'a Checkpoint,
    /// What for.
    options: LoadOptions<'a>,
    /// Where the bytes of weights come to lie.
    destination: &'a mut dyn Destination,
    rope: Arc<RopeTable>,
    rope_local: Option<Arc<RopeTable>>,
}

impl<'a> Loader<'a> {
    /// A loader that brings weights to `destination`.
    ///
    /// # Errors
    /// Out of memory for the rotary tables.
    pub fn new(
        checkpoint: &'a Checkpoint,
        options: LoadOptions<'a>,
        destination: &'a mut dyn Destination,
    ) -> ModelResult<Self> {
        let context = options.context;
        let rope = Arc::new(rope_table(&checkpoint.config.rope, context)?);
        let local = checkpoint
            .config
            .rope_local
            .as_ref()
            .map(|config| rope_table(config, context))
            .transpose()?;
        Ok(Self {
            checkpoint,
            options,
            destination,
            rope,
            rope_local: local.map(Arc::new),
        })
    }

    /// The configuration.
    pub fn config(&self) -> &'a ModelConfig {
        &self.checkpoint.config
    }

    /// What is cached.
    pub fn cache(&self) -> &CacheSpec {
        &self.options.cache
    }

    /// One weight whose parts are `(tensor name without suffix, rows)`, all with `cols` inputs; biases where the file has them.
    ///
    /// # Errors
    /// A missing tensor, a wrong shape, a format the backend refuses, memory.
    pub fn weight(
        &mut self,
        name: &str,
        parts: &[(String, usize)],
        cols: usize,
    ) -> ModelResult<Arc<Weight>> {
        self.weight_with(self.options.weights, name, parts, cols)
    }

    fn weight_with(
        &mut self,
        options: WeightOptions,
        name: &str,
        parts: &[(String, usize)],
        cols: usize,
    ) -> ModelResult<Arc<Weight>> {
        let mut raw = Vec::with_capacity(parts.len());
        for (part, rows) in parts {
            let tensor = self.matrix(&format!("{part}.weight"), &[*rows, cols])?;
            let bias = self
                .checkpoint
                .tensor(&format!("{part}.bias"))
                .map(|t| self.values(&t, *rows))
                .transpose()?;
            raw.push(RawPart {
                name: tensor.stored_name.to_owned(),
                format: tensor.format,
                rows: *rows,
                cols,
                bytes: tensor.bytes,
                bias,
            });
        }
        let backend = self.options.backend;
        let weight = Weight::load_into(self.destination, backend, name, &raw, options)?;
        for (part, _) in parts {
            if let Some(tensor) = self.checkpoint.tensor(&format!("{part}.weight")) {
                (self.options.progress)(tensor.bytes.len() as u64);
                self.checkpoint.release_pages(&tensor);
            }
        }
        Ok(weight)
    }

    /// A projection of one part.
    ///
    /// # Errors
    /// As [`Loader::weight`].
    pub fn linear(&mut self, name: &str, rows: usize, cols: usize) -> ModelResult<Linear> {
        Ok(Linear {
            weight: self.weight(name, &[(name.to_owned(), rows)], cols)?,
        })
    }

    /// A norm over `n` numbers, the configuration's offset added.
    ///
    /// # Errors
    /// A missing tensor or a wrong shape.
    pub fn norm(&mut self, name: &str, n: usize) -> ModelResult<Norm> {
        let tensor = self.checkpoint.require(&format!("{name}.weight"))?;
        let mut values = self.values(&tensor, n)?;
        let offset = self.config().norm_offset;
        values.iter_mut().for_each(|w| *w += offset);
        Ok(Norm {
            weight: Tensor::from_values(&values, n, name)?,
            eps: self.config().norm_eps,
        })
    }

    /// Attention of one layer, with head norms where the architecture has them.
    ///
    /// # Errors
    /// As [`Loader::weight`].
    pub fn attention(&mut self, layer: usize, head_norms: bool) -> ModelResult<Attention> {
        let config = self.config();
        let heads = HeadShape {
            heads: config.heads,
            kv_heads: config.kv_heads,
            head_dim: config.head_dim,
        };
        let (q_rows, kv_rows) = (
            heads.heads * heads.head_dim,
            heads.kv_heads * heads.head_dim,
        );
        let prefix = format!("blk.{layer}");
        let parts = [
            (format!("{prefix}.attn_q"), q_rows),
            (format!("{prefix}.attn_k"), kv_rows),
            (format!("{prefix}.attn_v"), kv_rows),
        ];
        let qkv = Linear {
            weight: self.weight(&format!("{prefix}.attn_qkv"), &parts, config.hidden)?,
        };
        let out = self.linear(&format!("{prefix}.attn_output"), config.hidden, q_rows)?;
        let norms = if head_norms {
            let q = self.norm(&format!("{prefix}.attn_q_norm"), heads.head_dim)?;
            let k = self.norm(&format!("{prefix}.attn_k_norm"), heads.head_dim)?;
            Some(HeadNorms { q, k })
        } else {
            None
        };
        let slides = config.slides(layer);
        let rope = if slides {
            self.rope_local.as_ref().unwrap_or(&self.rope)
        } else {
            &self.rope
        };
        let options = AttentionOptions {
            scale: config.attention_scale,
            window: slides.then_some(config.window).flatten(),
        };
        Ok(Attention {
            qkv,
            out,
            norms,
            heads,
            options,
            cache: self.options.cache.layers[layer],
            rope: Arc::clone(rope),
        })
    }

    /// The gated feed-forward block of one layer.
    ///
    /// # Errors
    /// As [`Loader::weight`].
    pub fn feed_forward(&mut self, layer: usize, gate: Gate) -> ModelResult<FeedForward> {
        let config = self.config();
        let prefix = format!("blk.{layer}");
        let parts = [
            (format!("{prefix}.ffn_gate"), config.ffn),
            (format!("{prefix}.ffn_up"), config.ffn),
        ];
        let gate_up = Linear {
            weight: self.weight(&format!("{prefix}.ffn_gate_up"), &parts, config.hidden)?,
        };
        let down = self.linear(&format!("{prefix}.ffn_down"), config.hidden, config.ffn)?;
        Ok(FeedForward {
            gate_up,
            down,
            gate,
        })
    }

    /// Embedding, last norm and head, as they are stored; the head is the embedding when the file has no `output.weight`.
    ///
    /// # Errors
    /// As [`Loader::weight`].
    pub fn ends(&mut self) -> ModelResult<Ends> {
        let config = self.config();
        let own_head = self.checkpoint.tensor("output.weight").is_some();
        let mut as_stored = |name: &str| {
            let options = WeightOptions {
                on_load: OnLoad::AsStored,
                ..self.options.weights
            };
            let parts = [(name.to_owned(), config.vocab)];
            self.weight_with(options, name, &parts, config.hidden)
        };
        let embedding = as_stored("token_embd")?;
        let head = if own_head {
            as_stored("output")?
        } else {
            Arc::clone(&embedding)
        };
        let norm = self.norm("output_norm", config.hidden)?;
        Ok(Ends {
            embedding,
            embedding_scale: config.embedding_scale,
            norm,
            head: Linear { weight: head },
        })
    }

    fn matrix(&self, name: &str, shape: &[usize]) -> ModelResult<TensorRef<'a>> {
        let tensor = self.checkpoint.require(name)?;
        check_shape(&tensor, shape)?;
        Ok(tensor)
    }

    /// A small vector as f32.
    fn values(&self, tensor: &TensorRef<'_>, n: usize) -> ModelResult<Vec<f32>> {
        check_shape(tensor, &[n])?;
        let mut values = vec![0.0; n];
        decode_row(tensor.format, tensor.bytes, &mut values);
        if values.iter().all(|v| v.is_finite()) {
            return Ok(values);
        }
        let error = TensorError::shape(tensor.stored_name, "finite numbers", "NaN or infinity");
        Err(ModelError::Tensor(error))
    }
}

fn check_shape(tensor: &TensorRef<'_>, expected: &[usize]) -> ModelResult<()> {
    if tensor.shape == expected {
        return Ok(());
    }
    Err(ModelError::TensorShape {
        name: tensor.stored_name.to_owned(),
        got: tensor.shape.to_vec(),
        expected: expected.to_vec(),
    })
}
