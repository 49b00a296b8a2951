//! Answers to paths and methods that do not exist.

use axum::http::{Method, StatusCode, Uri};

use crate::clip::Clip;
use crate::error::ApiError;

pub(crate) async fn not_found(uri: Uri) -> ApiError {
    let message = format!("there is nothing at {}", Clip(uri.path()));
    ApiError::new(StatusCode::NOT_FOUND, "not_found", message)
}

pub(crate) async fn method_not_allowed(method: Method, uri: Uri) -> ApiError {
    let message = format!(
        "{} does not answer to {}; the header allow names the methods",
        Clip(uri.path()),
        Clip(method.as_str())
    );
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        message,
    )
}
