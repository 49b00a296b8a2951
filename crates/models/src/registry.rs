//! Every architecture that runs.

use ucuz_formats::Checkpoint;
use ucuz_tensor::destination::{Anonymous, Destination};
use ucuz_tensor::{Backend, CacheSpec, WeightOptions};

use crate::{Loader, Model, ModelError, ModelResult, gemma3, llama, qwen3};

/// One architecture.
pub struct Architecture {
    /// Name in the configuration.
    pub name: &'static str,
    /// Loads it.
    pub load: fn(&mut Loader<'_>) -> ModelResult<Box<dyn Model>>,
}

/// All of them; to add one, write its file and a line here.
pub static ARCHITECTURES: &[Architecture] = &[
    Architecture {
        name: "llama",
        load: llama::load,
    },
    Architecture {
        name: "mistral",
        load: llama::load,
    },
    Architecture {
        name: "qwen2",
        load: llama::load,
    },
    Architecture {
        name: "qwen3",
        load: qwen3::load,
    },
    Architecture {
        name: "gemma3",
        load: gemma3::load,
    },
];

/// What to load a model for.
pub struct LoadOptions<'a> {
    /// Where weights go.
    pub backend: &'a dyn Backend,
    /// What is cached; made by [`crate::cache_spec`].
    pub cache: CacheSpec,
    /// Positions served.
    pub context: usize,
    /// What the arithmetic of weights is.
    pub weights: WeightOptions,
    /// Told of each weight's stored bytes once it is in place.
    pub progress: Box<dyn FnMut(u64) + 'a>,
}

/// Loads `checkpoint` by its architecture, its weights in memory of their own.
///
/// # Errors
/// [`ModelError::UnknownArchitecture`], or what loading reports.
pub fn load(checkpoint: &Checkpoint, options: LoadOptions<'_>) -> ModelResult<Box<dyn Model>> {
    load_into(&mut Anonymous, checkpoint, options)
}

/// As [`load`], with the bytes of the weights where `destination` has them.
///
/// # Errors
/// As [`load`].
pub fn load_into<'a>(
    destination: &'a mut dyn Destination,
    checkpoint: &'a Checkpoint,
    options: LoadOptions<'a>,
) -> ModelResult<Box<dyn Model>> {
    let name = &checkpoint.config.architecture;
    let Some(architecture) = ARCHITECTURES.iter().find(|row| row.name == name) else {
        let known = ARCHITECTURES
            .iter()
            .map(|row| row.name)
            .collect::<Vec<_>>()
            .join(", ");
        return Err(ModelError::UnknownArchitecture {
            name: name.clone(),
            known,
        });
    };
    let mut loader = Loader::new(checkpoint, options, destination)?;
    (architecture.load)(&mut loader)
}
