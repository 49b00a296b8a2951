//! The document at `/openapi.json`, made of the table of routes (`routes/mod.rs`) and of tables of fields (`bodies`).
//!
//! Here: what clients may send and which statuses they get. Not here: parsing (`protocol`); the tests beside hold the tables
//! against the parsers. Answers are described in words in `docs/api.md` only. Source: OpenAPI Specification 3.1.1.

mod bodies;
pub(crate) mod operation;
mod schema;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use self::operation::{Answer, Errors, Operation};
use self::schema::{Others, reference};
use crate::caller::{FIRST_TOKEN_WITHIN, OPEN};
use crate::routes::{ROUTES, Route};

/// Whether requests must bring a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keys {
    /// The server has none.
    Optional,
    /// All but [`OPEN`] must.
    Needed,
}

/// Media type of answers, of bodies and of errors.
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
/// Any endpoint may answer so: heads over their limit, failures inside, connections over their limit.
const ALWAYS: [u16; 3] = [431, 500, 503];
/// Any endpoint that asks for a key.
const CLOSED: [u16; 2] = [400, 401];
/// Any endpoint that takes a body.
const WITH_BODY: [u16; 5] = [400, 404, 408, 413, 415];

/// What a status means here.
const MEANINGS: [(u16, &str); 12] = [
    (
        400,
        "A rule is broken; `param` names the field, the message the rule, the value and the way out.",
    ),
    (401, "No key, or a wrong one."),
    (403, "Another site's page asks."),
    (404, "Another model is asked for than the one served."),
    (408, "The body did not arrive in time."),
    (413, "The body is too long."),
    (415, "The body is not JSON."),
    (
        429,
        "Too much is under way; the header `retry-after` says when to try again.",
    ),
    (431, "The head of the request is too long."),
    (500, "The server failed on this request; its log tells why."),
    (
        503,
        "The engine takes no requests, or memory or connections are at their limit.",
    ),
    (200, "Done."),
];

/// The whole document.
pub(crate) fn document(keys: Keys) -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        let path = route.path.replace("{*", "{");
        let item = paths.entry(path).or_insert_with(|| json!({}));
        item[route.method.to_lowercase()] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "ucuz",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A field that is not listed is refused by name; null is the same as leaving a field out. \
                Numbers of tokens are bounded by the context of the model, see /v1/models.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer" },
                "key": { "type": "apiKey", "in": "header", "name": "x-api-key" },
            },
        },
        "security": security(keys),
    })
}

/// Either form of a key; an empty requirement leaves it open.
fn security(keys: Keys) -> Value {
    match keys {
        Keys::Needed => json!([{ "bearer": [] }, { "key": [] }]),
        Keys::Optional => json!([{}, { "bearer": [] }, { "key": [] }]),
    }
}

fn schemas() -> Map<String, Value> {
    let mut schemas = Map::new();
    schemas.insert("Error".to_owned(), openai_error());
    schemas.insert("AnthropicError".to_owned(), anthropic_error());
    for body in ROUTES.iter().filter_map(|route| route.operation.body) {
        body.add_to(&mut schemas, Others::Refused);
    }
    schemas
}

fn openai_error() -> Value {
    let text_or_null = json!({ "type": ["string", "null"] });
    json!({
        "type": "object",
        "properties": { "error": {
            "type": "object",
            "properties": {
                "message": { "type": "string" },
                "type": { "type": "string" },
                "param": text_or_null,
                "code": text_or_null,
            },
            "required": ["message", "type", "param", "code"],
        }},
        "required": ["error"],
    })
}

fn anthropic_error() -> Value {
    json!({
        "type": "object",
        "properties": {
            "type": { "const": "error" },
            "error": {
                "type": "object",
                "properties": { "type": { "type": "string" }, "message": { "type": "string" } },
                "required": ["type", "message"],
            },
        },
        "required": ["type", "error"],
    })
}

fn operation(route: &Route) -> Value {
    let about = route.operation;
    let is_open = OPEN.contains(&route.path);
    let mut operation = json!({
        "operationId": operation_id(route),
        "summary": about.summary,
        "responses": responses(about, is_open),
    });
    if is_open {
        operation["security"] = security(Keys::Optional);
    }
    let parameters = parameters(route);
    if !parameters.is_empty() {
        operation["parameters"] = json!(parameters);
    }
    if let Some(body) = about.body {
        operation["requestBody"] = json!({
            "required": true,
            "content": { JSON: { "schema": reference(body.name) } },
        });
    }
    operation
}

/// The method and the words of the path.
fn operation_id(route: &Route) -> String {
    let words = route.path.split(|c: char| !c.is_ascii_alphanumeric());
    let words = words.filter(|word| !word.is_empty());
    words.fold(route.method.to_lowercase(), |id, word| {
        format!("{id}_{word}")
    })
}

fn parameters(route: &Route) -> Vec<Value> {
    let mut parameters = Vec::new();
    if route.path.contains("{*id}") {
        parameters.push(json!({
            "name": "id", "in": "path", "required": true, "schema": { "type": "string", "minLength": 1 },
        }));
    }
    if route.operation.computes {
        parameters.push(json!({
            "name": FIRST_TOKEN_WITHIN.as_str(), "in": "header",
            "description": "Milliseconds within which the first token is wanted; 429 at once if it cannot be had.",
            "schema": { "type": "integer", "minimum": 1, "maximum": u32::MAX },
        }));
    }
    parameters
}

fn responses(about: &Operation, is_open: bool) -> Map<String, Value> {
    let mut statuses = vec![200];
    statuses.extend(ALWAYS);
    if !is_open {
        statuses.extend(CLOSED);
    }
    if about.body.is_some() {
        statuses.extend(WITH_BODY);
    }
    statuses.extend(about.statuses);
    statuses.sort_unstable();
    statuses.dedup();
    let responses = statuses.into_iter().map(|status| {
        let meaning = MEANINGS.iter().find(|(other, _)| *other == status);
        let mut response = json!({ "description": meaning.map_or("", |(_, text)| text) });
        match status {
            200 => response["content"] = content(about.answer),
            503 if about.answer == Answer::Health => response["content"] = content(about.answer),
            431 => {}
            _ => response["content"] = json!({ JSON: { "schema": reference(error_name(about)) } }),
        }
        if status == 429 {
            let seconds = json!({ "schema": { "type": "integer", "minimum": 1 } });
            response["headers"] = json!({ "retry-after": seconds });
        }
        (status.to_string(), response)
    });
    responses.collect()
}

fn error_name(about: &Operation) -> &'static str {
    match about.errors {
        Errors::OpenAi => "Error",
        Errors::Anthropic => "AnthropicError",
    }
}

fn content(answer: Answer) -> Value {
    let object = json!({ "schema": { "type": "object" } });
    let text = json!({ "schema": { "type": "string" } });
    match answer {
        Answer::Object | Answer::Health => json!({ JSON: object }),
        Answer::List => {
            json!({ JSON: { "schema": { "type": "array", "items": { "type": "object" } } } })
        }
        Answer::ObjectOrEvents => json!({ JSON: object, EVENTS: text }),
        Answer::Events => json!({ EVENTS: text }),
        Answer::Metrics => json!({ "text/plain": text }),
    }
}
