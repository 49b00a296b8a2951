//! Reading a request's body: type, size and time are limited before a byte is parsed.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;

use crate::clip::Clip;
use crate::error::ApiError;
use crate::options::Limits;

/// Bytes of a refused body that are read and dropped, so that the client gets to read its answer.
const DISCARD_BYTES: usize = 64 << 20;
/// Time for that.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(5);
/// First allocation for a body of unknown or large size.
const FIRST_BYTES: usize = 16 << 10;

/// Reads a whole JSON body.
///
/// # Errors
/// 415 for another content type, 413 above the limit, 408 when it takes too long, 400 when the
/// connection breaks.
pub(crate) async fn read(request: Request, limits: &Limits) -> Result<Bytes, ApiError> {
    check_type(request.headers())?;
    let declared = content_length(request.headers());
    let mut body = request.into_body();
    if declared.is_some_and(|bytes| bytes > limits.body_bytes as u64) {
        discard(&mut body).await;
        return Err(too_large(limits));
    }
    let read = tokio::time::timeout(limits.body_timeout, collect(&mut body, limits.body_bytes));
    match read.await {
        Ok(Ok(Some(bytes))) => Ok(bytes),
        Ok(Ok(None)) => {
            discard(&mut body).await;
            Err(too_large(limits))
        }
        Ok(Err(error)) => {
            tracing::debug!(%error, "a body could not be read");
            Err(ApiError::bad_request(
                "incomplete_body",
                "the body could not be read to its end",
            ))
        }
        Err(_) => {
            let message = format!(
                "the body did not arrive within {} s",
                limits.body_timeout.as_secs()
            );
            Err(ApiError::new(
                StatusCode::REQUEST_TIMEOUT,
                "request_timeout",
                message,
            ))
        }
    }
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers
        .get(header::CONTENT_LENGTH)?
        .to_str()
        .ok()?
        .parse()
        .ok()
}

/// JSON, by name or by suffix; anything else was not meant for this server.
fn check_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let given = headers
        .get(header::CONTENT_TYPE)
        .map(|value| value.to_str().unwrap_or("?"));
    let essence = given
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let given = given.map_or_else(|| "missing".to_owned(), |given| Clip(given).to_string());
    let message = format!("content-type is {given}, it must be application/json");
    Err(ApiError::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported_media_type",
        message,
    ))
}

/// The whole body, or `None` once it is longer than `limit`.
async fn collect(body: &mut Body, limit: usize) -> Result<Option<Bytes>, axum::Error> {
    let mut whole = BytesMut::with_capacity(FIRST_BYTES.min(limit));
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        if data.len() > limit - whole.len() {
            return Ok(None);
        }
        whole.extend_from_slice(&data);
    }
    Ok(Some(whole.freeze()))
}

/// Reads on for a while: closing a socket with unread bytes resets it, and the answer is lost.
async fn discard(body: &mut Body) {
    let drain = async {
        let mut dropped = 0usize;
        while let Some(Ok(frame)) = body.frame().await {
            dropped = dropped.saturating_add(frame.data_ref().map_or(0, Bytes::len));
            if dropped > DISCARD_BYTES {
                return;
            }
        }
    };
    // Whether it ended or took too long, the answer is the same.
    let _ = tokio::time::timeout(DISCARD_TIMEOUT, drain).await;
}

fn too_large(limits: &Limits) -> ApiError {
    let message = format!(
        "the body is longer than {} bytes; send less, or split the request",
        limits.body_bytes
    );
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
}
