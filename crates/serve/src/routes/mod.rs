//! One file per endpoint, and the table of all.

use std::sync::Arc;

use axum::routing::{MethodRouter, get, post};

use crate::app::App;
use crate::openapi::operation::{self, Operation};

pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod embeddings;
pub(crate) mod health;
pub(crate) mod live;
pub(crate) mod loads;
pub(crate) mod messages;
pub(crate) mod metrics;
pub(crate) mod missing;
pub(crate) mod models;
pub(crate) mod openapi;
pub(crate) mod page;
pub(crate) mod render;
pub(crate) mod responses;
pub(crate) mod tokenize;
pub(crate) mod tokenizer_info;
pub(crate) mod version;

/// One endpoint.
pub struct Route {
    /// As HTTP spells it.
    pub method: &'static str,
    /// In axum's form; `{*id}` takes the rest of a path.
    pub path: &'static str,
    pub(crate) handler: fn() -> MethodRouter<Arc<App>>,
    /// What `/openapi.json` says of it.
    pub(crate) operation: &'static Operation,
}

const fn on_get(
    path: &'static str,
    handler: fn() -> MethodRouter<Arc<App>>,
    operation: &'static Operation,
) -> Route {
    Route {
        method: "GET",
        path,
        handler,
        operation,
    }
}

const fn on_post(
    path: &'static str,
    handler: fn() -> MethodRouter<Arc<App>>,
    operation: &'static Operation,
) -> Route {
    Route {
        method: "POST",
        path,
        handler,
        operation,
    }
}

/// All endpoints but the page's files, which answer to everybody; see `page`.
#[rustfmt::skip]
pub const ROUTES: &[Route] = &[
    on_post("/v1/chat/completions", || post(chat::create), &operation::CHAT),
    on_post("/v1/chat/completions/render", || post(render::chat), &operation::CHAT_RENDER),
    on_post("/v1/completions", || post(completions::create), &operation::COMPLETION),
    on_post("/v1/completions/render", || post(render::completion), &operation::COMPLETION_RENDER),
    on_post("/v1/responses", || post(responses::create), &operation::RESPONSES),
    on_post("/v1/messages", || post(messages::create), &operation::MESSAGES),
    on_post("/v1/messages/count_tokens", || post(messages::count), &operation::COUNT),
    on_post("/v1/embeddings", || post(embeddings::create), &operation::EMBEDDINGS),
    on_get("/v1/models", || get(models::list), &operation::MODELS),
    on_get("/v1/models/{*id}", || get(models::retrieve), &operation::MODEL),
    on_get("/v1/engine/live", || get(live::live), &operation::ENGINE_LIVE),
    on_get("/v1/loads", || get(loads::loads), &operation::LOADS),
    on_post("/tokenize", || post(tokenize::tokenize), &operation::TOKENIZE),
    on_post("/detokenize", || post(tokenize::detokenize), &operation::DETOKENIZE),
    on_get("/tokenizer_info", || get(tokenizer_info::tokenizer_info), &operation::TOKENIZER_INFO),
    on_get("/health", || get(health::health), &operation::HEALTH),
    on_get("/live", || get(health::live), &operation::LIVE),
    on_get("/metrics", || get(metrics::metrics), &operation::METRICS),
    on_get("/version", || get(version::version), &operation::VERSION),
    on_get("/openapi.json", || get(openapi::openapi), &operation::OPENAPI),
];
