//! What an answer must look like: `response_format` as OpenAI has it, `structured_outputs` as vLLM has it, and vLLM's older
//! `guided_*`.

use ucuz_llm::{ConstraintSpec, GrammarSource};

use crate::clip::{Clip, shown};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::json::Json;

const RESPONSE_FORMAT: &str = "response_format";
const STRUCTURED: &str = "structured_outputs";

/// A field that holds a rule, and how the rule is read.
type Kind = (
    &'static str,
    &'static str,
    fn(&Fields, &str, Json) -> Result<Option<GrammarSource>, ApiError>,
);

/// Names inside of `structured_outputs`, and at the top.
const KINDS: [Kind; 5] = [
    ("json", "guided_json", json_schema),
    ("json_object", "guided_json_object", json_object),
    ("regex", "guided_regex", regex),
    ("choice", "guided_choice", choice),
    ("grammar", "guided_grammar", grammar),
];

/// Takes every field that constrains the answer; at most one may.
pub(super) fn constraint(fields: &mut Fields) -> Result<Option<ConstraintSpec>, ApiError> {
    let mut found: Vec<ConstraintSpec> = Vec::new();
    let format = response_format(fields)?;
    found.extend(format.map(|source| spec(RESPONSE_FORMAT, source)));
    let structured = structured_outputs(fields)?;
    found.extend(structured.map(|source| spec(STRUCTURED, source)));
    for (_, name, read) in KINDS {
        if let Some(value) = fields.take(name) {
            found.extend(read(fields, name, value)?.map(|source| spec(name, source)));
        }
    }
    if let [first, second, ..] = found.as_slice() {
        let message = format!(
            "{} and {} both say what the answer must look like; give one",
            first.param, second.param
        );
        return Err(ApiError::invalid(second.param, message));
    }
    Ok(found.pop())
}

fn spec(param: &'static str, source: GrammarSource) -> ConstraintSpec {
    ConstraintSpec { source, param }
}

fn response_format(fields: &mut Fields) -> Result<Option<GrammarSource>, ApiError> {
    let Some(value) = fields.take(RESPONSE_FORMAT) else {
        return Ok(None);
    };
    let mut format = Fields::nested(RESPONSE_FORMAT.to_owned(), value)?;
    let source = match format.string("type")?.as_deref() {
        Some("text") => None,
        Some("json_object") => Some(GrammarSource::JsonObject),
        Some("json_schema") => Some(named_schema(&mut format)?),
        other => {
            let other = other.map_or("missing".to_owned(), |other| Clip(other).to_string());
            let message = format!(
                "response_format.type is {other}, it must be \"text\", \"json_object\" or \"json_schema\""
            );
            return Err(ApiError::invalid("response_format.type", message));
        }
    };
    format.finish()?;
    Ok(source)
}

fn missing(name: String) -> ApiError {
    let message = format!("{name} is missing");
    ApiError::invalid(name, message)
}

/// `{name, description, strict, schema}`; schemas are followed strictly whatever `strict` says.
fn named_schema(format: &mut Fields) -> Result<GrammarSource, ApiError> {
    const NAME: &str = "response_format.json_schema";
    let value = format.take("json_schema");
    let value = value.ok_or_else(|| missing(NAME.to_owned()))?;
    inner_schema(Fields::nested(NAME.to_owned(), value)?)
}

/// `{name, description, strict, schema}`, of which only the schema matters.
pub(super) fn inner_schema(mut named: Fields) -> Result<GrammarSource, ApiError> {
    named.string("name")?;
    named.string("description")?;
    named.bool("strict")?;
    let schema = named.take("schema");
    let schema = schema.ok_or_else(|| missing(named.full_name("schema")))?;
    let source = match schema {
        Json::Object(_) | Json::Bool(_) => GrammarSource::JsonSchema(schema.to_text()),
        other => return Err(named.wrong("schema", &other, "a JSON schema")),
    };
    named.finish()?;
    Ok(source)
}

fn structured_outputs(fields: &mut Fields) -> Result<Option<GrammarSource>, ApiError> {
    let Some(value) = fields.take(STRUCTURED) else {
        return Ok(None);
    };
    let mut inner = Fields::nested(STRUCTURED.to_owned(), value)?;
    let mut found = Vec::new();
    for (name, _, read) in KINDS {
        if let Some(value) = inner.take(name) {
            found.extend(read(&inner, name, value)?.map(|source| (name, source)));
        }
    }
    for name in ["disable_any_whitespace", "disable_additional_properties"] {
        if inner.bool(name)? == Some(true) {
            let name = inner.full_name(name);
            let message = format!("{name} is true, only false is supported");
            return Err(ApiError::invalid(name, message));
        }
    }
    inner.finish()?;
    match found.len() {
        1 => Ok(found.pop().map(|(_, source)| source)),
        count => {
            let names = KINDS.map(|(name, ..)| name).join(", ");
            let message =
                format!("structured_outputs has {count} rules, it must have one of {names}");
            Err(ApiError::invalid(STRUCTURED, message))
        }
    }
}

/// A schema, as JSON or as text that holds JSON.
fn json_schema(
    fields: &Fields,
    name: &str,
    value: Json,
) -> Result<Option<GrammarSource>, ApiError> {
    match value {
        Json::String(text) => Ok(Some(GrammarSource::JsonSchema(text))),
        Json::Object(_) | Json::Bool(_) => Ok(Some(GrammarSource::JsonSchema(value.to_text()))),
        other => Err(fields.wrong(name, &other, "a JSON schema")),
    }
}

fn json_object(
    fields: &Fields,
    name: &str,
    value: Json,
) -> Result<Option<GrammarSource>, ApiError> {
    match value {
        Json::Bool(true) => Ok(Some(GrammarSource::JsonObject)),
        Json::Bool(false) => Ok(None),
        other => Err(fields.wrong(name, &other, "true or false")),
    }
}

fn regex(fields: &Fields, name: &str, value: Json) -> Result<Option<GrammarSource>, ApiError> {
    match value {
        Json::String(text) => Ok(Some(GrammarSource::Regex(text))),
        other => Err(fields.wrong(name, &other, "a regular expression")),
    }
}

fn grammar(fields: &Fields, name: &str, value: Json) -> Result<Option<GrammarSource>, ApiError> {
    match value {
        Json::String(text) => Ok(Some(GrammarSource::Grammar(text))),
        other => Err(fields.wrong(name, &other, "a grammar in Lark or GBNF")),
    }
}

fn choice(fields: &Fields, name: &str, value: Json) -> Result<Option<GrammarSource>, ApiError> {
    let Json::Array(items) = value else {
        return Err(fields.wrong(name, &value, "a list of strings"));
    };
    let text = |(index, item): (usize, Json)| match item {
        Json::String(text) => Ok(text),
        other => {
            let name = format!("{}[{index}]", fields.full_name(name));
            let message = format!("{name} is {}, it must be a string", shown(&other));
            Err(ApiError::invalid(name, message))
        }
    };
    let choices = items.into_iter().enumerate().map(text);
    Ok(Some(GrammarSource::Choice(
        choices.collect::<Result<_, _>>()?,
    )))
}
