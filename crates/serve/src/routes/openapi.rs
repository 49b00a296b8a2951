//! `GET /openapi.json`: what every endpoint takes, for programs that write clients or tests.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;

use crate::app::App;
use crate::openapi::{Keys, document};
use crate::reply::json;

pub(crate) async fn openapi(State(app): State<Arc<App>>) -> Response {
    let keys = match app.options.keys {
        Some(_) => Keys::Needed,
        None => Keys::Optional,
    };
    json(&document(keys))
}
