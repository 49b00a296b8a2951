//! Random schemas, random texts of them, and an independent validator.

use serde_json::{Value, json};
use ucuz_text::{GrammarSource, TextError};

use crate::validator;
use crate::vocabulary::{Random, draw, vocabulary};

/// Schemas; the long form of the test multiplies them.
const SCHEMAS: u64 = 150;

/// Texts a schema.
const TEXTS: usize = 4;

#[test]
fn every_text_of_a_random_schema_is_valid() {
    let is_long = std::env::var_os("UCUZ_ACCEPT").is_some();
    let schemas = if is_long { SCHEMAS * 20 } else { SCHEMAS };
    let (mut texts, mut cut, mut refused) = (0, 0, Vec::new());
    for seed in 0..schemas {
        let mut random = Random(seed);
        let schema = root(&mut random);
        let source = GrammarSource::JsonSchema(schema.to_string());
        match vocabulary().compiler.compile(&source, 0) {
            Ok(_) => {}
            Err(TextError::Grammar { reason, .. }) => {
                refused.push((seed, reason));
                continue;
            }
            Err(error) => panic!("{error}"),
        }
        for _ in 0..TEXTS {
            let Some(text) = draw(&source, &mut random) else {
                cut += 1;
                continue;
            };
            let text = String::from_utf8(text).unwrap();
            let value: Value = match serde_json::from_str(&text) {
                Ok(value) => value,
                // A number without bounds may be beyond what a double holds.
                Err(error) if error.to_string().contains("out of range") => continue,
                Err(error) => panic!("seed {seed}: {error}\nin {text}\nof {schema}"),
            };
            if let Err(error) = validator::check(&schema, &value) {
                panic!("seed {seed}: {error}\nin {text}\nof {schema}");
            }
            texts += 1;
        }
    }
    println!(
        "{texts} texts valid, {cut} cut, {} of {schemas} schemas refused",
        refused.len()
    );
    assert!(refused.len() as u64 * 20 < schemas, "{refused:?}");
    assert!(cut * 10 < texts, "{cut} of {texts} were cut");
}

fn root(random: &mut Random) -> Value {
    let mut schema = object(random, 3);
    schema["$defs"] = json!({
        "leaf": value(random, 0),
        "tree": {
            "type": "object",
            "properties": {
                "value": value(random, 0),
                "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 2}
            },
            "required": ["value"],
            "additionalProperties": false
        }
    });
    schema
}

fn value(random: &mut Random, depth: usize) -> Value {
    let kinds = if depth == 0 { 8 } else { 13 };
    match random.below(kinds) {
        0 => integer(random),
        1 => number(random),
        2 => string(random),
        3 => pattern(random),
        4 => json!({"type": "boolean"}),
        5 => json!({"type": (*random.of(&["null", "boolean", "integer"]))}),
        6 => choices(random),
        7 => json!({"const": literal(random)}),
        8 | 9 => object(random, depth - 1),
        10 => array(random, depth - 1),
        11 => json!({"anyOf": [value(random, depth - 1), value(random, depth - 1)]}),
        _ if depth < 3 && random.chance(50) => json!({"$ref": "#/$defs/tree"}),
        _ => json!({"oneOf": [integer(random), string(random), {"type": "null"}]}),
    }
}

fn integer(random: &mut Random) -> Value {
    let least = random.below(2000) as i64 - 1000;
    let most = least + random.below(5000) as i64;
    match random.below(6) {
        0 => json!({"type": "integer"}),
        1 => json!({"type": "integer", "minimum": least}),
        2 => json!({"type": "integer", "exclusiveMaximum": most}),
        3 => {
            json!({"type": "integer", "minimum": 0, "maximum": 1000, "multipleOf": 1 + random.below(9)})
        }
        4 => json!({"allOf": [{"type": "integer", "minimum": least}, {"maximum": most}]}),
        _ => json!({"type": "integer", "minimum": least, "maximum": most}),
    }
}

fn number(random: &mut Random) -> Value {
    let least = (random.below(2000) as f64 - 1000.0) / 8.0;
    let most = least + 1.0 + random.below(1000) as f64 / 4.0;
    match random.below(4) {
        0 => json!({"type": "number", "minimum": least}),
        1 => json!({"type": "number", "exclusiveMinimum": least, "exclusiveMaximum": most}),
        2 => json!({"type": ["number", "null"], "minimum": least, "maximum": most}),
        _ => json!({"type": "number", "minimum": least, "maximum": most}),
    }
}

fn string(random: &mut Random) -> Value {
    let least = random.below(4);
    match random.below(5) {
        0 => json!({"type": "string"}),
        1 => json!({"type": "string", "minLength": least}),
        2 => {
            let format = *random.of(&["time", "ipv4", "ipv6", "uuid", "duration"]);
            json!({"type": "string", "format": format})
        }
        3 => {
            json!({"type": "string", "format": (*random.of(&["email", "hostname"])), "maxLength": 30})
        }
        _ => json!({"type": "string", "minLength": least, "maxLength": least + random.below(12)}),
    }
}

fn pattern(random: &mut Random) -> Value {
    const PATTERNS: [&str; 10] = [
        "^[a-z]{2,5}$",
        "^\\d{3}-\\d{4}$",
        "^(red|green|blue)+$",
        "^[A-Z][a-z]*( [A-Z][a-z]*)?$",
        "^\\w+$",
        "^[^x\\s]{1,4}$",
        "ab?c",
        "^.{0,5}$",
        "[0-9]$",
        "^#[0-9a-fA-F]{6}$",
    ];
    let pattern = *random.of(&PATTERNS);
    match random.chance(30) {
        true => json!({"type": "string", "pattern": pattern, "maxLength": 12}),
        false => json!({"type": "string", "pattern": pattern}),
    }
}

fn literal(random: &mut Random) -> Value {
    random
        .of(&[
            json!(null),
            json!(true),
            json!(-3),
            json!(2.5),
            json!("a \"quoted\" é/\\ text\n"),
            json!(""),
            json!([1, ["x"], {}]),
            json!({"k": [null], "l": "m"}),
        ])
        .clone()
}

fn choices(random: &mut Random) -> Value {
    let count = 1 + random.below(4);
    json!({"enum": (0..count).map(|_| literal(random)).collect::<Vec<_>>()})
}

fn array(random: &mut Random, depth: usize) -> Value {
    let least = random.below(3);
    let item = value(random, depth);
    match random.below(4) {
        0 => json!({"type": "array", "items": item, "maxItems": 3}),
        1 => {
            json!({"type": "array", "prefixItems": [integer(random), item], "items": false, "minItems": least})
        }
        2 => {
            json!({"type": "array", "prefixItems": [string(random)], "items": item, "maxItems": 3})
        }
        _ => json!({"type": "array", "items": item, "minItems": least, "maxItems": least + 1}),
    }
}

fn object(random: &mut Random, depth: usize) -> Value {
    const NAMES: [&str; 7] = ["name", "age", "a b", "é", "q\"x", "tags", "id"];
    let mut schema = json!({"type": "object"});
    let mut properties = serde_json::Map::new();
    for _ in 0..1 + random.below(4) {
        properties.insert((*random.of(&NAMES)).to_owned(), value(random, depth));
    }
    let names = properties.keys().filter(|_| random.chance(60));
    let required: Vec<_> = names.cloned().map(Value::String).collect();
    schema["properties"] = Value::Object(properties);
    if !required.is_empty() {
        schema["required"] = Value::Array(required);
    }
    match random.below(6) {
        0 => schema["additionalProperties"] = integer(random),
        1 => schema["patternProperties"] = json!({"^x_[a-z]$": integer(random)}),
        _ => {}
    }
    if random.chance(70) && schema.get("additionalProperties").is_none() {
        schema["additionalProperties"] = json!(false);
    }
    schema
}
