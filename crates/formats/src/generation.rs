//! Generation defaults of a checkpoint: `generation_config.json` and GGUF `general.sampling.*`.

use serde_json::Value;

use crate::config::GenerationDefaults;
use crate::error::FormatError;
use crate::gguf::{self, GgufFile};
use crate::limits;
use crate::validate::narrow;

/// Reads `generation_config.json`, or the same keys of an older `config.json`.
///
/// # Errors
/// [`FormatError::Damaged`] for bytes that are not a JSON object and for values that no sampler takes.
pub fn parse(bytes: &[u8]) -> Result<GenerationDefaults, FormatError> {
    let json = crate::config_json::object(bytes)?;
    let number = |key: &'static str| {
        let value = json.get(key).filter(|value| !value.is_null());
        value
            .map(|value| value.as_f64().ok_or_else(|| bad(key, "is a number", value)))
            .transpose()
    };
    let greedy = matches!(json.get("do_sample"), Some(Value::Bool(false)));
    let defaults = GenerationDefaults {
        temperature: if greedy {
            Some(0.0)
        } else {
            temperature(number("temperature")?)?
        },
        top_k: number("top_k")?.map(top_k),
        top_p: share("top_p", number("top_p")?)?,
        min_p: share("min_p", number("min_p")?)?,
        repetition_penalty: penalty("repetition_penalty", number("repetition_penalty")?)?,
        eos_ids: eos_ids(json.get("eos_token_id"))?,
    };
    Ok(defaults)
}

/// Reads `general.sampling.*`.
///
/// # Errors
/// [`FormatError::Damaged`] for values that no sampler takes.
pub fn of_gguf(file: &GgufFile<'_>) -> Result<GenerationDefaults, FormatError> {
    let top_k_key = "general.sampling.top_k";
    let k = match file.get(top_k_key) {
        Some(gguf::Value::Signed(n)) if n < 0 => Some(0),
        _ => file.count(top_k_key)?,
    };
    let repeat = "general.sampling.penalty_repeat";
    Ok(GenerationDefaults {
        temperature: temperature(file.float("general.sampling.temp")?)?,
        top_k: k.map(|k| u32::try_from(k).unwrap_or(0)),
        top_p: share("top_p", file.float("general.sampling.top_p")?)?,
        min_p: share("min_p", file.float("general.sampling.min_p")?)?,
        repetition_penalty: penalty(repeat, file.float(repeat)?)?,
        eos_ids: Vec::new(),
    })
}

fn bad(key: &str, rule: &str, value: impl ToString) -> FormatError {
    FormatError::setting(key, format!("{key} {rule}"), value)
}

fn temperature(given: Option<f64>) -> Result<Option<f32>, FormatError> {
    match given {
        Some(t) if !(0.0..=100.0).contains(&t) => Err(bad("temperature", "lies in 0 to 100", t)),
        given => Ok(given.map(narrow)),
    }
}

/// Zero, negative and huge values mean "all".
fn top_k(k: f64) -> u32 {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked first"
    )]
    if (1.0..=f64::from(u32::MAX)).contains(&k) {
        k as u32
    } else {
        0
    }
}

fn share(key: &str, given: Option<f64>) -> Result<Option<f32>, FormatError> {
    match given {
        Some(p) if !(0.0..=1.0).contains(&p) => Err(bad(key, "lies in 0 to 1", p)),
        given => Ok(given.map(narrow)),
    }
}

fn penalty(key: &str, given: Option<f64>) -> Result<Option<f32>, FormatError> {
    match given {
        Some(p) if !(p > 0.0 && p <= 100.0) => Err(bad(key, "lies in 0 to 100, 0 excluded", p)),
        given => Ok(given.map(narrow)),
    }
}

fn eos_ids(value: Option<&Value>) -> Result<Vec<u32>, FormatError> {
    let rule = "is a token id or a list of at most 256";
    let id = |value: &Value| {
        let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
        id.ok_or_else(|| bad("eos_token_id", rule, value))
    };
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) if list.len() <= limits::EOS_IDS_MAX => {
            list.iter().map(id).collect()
        }
        Some(Value::Array(list)) => Err(bad("eos_token_id", rule, list.len())),
        Some(one) => Ok(vec![id(one)?]),
    }
}
