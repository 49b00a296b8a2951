//! Fields of bodies as data, and their JSON Schema.

use serde_json::{Map, Value, json};

use crate::protocol::{Neutral, Spare};

/// What a field may hold, beside `null`, which is the same as leaving it out.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Text,
    /// Text of so many bytes, from and to.
    ShortText(usize, usize),
    /// Text that matches an expression.
    Pattern(&'static str),
    Switch,
    /// A whole number, from and to.
    Integer(i64, u64),
    /// A number, from and to.
    Number(f64, f64),
    /// A number above the first, up to the second.
    Above(f64, f64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// So many of a kind, from and to; `usize::MAX` where only the body's size is a limit.
    List(&'static Kind, usize, usize),
    /// Any of these.
    Any(&'static [Kind]),
    /// An object with these fields.
    Object(&'static Shape),
    /// An object of at most so many entries, with the pattern of its keys.
    Map(&'static Kind, usize, &'static str),
    /// A JSON Schema.
    Schema,
    /// An object of which nothing more is said.
    Free,
    /// Whatever is given.
    Anything,
    /// This switch and not the other.
    Only(bool),
}

/// Any whole number that fits 32 bits.
pub(crate) const U32: Kind = Kind::Integer(0, u32::MAX as u64);
/// The same, with -1 for "as if not given".
pub(crate) const U32_OR_MINUS_ONE: Kind = Kind::Integer(-1, u32::MAX as u64);
/// Token ids.
pub(crate) const IDS: Kind = Kind::List(&U32, 0, usize::MAX);

/// One field of an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    pub name: &'static str,
    pub kind: Kind,
    pub about: &'static str,
    pub is_needed: bool,
    /// What holds when it is left out, as JSON; `None` where that is the model's own setting, or nothing.
    pub default: Option<&'static str>,
}

/// An object: its name among the components, its fields, and those that are taken without acting on them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub name: &'static str,
    pub groups: &'static [&'static [Field]],
    pub spare: Spare,
}

/// What becomes of fields that are not listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Others {
    /// Of a body: they are refused.
    Refused,
    /// Of an object inside: they are, unless they are `null`, as clients send what an answer had.
    NullOnly,
}

/// A field that may be left out.
pub(crate) const fn field(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field {
        name,
        kind,
        about,
        is_needed: false,
        default: None,
    }
}

/// A field that must be there.
pub(crate) const fn needed(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field {
        is_needed: true,
        ..field(name, kind, about)
    }
}

impl Field {
    /// The same with a default.
    pub(crate) const fn or(self, default: &'static str) -> Self {
        Self {
            default: Some(default),
            ..self
        }
    }

    fn schema(&self) -> Value {
        let mut schema = match self.is_needed {
            true => self.kind.schema(),
            false => or_null(self.kind.schema()),
        };
        schema["description"] = json!(self.about);
        let default = self
            .default
            .and_then(|text| serde_json::from_str::<Value>(text).ok());
        if let Some(default) = default {
            schema["default"] = default;
        }
        schema
    }
}

/// The same schema, or `null`.
fn or_null(mut schema: Value) -> Value {
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.push(Value::Null);
    }
    match schema.get_mut("type") {
        Some(Value::Array(kinds)) => kinds.push(json!("null")),
        Some(kind) => *kind = json!([kind, "null"]),
        None => return or_nothing(schema),
    }
    schema
}

/// Of a schema that names no type: a choice more, but where it allows everything anyway.
fn or_nothing(schema: Value) -> Value {
    match schema == json!({}) {
        true => schema,
        false => json!({ "anyOf": [schema, { "type": "null" }] }),
    }
}

impl Kind {
    pub(super) fn schema(self) -> Value {
        match self {
            Self::Text => json!({ "type": "string" }),
            // JSON Schema counts characters: a text of so many bytes has at most as many.
            Self::ShortText(least, most) => {
                json!({ "type": "string", "minLength": least.min(1), "maxLength": most })
            }
            Self::Pattern(pattern) => json!({ "type": "string", "pattern": pattern }),
            Self::Switch => json!({ "type": "boolean" }),
            Self::Only(value) => json!({ "type": "boolean", "enum": [value] }),
            Self::Integer(least, most) => {
                json!({ "type": "integer", "minimum": least, "maximum": most })
            }
            Self::Number(least, most) => {
                json!({ "type": "number", "minimum": least, "maximum": most })
            }
            Self::Above(least, most) => {
                json!({ "type": "number", "exclusiveMinimum": least, "maximum": most })
            }
            Self::Word(words) => json!({ "type": "string", "enum": words }),
            Self::List(kind, least, most) => list(kind.schema(), least, most),
            Self::Any(kinds) => {
                let kinds: Vec<_> = kinds.iter().map(|kind| kind.schema()).collect();
                json!({ "anyOf": kinds })
            }
            Self::Object(shape) => reference(shape.name),
            Self::Map(kind, most, pattern) => json!({
                "type": "object",
                "propertyNames": { "pattern": pattern },
                "additionalProperties": kind.schema(),
                "maxProperties": most,
            }),
            Self::Schema => json!({ "type": ["object", "boolean"] }),
            Self::Free => json!({ "type": "object" }),
            Self::Anything => json!({}),
        }
    }

    /// The objects that this kind names itself.
    pub(super) fn shapes(self) -> Vec<&'static Shape> {
        match self {
            Self::Object(shape) => vec![shape],
            Self::List(kind, ..) | Self::Map(kind, ..) => kind.shapes(),
            Self::Any(kinds) => kinds.iter().flat_map(|kind| kind.shapes()).collect(),
            _ => Vec::new(),
        }
    }
}

fn list(items: Value, least: usize, most: usize) -> Value {
    let mut schema = json!({ "type": "array", "items": items });
    if least > 0 {
        schema["minItems"] = json!(least);
    }
    if most < usize::MAX {
        schema["maxItems"] = json!(most);
    }
    schema
}

/// What stands in the components under a name.
pub(crate) fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

impl Neutral {
    /// The values that change nothing.
    fn schema(self) -> Value {
        match self {
            Self::Never => json!({ "type": "null" }),
            Self::Empty => {
                json!({ "type": ["array", "object", "null"], "maxItems": 0, "maxProperties": 0 })
            }
            Self::Words(words) => or_null(json!({ "type": "string", "enum": words })),
            Self::Only(word) => json!({ "enum": [[word], null] }),
            Self::Switch(value) => json!({ "enum": [value, null] }),
            Self::Number(value) => json!({ "enum": [value, null] }),
        }
    }
}

impl Shape {
    /// Its own fields.
    pub(super) fn fields(&self) -> impl Iterator<Item = &'static Field> {
        self.groups.iter().copied().flatten()
    }

    /// The schema of an object that has these fields.
    pub(super) fn schema(&self, others: Others) -> Value {
        let mut properties = Map::new();
        for field in self.fields() {
            properties.insert(field.name.to_owned(), field.schema());
        }
        for (name, neutral) in self.spare.unsupported {
            let mut schema = neutral.schema();
            schema["description"] = json!("Not supported; values that ask for nothing are taken.");
            properties.entry(*name).or_insert(schema);
        }
        for name in self.spare.harmless {
            let about = "Taken, without an effect here; the header `x-ucuz-ignored` names it.";
            let schema = json!({ "description": about });
            properties.entry(*name).or_insert(schema);
        }
        let needed = self.fields().filter(|field| field.is_needed);
        let needed: Vec<_> = needed.map(|field| field.name).collect();
        let mut schema = json!({
            "type": "object",
            "properties": properties,
            "additionalProperties": match others {
                Others::Refused => json!(false),
                Others::NullOnly => json!({ "type": "null" }),
            },
        });
        if !needed.is_empty() {
            schema["required"] = json!(needed);
        }
        schema
    }

    /// Adds its schema, and those of all objects inside, to the components.
    pub(super) fn add_to(&self, components: &mut Map<String, Value>, others: Others) {
        if components.contains_key(self.name) {
            return;
        }
        components.insert(self.name.to_owned(), self.schema(others));
        for shape in self.fields().flat_map(|field| field.kind.shapes()) {
            shape.add_to(components, Others::NullOnly);
        }
    }
}
