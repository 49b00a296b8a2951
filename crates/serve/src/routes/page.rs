//! `GET /` and `GET /page/...`: the page's files, with headers that let it load nothing from anywhere else.

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::app::App;
use crate::page::{FILES, PageFile};

/// What the page may load and reach: this server, nothing inline. Nobody may put it into a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// On every file. A new version must not run with files of the one before, so they are asked for each time.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-cache"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// A route a file.
pub(crate) fn router() -> Router<Arc<App>> {
    FILES.iter().fold(Router::new(), |router, file| {
        router.route(file.path, get(async || response(file)))
    })
}

fn response(file: &'static PageFile) -> Response {
    let mut response = file.text.into_response();
    let headers = response.headers_mut();
    let media_type = HeaderValue::from_static(file.media_type);
    headers.insert(header::CONTENT_TYPE, media_type);
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
