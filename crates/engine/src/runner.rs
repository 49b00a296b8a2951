//! What the engine needs of a model on a device.

use ucuz_tensor::backend::{Limits, Ticket};
use ucuz_tensor::sampling::{SampleRow, Sampled};
use ucuz_tensor::{Batch, CacheSpec, TensorResult};

/// Runs steps; owned by the engine thread.
pub trait Runner: Send {
    /// Sizes that no step exceeds.
    fn limits(&self) -> &Limits;

    /// Shape of the KV cache.
    fn cache(&self) -> &CacheSpec;

    /// KV blocks of each cache group.
    fn blocks(&self) -> &[usize];

    /// Starts one step; `rows[i]` says what is wanted of `batch.logit_rows[i]`. Any number of rows, at most one a token.
    ///
    /// # Errors
    /// What the device reports; `TensorError::Device` means that it is lost. The step's positions then hold garbage.
    fn launch(&mut self, batch: &Batch, rows: &[SampleRow<'_>]) -> TensorResult<Ticket>;

    /// Waits for the oldest step in flight.
    ///
    /// # Errors
    /// As [`Runner::launch`].
    fn wait(&mut self, ticket: Ticket) -> TensorResult<Sampled>;
}
