//! Calls of earlier answers, as clients send them back.

use serde_json::Value;
use ucuz_llm::Message;

use super::tools::{MAX_TOOLS, is_function};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::json::Json;

/// Bytes of a call's id.
pub(crate) const MAX_CALL_ID_BYTES: usize = 256;

/// Takes `tool_calls` of an assistant's message, in the form templates know; none for an empty list.
pub(super) fn calls(fields: &mut Fields) -> Result<Option<Vec<Value>>, ApiError> {
    let items = match fields.take("tool_calls") {
        None => return Ok(None),
        Some(Json::Array(items)) if items.is_empty() => return Ok(None),
        Some(Json::Array(items)) => items,
        Some(other) => return Err(fields.wrong("tool_calls", &other, "a list of calls")),
    };
    if items.len() > MAX_TOOLS {
        return Err(fields.too_many("tool_calls", items.len(), MAX_TOOLS));
    }
    let place = fields.full_name("tool_calls");
    let calls = items.into_iter().enumerate();
    let calls = calls.map(|(index, item)| call(format!("{place}[{index}]"), item));
    Ok(Some(calls.collect::<Result<_, _>>()?))
}

fn call(place: String, value: Json) -> Result<Value, ApiError> {
    let mut fields = Fields::nested(place.clone(), value)?;
    let id = call_id(&mut fields, "id")?;
    is_function(&mut fields)?;
    // Clients that put a stream together keep the place of a call.
    fields.u32("index")?;
    let name_of_function = fields.full_name("function");
    let Some(function) = fields.take("function") else {
        let message = format!("{name_of_function} is missing");
        return Err(ApiError::invalid(name_of_function, message));
    };
    fields.finish()?;
    let mut function = Fields::nested(name_of_function, function)?;
    // What a model called need not be a good name.
    let name_place = function.full_name("name");
    let Some(name) = function.string("name")? else {
        let message = format!("{name_place} is missing");
        return Err(ApiError::invalid(name_place, message));
    };
    let arguments = function.string("arguments")?.unwrap_or_default();
    function.finish()?;
    Ok(called(&id, &name, &arguments))
}

/// A call as templates know it; `arguments` is JSON as text.
pub(super) fn called(id: &str, name: &str, arguments: &str) -> Value {
    serde_json::json!({
        "id": id,
        "type": "function",
        "function": { "name": name, "arguments": arguments },
    })
}

/// Adds a call that an answer made to the message of that answer, which is the last one; an answer that only called has none
/// yet.
pub(super) fn add_call(
    messages: &mut Vec<Message>,
    call: Value,
    param: &'static str,
) -> Result<(), ApiError> {
    if messages.last().is_none_or(|last| last.role != "assistant") {
        messages.push(Message {
            role: "assistant".to_owned(),
            ..Message::default()
        });
    }
    let Some(last) = messages.last_mut() else {
        return Ok(());
    };
    let calls = last.tool_calls.get_or_insert_default();
    calls.push(call);
    match calls.len() <= MAX_TOOLS {
        true => Ok(()),
        false => {
            let message = format!("{param} has an answer with more than {MAX_TOOLS} calls");
            Err(ApiError::invalid(param, message))
        }
    }
}

/// Takes the id of a call.
pub(super) fn call_id(fields: &mut Fields, field: &str) -> Result<String, ApiError> {
    let place = fields.full_name(field);
    match fields.string(field)? {
        Some(id) if !id.is_empty() && id.len() <= MAX_CALL_ID_BYTES => Ok(id),
        Some(id) => {
            let message = format!(
                "{place} has {} bytes, it must have 1 to {MAX_CALL_ID_BYTES}",
                id.len()
            );
            Err(ApiError::invalid(place, message))
        }
        None => {
            let message = format!("{place} is missing; give the id of a call");
            Err(ApiError::invalid(place, message))
        }
    }
}
