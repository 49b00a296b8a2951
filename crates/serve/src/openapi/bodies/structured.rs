//! What an answer can be made to follow.

use crate::openapi::schema::Kind::{Any, List, Object, Only, Schema, Switch, Text, Word};
use crate::openapi::schema::{Field, Kind, Shape, field, needed};
use crate::protocol::NOTHING;

/// A schema with the names that OpenAI's form gives it.
pub(super) const NAMED_SCHEMA: &[Field] = &[
    field("name", Text, "Has no effect."),
    field("description", Text, "Has no effect."),
    field(
        "strict",
        Switch,
        "Schemas are followed strictly either way.",
    ),
    needed("schema", Schema, "The JSON Schema that the answer follows."),
];

const JSON_SCHEMA: Shape = Shape {
    name: "NamedSchema",
    groups: &[NAMED_SCHEMA],
    spare: NOTHING,
};

const PLAIN_FORMAT: Shape = Shape {
    name: "PlainFormat",
    groups: &[&[needed(
        "type",
        Word(&["text", "json_object"]),
        "Any text, or any JSON object.",
    )]],
    spare: NOTHING,
};

const SCHEMA_FORMAT: Shape = Shape {
    name: "SchemaFormat",
    groups: &[&[
        needed(
            "type",
            Word(&["json_schema"]),
            "JSON that follows a schema.",
        ),
        needed("json_schema", Object(&JSON_SCHEMA), "The schema."),
    ]],
    spare: NOTHING,
};

const SCHEMA_OR_TEXT: Kind = Any(&[Schema, Text]);
const CHOICES: Kind = List(&Text, 1, usize::MAX);
const JSON: &str = "A JSON Schema, or text that holds one.";
const JSON_OBJECT: &str = "Any JSON object.";
const REGEX: &str = "A regular expression that the whole answer matches.";
const CHOICE: &str = "One of these texts.";
const GRAMMAR: &str = "A grammar in Lark or GBNF.";
const NOT_SUPPORTED: &str = "Only false is taken.";

const STRUCTURED: Shape = Shape {
    name: "StructuredOutputs",
    groups: &[&[
        field("json", SCHEMA_OR_TEXT, JSON),
        field("json_object", Switch, JSON_OBJECT),
        field("regex", Text, REGEX),
        field("choice", CHOICES, CHOICE),
        field("grammar", Text, GRAMMAR),
        field("disable_any_whitespace", Only(false), NOT_SUPPORTED),
        field("disable_additional_properties", Only(false), NOT_SUPPORTED),
    ]],
    spare: NOTHING,
};

/// Of chats and completions; at most one of them.
pub(super) const CONSTRAINTS: &[Field] = &[
    field(
        "response_format",
        Any(&[Object(&PLAIN_FORMAT), Object(&SCHEMA_FORMAT)]),
        "What the answer must look like, as OpenAI has it.",
    ),
    field(
        "structured_outputs",
        Object(&STRUCTURED),
        "What the answer must look like, as vLLM has it; one of its rules.",
    ),
    field("guided_json", SCHEMA_OR_TEXT, JSON),
    field("guided_json_object", Switch, JSON_OBJECT),
    field("guided_regex", Text, REGEX),
    field("guided_choice", CHOICES, CHOICE),
    field("guided_grammar", Text, GRAMMAR),
];
