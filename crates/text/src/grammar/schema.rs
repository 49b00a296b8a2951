//! JSON schemas, read strictly: what the compiler would not enforce is refused, with its place.
//!
//! The compiler takes unknown keywords for comments, reads options of its own from `x-guidance`, and lets a few things pass
//! that a validator would not; the rules below close that. Schemas come out as they went in, without annotations.
//!
//! Source of what it enforces and how: `llguidance` 1.9.1, `src/json/{schema,compiler}.rs`.

use llguidance::JsonCompileOptions;
use serde_json::{Map, Value, json};

use crate::limits::{MAX_BESIDE_REFERENCE, MAX_SCHEMA_NODES, MAX_SCHEMA_PRODUCT, MAX_VALUE_DEPTH};

/// Keywords that restrict a value and are enforced.
const ENFORCED: [&str; 27] = [
    "anyOf",
    "oneOf",
    "allOf",
    "$ref",
    "const",
    "enum",
    "type",
    "items",
    "additionalItems",
    "prefixItems",
    "minItems",
    "maxItems",
    "properties",
    "additionalProperties",
    "patternProperties",
    "required",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
];

/// Keywords that restrict nothing; names that begin with `x-` are none either, by OpenAPI's custom.
const ANNOTATIONS: [&str; 13] = [
    "$schema",
    "$comment",
    "title",
    "description",
    "default",
    "example",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "contentMediaType",
    "contentEncoding",
    "$vocabulary",
];

/// Keywords whose value is one schema.
const ONE_SCHEMA: [&str; 2] = ["additionalItems", "additionalProperties"];

/// Keywords whose value is a list of schemas.
const SCHEMA_LISTS: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];

/// Keywords whose value is an object of schemas.
const SCHEMA_MAPS: [&str; 4] = ["properties", "patternProperties", "$defs", "definitions"];

/// Keywords whose value is a count.
const COUNTS: [&str; 6] = [
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
];

/// Keywords whose value is a number.
const NUMBERS: [&str; 5] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
];

/// Formats that are enforced, as patterns.
const FORMATS: [&str; 10] = [
    "date-time",
    "time",
    "date",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uuid",
    "uri",
];

/// Formats whose pattern also fits the empty text, which is none of them.
const FORMATS_WITH_EMPTY: [&str; 2] = ["date", "ipv6"];

/// Largest whole number that is exact in a double, which the compiler computes bounds with.
const EXACT_MAX: u64 = 1 << 53;

/// Longest text or list that a schema may bound: bounds are unrolled.
const COUNT_MAX: u64 = 10_000;

pub(crate) type Checked<T> = Result<T, String>;

/// Any JSON object.
pub(super) fn any_object() -> Value {
    with_options(json!({"type": "object"}))
}

/// Reads and checks a schema, and says how JSON is to be written.
pub(super) fn read(text: &str) -> Checked<Value> {
    let schema: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    match checked(schema)? {
        schema @ Value::Object(_) => Ok(with_options(schema)),
        Value::Bool(true) => Ok(with_options(json!({}))),
        _ => Err("# is false, which no value fits".to_owned()),
    }
}

/// Checks a schema that will be a part of another.
pub(crate) fn checked(schema: Value) -> Checked<Value> {
    let mut reader = Reader {
        nodes: 0,
        alternatives: 0,
        depth: 0,
    };
    reader.schema("#", schema)
}

/// On one line, at most one space after a separator; no `\u` escapes, which could write a declared key another way.
pub(crate) fn with_options(mut schema: Value) -> Value {
    let options = JsonCompileOptions {
        item_separator: ", ?".to_owned(),
        key_separator: ": ?".to_owned(),
        whitespace_flexible: false,
        json_allowed_escapes: Some("nrbtf\\\"".to_owned()),
        ..JsonCompileOptions::default()
    };
    options.apply_to(&mut schema);
    schema
}

struct Reader {
    /// Subschemas and listed values so far.
    nodes: usize,
    /// Of these, such as exclude each other: entries of `anyOf` and `oneOf`, values of `enum`.
    alternatives: usize,
    depth: usize,
}

impl Reader {
    fn schema(&mut self, place: &str, schema: Value) -> Checked<Value> {
        self.count(1)?;
        if self.depth > MAX_VALUE_DEPTH {
            return Err(format!("it is nested deeper than {MAX_VALUE_DEPTH} levels"));
        }
        match schema {
            Value::Bool(_) => Ok(schema),
            Value::Object(keywords) => {
                self.depth += 1;
                let checked = self.keywords(place, keywords);
                self.depth -= 1;
                checked.map(Value::Object)
            }
            other => Err(format!("{place} is {}, it must be an object", kind(&other))),
        }
    }

    fn keywords(
        &mut self,
        place: &str,
        keywords: Map<String, Value>,
    ) -> Checked<Map<String, Value>> {
        let mut checked = Map::new();
        let before = (self.nodes, self.alternatives);
        for (keyword, value) in keywords {
            let at = format!("{place}/{}", clipped(&keyword));
            if is_without_effect(&keyword, &value) {
                continue;
            }
            let value = self.value(&at, &keyword, value)?;
            checked.insert(keyword, value);
        }
        check_together(place, &mut checked)?;
        let (nodes, alternatives) = (self.nodes - before.0, self.alternatives - before.1);
        check_product(place, &checked, nodes, alternatives)?;
        Ok(checked)
    }

    /// Counts subschemas or listed values.
    fn count(&mut self, more: usize) -> Checked<()> {
        self.nodes += more;
        match self.nodes <= MAX_SCHEMA_NODES {
            true => Ok(()),
            false => Err(format!(
                "it has more than {MAX_SCHEMA_NODES} subschemas and listed values"
            )),
        }
    }

    fn value(&mut self, at: &str, keyword: &str, value: Value) -> Checked<Value> {
        match keyword {
            "items" if value.is_array() => self.list(at, value),
            "items" => self.schema(at, value),
            name if ONE_SCHEMA.contains(&name) => self.schema(at, value),
            "anyOf" | "oneOf" => {
                self.alternatives += value.as_array().map_or(0, Vec::len);
                self.list(at, value)
            }
            name if SCHEMA_LISTS.contains(&name) => self.list(at, value),
            name if SCHEMA_MAPS.contains(&name) => self.map(at, value),
            name if COUNTS.contains(&name) => count(at, value),
            name if NUMBERS.contains(&name) => bound(at, value),
            "const" => exact(at, value, 0),
            "enum" => match &value {
                Value::Array(items) if !items.is_empty() => {
                    self.count(items.len())?;
                    self.alternatives += items.len();
                    exact(at, value, 0)
                }
                _ => Err(format!("{at} must be a list with at least one value")),
            },
            "$ref" => match value.as_str() {
                Some(target) if target.starts_with('#') => Ok(value),
                _ => Err(format!(
                    "{at} must be a place in this schema, beginning with \"#\""
                )),
            },
            "format" => match value.as_str() {
                Some(name) if FORMATS.contains(&name) => Ok(value),
                _ => Err(format!(
                    "{at} is {}, which cannot be enforced; known: {}",
                    shown(&value),
                    FORMATS.join(", ")
                )),
            },
            "$id" | "id" | "$anchor" if value.is_string() && self.depth == 1 => Ok(value),
            name if ENFORCED.contains(&name) => Ok(value),
            _ => Err(format!(
                "{at} cannot be enforced: the keyword is not supported; leave it out"
            )),
        }
    }

    fn list(&mut self, at: &str, value: Value) -> Checked<Value> {
        let Value::Array(items) = value else {
            return Err(format!("{at} is {}, it must be a list", kind(&value)));
        };
        let items = items.into_iter().enumerate();
        let schemas = items.map(|(index, item)| self.schema(&format!("{at}/{index}"), item));
        schemas.collect::<Checked<Vec<_>>>().map(Value::Array)
    }

    fn map(&mut self, at: &str, value: Value) -> Checked<Value> {
        let Value::Object(entries) = value else {
            return Err(format!("{at} is {}, it must be an object", kind(&value)));
        };
        let entries = entries.into_iter();
        let schemas = entries.map(|(name, schema)| {
            let schema = self.schema(&format!("{at}/{}", clipped(&name)), schema)?;
            Ok((name, schema))
        });
        schemas.collect::<Checked<Map<_, _>>>().map(Value::Object)
    }
}

/// Annotations, and keywords with the value that is their absence.
fn is_without_effect(keyword: &str, value: &Value) -> bool {
    let is_annotation =
        ANNOTATIONS.contains(&keyword) || (keyword.starts_with("x-") && keyword != "x-guidance");
    let is_off = ["uniqueItems", "nullable"].contains(&keyword) && *value == Value::Bool(false);
    is_annotation || is_off
}

/// Rules about keywords of one schema.
fn check_together(place: &str, keywords: &mut Map<String, Value>) -> Checked<()> {
    let is_old_tuple = keywords.contains_key("additionalItems")
        || keywords.get("items").is_some_and(Value::is_array);
    if is_old_tuple && keywords.contains_key("prefixItems") {
        return Err(format!(
            "{place} has prefixItems beside additionalItems or a list of items; use items alone for the rest"
        ));
    }
    // A key that no property names may come twice, and counts once.
    let required = keywords.get("required").and_then(Value::as_array);
    let required = required.map_or(0, Vec::len) as u64;
    let least = keywords.get("minProperties").and_then(Value::as_u64);
    if let Some(least) = least.filter(|least| *least > required + 1) {
        return Err(format!(
            "{place}/minProperties is {least} and {required} are required: more than one further key cannot be enforced; name them in required"
        ));
    }
    let format = keywords.get("format").and_then(Value::as_str);
    if format.is_some_and(|name| FORMATS_WITH_EMPTY.contains(&name)) {
        let least = keywords.get("minLength").and_then(Value::as_u64);
        keywords.insert("minLength".to_owned(), json!(least.unwrap_or(0).max(1)));
    }
    Ok(())
}

/// The compiler multiplies alternatives with what stands beside them, before any of its own limits counts.
fn check_product(
    place: &str,
    keywords: &Map<String, Value>,
    nodes: usize,
    alternatives: usize,
) -> Checked<()> {
    const JOINED: [&str; 5] = ["anyOf", "oneOf", "allOf", "enum", "$ref"];
    let joined = |name: &String| JOINED.contains(&name.as_str());
    let parts = keywords.keys().filter(|name| joined(name)).count();
    let is_beside =
        |name: &String| !joined(name) && !["$defs", "definitions"].contains(&name.as_str());
    let is_multiplied = parts + usize::from(keywords.keys().any(is_beside)) > 1
        || keywords
            .get("allOf")
            .and_then(Value::as_array)
            .is_some_and(|list| list.len() > 1);
    if parts == 0 || !is_multiplied {
        return Ok(());
    }
    // Values of an enumeration are joined with what stands beside them, not with each other.
    let others = nodes.saturating_sub(alternatives);
    if alternatives.saturating_mul(others) > MAX_SCHEMA_PRODUCT {
        return Err(format!(
            "{place} combines {alternatives} alternatives with {others} other subschemas; together they may be {MAX_SCHEMA_PRODUCT}, so split it"
        ));
    }
    // How large the target is shows only when it is put in.
    if keywords.contains_key("$ref") && nodes > MAX_BESIDE_REFERENCE {
        return Err(format!(
            "{place} has {nodes} subschemas and values beside $ref, the limit is {MAX_BESIDE_REFERENCE}"
        ));
    }
    Ok(())
}

fn count(at: &str, value: Value) -> Checked<Value> {
    match value.as_u64() {
        Some(count) if count <= COUNT_MAX => Ok(value),
        _ => Err(format!(
            "{at} is {}, it must be an integer between 0 and {COUNT_MAX}",
            shown(&value)
        )),
    }
}

/// A number, or draft 4's switch of an exclusive bound.
fn bound(at: &str, value: Value) -> Checked<Value> {
    let is_switch = value.is_boolean() && at.contains("/exclusive");
    match value.is_number() || is_switch {
        true => exact(at, value, 0),
        false => Err(format!("{at} is {}, it must be a number", shown(&value))),
    }
}

/// A value whose numbers are exact in a double.
fn exact(at: &str, value: Value, depth: usize) -> Checked<Value> {
    if depth > MAX_VALUE_DEPTH {
        return Err(format!(
            "{at} is nested deeper than {MAX_VALUE_DEPTH} levels"
        ));
    }
    match &value {
        Value::Number(number) => {
            let whole = number.as_u64().or(number.as_i64().map(i64::unsigned_abs));
            if whole.is_some_and(|whole| whole > EXACT_MAX) {
                return Err(format!(
                    "{at} is {number}, whole numbers must be within 2^53"
                ));
            }
        }
        Value::Array(items) => {
            for item in items {
                exact(at, item.clone(), depth + 1)?;
            }
        }
        Value::Object(entries) => {
            for item in entries.values() {
                exact(at, item.clone(), depth + 1)?;
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
    Ok(value)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn shown(value: &Value) -> String {
    clipped(&value.to_string())
}

fn clipped(text: &str) -> String {
    const BYTES_MAX: usize = 60;
    match text.len() > BYTES_MAX {
        true => format!("{}...", &text[..text.floor_char_boundary(BYTES_MAX)]),
        false => text.to_owned(),
    }
}
