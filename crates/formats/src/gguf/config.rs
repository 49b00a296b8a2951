//! GGUF metadata to [`ModelConfig`].
//!
//! Here: keys of llama.cpp's converter and its defaults for keys that are absent. Not here: limits on sizes
//! (`validate`), tensor shapes (`expected`).
//! Source: `src/llama-model.cpp` (`load_hparams`) and `src/llama-arch.cpp` of llama.cpp.

use ucuz_tensor::Format;

use super::{GgufFile, Value};
use crate::config::{ModelConfig, RopeConfig, RopeScaling};
use crate::error::{FormatError, Place};
use crate::family::{self, Family, Windows};
use crate::limits;
use crate::validate::{narrow, reciprocal_sqrt};

/// Keys, after the architecture, of features that change results and are not computed here, with the values that mean
/// "not used".
const FEATURES: &[(&str, &[f64])] = &[
    ("expert_count", &[0.0]),
    ("attn_logit_softcapping", &[0.0]),
    ("final_logit_softcapping", &[0.0]),
    ("attention.clamp_kqv", &[0.0]),
    ("attention.max_alibi_bias", &[0.0]),
    ("logit_scale", &[0.0, 1.0]),
    ("residual_scale", &[0.0, 1.0]),
    ("embedding_scale", &[0.0, 1.0]),
    ("nextn_predict_layers", &[0.0]),
    ("attention.output_scale", &[0.0, 1.0]),
    ("attention.temperature_scale", &[0.0]),
    ("rope.scaling.attn_factor", &[0.0, 1.0]),
];

/// Layers of the 27B member of Gemma 3, whose attention scale is not that of its head size.
const GEMMA_27B_LAYERS: usize = 62;

impl<'a> GgufFile<'a> {
    /// Sizes and constants of the model.
    ///
    /// `bytes` is the file that was parsed; the tensor `rope_freqs.weight` is read from it.
    ///
    /// # Errors
    /// [`FormatError::Unsupported`] for another architecture or a feature that is not computed here, by name;
    /// [`FormatError::Missing`] and [`FormatError::Damaged`] for absent or impossible values.
    pub fn model_config(&self, bytes: &[u8]) -> Result<ModelConfig, FormatError> {
        let family = self.family()?;
        let reader = Reader { file: self, family };
        reader.refuse_features()?;
        let sizes = reader.sizes()?;
        let scaling = reader.rope_scaling(bytes)?;
        let rope = reader.rope(&sizes, scaling)?;
        let (window, sliding) = reader.windows(sizes.layers)?;
        let local = reader.local_rope(&rope)?.filter(|_| window.is_some());
        Ok(ModelConfig {
            architecture: family.name.to_owned(),
            attention_scale: reader.attention_scale(&sizes)?,
            embedding_scale: reader.embedding_scale(sizes.hidden),
            norm_eps: narrow(
                reader
                    .float("attention.layer_norm_rms_epsilon")?
                    .ok_or_else(|| reader.missing("attention.layer_norm_rms_epsilon"))?,
            ),
            norm_offset: 0.0,
            rope,
            rope_local: local,
            window,
            sliding,
            ..sizes
        })
    }

    pub(crate) fn family(&self) -> Result<&'static Family, FormatError> {
        let key = "general.architecture";
        if let Some(kind) = self.text("general.type")?.filter(|kind| *kind != "model") {
            let rule = "the file holds a model, not an adapter, projector or importance matrix";
            return Err(FormatError::unsupported(
                Place::key("general.type"),
                rule,
                kind,
            ));
        }
        if self.count("split.count")?.is_some_and(|parts| parts > 1) {
            let rule = "GGUF files split in parts are not read";
            return Err(
                FormatError::unsupported(Place::key("split.count"), rule, "several parts")
                    .advise("join the parts with `llama-gguf-split --merge`"),
            );
        }
        let name = self.text(key)?.ok_or_else(|| {
            FormatError::missing(Place::key(key), "the file names its architecture")
        })?;
        family::of_gguf(name)
    }
}

/// A file together with the family whose prefix its keys carry.
struct Reader<'f, 'a> {
    file: &'f GgufFile<'a>,
    family: &'static Family,
}

impl Reader<'_, '_> {
    fn key(&self, rest: &str) -> String {
        format!("{}.{rest}", self.family.gguf)
    }

    fn missing(&self, rest: &str) -> FormatError {
        FormatError::missing(
            Place::key(self.key(rest)),
            "the model's metadata has this key",
        )
    }

    fn float(&self, rest: &str) -> Result<Option<f64>, FormatError> {
        self.file.float(&self.key(rest))
    }

    fn optional(&self, rest: &str, limit: u64) -> Result<Option<usize>, FormatError> {
        self.file.size(&self.key(rest), limit)
    }

    fn required(&self, rest: &str, limit: u64) -> Result<usize, FormatError> {
        self.optional(rest, limit)?
            .ok_or_else(|| self.missing(rest))
    }

    /// A size that may be given once or once a layer; layers must agree.
    fn uniform(&self, rest: &str, limit: u64) -> Result<Option<usize>, FormatError> {
        let key = self.key(rest);
        let Some(Value::Array(array)) = self.file.get(&key) else {
            return self.optional(rest, limit);
        };
        let counts = array.counts().unwrap_or_default();
        match counts.first() {
            Some(first) if counts.iter().any(|n| n != first) => Err(FormatError::unsupported(
                Place::key(key),
                "all layers have the same size",
                format!("{first} and others"),
            )),
            Some(first) if (1..=limit).contains(first) => Ok(usize::try_from(*first).ok()),
            _ => {
                let rule = format!("the value is an integer from 1 to {limit}, or one a layer");
                Err(FormatError::setting(&key, rule, Value::Array(array).kind()))
            }
        }
    }

    fn refuse_features(&self) -> Result<(), FormatError> {
        for (rest, unused) in FEATURES {
            let key = self.key(rest);
            let value = match self.file.get(&key) {
                Some(Value::Array(_) | Value::String(_) | Value::Bool(_)) | None => continue,
                Some(Value::Float(x)) => x,
                Some(_) => self.file.count(&key)?.map_or(0.0, |n| n as f64),
            };
            if !unused.contains(&value) {
                let rule = "models with this feature are not computed here";
                return Err(FormatError::unsupported(Place::key(key), rule, value));
            }
        }
        match self.file.boolean(&self.key("attention.causal"))? {
            Some(false) => Err(FormatError::unsupported(
                Place::key(self.key("attention.causal")),
                "attention is causal",
                false,
            )),
            _ => Ok(()),
        }
    }

    /// A configuration whose sizes are read; everything else still at rest.
    fn sizes(&self) -> Result<ModelConfig, FormatError> {
        let hidden = self.required("embedding_length", limits::HIDDEN_MAX)?;
        let heads = self
            .uniform("attention.head_count", limits::HEADS_MAX)?
            .ok_or_else(|| self.missing("attention.head_count"))?;
        let ffn = self
            .uniform("feed_forward_length", limits::FFN_MAX)?
            .ok_or_else(|| self.missing("feed_forward_length"))?;
        Ok(ModelConfig {
            architecture: String::new(),
            vocab: self.vocab()?,
            hidden,
            layers: self.required("block_count", limits::LAYERS_MAX)?,
            heads,
            kv_heads: self
                .uniform("attention.head_count_kv", limits::HEADS_MAX)?
                .unwrap_or(heads),
            head_dim: self.head_dim(hidden, heads)?,
            ffn,
            norm_eps: 0.0,
            context: self.required("context_length", limits::CONTEXT_MAX)?,
            rope: RopeConfig {
                theta: 0.0,
                rotary_dim: 0,
                interleaved: false,
                scaling: RopeScaling::None,
            },
            rope_local: None,
            window: None,
            sliding: Vec::new(),
            attention_scale: 1.0,
            embedding_scale: 1.0,
            norm_offset: 0.0,
        })
    }

    /// Rows of the embedding, which the vocabulary and `vocab_size` must equal where they are given.
    fn vocab(&self) -> Result<usize, FormatError> {
        let name = "token_embd.weight";
        let tensor = self
            .file
            .tensors
            .iter()
            .find(|t| t.name == name)
            .ok_or_else(|| {
                FormatError::missing(Place::tensor(name), "the model has an embedding")
            })?;
        let rows = tensor.shape[..tensor.shape.len() - 1]
            .iter()
            .product::<usize>();
        let given = [
            (
                self.key("vocab_size"),
                self.optional("vocab_size", limits::VOCAB_MAX)?,
            ),
            ("tokenizer.ggml.tokens".to_owned(), self.file.vocab_len()?),
        ];
        for (key, vocab) in given {
            if vocab.is_some_and(|vocab| vocab != rows) {
                let rule = format!("the vocabulary has the {rows} rows of the embedding");
                let value = vocab.unwrap_or_default();
                return Err(FormatError::damaged(Place::Key(key), rule, value));
            }
        }
        Ok(rows)
    }

    fn head_dim(&self, hidden: usize, heads: usize) -> Result<usize, FormatError> {
        let key = self.optional("attention.key_length", limits::HEAD_DIM_MAX)?;
        let value = self.optional("attention.value_length", limits::HEAD_DIM_MAX)?;
        let head_dim = key.unwrap_or(hidden / heads);
        if value.unwrap_or(head_dim) != head_dim {
            let rule = format!("keys and values have the same length {head_dim}");
            let place = Place::key(self.key("attention.value_length"));
            return Err(FormatError::unsupported(
                place,
                rule,
                value.unwrap_or_default(),
            ));
        }
        if key.is_none() && !hidden.is_multiple_of(heads) {
            let rule = format!("head_count divides embedding_length {hidden}");
            return Err(FormatError::setting(
                &self.key("attention.head_count"),
                rule,
                heads,
            ));
        }
        Ok(head_dim)
    }

    fn rope(&self, sizes: &ModelConfig, scaling: RopeScaling) -> Result<RopeConfig, FormatError> {
        let rotary_dim = self
            .optional("rope.dimension_count", limits::HEAD_DIM_MAX)?
            .unwrap_or(sizes.head_dim);
        if let RopeScaling::Factors(factors) = &scaling
            && factors.len() * 2 != rotary_dim
        {
            let rule = format!(
                "there is one factor for each of {} frequencies",
                rotary_dim / 2
            );
            let place = Place::tensor("rope_freqs.weight");
            return Err(FormatError::damaged(place, rule, factors.len()));
        }
        Ok(RopeConfig {
            // llama.cpp's default, too.
            theta: self.float("rope.freq_base")?.unwrap_or(10_000.0),
            rotary_dim,
            interleaved: self.family.gguf_interleaved,
            scaling,
        })
    }

    fn rope_scaling(&self, bytes: &[u8]) -> Result<RopeScaling, FormatError> {
        let type_key = self.key("rope.scaling.type");
        let scaling_type = self.file.text(&type_key)?.unwrap_or("linear");
        let factor = match self.float("rope.scaling.factor")? {
            None => self.float("rope.scale_linear")?,
            given => given,
        };
        let factor = match (scaling_type, factor) {
            ("none", _) | ("linear", None | Some(0.0)) => 1.0,
            ("linear", Some(factor)) => factor,
            (other, _) => {
                let rule = "rope scaling is none, linear or by rope_freqs.weight";
                return Err(FormatError::unsupported(Place::Key(type_key), rule, other));
            }
        };
        match self.rope_factors(bytes)? {
            Some(factors) => Ok(RopeScaling::Factors(
                factors
                    .into_iter()
                    .map(|f| narrow(f64::from(f) * factor))
                    .collect(),
            )),
            None if factor == 1.0 => Ok(RopeScaling::None),
            None => Ok(RopeScaling::Linear { factor }),
        }
    }

    fn rope_factors(&self, bytes: &[u8]) -> Result<Option<Vec<f32>>, FormatError> {
        let name = "rope_freqs.weight";
        let Some(tensor) = self.file.tensors.iter().find(|t| t.name == name) else {
            return Ok(None);
        };
        if tensor.format != Format::F32 || tensor.shape.len() != 1 {
            let rule = "rope factors are a vector of F32";
            let value = format!("{} {:?}", tensor.format, tensor.shape);
            return Err(FormatError::damaged(Place::tensor(name), rule, value));
        }
        if tensor.shape[0] as u64 > limits::HEAD_DIM_MAX {
            let rule = format!("there are at most {} rope factors", limits::HEAD_DIM_MAX);
            return Err(FormatError::damaged(
                Place::tensor(name),
                rule,
                tensor.shape[0],
            ));
        }
        let words = bytes
            .get(tensor.span.clone())
            .unwrap_or_default()
            .as_chunks()
            .0;
        Ok(Some(
            words.iter().map(|word| f32::from_le_bytes(*word)).collect(),
        ))
    }

    /// Sliding layers have their own base and no stretching where the family says so.
    fn local_rope(&self, rope: &RopeConfig) -> Result<Option<RopeConfig>, FormatError> {
        let Some(default) = self.family.defaults.local_theta else {
            return Ok(None);
        };
        let theta = self.float("rope.freq_base_swa")?.unwrap_or(default);
        Ok(Some(RopeConfig {
            theta,
            scaling: RopeScaling::None,
            ..rope.clone()
        }))
    }

    fn windows(&self, layers: usize) -> Result<(Option<usize>, Vec<bool>), FormatError> {
        let key = self.key("attention.sliding_window");
        // Converters write 0 for "no window".
        if self.file.count(&key)?.unwrap_or(0) == 0 {
            return Ok((None, Vec::new()));
        }
        let window = self.optional("attention.sliding_window", limits::CONTEXT_MAX)?;
        let sliding = match (self.pattern(layers)?, self.family.windows) {
            (Some(sliding), _) => sliding,
            (None, Windows::Pattern) => every(6, layers),
            (None, _) => vec![true; layers],
        };
        Ok((window.filter(|_| sliding.contains(&true)), sliding))
    }

    fn pattern(&self, layers: usize) -> Result<Option<Vec<bool>>, FormatError> {
        let key = self.key("attention.sliding_window_pattern");
        let Some(Value::Array(array)) = self.file.get(&key) else {
            return Ok(self
                .file
                .size(&key, limits::LAYERS_MAX)?
                .map(|n| every(n, layers)));
        };
        let sliding: Vec<bool> = match array.counts() {
            Some(counts) => counts.iter().map(|n| *n != 0).collect(),
            None => array.bools().into_iter().flatten().collect(),
        };
        if sliding.len() != layers {
            let rule = format!("the pattern is a period or one bool for each of {layers} layers");
            return Err(FormatError::damaged(
                Place::Key(key),
                rule,
                Value::Array(array).kind(),
            ));
        }
        Ok(Some(sliding))
    }

    /// Of Gemma 3, the 27B model divides by `sqrt(hidden / heads)`, which its metadata does not say.
    fn attention_scale(&self, sizes: &ModelConfig) -> Result<f32, FormatError> {
        if let Some(scale) = self.float("attention.scale")?.filter(|scale| *scale != 0.0) {
            return Ok(narrow(scale));
        }
        let odd = self.family.defaults.query_scalar.is_some() && sizes.layers == GEMMA_27B_LAYERS;
        let divided = if odd {
            sizes.hidden / sizes.heads
        } else {
            sizes.head_dim
        };
        Ok(reciprocal_sqrt(divided as f64))
    }

    /// f32 as llama.cpp computes it, whatever the embedding's format.
    fn embedding_scale(&self, hidden: usize) -> f32 {
        if self.family.scaled_embedding {
            narrow((hidden as f64).sqrt())
        } else {
            1.0
        }
    }
}

/// All layers slide but every `period`-th.
pub(crate) fn every(period: usize, layers: usize) -> Vec<bool> {
    (1..=layers).map(|n| !n.is_multiple_of(period)).collect()
}
