//! What a client gets instead of an answer: a status, a stable code, a sentence.
//!
//! The body is OpenAI's `{"error": {message, type, param, code}}`. A message states the rule, the
//! value given and the way out; what went wrong inside stays in the log.

use std::borrow::Cow;
use std::io;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use ucuz_llm::LlmError;

/// An answer that is an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    status: StatusCode,
    code: Option<&'static str>,
    param: Option<Cow<'static, str>>,
    message: String,
    retry_after_s: Option<u64>,
}

/// The body of an error, also sent inside a stream that fails.
#[derive(Debug, Serialize)]
pub(crate) struct ErrorBody<'a> {
    error: ErrorFields<'a>,
}

#[derive(Debug, Serialize)]
struct ErrorFields<'a> {
    message: &'a str,
    r#type: &'static str,
    param: Option<&'a str>,
    code: Option<&'static str>,
}

impl ApiError {
    /// An error with a status and a code.
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code: Some(code),
            param: None,
            message: message.into(),
            retry_after_s: None,
        }
    }

    /// 400 with a code.
    pub(crate) fn bad_request(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// 400: the value of `param` breaks a rule.
    pub(crate) fn invalid(param: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::bad_request("invalid_value", message).with_param(param)
    }

    /// 503: the engine does not take requests, or stopped under this one.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "engine_unavailable",
            message,
        )
    }

    /// 429: `message` says what there is too much of, and it may be less in so many seconds.
    pub(crate) fn too_many(message: impl Into<String>, retry_after_s: u64) -> Self {
        let status = StatusCode::TOO_MANY_REQUESTS;
        Self {
            retry_after_s: Some(retry_after_s.max(1)),
            ..Self::new(status, "rate_limit_exceeded", message)
        }
    }

    /// 500; the cause goes to the log, not to the client.
    pub(crate) fn internal(cause: &dyn std::fmt::Display) -> Self {
        tracing::error!(%cause, "a request failed inside the server");
        let message = "the server failed on this request; its log tells why under the request id";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", message)
    }

    /// The same, naming the field at fault.
    pub(crate) fn with_param(mut self, param: impl Into<Cow<'static, str>>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.status.as_u16()
    }

    /// The stable code, for programs.
    pub fn code(&self) -> Option<&'static str> {
        self.code
    }

    /// The field at fault.
    pub fn param(&self) -> Option<&str> {
        self.param.as_deref()
    }

    /// The sentence, for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What went wrong in the facade, with `input` naming the field that holds the prompt.
    pub(crate) fn from_llm(error: LlmError, input: &'static str) -> Self {
        match error {
            LlmError::Invalid { param, message } => Self::invalid(param, message),
            LlmError::Unsupported { param, message } => {
                Self::bad_request("unsupported_parameter", message).with_param(param)
            }
            LlmError::ContextLength { message } => {
                Self::bad_request("context_length_exceeded", message).with_param(input)
            }
            LlmError::Full {
                message,
                retry_after_s,
            } => Self::too_many(message, u64::from(retry_after_s)),
            LlmError::Unavailable { .. } => Self::unavailable(error.to_string()),
            LlmError::Text(error) => Self::invalid(input, error.to_string()),
            LlmError::Format(_) | LlmError::Model(_) | LlmError::Tensor(_) => {
                Self::internal(&error)
            }
        }
    }

    pub(crate) fn body(&self) -> ErrorBody<'_> {
        let kind = match self.status {
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        let param = self.param.as_deref();
        ErrorBody {
            error: ErrorFields {
                message: &self.message,
                r#type: kind,
                param,
                code: self.code,
            },
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = serde_json::to_string(&self.body()).unwrap_or_default();
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// Why a server could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error("cannot listen on {host}:{port}; choose another --host or --port")]
    Bind {
        /// As given.
        host: String,
        /// As given.
        port: u16,
        /// The system's answer; not part of the text, whoever prints the chain has it once.
        source: io::Error,
    },
    /// An address of KV events cannot be listened on.
    #[error("cannot publish KV events on {endpoint}; choose another address in --kv-events")]
    KvEvents {
        /// As given.
        endpoint: String,
        /// The system's answer; not part of the text.
        source: io::Error,
    },
}
