//! `POST /v1/embeddings`.

use super::completion::PROMPTS;
use super::sampling::{MODEL, STANDING};
use crate::openapi::schema::Kind::{Integer, Switch, Word};
use crate::openapi::schema::{Field, Shape, field, needed};
use crate::protocol::EMBEDDINGS_SPARE;

const OWN: &[Field] = &[
    needed(
        "input",
        PROMPTS,
        "What is embedded: text, token ids, or a list of either.",
    ),
    field(
        "pooling",
        Word(&["mean", "last"]),
        "The mean of all tokens, or the last one.",
    )
    .or("\"mean\""),
    field(
        "encoding_format",
        Word(&["float", "base64"]),
        "Numbers, or base64 of little-endian floats of 32 bits.",
    )
    .or("\"float\""),
    field(
        "dimensions",
        Integer(1, u32::MAX as u64),
        "Numbers of a vector; only as many as the model has.",
    ),
    field("normalize", Switch, "Whether vectors have length 1.").or("true"),
];

pub(in crate::openapi) const EMBEDDINGS: Shape = Shape {
    name: "EmbeddingsRequest",
    groups: &[&[MODEL], OWN, STANDING],
    spare: EMBEDDINGS_SPARE,
};
