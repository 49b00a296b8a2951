//! `POST /v1/completions`.

use ucuz_llm::LIMITS;

use super::sampling::{DELIVERY, GENERATION, MODEL, STANDING};
use super::structured::CONSTRAINTS;
use crate::openapi::schema::Kind::{Any, Integer, List, Switch, Text};
use crate::openapi::schema::{Field, IDS, Kind, Shape, field, needed};
use crate::protocol::{MAX_PROMPTS, OF_OTHER_SERVERS};

/// One text, several, one list of token ids, or several.
pub(super) const PROMPTS: Kind = Any(&[Text, IDS, List(&Any(&[Text, IDS]), 1, MAX_PROMPTS)]);

const OWN: &[Field] = &[
    needed(
        "prompt",
        PROMPTS,
        "What is continued: text, token ids, or a list of either.",
    ),
    field(
        "echo",
        Switch,
        "Whether the answer begins with the prompt; with `logprobs` it is scored.",
    )
    .or("false"),
    field(
        "logprobs",
        Integer(0, LIMITS.logprobs as u64),
        "So many likeliest tokens beside each token, with log-probabilities.",
    ),
];

pub(in crate::openapi) const COMPLETION: Shape = Shape {
    name: "CompletionRequest",
    groups: &[&[MODEL], OWN, GENERATION, CONSTRAINTS, DELIVERY, STANDING],
    spare: OF_OTHER_SERVERS,
};
