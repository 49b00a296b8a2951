//! `POST /v1/messages` and `POST /v1/messages/count_tokens`.

use ucuz_llm::LIMITS;

use super::sampling::{MODEL, SEED, STANDING, STREAM, TEMPERATURE, TOP_K, TOP_P};
use super::tools::{CALL_ID, CUSTOM_TOOLS};
use crate::openapi::schema::Kind::{
    Any, Anything, Free, Integer, List, Object, ShortText, Switch, Text, Word,
};
use crate::openapi::schema::{Field, Kind, Shape, field, needed};
use crate::protocol::{MESSAGES_SPARE, NOTHING};

const BLOCK: Shape = Shape {
    name: "TextBlock",
    groups: &[&[
        needed("type", Word(&["text"]), "There is no other type."),
        needed("text", Text, "The text."),
        field(
            "cache_control",
            Anything,
            "Has no effect: prefixes are found without marks.",
        ),
        field("citations", Anything, "Has no effect."),
    ]],
    spare: NOTHING,
};

const CONTENT: Kind = Any(&[Text, List(&Object(&BLOCK), 1, usize::MAX)]);
const MARK: Field = field("cache_control", Anything, "Has no effect.");

const USE: Shape = Shape {
    name: "ToolUseBlock",
    groups: &[&[
        needed("type", Word(&["tool_use"]), "A call that an answer made."),
        needed("id", CALL_ID, "As the answer had it."),
        needed("name", Text, "What was called."),
        needed("input", Free, "The arguments."),
        MARK,
    ]],
    spare: NOTHING,
};

const RESULT: Shape = Shape {
    name: "ToolResultBlock",
    groups: &[&[
        needed("type", Word(&["tool_result"]), "What a call came to."),
        needed("tool_use_id", CALL_ID, "Of the call."),
        field("content", CONTENT, "Text, or blocks of text."),
        field("is_error", Switch, "Has no effect: no template knows it."),
        MARK,
    ]],
    spare: NOTHING,
};

const SAID: &str = "Text, or blocks of text joined by a line's end, calls and results among them.";

const TURN: Shape = Shape {
    name: "Turn",
    groups: &[&[
        needed("role", Word(&["user"]), "Who speaks."),
        needed(
            "content",
            Any(&[
                Text,
                List(&Any(&[Object(&BLOCK), Object(&RESULT)]), 1, usize::MAX),
            ]),
            SAID,
        ),
    ]],
    spare: NOTHING,
};

const ANSWER: Shape = Shape {
    name: "AnswerTurn",
    groups: &[&[
        needed("role", Word(&["assistant"]), "An answer of the model."),
        needed(
            "content",
            Any(&[
                Text,
                List(&Any(&[Object(&BLOCK), Object(&USE)]), 1, usize::MAX),
            ]),
            SAID,
        ),
    ]],
    spare: NOTHING,
};

const THINKING: Shape = Shape {
    name: "Thinking",
    groups: &[&[needed(
        "type",
        Word(&["disabled"]),
        "A budget for thoughts cannot be kept.",
    )]],
    spare: NOTHING,
};

const OWN: &[Field] = &[
    needed(
        "messages",
        List(&Any(&[Object(&TURN), Object(&ANSWER)]), 1, usize::MAX),
        "The conversation so far.",
    ),
    field("system", CONTENT, "What stands before it."),
    field(
        "stop_sequences",
        List(&ShortText(1, LIMITS.stop_bytes), 0, LIMITS.stop_strings),
        "Texts that end the answer; they are not part of it.",
    ),
    TEMPERATURE,
    TOP_K,
    TOP_P,
    SEED,
    field("thinking", Object(&THINKING), "Only to be switched off."),
    STREAM,
];

const TOKENS: Kind = Integer(1, u32::MAX as u64);
const MOST: &str = "Most tokens of the answer.";

pub(in crate::openapi) const MESSAGES: Shape = Shape {
    name: "MessagesRequest",
    groups: &[
        &[MODEL, needed("max_tokens", TOKENS, MOST)],
        OWN,
        CUSTOM_TOOLS,
        STANDING,
    ],
    spare: MESSAGES_SPARE,
};

pub(in crate::openapi) const COUNT: Shape = Shape {
    name: "CountTokensRequest",
    groups: &[
        &[MODEL, field("max_tokens", TOKENS, MOST)],
        OWN,
        CUSTOM_TOOLS,
        STANDING,
    ],
    spare: MESSAGES_SPARE,
};
