//! A stack of layers between [`Ends`]: what an architecture need not write again. It writes a [`DecoderLayer`].

use std::ops::Range;

use ucuz_tensor::TensorResult;

use crate::blocks::{Attention, Ends, Norm};
use crate::{Forward, Loader, Model, ModelResult, ModelSpec};

/// One layer of an architecture.
pub trait DecoderLayer: Send {
    /// Its attention, and the norm before it.
    fn attention(&self) -> (&Norm, &Attention);

    /// What follows the attention: from `workspace.heads` and `workspace.x` to `workspace.x`, each row for itself.
    ///
    /// # Errors
    /// What the queue reports.
    fn finish(&self, step: &mut Forward<'_>) -> TensorResult<()>;

    /// Resident bytes.
    fn len_bytes(&self) -> usize;
}

/// A model whose layers are all of one kind.
pub struct Decoder<L> {
    spec: ModelSpec,
    ends: Ends,
    layers: Vec<L>,
}

impl<L: DecoderLayer> Decoder<L> {
    /// Loads all weights; `layer` loads the layer of an index.
    ///
    /// # Errors
    /// As [`Loader::weight`].
    pub fn load(
        loader: &mut Loader<'_>,
        layer: impl Fn(&mut Loader<'_>, usize) -> ModelResult<L>,
    ) -> ModelResult<Self> {
        let config = loader.config();
        let ends = loader.ends()?;
        let layers = (0..config.layers)
            .map(|i| layer(loader, i))
            .collect::<ModelResult<Vec<_>>>()?;
        let spec = ModelSpec {
            config: config.clone(),
            cache: loader.cache().clone(),
        };
        Ok(Self { spec, ends, layers })
    }
}

impl<L: DecoderLayer> Model for Decoder<L> {
    fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    fn embed(&self, step: &mut Forward<'_>) -> TensorResult<()> {
        self.ends.embed(step)
    }

    fn layers(&self, step: &mut Forward<'_>, range: Range<usize>) -> TensorResult<()> {
        let last = self.layers.len();
        for (layer, at) in self.layers[range.clone()].iter().zip(range) {
            let (norm, attention) = layer.attention();
            norm.run_on_stream(step)?;
            attention.store(step)?;
            if at + 1 == last && step.wanted_rows() == 0 {
                return Ok(());
            }
            attention.attend(step)?;
            if at + 1 == last {
                step.keep_wanted_rows()?;
            }
            layer.finish(step)?;
        }
        Ok(())
    }

    fn hidden(&self, step: &mut Forward<'_>, range: Range<usize>) -> TensorResult<()> {
        self.ends.hidden(step, range)
    }

    fn head(&self, step: &mut Forward<'_>, range: Range<usize>) -> TensorResult<()> {
        self.ends.head(step, range)
    }

    fn weight_bytes(&self) -> usize {
        let layers = self.layers.iter().map(DecoderLayer::len_bytes);
        self.ends.len_bytes() + layers.sum::<usize>()
    }
}
