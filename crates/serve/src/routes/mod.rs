//! One file per endpoint, and the table of all.

use std::sync::Arc;

use axum::routing::{MethodRouter, get, post};

use crate::app::App;

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
}

const fn on_get(path: &'static str, handler: fn() -> MethodRouter<Arc<App>>) -> Route {
    Route {
        method: "GET",
        path,
        handler,
    }
}

const fn on_post(path: &'static str, handler: fn() -> MethodRouter<Arc<App>>) -> Route {
    Route {
        method: "POST",
        path,
        handler,
    }
}

/// All endpoints but the page's files, which answer to everybody; see `page`.
pub const ROUTES: &[Route] = &[
    on_post("/v1/chat/completions", || post(chat::create)),
    on_post("/v1/chat/completions/render", || post(render::chat)),
    on_post("/v1/completions", || post(completions::create)),
    on_post("/v1/completions/render", || post(render::completion)),
    on_post("/v1/responses", || post(responses::create)),
    on_post("/v1/messages", || post(messages::create)),
    on_post("/v1/messages/count_tokens", || post(messages::count)),
    on_post("/v1/embeddings", || post(embeddings::create)),
    on_get("/v1/models", || get(models::list)),
    on_get("/v1/models/{*id}", || get(models::retrieve)),
    on_get("/v1/engine/live", || get(live::live)),
    on_get("/v1/loads", || get(loads::loads)),
    on_post("/tokenize", || post(tokenize::tokenize)),
    on_post("/detokenize", || post(tokenize::detokenize)),
    on_get("/tokenizer_info", || get(tokenizer_info::tokenizer_info)),
    on_get("/health", || get(health::health)),
    on_get("/live", || get(health::live)),
    on_get("/metrics", || get(metrics::metrics)),
    on_get("/version", || get(version::version)),
];
