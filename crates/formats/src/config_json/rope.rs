//! Rotary embeddings of `config.json`: the older `rope_theta` + `rope_scaling` and the newer `rope_parameters`, which may be
//! one object or one a kind of layer.

use serde_json::{Map, Value};

use super::Object;
use crate::config::{ModelConfig, RopeConfig, RopeScaling};
use crate::error::{FormatError, Place};
use crate::family::Family;

/// Halves rotate, nothing is stretched.
pub(super) fn plain(theta: f64, rotary_dim: usize) -> RopeConfig {
    RopeConfig {
        theta,
        rotary_dim,
        interleaved: false,
        scaling: RopeScaling::None,
    }
}

/// Fills `config.rope` and, where the family has one, `config.rope_local`.
pub(super) fn read(
    json: &Object<'_>,
    family: &Family,
    config: &mut ModelConfig,
) -> Result<(), FormatError> {
    let parameters = json.object("rope_parameters")?;
    let kind = |name: &str| {
        parameters
            .and_then(|p| p.get(name))
            .and_then(Value::as_object)
    };
    let whole = kind("full_attention").or(parameters);
    let theta = json.float("rope_theta")?.unwrap_or(family.defaults.theta);
    let partial = json.float("partial_rotary_factor")?.unwrap_or(1.0);
    let scaling = json.object("rope_scaling")?;
    let base = Rope {
        theta,
        partial,
        head_dim: config.head_dim,
    };
    config.rope = match whole {
        Some(map) => base.read(Some(map))?,
        None => base.read(scaling)?,
    };
    if let Some(default) = family.defaults.local_theta {
        let theta = json.float("rope_local_base_freq")?.unwrap_or(default);
        config.rope_local = Some(Rope { theta, ..base }.read(kind("sliding_attention"))?);
    }
    Ok(())
}

/// What holds where the object is silent.
#[derive(Clone, Copy)]
struct Rope {
    theta: f64,
    partial: f64,
    head_dim: usize,
}

impl Rope {
    fn read(self, map: Option<&Map<String, Value>>) -> Result<RopeConfig, FormatError> {
        let Some(map) = map else {
            return Ok(plain(self.theta, rotary_dim(self.head_dim, self.partial)?));
        };
        let json = Object::inner(map);
        let theta = json.float("rope_theta")?.unwrap_or(self.theta);
        let partial = json.float("partial_rotary_factor")?.unwrap_or(self.partial);
        let rope = plain(theta, rotary_dim(self.head_dim, partial)?);
        Ok(RopeConfig {
            scaling: scaling(&json)?,
            ..rope
        })
    }
}

fn rotary_dim(head_dim: usize, partial: f64) -> Result<usize, FormatError> {
    let key = "partial_rotary_factor";
    if !(partial > 0.0 && partial <= 1.0) {
        return Err(FormatError::setting(
            key,
            "the part of a head lies in 0 to 1",
            partial,
        ));
    }
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "int() of a product between 0 and head_dim, as the reference computes it"
    )]
    Ok((head_dim as f64 * partial) as usize)
}

fn scaling(json: &Object<'_>) -> Result<RopeScaling, FormatError> {
    let name = match json.get("rope_type").or_else(|| json.get("type")) {
        None => "default",
        Some(Value::String(name)) => name.as_str(),
        Some(other) => return Err(super::bad("rope_type", "is a string", other)),
    };
    let need = |key: &str| {
        json.float(key)?.ok_or_else(|| {
            let rule = format!("{name} rope scaling has this key");
            FormatError::missing(Place::key(format!("rope_scaling.{key}")), rule)
        })
    };
    match name {
        "default" => Ok(RopeScaling::None),
        "linear" => Ok(RopeScaling::Linear {
            factor: need("factor")?,
        }),
        "llama3" => Ok(RopeScaling::Llama3 {
            factor: need("factor")?,
            low_freq_factor: need("low_freq_factor")?,
            high_freq_factor: need("high_freq_factor")?,
            original_context: need("original_max_position_embeddings")?,
        }),
        other => {
            let rule = "rope scaling is default, linear or llama3";
            Err(FormatError::unsupported(
                Place::key("rope_scaling.rope_type"),
                rule,
                other,
            ))
        }
    }
}
