//! What a request offers to be called: `tools`, `tool_choice` and `parallel_tool_calls`, in OpenAI's forms; and what holds in
//! every API's form.

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

/// Where a function stands in its tool, and its name in a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Under `function`, as in chats.
    Nested,
    /// Beside `type`, as in responses.
    Flat,
}

/// What `tool_choice` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Choice {
    None,
    Of(ToolChoice),
}

/// Takes the fields about tools.
pub(super) fn offer(fields: &mut Fields) -> Result<Option<ToolOffer>, ApiError> {
    let tools = tools(fields, Form::Nested)?;
    let choice = choice(fields, Form::Nested)?;
    let parallel = parallel(fields, &tools)?;
    settle(tools, choice, parallel)
}

/// Takes `parallel_tool_calls`, which is left to those that have no effect where there are no tools.
pub(super) fn parallel(fields: &mut Fields, tools: &[Tool]) -> Result<bool, ApiError> {
    if tools.is_empty() {
        return Ok(true);
    }
    Ok(fields.bool("parallel_tool_calls")?.unwrap_or(true))
}

/// What is offered; nothing without tools, or where none is to be called.
pub(super) fn settle(
    tools: Vec<Tool>,
    choice: Choice,
    parallel: bool,
) -> Result<Option<ToolOffer>, ApiError> {
    if tools.is_empty() {
        return match choice {
            Choice::None | Choice::Of(ToolChoice::Auto) => Ok(None),
            Choice::Of(_) => {
                let message = "tool_choice asks for a call, it needs tools";
                Err(ApiError::invalid("tool_choice", message))
            }
        };
    }
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

/// Takes `tools` in one of OpenAI's forms; none when there is no list.
pub(super) fn tools(fields: &mut Fields, form: Form) -> Result<Vec<Tool>, ApiError> {
    list(fields, |place, value| tool(place, value, form))
}

/// Takes `tools`, of which `tool` reads one.
pub(super) fn list(
    fields: &mut Fields,
    tool: impl Fn(&str, Json) -> Result<Tool, ApiError>,
) -> Result<Vec<Tool>, ApiError> {
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

fn tool(place: &str, value: Json, form: Form) -> Result<Tool, ApiError> {
    let mut fields = Fields::nested(place.to_owned(), value)?;
    is_function(&mut fields)?;
    if form == Form::Flat {
        return function(fields, PARAMETERS);
    }
    let name = format!("{place}.function");
    let Some(function) = fields.take("function") else {
        let message = format!("{name} is missing");
        return Err(ApiError::invalid(name, message));
    };
    fields.finish()?;
    self::function(Fields::nested(name, function)?, PARAMETERS)
}

/// The field of OpenAI's functions that holds the schema.
const PARAMETERS: &str = "parameters";

/// What can be called, with the schema of its arguments in the field of that name.
pub(super) fn function(mut fields: Fields, schema: &str) -> Result<Tool, ApiError> {
    let name = name(&mut fields)?;
    let description = fields.string("description")?;
    let strict = fields.bool("strict")?.unwrap_or(false);
    let parameters = parameters(&mut fields, schema)?;
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

/// Takes the name of a function.
pub(super) fn name(fields: &mut Fields) -> Result<String, ApiError> {
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
fn parameters(fields: &mut Fields, schema: &str) -> Result<Option<Value>, ApiError> {
    let place = fields.full_name(schema);
    match fields.take(schema) {
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
        Some(other) => Err(fields.wrong(schema, &other, "a JSON schema of an object")),
    }
}

/// Takes `tool_choice`.
pub(super) fn choice(fields: &mut Fields, form: Form) -> Result<Choice, ApiError> {
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
            if form == Form::Flat {
                let name = name(&mut choice)?;
                choice.finish()?;
                return Ok(Choice::Of(ToolChoice::Named(name)));
            }
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
pub(super) fn is_function(fields: &mut Fields) -> Result<(), ApiError> {
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
