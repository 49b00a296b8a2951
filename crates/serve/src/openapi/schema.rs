//! Fields of bodies as data, and their JSON Schema.

use serde_json::{Map, Value, json};

/// What a field may hold.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Text,
    Switch,
    /// A whole number within bounds.
    Integer(i64, i64),
    /// A number within bounds.
    Number(f64, f64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// At most so many texts.
    Texts(usize),
    /// At most so many token ids.
    Ids(usize),
    /// A text, or at most so many.
    TextOrTexts(usize),
    /// Whatever stands in the components under this name.
    Named(&'static str),
    /// At least one of what stands in the components under this name.
    List(&'static str),
    /// An object of which nothing more is said.
    Object,
}

/// One field of a body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    pub name: &'static str,
    pub kind: Kind,
    pub about: &'static str,
    pub is_needed: bool,
}

/// A field that may be left out.
pub(crate) const fn field(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field {
        name,
        kind,
        about,
        is_needed: false,
    }
}

/// A field that must be there.
pub(crate) const fn needed(name: &'static str, kind: Kind, about: &'static str) -> Field {
    Field {
        is_needed: true,
        ..field(name, kind, about)
    }
}

impl Kind {
    fn schema(self) -> Value {
        match self {
            Self::Text => json!({"type": "string"}),
            Self::Switch => json!({"type": "boolean"}),
            Self::Integer(least, most) => {
                json!({"type": "integer", "minimum": least, "maximum": most})
            }
            Self::Number(least, most) => {
                json!({"type": "number", "minimum": least, "maximum": most})
            }
            Self::Word(words) => json!({"type": "string", "enum": words}),
            Self::Texts(most) => {
                json!({"type": "array", "items": {"type": "string"}, "maxItems": most})
            }
            Self::Ids(most) => {
                json!({"type": "array", "items": {"type": "integer", "minimum": 0}, "maxItems": most})
            }
            Self::TextOrTexts(most) => {
                json!({"anyOf": [Self::Text.schema(), Self::Texts(most).schema()]})
            }
            Self::Named(name) => json!({"$ref": format!("#/components/schemas/{name}")}),
            Self::List(name) => {
                json!({"type": "array", "items": Self::Named(name).schema(), "minItems": 1})
            }
            Self::Object => json!({"type": "object"}),
        }
    }
}

/// The schema of an object that has these fields and no other.
pub(crate) fn object(groups: &[&[Field]]) -> Value {
    let fields = || groups.iter().copied().flatten();
    let properties: Map<String, Value> = fields()
        .map(|field| {
            let mut schema = field.kind.schema();
            if let Value::Object(schema) = &mut schema {
                schema.insert("description".to_owned(), json!(field.about));
            }
            (field.name.to_owned(), schema)
        })
        .collect();
    let needed: Vec<_> = fields()
        .filter(|field| field.is_needed)
        .map(|field| field.name)
        .collect();
    let mut schema = json!({
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    if !needed.is_empty() {
        schema["required"] = json!(needed);
    }
    schema
}
