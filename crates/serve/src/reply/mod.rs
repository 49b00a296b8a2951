//! From outputs to the JSON of an answer, whole or in chunks.

pub(crate) mod anthropic;
mod blocks;
pub(crate) mod chat;
mod chunk;
pub(crate) mod completion;
pub(crate) mod embeddings;
mod explain;
mod ids;
mod logprobs;
mod pieces;
pub(crate) mod response_events;
pub(crate) mod responses;
mod sampling;
mod usage;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use ucuz_llm::{FailureKind, FinishReason};

use crate::error::ApiError;

pub(crate) use blocks::Blocks;
pub(crate) use ids::PromptIds;
pub(crate) use pieces::Reading;
pub(crate) use sampling::describe;

/// What every answer and chunk states of itself.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Head {
    pub id: String,
    pub object: &'static str,
    /// Seconds since 1970.
    pub created: u64,
    pub model: String,
    pub system_fingerprint: String,
}

/// A JSON answer.
pub(crate) fn json(value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(body) => {
            let mut response = body.into_response();
            let json = HeaderValue::from_static("application/json");
            response.headers_mut().insert(header::CONTENT_TYPE, json);
            response
        }
        Err(error) => ApiError::internal(&error).into_response(),
    }
}

/// OpenAI's word for an end.
///
/// # Errors
/// 503 when the request was closed from inside, as at the end of the drain time: a cut answer must
/// not look like a finished one.
fn finish_reason(reason: FinishReason) -> Result<&'static str, ApiError> {
    match reason {
        FinishReason::Stop => Ok("stop"),
        FinishReason::Length => Ok("length"),
        FinishReason::Closed => Err(ApiError::unavailable(
            "the server cancelled this request before its end",
        )),
    }
}

/// The error of a choice that failed; it ends the whole answer.
fn failed(kind: FailureKind, text: &str) -> ApiError {
    if kind != FailureKind::Constraint {
        tracing::warn!(?kind, text, "a request failed in the engine");
    }
    match kind {
        // The rule is the client's, and so is what the text says of it.
        FailureKind::Constraint => ApiError::bad_request("unfollowable_constraint", text),
        FailureKind::Row | FailureKind::Step => ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "generation_failed",
            "the model failed on this request; the server's log tells why under its x-request-id",
        ),
        FailureKind::Device | FailureKind::Engine => {
            ApiError::unavailable("the engine stopped under this request")
        }
    }
}
