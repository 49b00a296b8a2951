//! What is known of the model that was measured.

use serde::Serialize;
use ucuz_report::Fact;

use super::setup::Setup;

/// Facts of a measured model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelFacts {
    /// Stem of the file, or name of the folder.
    pub name: String,
    /// Architecture.
    pub architecture: String,
    /// Parameters, all tensors counted.
    pub parameters: u64,
    /// Bits a weight takes in the file, bookkeeping counted.
    pub bits_per_weight: f64,
    /// Number formats of the file with the share of parameters in each, largest first.
    pub formats: Vec<(String, f64)>,
    /// Precision of the KV cache.
    pub kv_dtype: String,
    /// How activations meet stored integers.
    pub activations: String,
    /// What became of the stored formats.
    pub on_load: String,
    /// Bytes that keys and values of one token take.
    pub kv_token_bytes: u64,
    /// What `system_fingerprint` is when this model is served with these options; absent without a usable tokenizer.
    pub fingerprint: Option<String>,
}

impl ModelFacts {
    /// Facts of what `setup` names.
    pub fn of(setup: &Setup<'_>, fingerprint: Option<String>) -> Self {
        let summary = setup.checkpoint.summary();
        let all = summary.parameters.max(1) as f64;
        let shares = summary.formats.iter();
        let mut formats: Vec<(String, f64)> = shares
            .map(|(format, share)| (format.to_string(), share.parameters as f64 / all))
            .collect();
        formats.sort_by(|a, b| b.1.total_cmp(&a.1));
        Self {
            name: setup.checkpoint.name.clone(),
            architecture: setup.checkpoint.config.architecture.clone(),
            parameters: summary.parameters,
            bits_per_weight: summary.bits_per_weight,
            formats,
            kv_dtype: setup.kv_dtype.name().to_owned(),
            activations: setup.weights.activations.name().to_owned(),
            on_load: setup.weights.on_load.name().to_owned(),
            kv_token_bytes: setup.cache().token_bytes() as u64,
            fingerprint,
        }
    }

    /// The same as lines of a report.
    pub fn facts(&self) -> Vec<Fact> {
        let formats: Vec<String> = self
            .formats
            .iter()
            .filter(|(_, share)| *share >= 0.005)
            .map(|(name, share)| format!("{name} {:.0} %", share * 100.0))
            .collect();
        let mut facts = vec![
            Fact::new(
                "model",
                format!(
                    "{}, {}, {:.1} M parameters at {:.2} bits ({})",
                    self.name,
                    self.architecture,
                    self.parameters as f64 / 1e6,
                    self.bits_per_weight,
                    formats.join(", ")
                ),
            ),
            Fact::new(
                "precision",
                format!(
                    "weights {}, activations {}, KV cache {} ({} bytes a token)",
                    self.on_load, self.activations, self.kv_dtype, self.kv_token_bytes
                ),
            ),
        ];
        let fingerprint = self.fingerprint.as_ref();
        facts.extend(fingerprint.map(|print| Fact::new("fingerprint", print)));
        facts
    }
}
