//! [`Runner`] for the models crate's runner.

use ucuz_models::ModelRunner;
use ucuz_tensor::backend::{Limits, Ticket};
use ucuz_tensor::sampling::{SampleRow, Sampled};
use ucuz_tensor::{Batch, CacheSpec, TensorResult};

use crate::runner::Runner;

impl Runner for ModelRunner {
    fn limits(&self) -> &Limits {
        self.limits()
    }

    fn cache(&self) -> &CacheSpec {
        self.cache()
    }

    fn blocks(&self) -> &[usize] {
        self.blocks()
    }

    fn launch(&mut self, batch: &Batch, rows: &[SampleRow<'_>]) -> TensorResult<Ticket> {
        self.launch(batch, rows)
    }

    fn wait(&mut self, ticket: Ticket) -> TensorResult<Sampled> {
        self.wait(ticket)
    }
}
