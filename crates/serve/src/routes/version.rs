//! `GET /version`.

use axum::response::Response;
use serde::Serialize;

use crate::reply::json;

#[derive(Serialize)]
struct Version {
    version: &'static str,
}

pub(crate) async fn version() -> Response {
    json(&Version {
        version: env!("CARGO_PKG_VERSION"),
    })
}
