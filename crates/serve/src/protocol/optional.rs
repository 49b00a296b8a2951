//! Fields that this server does not act on: harmless ones are named back to the client in the
//! header `x-ucuz-ignored`, those that would change the answer are refused.

use super::neutral::Neutral;
use crate::error::ApiError;
use crate::fields::{Fields, unknown};
use crate::json::Json;

/// What an endpoint takes without acting on it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spare {
    /// Fields without an effect on an answer here.
    pub harmless: &'static [&'static str],
    /// Fields that would change an answer, with the values that do not. Where these are not harmless, too, they go
    /// unmentioned.
    pub unsupported: &'static [(&'static str, Neutral)],
}

/// Nothing.
pub(crate) const NOTHING: Spare = Spare {
    harmless: &[],
    unsupported: &[],
};

/// A way of sampling of llama.cpp's.
const MIROSTAT: &str = "mirostat";

/// Of chats and completions: bookkeeping of OpenAI's or of other servers, and what they can do beside.
pub(crate) const OF_OTHER_SERVERS: Spare = Spare {
    harmless: &[
        "user",
        "metadata",
        "store",
        "service_tier",
        "parallel_tool_calls",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "cache_prompt",
        // Refused unless it is 0, which leaves the others without effect too.
        MIROSTAT,
        "mirostat_tau",
        "mirostat_eta",
    ],
    unsupported: &[
        (MIROSTAT, Neutral::Number(0.0)),
        ("tools", Neutral::Empty),
        ("tool_choice", Neutral::Words(&["none", "auto"])),
        ("functions", Neutral::Empty),
        ("function_call", Neutral::Words(&["none", "auto"])),
        ("modalities", Neutral::Only("text")),
        ("audio", Neutral::Never),
        ("prediction", Neutral::Never),
        ("web_search_options", Neutral::Never),
        ("reasoning_effort", Neutral::Never),
        ("verbosity", Neutral::Never),
        ("moderation", Neutral::Never),
        ("suffix", Neutral::Words(&[""])),
        ("add_generation_prompt", Neutral::Switch(true)),
        ("continue_final_message", Neutral::Switch(false)),
        ("chat_template", Neutral::Never),
        ("chat_template_kwargs", Neutral::Empty),
        ("use_beam_search", Neutral::Switch(false)),
        ("length_penalty", Neutral::Number(1.0)),
        ("typical_p", Neutral::Number(1.0)),
    ],
};

/// Decides about every field that is left; returns the names of the harmless ones.
///
/// # Errors
/// 400 naming a field that would change the answer, or that nobody knows.
pub(super) fn settle(fields: Fields, spare: &Spare) -> Result<Vec<&'static str>, ApiError> {
    let mut ignored = Vec::new();
    for (name, value) in fields.rest() {
        let harmless = spare.harmless.iter().find(|harmless| **harmless == name);
        let unsupported = spare.unsupported.iter().find(|(other, _)| *other == name);
        match (harmless, unsupported) {
            (None, None) => return Err(unknown(&name)),
            (_, Some((name, neutral))) if !neutral.has(&value) => {
                return Err(unsupported_value(name));
            }
            (Some(harmless), _) if value != Json::Null => ignored.push(*harmless),
            _ => {}
        }
    }
    ignored.sort_unstable();
    Ok(ignored)
}

/// 400: a field that would change the answer and is not supported.
pub(super) fn unsupported_value(name: &'static str) -> ApiError {
    let message = format!(
        "field {name} with this value is not supported and would change the answer; leave it out"
    );
    ApiError::bad_request("unsupported_parameter", message).with_param(name)
}
