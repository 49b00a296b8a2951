//! Reading a request's body: type, size and time are limited before a byte is parsed, and the memory of all bodies together.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::app::App;
use crate::clip::Clip;
use crate::error::ApiError;
use crate::options::Limits;

/// Bytes of a refused body that are read and dropped, so that the client gets to read its answer.
const DISCARD_BYTES: usize = 64 << 20;
/// Time for that.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(5);
/// First allocation for a body of unknown or large size.
const FIRST_BYTES: usize = 16 << 10;

/// Memory of the budget is given in pieces of this many bytes.
const PIECE_BYTES: usize = 64 << 10;

/// Memory for the bodies of all requests, from their first byte until they are parsed.
///
/// The first [`FIRST_BYTES`] of each are not counted, since connections are: small requests find room beside large ones. A
/// body that finds none is refused; did it wait, it would hold what others wait for.
#[derive(Debug)]
pub(crate) struct BodyBudget(Arc<Semaphore>);

impl BodyBudget {
    /// A budget of so many bytes, at least `least`.
    pub(crate) fn new(bytes: usize, least: usize) -> Self {
        let pieces = bytes.max(least).div_ceil(PIECE_BYTES);
        Self(Arc::new(Semaphore::new(pieces.min(Semaphore::MAX_PERMITS))))
    }
}

/// What a body holds of the budget.
#[derive(Debug)]
struct Room {
    budget: Arc<Semaphore>,
    held: Option<OwnedSemaphorePermit>,
}

impl Room {
    /// Takes what a body of `bytes` needs; false when there is not so much.
    fn grow_to(&mut self, bytes: usize) -> bool {
        let wanted = bytes.saturating_sub(FIRST_BYTES).div_ceil(PIECE_BYTES);
        let has = self
            .held
            .as_ref()
            .map_or(0, OwnedSemaphorePermit::num_permits);
        let Ok(more) = u32::try_from(wanted.saturating_sub(has)) else {
            return false;
        };
        if more == 0 {
            return true;
        }
        let Ok(taken) = Arc::clone(&self.budget).try_acquire_many_owned(more) else {
            return false;
        };
        match &mut self.held {
            Some(held) => held.merge(taken),
            none => *none = Some(taken),
        }
        true
    }
}

/// A whole body; gives its memory back to the budget when dropped.
#[derive(Debug)]
pub(crate) struct JsonBody {
    bytes: Bytes,
    _room: Room,
}

impl Deref for JsonBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads a whole JSON body.
///
/// # Errors
/// 415 for another content type, 413 above the limit, 503 when all bodies together are, 408 when it takes too long, 400 when the
/// connection breaks.
pub(crate) async fn read(request: Request, app: &App) -> Result<JsonBody, ApiError> {
    let limits = &app.options.limits;
    check_type(request.headers())?;
    let declared = content_length(request.headers());
    let mut body = request.into_body();
    if declared.is_some_and(|bytes| bytes > limits.body_bytes as u64) {
        discard(&mut body).await;
        return Err(too_large(limits));
    }
    let room = Room {
        budget: Arc::clone(&app.bodies.0),
        held: None,
    };
    let collect = collect(&mut body, room, limits.body_bytes);
    let read = tokio::time::timeout(limits.body_timeout, collect);
    match read.await {
        Ok(Ok(Collected::Whole(body))) => Ok(body),
        Ok(Ok(Collected::TooLarge)) => {
            discard(&mut body).await;
            Err(too_large(limits))
        }
        Ok(Ok(Collected::NoRoom)) => {
            discard(&mut body).await;
            Err(ApiError::unavailable(
                "the bodies of other requests take all memory there is for them; retry in a moment",
            ))
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

/// How far reading came.
enum Collected {
    Whole(JsonBody),
    /// Longer than one body may be.
    TooLarge,
    /// Longer than all bodies together may be.
    NoRoom,
}

/// Reads to the end, as long as neither the body nor all together are over their limit.
async fn collect(body: &mut Body, mut room: Room, limit: usize) -> Result<Collected, axum::Error> {
    let mut whole = BytesMut::with_capacity(FIRST_BYTES.min(limit));
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        if data.len() > limit - whole.len() {
            return Ok(Collected::TooLarge);
        }
        if !room.grow_to(whole.len() + data.len()) {
            return Ok(Collected::NoRoom);
        }
        whole.extend_from_slice(&data);
    }
    let bytes = whole.freeze();
    Ok(Collected::Whole(JsonBody { bytes, _room: room }))
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
