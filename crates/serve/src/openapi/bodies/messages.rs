//! `POST /v1/messages` and `POST /v1/messages/count_tokens`.

use ucuz_llm::LIMITS;

use super::sampling::{MODEL, SEED, STANDING, STREAM, TEMPERATURE, TOP_K, TOP_P};
use crate::openapi::schema::Kind::{Any, Anything, Integer, List, Object, ShortText, Text, Word};
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

const TURN: Shape = Shape {
    name: "Turn",
    groups: &[&[
        needed("role", Word(&["user", "assistant"]), "Who speaks."),
        needed(
            "content",
            CONTENT,
            "Text, or blocks of text joined by a line's end.",
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
        List(&Object(&TURN), 1, usize::MAX),
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
    groups: &[&[MODEL, needed("max_tokens", TOKENS, MOST)], OWN, STANDING],
    spare: MESSAGES_SPARE,
};

pub(in crate::openapi) const COUNT: Shape = Shape {
    name: "CountTokensRequest",
    groups: &[&[MODEL, field("max_tokens", TOKENS, MOST)], OWN, STANDING],
    spare: MESSAGES_SPARE,
};
