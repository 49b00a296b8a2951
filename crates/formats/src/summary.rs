//! Numbers of a checkpoint as `ucuz inspect` prints them.

use std::collections::BTreeMap;

use ucuz_tensor::Format;

use crate::checkpoint::Checkpoint;

/// One tensor, as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorSummary {
    /// Canonical name.
    pub name: String,
    /// Name in the file.
    pub stored_name: String,
    /// Number format.
    pub format: Format,
    /// Outermost dimension first.
    pub shape: Vec<usize>,
    /// Bytes in the file.
    pub bytes: u64,
}

/// A whole checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Every tensor the model uses, in the order of the file.
    pub tensors: Vec<TensorSummary>,
    /// Numbers in them; a tied embedding counts once.
    pub parameters: u64,
    /// Bytes of tensors.
    pub weight_bytes: u64,
    /// Bytes of all files that hold tensors.
    pub file_bytes: u64,
    /// `weight_bytes · 8 / parameters`: scales and block bookkeeping counted.
    pub bits_per_weight: f64,
    /// Per format: tensors, parameters, bytes.
    pub formats: BTreeMap<Format, FormatShare>,
}

/// What one format holds of a checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FormatShare {
    /// Tensors.
    pub tensors: u64,
    /// Numbers.
    pub parameters: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Checkpoint {
    /// Sizes by tensor, by format and in total.
    pub fn summary(&self) -> Summary {
        let mut tensors = Vec::new();
        let mut total = FormatShare::default();
        let mut formats: BTreeMap<Format, FormatShare> = BTreeMap::new();
        for t in self.tensors() {
            let parameters = t.shape.iter().map(|n| *n as u64).product::<u64>();
            let bytes = t.bytes.len() as u64;
            for share in [&mut total, formats.entry(t.format).or_default()] {
                share.tensors += 1;
                share.parameters += parameters;
                share.bytes += bytes;
            }
            tensors.push(TensorSummary {
                name: t.name.to_owned(),
                stored_name: t.stored_name.to_owned(),
                format: t.format,
                shape: t.shape.to_vec(),
                bytes,
            });
        }
        Summary {
            tensors,
            parameters: total.parameters,
            weight_bytes: total.bytes,
            file_bytes: self.file_bytes(),
            bits_per_weight: total.bytes as f64 * 8.0 / (total.parameters as f64).max(1.0),
            formats,
        }
    }
}
