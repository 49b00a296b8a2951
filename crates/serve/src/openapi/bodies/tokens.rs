//! `POST /tokenize` and `POST /detokenize`.

use super::chat::CONVERSATION;
use super::sampling::MODEL;
use super::tools::OFFERED;
use crate::openapi::schema::Kind::{Switch, Text};
use crate::openapi::schema::{IDS, Shape, field};
use crate::protocol::{NOTHING, TOKENIZE_SPARE};

pub(in crate::openapi) const TOKENIZE: Shape = Shape {
    name: "TokenizeRequest",
    groups: &[&[
        MODEL,
        field("prompt", Text, "A text; it, or `messages`."),
        field(
            "add_special_tokens",
            Switch,
            "Whether the ids of a text are those that `/v1/completions` would run with.",
        )
        .or("false"),
        field(
            "messages",
            CONVERSATION,
            "A conversation; the ids are those that `/v1/chat/completions` would run with.",
        ),
        OFFERED,
    ]],
    spare: TOKENIZE_SPARE,
};

pub(in crate::openapi) const DETOKENIZE: Shape = Shape {
    name: "DetokenizeRequest",
    groups: &[&[MODEL, field("tokens", IDS, "The ids.").or("[]")]],
    spare: NOTHING,
};
