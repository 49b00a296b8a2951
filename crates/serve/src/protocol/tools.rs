//! `tools`, `tool_choice` and `parallel_tool_calls` of a chat request, and the calls of earlier answers.

use serde_json::{Map, Value};
use ucuz_llm::{Tool, ToolChoice, ToolOffer};

use crate::clip::Clip;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::json::Json;

/// Tools of one request, and calls of one message.
pub(crate) const MAX_TOOLS: usize = 128;
/// Bytes of all tool descriptions together, as JSON.
const MAX_TOOLS_BYTES: usize = 256 << 10;
/// Bytes of a tool's name.
const MAX_NAME_BYTES: usize = 64;
/// Bytes of a call's id.
pub(crate) const MAX_CALL_ID_BYTES: usize = 256;

/// What `tool_choice` says.
enum Choice {
    None,
    Of(ToolChoice),
}

/// Takes the fields about tools. Without tools, or with `"tool_choice": "none"`, nothing is offered.
pub(super) fn offer(fields: &mut Fields) -> Result<Option<ToolOffer>, ApiError> {
    let tools = tools(fields)?;
    let choice = choice(fields)?;
    if tools.is_empty() {
        return match choice {
            Choice::None | Choice::Of(ToolChoice::Auto) => Ok(None),
            Choice::Of(_) => {
                let message = "tool_choice asks for a call, it needs tools";
                Err(ApiError::invalid("tool_choice", message))
            }
        };
    }
    let parallel = fields.bool("parallel_tool_calls")?.unwrap_or(true);
    let choice = match choice {
        Choice::None => return Ok(None),
        Choice::Of(choice) => choice,
    };
    if let ToolChoice::Named(name) = &choice
        && !tools.iter().any(|tool| tool.name == *name)
    {
        let message = format!("tool_choice names {}, which is not in tools", Clip(name));
        return Err(ApiError::invalid("tool_choice", message));
    }
    Ok(Some(ToolOffer {
        tools,
        choice,
        parallel,
    }))
}

/// Takes `tools`; none when there is no list.
pub(super) fn tools(fields: &mut Fields) -> Result<Vec<Tool>, ApiError> {
    let items = match fields.take("tools") {
        None => return Ok(Vec::new()),
        Some(Json::Array(items)) => items,
        Some(other) => return Err(fields.wrong("tools", &other, "a list of tools")),
    };
    if items.len() > MAX_TOOLS {
        return Err(fields.too_many("tools", items.len(), MAX_TOOLS));
    }
    let mut tools: Vec<Tool> = Vec::with_capacity(items.len());
    let mut num_bytes = 0;
    for (index, item) in items.into_iter().enumerate() {
        let place = format!("tools[{index}]");
        let tool = tool(&place, item)?;
        num_bytes += tool.description.to_string().len();
        if num_bytes > MAX_TOOLS_BYTES {
            let message = format!(
                "tools have more than {MAX_TOOLS_BYTES} bytes of JSON; send fewer, or shorter descriptions"
            );
            return Err(ApiError::invalid("tools", message));
        }
        if tools.iter().any(|other| other.name == tool.name) {
            let message = format!("{place} has the name {} of another tool", Clip(&tool.name));
            return Err(ApiError::invalid(place, message));
        }
        tools.push(tool);
    }
    Ok(tools)
}

fn tool(place: &str, value: Json) -> Result<Tool, ApiError> {
    let mut fields = Fields::nested(place.to_owned(), value)?;
    is_function(&mut fields)?;
    let name = format!("{place}.function");
    let Some(function) = fields.take("function") else {
        let message = format!("{name} is missing");
        return Err(ApiError::invalid(name, message));
    };
    fields.finish()?;
    function_tool(name, function)
}

fn function_tool(place: String, value: Json) -> Result<Tool, ApiError> {
    let mut fields = Fields::nested(place, value)?;
    let name = name(&mut fields)?;
    let description = fields.string("description")?;
    let strict = fields.bool("strict")?.unwrap_or(false);
    let parameters = parameters(&mut fields)?;
    fields.finish()?;
    let mut function = Map::new();
    function.insert("name".to_owned(), Value::String(name.clone()));
    if let Some(text) = description {
        function.insert("description".to_owned(), Value::String(text));
    }
    // Templates walk through the properties without asking whether there are any.
    let shown = parameters
        .clone()
        .unwrap_or_else(|| serde_json::json!({ "type": "object", "properties": {} }));
    function.insert("parameters".to_owned(), shown);
    Ok(Tool {
        name,
        parameters,
        strict,
        description: serde_json::json!({ "type": "function", "function": function }),
    })
}

fn name(fields: &mut Fields) -> Result<String, ApiError> {
    let place = fields.full_name("name");
    let Some(name) = fields.string("name")? else {
        let message = format!("{place} is missing");
        return Err(ApiError::invalid(place, message));
    };
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(is_letter) {
        let message = format!(
            "{place} is {}, it must be 1 to {MAX_NAME_BYTES} of a-z, A-Z, 0-9, _ and -",
            Clip(&name)
        );
        return Err(ApiError::invalid(place, message));
    }
    Ok(name)
}

/// A schema of an object; an empty one says nothing.
fn parameters(fields: &mut Fields) -> Result<Option<Value>, ApiError> {
    let place = fields.full_name("parameters");
    match fields.take("parameters") {
        None => Ok(None),
        Some(Json::Object(entries)) if entries.is_empty() => Ok(None),
        Some(Json::Object(entries)) => {
            let kind = entries.iter().find(|(key, _)| key == "type");
            if kind.is_some_and(|(_, kind)| *kind != Json::String("object".to_owned())) {
                let message = format!(
                    "{place}.type must be \"object\": the arguments of a call are an object"
                );
                return Err(ApiError::invalid(format!("{place}.type"), message));
            }
            Ok(Some(Json::Object(entries).into()))
        }
        Some(other) => Err(fields.wrong("parameters", &other, "a JSON schema of an object")),
    }
}

fn choice(fields: &mut Fields) -> Result<Choice, ApiError> {
    const EXPECTED: &str = "\"auto\", \"none\", \"required\" or a function by its name";
    match fields.take("tool_choice") {
        None => Ok(Choice::Of(ToolChoice::Auto)),
        Some(Json::String(word)) => match word.as_str() {
            "auto" => Ok(Choice::Of(ToolChoice::Auto)),
            "none" => Ok(Choice::None),
            "required" => Ok(Choice::Of(ToolChoice::Required)),
            _ => Err(fields.wrong("tool_choice", &Json::String(word), EXPECTED)),
        },
        Some(value @ Json::Object(_)) => {
            let mut choice = Fields::nested("tool_choice".to_owned(), value)?;
            is_function(&mut choice)?;
            let Some(function) = choice.take("function") else {
                let message = format!("tool_choice has no function; give {EXPECTED}");
                return Err(ApiError::invalid("tool_choice", message));
            };
            choice.finish()?;
            let mut function = Fields::nested("tool_choice.function".to_owned(), function)?;
            let name = name(&mut function)?;
            function.finish()?;
            Ok(Choice::Of(ToolChoice::Named(name)))
        }
        Some(other) => Err(fields.wrong("tool_choice", &other, EXPECTED)),
    }
}

/// Takes `type`, which must be "function".
fn is_function(fields: &mut Fields) -> Result<(), ApiError> {
    let place = fields.full_name("type");
    match fields.string("type")?.as_deref() {
        Some("function") => Ok(()),
        Some(other) => {
            let message = format!("{place} is {}, it must be \"function\"", Clip(other));
            Err(ApiError::invalid(place, message))
        }
        None => {
            let message = format!("{place} is missing; it must be \"function\"");
            Err(ApiError::invalid(place, message))
        }
    }
}

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
    Ok(serde_json::json!({
        "id": id,
        "type": "function",
        "function": { "name": name, "arguments": arguments },
    }))
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
