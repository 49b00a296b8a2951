//! Gemma 3 (text): sliding and global layers with two rotary bases, head norms, norms before and after each block, scaled
//! embeddings. Source: arXiv 2503.19786.

use ucuz_tensor::TensorResult;
use ucuz_tensor::backend::Gate;

use crate::blocks::{Attention, FeedForward, Norm};
use crate::decoder::{Decoder, DecoderLayer};
use crate::{Forward, Loader, Model, ModelResult};

/// One layer: `x += post(out(attention(pre(x))))`, then the same around the feed-forward block.
struct Layer {
    attention_norm: Norm,
    attention: Attention,
    post_attention_norm: Norm,
    ffn_norm: Norm,
    ffn: FeedForward,
    post_ffn_norm: Norm,
}

/// Loads the model.
///
/// # Errors
/// As [`Loader::weight`].
pub fn load(loader: &mut Loader<'_>) -> ModelResult<Box<dyn Model>> {
    Ok(Box::new(Decoder::load(loader, Layer::load)?))
}

impl Layer {
    fn load(loader: &mut Loader<'_>, i: usize) -> ModelResult<Self> {
        let hidden = loader.config().hidden;
        Ok(Self {
            attention_norm: loader.norm(&format!("blk.{i}.attn_norm"), hidden)?,
            attention: loader.attention(i, true)?,
            post_attention_norm: loader.norm(&format!("blk.{i}.post_attention_norm"), hidden)?,
            ffn_norm: loader.norm(&format!("blk.{i}.ffn_norm"), hidden)?,
            ffn: loader.feed_forward(i, Gate::GeluTanh)?,
            post_ffn_norm: loader.norm(&format!("blk.{i}.post_ffw_norm"), hidden)?,
        })
    }

    /// `x += norm(delta)`.
    fn add_normed(&self, step: &mut Forward<'_>, norm: &Norm) -> TensorResult<()> {
        let rows = step.rows();
        let ws = &mut step.workspace;
        norm.run(
            step.queue,
            ws.normed.rows_mut(0..rows),
            ws.delta.rows(0..rows),
        )?;
        step.queue
            .add(ws.x.rows_mut(0..rows), ws.normed.rows(0..rows))
    }
}

impl DecoderLayer for Layer {
    fn attention(&self) -> (&Norm, &Attention) {
        (&self.attention_norm, &self.attention)
    }

    fn finish(&self, step: &mut Forward<'_>) -> TensorResult<()> {
        let rows = step.rows();
        let ws = &mut step.workspace;
        self.attention.out.run(
            step.queue,
            ws.delta.rows_mut(0..rows),
            ws.heads.rows(0..rows),
        )?;
        self.add_normed(step, &self.post_attention_norm)?;
        self.ffn_norm.run_on_stream(step)?;
        self.ffn.activate(step)?;
        let ws = &mut step.workspace;
        self.ffn.down.run(
            step.queue,
            ws.delta.rows_mut(0..rows),
            ws.activated.rows(0..rows),
        )?;
        self.add_normed(step, &self.post_ffn_norm)
    }

    fn len_bytes(&self) -> usize {
        let norms = [
            &self.attention_norm,
            &self.post_attention_norm,
            &self.ffn_norm,
            &self.post_ffn_norm,
        ];
        norms
            .iter()
            .map(|norm| norm.weight.len_bytes())
            .sum::<usize>()
            + self.attention.len_bytes()
            + self.ffn.len_bytes()
    }
}
