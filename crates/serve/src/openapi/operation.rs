//! What `/openapi.json` says of each endpoint, for the table of routes.

use super::bodies;
use super::schema::Shape;

/// How an endpoint answers when all is well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// An object.
    Object,
    /// A list.
    List,
    /// An object, or Server-Sent Events if the body says `stream`.
    ObjectOrEvents,
    /// Server-Sent Events without an end.
    Events,
    /// Prometheus' text.
    Metrics,
    /// An object, with 503 too.
    Health,
}

/// The form of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Errors {
    OpenAi,
    Anthropic,
}

/// One endpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation {
    pub summary: &'static str,
    pub body: Option<&'static Shape>,
    pub answer: Answer,
    /// Statuses beside those that every endpoint, or every one with a body, may answer with.
    pub statuses: &'static [u16],
    pub errors: Errors,
    /// Whether the engine computes for it: such a request may name a deadline.
    pub computes: bool,
}

const fn reads(summary: &'static str) -> Operation {
    Operation {
        summary,
        body: None,
        answer: Answer::Object,
        statuses: &[],
        errors: Errors::OpenAi,
        computes: false,
    }
}

const fn takes(body: &'static Shape, summary: &'static str) -> Operation {
    Operation {
        body: Some(body),
        ..reads(summary)
    }
}

const fn computes(body: &'static Shape, summary: &'static str) -> Operation {
    Operation {
        answer: Answer::ObjectOrEvents,
        statuses: &[429],
        computes: true,
        ..takes(body, summary)
    }
}

pub(crate) const CHAT: Operation =
    computes(&bodies::CHAT, "Messages in, an assistant's answer out");
pub(crate) const CHAT_RENDER: Operation = Operation {
    statuses: &[429],
    ..takes(&bodies::CHAT, "The token ids that a chat would run with")
};
pub(crate) const COMPLETION: Operation = computes(
    &bodies::COMPLETION,
    "Text or token ids in, their continuation out",
);
pub(crate) const COMPLETION_RENDER: Operation = Operation {
    answer: Answer::List,
    statuses: &[429],
    ..takes(
        &bodies::COMPLETION,
        "The token ids that completions would run with",
    )
};
pub(crate) const RESPONSES: Operation = computes(
    &bodies::RESPONSES,
    "OpenAI's newer form of a chat; nothing is stored",
);
pub(crate) const MESSAGES: Operation = Operation {
    errors: Errors::Anthropic,
    ..computes(&bodies::MESSAGES, "Anthropic's form of a chat")
};
pub(crate) const COUNT: Operation = Operation {
    errors: Errors::Anthropic,
    statuses: &[429],
    ..takes(
        &bodies::COUNT,
        "The number of tokens of a prompt in Anthropic's form",
    )
};
pub(crate) const EMBEDDINGS: Operation = Operation {
    answer: Answer::Object,
    ..computes(&bodies::EMBEDDINGS, "One vector a text")
};
pub(crate) const MODELS: Operation = reads("The model that is served");
pub(crate) const MODEL: Operation = Operation {
    statuses: &[404],
    ..reads("A model by its id")
};
pub(crate) const ENGINE_LIVE: Operation = Operation {
    answer: Answer::Events,
    statuses: &[403, 429],
    ..reads("Steps, requests and blocks of the engine, several times a second")
};
pub(crate) const LOADS: Operation = reads("How busy the engine is, in SGLang's form");
pub(crate) const TOKENIZE: Operation = takes(&bodies::TOKENIZE, "Text to token ids");
pub(crate) const DETOKENIZE: Operation = takes(&bodies::DETOKENIZE, "Token ids to text");
pub(crate) const TOKENIZER_INFO: Operation = reads("Special tokens and the chat template");
pub(crate) const HEALTH: Operation = Operation {
    answer: Answer::Health,
    ..reads("Whether the engine takes requests: 503 while it drains or stands still")
};
pub(crate) const LIVE: Operation = reads("Whether this process answers");
pub(crate) const METRICS: Operation = Operation {
    answer: Answer::Metrics,
    ..reads("The engine's numbers in Prometheus' form")
};
pub(crate) const VERSION: Operation = reads("The version of the program");
pub(crate) const OPENAPI: Operation = reads("This document");
