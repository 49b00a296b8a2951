//! `POST /v1/responses`.

use super::sampling::{MODEL, SEED, STANDING, STREAM, TEMPERATURE, TOP_P};
use super::structured::NAMED_SCHEMA;
use super::tools::{CALL_ID, FLAT_TOOLS};
use crate::openapi::schema::Kind::{
    Any, Anything, Integer, List, Map, Object, ShortText, Text, Word,
};
use crate::openapi::schema::{Field, Kind, Shape, field, needed};
use crate::protocol::{METADATA_MAX, NOTHING, RESPONSES_SPARE};

const PART: Shape = Shape {
    name: "InputPart",
    groups: &[&[
        needed(
            "type",
            Word(&["input_text", "output_text"]),
            "There is no other type.",
        ),
        needed("text", Text, "The text."),
        field("annotations", Anything, "Has no effect."),
        field("logprobs", Anything, "Has no effect."),
    ]],
    spare: NOTHING,
};

const CONTENT: Kind = Any(&[Text, List(&Object(&PART), 1, usize::MAX)]);
const ID: Field = field("id", Anything, "Has no effect.");
const STATUS: Field = field("status", Anything, "Has no effect.");
const OF_CALL: Field = needed("call_id", CALL_ID, "Of the call.");

const MESSAGE: Shape = Shape {
    name: "InputMessage",
    groups: &[&[
        needed(
            "role",
            Word(&["system", "developer", "user", "assistant"]),
            "Who speaks; `developer` is another name of `system`.",
        ),
        needed(
            "content",
            CONTENT,
            "Text, or parts of text joined by a space.",
        ),
        field("type", Word(&["message"]), "What is said.").or("\"message\""),
        ID,
        STATUS,
    ]],
    spare: NOTHING,
};

const CALL: Shape = Shape {
    name: "InputCall",
    groups: &[&[
        needed(
            "type",
            Word(&["function_call"]),
            "A call that an answer made.",
        ),
        OF_CALL,
        needed("name", Text, "What was called."),
        field("arguments", Text, "JSON of an object, as text."),
        ID,
        STATUS,
    ]],
    spare: NOTHING,
};

const RESULT: Shape = Shape {
    name: "InputCallOutput",
    groups: &[&[
        needed(
            "type",
            Word(&["function_call_output"]),
            "What a call came to.",
        ),
        OF_CALL,
        needed(
            "output",
            CONTENT,
            "Text, or parts of text joined by a space.",
        ),
        ID,
        STATUS,
    ]],
    spare: NOTHING,
};

const ITEMS: Kind = List(
    &Any(&[Object(&MESSAGE), Object(&CALL), Object(&RESULT)]),
    1,
    usize::MAX,
);

const PLAIN: Shape = Shape {
    name: "PlainTextFormat",
    groups: &[&[needed(
        "type",
        Word(&["text", "json_object"]),
        "Any text, or any JSON object.",
    )]],
    spare: NOTHING,
};

const SCHEMA: Shape = Shape {
    name: "SchemaTextFormat",
    groups: &[
        &[needed(
            "type",
            Word(&["json_schema"]),
            "JSON that follows a schema.",
        )],
        NAMED_SCHEMA,
    ],
    spare: NOTHING,
};

const TEXT: Shape = Shape {
    name: "TextOptions",
    groups: &[&[field(
        "format",
        Any(&[Object(&PLAIN), Object(&SCHEMA)]),
        "What the answer must look like.",
    )]],
    spare: NOTHING,
};

/// Keys of `metadata` are as short as JSON Schema can say; the server counts bytes.
const NOTES: Kind = Map(
    &ShortText(0, METADATA_MAX.2),
    METADATA_MAX.0,
    "^[\\s\\S]{0,64}$",
);

const OWN: &[Field] = &[
    needed(
        "input",
        Any(&[Text, ITEMS]),
        "A text, or the conversation so far.",
    ),
    field("instructions", Text, "What stands before it."),
    field(
        "max_output_tokens",
        Integer(1, u32::MAX as u64),
        "Most tokens of the answer; without it, as many as the context holds.",
    ),
    TEMPERATURE,
    TOP_P,
    SEED,
    field("text", Object(&TEXT), "What the answer must look like."),
    field("metadata", NOTES, "Told back in the answer."),
    STREAM,
];

pub(in crate::openapi) const RESPONSES: Shape = Shape {
    name: "ResponsesRequest",
    groups: &[&[MODEL], OWN, FLAT_TOOLS, STANDING],
    spare: RESPONSES_SPARE,
};
