//! Tools of a chat, and calls of earlier answers.

use crate::openapi::schema::Kind::{
    Any, Anything, Free, List, Object, Pattern, ShortText, Switch, Text, Word,
};
use crate::openapi::schema::{Field, Kind, Shape, U32, field, needed};
use crate::protocol::{MAX_CALL_ID_BYTES, MAX_TOOLS, NOTHING};

const NAME: Kind = Pattern("^[a-zA-Z0-9_-]{1,64}$");
const TYPE: Field = needed("type", Word(&["function"]), "There is no other type.");

/// An id that an earlier answer gave to a call.
pub(super) const CALL_ID: Kind = ShortText(1, MAX_CALL_ID_BYTES);

const FUNCTION: Shape = Shape {
    name: "Function",
    groups: &[&[
        needed("name", NAME, "Of a-z, A-Z, 0-9, _ and -."),
        field("description", Text, "Tells the model what it is for."),
        field(
            "strict",
            Switch,
            "Whether arguments must follow the schema even where calls are the model's choice.",
        )
        .or("false"),
        field("parameters", Free, "A JSON Schema of an object."),
    ]],
    spare: NOTHING,
};

/// As responses have it.
const FLAT_TOOL: Shape = Shape {
    name: "FunctionTool",
    groups: &[&[TYPE], FUNCTION.groups[0]],
    spare: NOTHING,
};

const FLAT_CHOICE: Shape = Shape {
    name: "NamedFunctionChoice",
    groups: &[&[TYPE, needed("name", NAME, "Of one of `tools`.")]],
    spare: NOTHING,
};

const TOOL: Shape = Shape {
    name: "Tool",
    groups: &[&[
        TYPE,
        needed("function", Object(&FUNCTION), "What can be called."),
    ]],
    spare: NOTHING,
};

const FUNCTION_NAME: Shape = Shape {
    name: "FunctionName",
    groups: &[&[needed("name", NAME, "Of one of `tools`.")]],
    spare: NOTHING,
};

const NAMED_CHOICE: Shape = Shape {
    name: "NamedToolChoice",
    groups: &[&[
        TYPE,
        needed("function", Object(&FUNCTION_NAME), "The one to call."),
    ]],
    spare: NOTHING,
};

pub(super) const OFFERED: Field = field(
    "tools",
    List(&Object(&TOOL), 0, MAX_TOOLS),
    "What the model may call; each name once.",
);

pub(super) const TOOLS: &[Field] = &[
    OFFERED,
    field(
        "tool_choice",
        Any(&[Word(&["auto", "none", "required"]), Object(&NAMED_CHOICE)]),
        "Whether, and what, it must call.",
    )
    .or("\"auto\""),
    PARALLEL,
];

const PARALLEL: Field = field(
    "parallel_tool_calls",
    Switch,
    "Whether there may be several calls.",
)
.or("true");

/// Tools of a response.
pub(super) const FLAT_TOOLS: &[Field] = &[
    field(
        "tools",
        List(&Object(&FLAT_TOOL), 0, MAX_TOOLS),
        "What the model may call; each name once.",
    ),
    field(
        "tool_choice",
        Any(&[Word(&["auto", "none", "required"]), Object(&FLAT_CHOICE)]),
        "Whether, and what, it must call.",
    )
    .or("\"auto\""),
    PARALLEL,
];

const MARK: Field = field(
    "cache_control",
    Anything,
    "Has no effect: prefixes are found without marks.",
);

const CUSTOM_TOOL: Shape = Shape {
    name: "CustomTool",
    groups: &[&[
        field("type", Word(&["custom"]), "There is no other type."),
        needed("name", NAME, "Of a-z, A-Z, 0-9, _ and -."),
        field("description", Text, "Tells the model what it is for."),
        field(
            "strict",
            Switch,
            "Whether arguments must follow the schema even where calls are the model's choice.",
        )
        .or("false"),
        field("input_schema", Free, "A JSON Schema of an object."),
        MARK,
    ]],
    spare: NOTHING,
};

const SINGLE: Field = field(
    "disable_parallel_tool_use",
    Switch,
    "Whether there may be one call at most.",
)
.or("false");

const WAY: Shape = Shape {
    name: "ToolWay",
    groups: &[&[
        needed(
            "type",
            Word(&["auto", "any", "none"]),
            "Whether it may, must or must not call.",
        ),
        SINGLE,
    ]],
    spare: NOTHING,
};

const ONE: Shape = Shape {
    name: "OneTool",
    groups: &[&[
        needed("type", Word(&["tool"]), "It must call this one."),
        needed("name", NAME, "Of one of `tools`."),
        SINGLE,
    ]],
    spare: NOTHING,
};

/// Tools of Anthropic's messages.
pub(super) const CUSTOM_TOOLS: &[Field] = &[
    field(
        "tools",
        List(&Object(&CUSTOM_TOOL), 0, MAX_TOOLS),
        "What the model may call; each name once.",
    ),
    field(
        "tool_choice",
        Any(&[Object(&WAY), Object(&ONE)]),
        "Whether, and what, it must call.",
    ),
];

const CALLED: Shape = Shape {
    name: "CalledFunction",
    groups: &[&[
        needed("name", Text, "What was called."),
        field("arguments", Text, "JSON of an object, as text."),
    ]],
    spare: NOTHING,
};

/// A call that an answer made.
pub(super) const CALL: Shape = Shape {
    name: "ToolCall",
    groups: &[&[
        needed("id", CALL_ID, "As the answer had it."),
        TYPE,
        needed("function", Object(&CALLED), "What was called, and how."),
        field("index", U32, "Has no effect."),
    ]],
    spare: NOTHING,
};
