//! Fields that this server does not act on: harmless ones are named back to the client in the
//! header `x-ucuz-ignored`, those that would change the answer are refused.

use crate::clip::Clip;
use crate::error::ApiError;
use crate::fields::{Fields, as_f32, unknown};
use crate::json::Json;

/// Fields that clients send for bookkeeping of OpenAI's or of other servers; they have no effect on
/// an answer here.
const HARMLESS: [&str; 12] = [
    "user",
    "metadata",
    "store",
    "service_tier",
    "parallel_tool_calls",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "cache_prompt",
    // Below: refused unless `mirostat` is 0, which leaves the others without effect too.
    MIROSTAT,
    "mirostat_tau",
    "mirostat_eta",
];

/// A way of sampling of llama.cpp's.
const MIROSTAT: &str = "mirostat";

/// A field that would change the answer, and the values that do not.
struct Unsupported {
    name: &'static str,
    neutral: fn(&Json) -> bool,
}

const UNSUPPORTED: [Unsupported; 19] = [
    Unsupported {
        name: "tools",
        neutral: is_empty,
    },
    Unsupported {
        name: "tool_choice",
        neutral: |v| is_text(v, "none") || is_text(v, "auto"),
    },
    Unsupported {
        name: "functions",
        neutral: is_empty,
    },
    Unsupported {
        name: "function_call",
        neutral: |v| is_text(v, "none") || is_text(v, "auto"),
    },
    Unsupported {
        name: "modalities",
        neutral: is_text_modality,
    },
    Unsupported {
        name: "audio",
        neutral: never,
    },
    Unsupported {
        name: "prediction",
        neutral: never,
    },
    Unsupported {
        name: "web_search_options",
        neutral: never,
    },
    Unsupported {
        name: "reasoning_effort",
        neutral: never,
    },
    Unsupported {
        name: "verbosity",
        neutral: never,
    },
    Unsupported {
        name: "moderation",
        neutral: never,
    },
    Unsupported {
        name: "suffix",
        neutral: |v| is_text(v, ""),
    },
    Unsupported {
        name: "add_generation_prompt",
        neutral: |v| *v == Json::Bool(true),
    },
    Unsupported {
        name: "continue_final_message",
        neutral: |v| *v == Json::Bool(false),
    },
    Unsupported {
        name: "chat_template",
        neutral: never,
    },
    Unsupported {
        name: "chat_template_kwargs",
        neutral: is_empty,
    },
    Unsupported {
        name: "use_beam_search",
        neutral: |v| *v == Json::Bool(false),
    },
    Unsupported {
        name: "length_penalty",
        neutral: |v| as_f32(v) == Some(1.0),
    },
    Unsupported {
        name: "typical_p",
        neutral: |v| as_f32(v) == Some(1.0),
    },
];

fn never(_: &Json) -> bool {
    false
}

pub(super) fn is_empty(value: &Json) -> bool {
    match value {
        Json::Array(items) => items.is_empty(),
        Json::Object(entries) => entries.is_empty(),
        _ => false,
    }
}

pub(super) fn is_text(value: &Json, text: &str) -> bool {
    matches!(value, Json::String(value) if value == text)
}

fn is_text_modality(value: &Json) -> bool {
    matches!(value, Json::Array(items) if matches!(items.as_slice(), [item] if is_text(item, "text")))
}

/// Decides about every field that is left; returns the names of the harmless ones.
///
/// # Errors
/// 400 naming a field that would change the answer, or that nobody knows.
pub(super) fn settle(fields: Fields) -> Result<Vec<&'static str>, ApiError> {
    let mut ignored = Vec::new();
    for (name, value) in fields.rest() {
        if let Some(harmless) = HARMLESS.iter().find(|harmless| **harmless == name) {
            if *harmless == MIROSTAT && value != Json::Null && as_f32(&value) != Some(0.0) {
                return Err(unsupported(MIROSTAT));
            }
            if value != Json::Null {
                ignored.push(*harmless);
            }
            continue;
        }
        match UNSUPPORTED.iter().find(|field| field.name == name) {
            Some(field) if value == Json::Null || (field.neutral)(&value) => {}
            Some(field) => return Err(unsupported(field.name)),
            None => return Err(unknown(&name)),
        }
    }
    ignored.sort_unstable();
    Ok(ignored)
}

/// 400: a field that would change the answer and is not supported.
fn unsupported(name: &'static str) -> ApiError {
    let message = format!(
        "field {} with this value is not supported and would change the answer; leave it out",
        Clip(name)
    );
    ApiError::bad_request("unsupported_parameter", message).with_param(name)
}
