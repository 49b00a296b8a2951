//! `POST /v1/chat/completions`.

use ucuz_llm::LIMITS;

use super::sampling::{DELIVERY, GENERATION, MODEL, STANDING};
use super::structured::CONSTRAINTS;
use super::tools::{CALL, CALL_ID, TOOLS};
use crate::openapi::schema::Kind::{Any, Free, Integer, List, Object, Only, Switch, Text, Word};
use crate::openapi::schema::{Field, Kind, Shape, field, needed};
use crate::protocol::{MAX_TOOLS, NOTHING, OF_OTHER_SERVERS};

const TEXT_PART: Shape = Shape {
    name: "TextPart",
    groups: &[&[
        needed("type", Word(&["text"]), "There is no other type."),
        needed("text", Text, "The text."),
    ]],
    spare: NOTHING,
};

const CONTENT: Kind = Any(&[Text, List(&Object(&TEXT_PART), 1, usize::MAX)]);
const NAME: Field = field("name", Text, "Who says it; few templates show it.");
const NOTHING_IN_IT: Kind = List(&Free, 0, 0);

const MESSAGE: Shape = Shape {
    name: "ChatMessage",
    groups: &[&[
        needed(
            "role",
            Word(&["system", "developer", "user"]),
            "Who speaks; `developer` is another name of `system`.",
        ),
        needed(
            "content",
            CONTENT,
            "Text, or parts of text joined by a space.",
        ),
        NAME,
    ]],
    spare: NOTHING,
};

const ANSWER: Shape = Shape {
    name: "ChatAnswer",
    groups: &[&[
        needed("role", Word(&["assistant"]), "An answer of the model."),
        field("content", CONTENT, "May be missing where there are calls."),
        field(
            "tool_calls",
            List(&Object(&CALL), 0, MAX_TOOLS),
            "Calls that the answer made.",
        ),
        field("reasoning_content", Text, "Thoughts before the answer."),
        NAME,
        field(
            "annotations",
            NOTHING_IN_IT,
            "Empty in what this server answers.",
        ),
        field(
            "function_call",
            NOTHING_IN_IT,
            "Empty in what this server answers.",
        ),
        field("audio", NOTHING_IN_IT, "Empty in what this server answers."),
        field(
            "refusal",
            NOTHING_IN_IT,
            "Empty in what this server answers.",
        ),
    ]],
    spare: NOTHING,
};

const RESULT: Shape = Shape {
    name: "ChatToolResult",
    groups: &[&[
        needed("role", Word(&["tool"]), "What a call came to."),
        needed("tool_call_id", CALL_ID, "Of the call."),
        needed(
            "content",
            CONTENT,
            "Text, or parts of text joined by a space.",
        ),
        NAME,
    ]],
    spare: NOTHING,
};

/// A conversation.
pub(super) const CONVERSATION: Kind = List(
    &Any(&[Object(&MESSAGE), Object(&ANSWER), Object(&RESULT)]),
    1,
    usize::MAX,
);

const OWN: &[Field] = &[
    needed("messages", CONVERSATION, "The conversation so far."),
    field(
        "include_reasoning",
        Switch,
        "Whether the answer tells the thoughts before it.",
    )
    .or("true"),
    field(
        "logprobs",
        Switch,
        "Whether each token comes with its log-probability.",
    )
    .or("false"),
    field(
        "top_logprobs",
        Integer(0, LIMITS.logprobs as u64),
        "So many likeliest tokens beside each; needs `logprobs`.",
    )
    .or("0"),
    field(
        "echo",
        Only(false),
        "Chat answers do not repeat the prompt.",
    ),
];

pub(in crate::openapi) const CHAT: Shape = Shape {
    name: "ChatRequest",
    groups: &[
        &[MODEL],
        OWN,
        GENERATION,
        CONSTRAINTS,
        TOOLS,
        DELIVERY,
        STANDING,
    ],
    spare: OF_OTHER_SERVERS,
};
