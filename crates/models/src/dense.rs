//! The pre-norm decoder that llama, mistral, qwen2 and qwen3 share.

use std::ops::Range;

use ucuz_tensor::TensorResult;

use crate::blocks::{Activation, Attention, Ends, FeedForward, Norm};
use crate::{Forward, Loader, Model, ModelResult, ModelSpec};

/// What the architectures of this family differ in; biases follow from the file.
#[derive(Debug, Clone, Copy)]
pub struct DenseOptions {
    /// Whether queries and keys are normed per head.
    pub head_norms: bool,
}

/// One layer: `x += out(attention(norm(x)))`, then `x += down(silu(gate) · up)` of `norm(x)`.
struct Layer {
    attention_norm: Norm,
    attention: Attention,
    ffn_norm: Norm,
    ffn: FeedForward,
}

/// A dense decoder.
pub struct Dense {
    spec: ModelSpec,
    ends: Ends,
    layers: Vec<Layer>,
}

impl Dense {
    /// Loads all weights.
    ///
    /// # Errors
    /// As [`Loader::weight`].
    pub fn load(loader: &mut Loader<'_>, options: DenseOptions) -> ModelResult<Self> {
        let config = loader.config();
        let ends = loader.ends()?;
        let layers = (0..config.layers)
            .map(|i| {
                Ok(Layer {
                    attention_norm: loader.norm(&format!("blk.{i}.attn_norm"), config.hidden)?,
                    attention: loader.attention(i, options.head_norms)?,
                    ffn_norm: loader.norm(&format!("blk.{i}.ffn_norm"), config.hidden)?,
                    ffn: loader.feed_forward(i, Activation::Silu)?,
                })
            })
            .collect::<ModelResult<Vec<_>>>()?;
        Ok(Self {
            spec: ModelSpec {
                config: config.clone(),
                cache: loader.cache.clone(),
            },
            ends,
            layers,
        })
    }
}

impl Layer {
    fn run(&self, step: &mut Forward<'_>) -> TensorResult<()> {
        let rows = step.rows();
        let workspace = &mut step.workspace;
        self.attention_norm.run(
            step.queue,
            workspace.normed.rows_mut(0..rows),
            workspace.x.rows(0..rows),
        )?;
        self.attention.mix(step)?;
        let workspace = &mut step.workspace;
        self.attention.out.add(
            step.queue,
            workspace.x.rows_mut(0..rows),
            workspace.heads.rows(0..rows),
        )?;
        self.ffn_norm.run(
            step.queue,
            workspace.normed.rows_mut(0..rows),
            workspace.x.rows(0..rows),
        )?;
        self.ffn.activate(step)?;
        let workspace = &mut step.workspace;
        self.ffn.down.add(
            step.queue,
            workspace.x.rows_mut(0..rows),
            workspace.activated.rows(0..rows),
        )
    }
}

impl Model for Dense {
    fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    fn embed(&self, step: &mut Forward<'_>) -> TensorResult<()> {
        self.ends.embed(step)
    }

    fn layers(&self, step: &mut Forward<'_>, range: Range<usize>) -> TensorResult<()> {
        self.layers[range]
            .iter()
            .try_for_each(|layer| layer.run(step))
    }

    fn head(&self, step: &mut Forward<'_>, range: Range<usize>) -> TensorResult<()> {
        self.ends.head(step, range)
    }

    fn weight_bytes(&self) -> usize {
        let layers = self.layers.iter().map(|layer| {
            layer.attention.len_bytes()
                + layer.ffn.len_bytes()
                + layer.attention_norm.weight.len_bytes()
                + layer.ffn_norm.weight.len_bytes()
        });
        self.ends.len_bytes() + layers.sum::<usize>()
    }
}
