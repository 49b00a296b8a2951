//! The pre-norm decoder that llama, mistral, qwen2 and qwen3 share.

use ucuz_tensor::TensorResult;
use ucuz_tensor::backend::Gate;

use crate::blocks::{Attention, FeedForward, Norm};
use crate::decoder::{Decoder, DecoderLayer};
use crate::{Forward, Loader, Model, ModelResult};

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

/// Loads the model.
///
/// # Errors
/// As [`Loader::weight`].
pub fn load(loader: &mut Loader<'_>, options: DenseOptions) -> ModelResult<Box<dyn Model>> {
    let layer = |loader: &mut Loader<'_>, i| Layer::load(loader, i, options);
    Ok(Box::new(Decoder::load(loader, layer)?))
}

impl Layer {
    fn load(loader: &mut Loader<'_>, i: usize, options: DenseOptions) -> ModelResult<Self> {
        let hidden = loader.config().hidden;
        Ok(Self {
            attention_norm: loader.norm(&format!("blk.{i}.attn_norm"), hidden)?,
            attention: loader.attention(i, options.head_norms)?,
            ffn_norm: loader.norm(&format!("blk.{i}.ffn_norm"), hidden)?,
            ffn: loader.feed_forward(i, Gate::Silu)?,
        })
    }
}

impl DecoderLayer for Layer {
    fn attention(&self) -> (&Norm, &Attention) {
        (&self.attention_norm, &self.attention)
    }

    fn finish(&self, step: &mut Forward<'_>) -> TensorResult<()> {
        let rows = step.rows();
        let workspace = &mut step.workspace;
        self.attention.out.add(
            step.queue,
            workspace.x.rows_mut(0..rows),
            workspace.heads.rows(0..rows),
        )?;
        self.ffn_norm.run_on_stream(step)?;
        self.ffn.activate(step)?;
        let workspace = &mut step.workspace;
        self.ffn.down.add(
            step.queue,
            workspace.x.rows_mut(0..rows),
            workspace.activated.rows(0..rows),
        )
    }

    fn len_bytes(&self) -> usize {
        self.attention.len_bytes()
            + self.ffn.len_bytes()
            + self.attention_norm.weight.len_bytes()
            + self.ffn_norm.weight.len_bytes()
    }
}
