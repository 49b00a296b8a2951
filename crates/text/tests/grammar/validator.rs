//! Whether a value is valid by a schema, said naively: the words of JSON Schema one by one, nothing shared with what is tested.

use std::net::{Ipv4Addr, Ipv6Addr};

use regex::Regex;
use serde_json::{Map, Value};

/// What is wrong with a value.
pub fn check(root: &Value, value: &Value) -> Result<(), String> {
    valid(root, root, value)
}

fn valid(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let keywords = match schema {
        Value::Bool(true) => return Ok(()),
        Value::Object(keywords) => keywords,
        _ => return Err(format!("{value} where nothing is")),
    };
    for (keyword, rule) in keywords {
        let keyword = keyword.as_str();
        let holds = match keyword {
            "$defs" | "required" if value.is_object() || keyword == "$defs" => {
                required(keyword, rule, value)
            }
            "$ref" => refer(root, rule, value)?,
            "type" => is_type(rule, value),
            "const" => equal(rule, value),
            "enum" => items(rule).iter().any(|one| equal(one, value)),
            "anyOf" => items(rule)
                .iter()
                .any(|one| valid(root, one, value).is_ok()),
            "oneOf" => {
                items(rule)
                    .iter()
                    .filter(|one| valid(root, one, value).is_ok())
                    .count()
                    == 1
            }
            "allOf" => items(rule)
                .iter()
                .all(|one| valid(root, one, value).is_ok()),
            _ => match value {
                Value::Number(_) => number(keyword, rule, value),
                Value::String(text) => string(keyword, rule, text),
                Value::Array(list) => array(root, (keywords, keyword), list)?,
                Value::Object(entries) => object(root, (keywords, keyword), entries)?,
                Value::Null | Value::Bool(_) => true,
            },
        };
        if !holds {
            return Err(format!("{value} breaks {keyword}: {rule}"));
        }
    }
    Ok(())
}

fn items(rule: &Value) -> &[Value] {
    rule.as_array().unwrap()
}

fn refer(root: &Value, rule: &Value, value: &Value) -> Result<bool, String> {
    let target = rule.as_str().unwrap().strip_prefix('#').unwrap();
    valid(root, root.pointer(target).unwrap(), value).map(|()| true)
}

fn required(keyword: &str, rule: &Value, value: &Value) -> bool {
    keyword == "$defs"
        || items(rule)
            .iter()
            .all(|name| value.get(name.as_str().unwrap()).is_some())
}

fn is_type(rule: &Value, value: &Value) -> bool {
    let is = |name: &Value| match name.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        other => panic!("no type: {other}"),
    };
    match rule {
        Value::Array(names) => names.iter().any(is),
        name => is(name),
    }
}

fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(key, one)| other.get(key).is_some_and(|other| equal(one, other)))
        }
        _ => one == other,
    }
}

fn number(keyword: &str, rule: &Value, value: &Value) -> bool {
    let (Some(value), Some(rule)) = (value.as_f64(), rule.as_f64()) else {
        return true;
    };
    match keyword {
        "minimum" => value >= rule,
        "maximum" => value <= rule,
        "exclusiveMinimum" => value > rule,
        "exclusiveMaximum" => value < rule,
        "multipleOf" => (value / rule).fract() == 0.0,
        _ => true,
    }
}

fn string(keyword: &str, rule: &Value, text: &str) -> bool {
    let count = text.chars().count() as u64;
    match keyword {
        "minLength" => count >= rule.as_u64().unwrap(),
        "maxLength" => count <= rule.as_u64().unwrap(),
        // What the patterns here use means the same in ASCII.
        "pattern" => {
            let pattern = rule
                .as_str()
                .unwrap()
                .replace("\\w", "[0-9A-Za-z_]")
                .replace("\\d", "[0-9]");
            Regex::new(&pattern).unwrap().is_match(text)
        }
        "format" => is_format(rule.as_str().unwrap(), text),
        _ => true,
    }
}

fn is_format(name: &str, text: &str) -> bool {
    let fits = |pattern: &str| Regex::new(pattern).unwrap().is_match(text);
    match name {
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "uuid" => fits("^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"),
        "date" => fits("^[0-9]{4}-[01][0-9]-[0-3][0-9]$"),
        "time" => {
            fits("^[0-2][0-9]:[0-5][0-9]:[0-6][0-9](\\.[0-9]+)?([zZ]|[+-][0-2][0-9]:[0-5][0-9])$")
        }
        "duration" => fits("^P[0-9YMWDTHS]+$"),
        "email" => fits("^[^@ ]+@[^@ ]+$"),
        "hostname" => fits("^[0-9A-Za-z][-.0-9A-Za-z]*$"),
        other => panic!("no format: {other}"),
    }
}

fn array(
    root: &Value,
    (keywords, keyword): (&Map<String, Value>, &str),
    list: &[Value],
) -> Result<bool, String> {
    let rule = &keywords[keyword];
    let count = list.len() as u64;
    let tuple = keywords.get("prefixItems").map_or(&[][..], items);
    match keyword {
        "minItems" => return Ok(count >= rule.as_u64().unwrap()),
        "maxItems" => return Ok(count <= rule.as_u64().unwrap()),
        "prefixItems" => {
            for (schema, item) in tuple.iter().zip(list) {
                valid(root, schema, item)?;
            }
        }
        "items" => {
            for item in list.iter().skip(tuple.len()) {
                valid(root, rule, item)?;
            }
        }
        _ => {}
    }
    Ok(true)
}

fn object(
    root: &Value,
    (keywords, keyword): (&Map<String, Value>, &str),
    entries: &Map<String, Value>,
) -> Result<bool, String> {
    let rule = &keywords[keyword];
    let declared = |key: &str| {
        keywords
            .get("properties")
            .is_some_and(|all| all.get(key).is_some())
    };
    let patterns = keywords.get("patternProperties").and_then(Value::as_object);
    let patterned = |key: &str| {
        let mut patterns = patterns.into_iter().flat_map(Map::keys);
        patterns.any(|pattern| Regex::new(pattern).unwrap().is_match(key))
    };
    for (key, value) in entries {
        match keyword {
            "properties" if declared(key) => valid(root, &rule[key], value)?,
            "additionalProperties" if !declared(key) && !patterned(key) => {
                valid(root, rule, value)?
            }
            "patternProperties" => {
                for (pattern, schema) in rule.as_object().unwrap() {
                    if Regex::new(pattern).unwrap().is_match(key) {
                        valid(root, schema, value)?;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(true)
}

#[test]
fn it_finds_what_is_wrong() {
    let schema = serde_json::json!({
        "type": "object",
        "properties": {"a": {"type": "integer", "minimum": 2}, "b": {"$ref": "#/$defs/x"}},
        "required": ["a"],
        "additionalProperties": false,
        "$defs": {"x": {"type": "array", "items": {"enum": [1, "y"]}, "maxItems": 2}}
    });
    for (value, is_valid) in [
        (r#"{"a":2}"#, true),
        (r#"{"a":2,"b":[1,"y"]}"#, true),
        (r#"{"a":1}"#, false),
        (r#"{"a":2.5}"#, false),
        (r#"{"b":[]}"#, false),
        (r#"{"a":2,"b":["z"]}"#, false),
        (r#"{"a":2,"b":[1,1,1]}"#, false),
        (r#"{"a":2,"c":1}"#, false),
        ("[]", false),
    ] {
        let value: Value = serde_json::from_str(value).unwrap();
        assert_eq!(check(&schema, &value).is_ok(), is_valid, "{value}");
    }
}
