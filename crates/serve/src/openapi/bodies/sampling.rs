//! Fields that several endpoints share.

use ucuz_llm::{LIMITS, SALT_BYTES_MAX};

use crate::openapi::schema::Kind::{
    Above, Any, Integer, List, Map, Number, Object, Only, ShortText, Switch, Text,
};
use crate::openapi::schema::{Field, Kind, Shape, U32, U32_OR_MINUS_ONE, field};
use crate::protocol::NOTHING;

pub(super) const MODEL: Field = field(
    "model",
    Text,
    "The model asked for; 404 unless it is the one served. Without it, that one.",
);

pub(super) const SEED: Field = field(
    "seed",
    Integer(-1, u64::MAX),
    "The same seed and prompt give the same tokens; -1 or none draws one.",
);

pub(super) const TEMPERATURE: Field = field(
    "temperature",
    Number(0.0, 2.0),
    "0 takes the likeliest token each time.",
);

pub(super) const TOP_K: Field = field(
    "top_k",
    U32_OR_MINUS_ONE,
    "Only so many of the likeliest tokens; 0 or -1: all.",
);

pub(super) const TOP_P: Field = field(
    "top_p",
    Above(0.0, 1.0),
    "Only the likeliest tokens that together have this probability.",
);

pub(super) const STREAM: Field = field(
    "stream",
    Switch,
    "Whether the answer comes as Server-Sent Events.",
)
.or("false");

/// How a request stands among others.
pub(super) const STANDING: &[Field] = &[
    field(
        "cache_salt",
        ShortText(1, SALT_BYTES_MAX),
        "Cached prefixes are shared only with requests of the same salt.",
    ),
    field(
        "priority",
        Integer(i32::MIN as i64, i32::MAX as u64),
        "Among requests of one client, lower goes first.",
    )
    .or("0"),
];

const STREAM_OPTIONS: Shape = Shape {
    name: "StreamOptions",
    groups: &[&[
        field(
            "include_usage",
            Switch,
            "Whether a last chunk tells the tokens used.",
        )
        .or("false"),
        field(
            "include_obfuscation",
            Only(false),
            "Padding against analysis of traffic; only false is taken.",
        ),
    ]],
    spare: NOTHING,
};

/// How an answer is sent.
pub(super) const DELIVERY: &[Field] = &[
    STREAM,
    field(
        "stream_options",
        Object(&STREAM_OPTIONS),
        "What a stream tells beside; needs `stream`.",
    ),
    field(
        "explain",
        Switch,
        "Whether the answer tells what became of the request inside: waiting, cached tokens, preemptions.",
    )
    .or("false"),
    field(
        "return_token_ids",
        Switch,
        "Whether the ids of prompt and answer are told.",
    )
    .or("false"),
];

const STOP: Kind = ShortText(1, LIMITS.stop_bytes);
const LOGPROBS: Kind = Integer(0, LIMITS.logprobs as u64);

/// Sampling, lengths and ends; what is left out is the model's own setting.
pub(super) const GENERATION: &[Field] = &[
    TEMPERATURE,
    TOP_K,
    TOP_P,
    field(
        "min_p",
        Number(0.0, 1.0),
        "Only tokens with this share of the likeliest one's probability.",
    ),
    field(
        "repetition_penalty",
        Above(0.0, 100.0),
        "Divides logits of tokens that were there; 1 is off.",
    ),
    field(
        "presence_penalty",
        Number(-2.0, 2.0),
        "Taken from logits of tokens that were generated.",
    )
    .or("0"),
    field(
        "frequency_penalty",
        Number(-2.0, 2.0),
        "The same for each time that a token was generated.",
    )
    .or("0"),
    field(
        "logit_bias",
        Map(&Number(-100.0, 100.0), LIMITS.logit_bias, "^[0-9]+$"),
        "Added to the logits of single tokens, by their ids.",
    ),
    SEED,
    field(
        "max_tokens",
        U32_OR_MINUS_ONE,
        "Most tokens of the answer; without it, or with -1, as many as the context holds. 0 only scores a prompt.",
    ),
    field(
        "max_completion_tokens",
        U32_OR_MINUS_ONE,
        "The same by OpenAI's newer name.",
    ),
    field(
        "min_tokens",
        U32,
        "The answer does not end before so many tokens; at most `max_tokens`.",
    )
    .or("0"),
    field(
        "stop",
        Any(&[STOP, List(&STOP, 0, LIMITS.stop_strings)]),
        "Texts that end the answer; they are not part of it.",
    ),
    field(
        "stop_token_ids",
        List(&U32, 0, LIMITS.stop_ids),
        "Ids that end the answer.",
    ),
    field(
        "ignore_eos",
        Switch,
        "Whether the model's own end tokens are ordinary ones.",
    )
    .or("false"),
    field(
        "n",
        Integer(1, LIMITS.n as u64),
        "Answers to one prompt, each of its own.",
    )
    .or("1"),
    field("best_of", U32, "Only the value of `n` is taken."),
    field(
        "prompt_logprobs",
        LOGPROBS,
        "So many likeliest tokens at each place of the prompt, with log-probabilities; not with `stream`.",
    ),
    field(
        "skip_special_tokens",
        Switch,
        "Whether special tokens are left out of the text.",
    )
    .or("true"),
];
