//! A model on a backend, loaded for a bench.

use anyhow::{Result, ensure};
use ucuz_formats::Checkpoint;
use ucuz_models::registry::LoadOptions;
use ucuz_models::{Model, cache_spec};
use ucuz_tensor::{Backend, CacheSpec, KvDtype, WeightOptions};

use crate::Host;

/// What is measured, and with which choices; `cli` makes it from the flags that every command shares.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// The model's files.
    pub checkpoint: &'a Checkpoint,
    /// Where it runs.
    pub backend: &'a dyn Backend,
    /// Precision of the KV cache.
    pub kv_dtype: KvDtype,
    /// What the arithmetic of weights is.
    pub weights: WeightOptions,
    /// Tokens of the longest sequence that may be measured.
    pub context: usize,
    /// Tokens computed in one step, as a server would.
    pub step_rows: usize,
    /// Logit rows computed at once, as a server would.
    pub logit_rows: usize,
    /// Bytes that keys and values may take.
    pub kv_memory_bytes: u64,
}

impl Setup<'_> {
    /// The shape of the model's KV cache.
    pub fn cache(&self) -> CacheSpec {
        cache_spec(&self.checkpoint.config, self.kv_dtype)
    }

    /// Loads the model for sequences of up to `context` tokens whose keys and values lie as `cache` says.
    ///
    /// # Errors
    /// A damaged or unsupported file, memory.
    pub fn load(
        &self,
        cache: CacheSpec,
        context: usize,
        host: &mut dyn Host,
    ) -> Result<Box<dyn Model>> {
        let checkpoint = self.checkpoint;
        host.begin(
            &format!("loading {}", checkpoint.name),
            checkpoint.file_bytes(),
        );
        let options = LoadOptions {
            backend: self.backend,
            cache,
            context,
            weights: self.weights,
            progress: Box::new(|bytes| host.advance(bytes)),
        };
        let model = ucuz_models::load(checkpoint, options);
        host.end();
        Ok(model?)
    }

    /// Refuses a bench that needs more KV memory than there is.
    ///
    /// # Errors
    /// The sizes, and the flags that change them.
    pub fn check_kv_memory(&self, needs_bytes: u64) -> Result<()> {
        ensure!(
            needs_bytes <= self.kv_memory_bytes,
            "the longest measurement needs {:.1} MiB of KV memory, {:.1} MiB are allowed; raise --kv-memory or measure shorter contexts",
            needs_bytes as f64 / f64::from(1 << 20),
            self.kv_memory_bytes as f64 / f64::from(1 << 20),
        );
        Ok(())
    }
}
