//! Who asks: the key, and the wishes that stand in headers. Every route but `/health`, `/live` and the files of the page
//! passes here.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ucuz_llm::{RequestClass, TenantId, cache_scope};

use crate::app::App;
use crate::clip::Clip;
use crate::error::ApiError;
use crate::options::CacheSharing;
use crate::page;
use crate::protocol::Standing;
use crate::reply::anthropic::AnthropicError;

/// Milliseconds within which the first token is wanted; who cannot have it is refused at once.
pub(crate) const FIRST_TOKEN_WITHIN: HeaderName = HeaderName::from_static("x-slo-ttft-ms");

/// Where Anthropic's clients put their key.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Routes that answer without a key, and then tell nothing of anybody.
pub(crate) const OPEN: [&str; 2] = ["/health", "/live"];

/// Whether `path` answers without a key.
///
/// The files of the page do: a browser sends no key for them, and they are the same bytes in every server of this version,
/// so they tell nothing of this one. Whatever the page shows it asks for with a key.
fn is_open(app: &App, path: &str) -> bool {
    OPEN.contains(&path) || (app.options.page && page::has(path))
}

/// The client behind a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Caller {
    tenant: TenantId,
    /// Digest of the key.
    owner: Option<[u8; 32]>,
    first_token_within: Option<Duration>,
}

/// Refuses requests without a key where one is needed, and notes who asks.
pub(crate) async fn attach(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    if is_open(&app, request.uri().path()) {
        return next.run(request).await;
    }
    match caller(&app, request.headers()) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        // Anthropic's clients look for their own form.
        Err(error) if request.uri().path().starts_with("/v1/messages") => {
            AnthropicError(error).into_response()
        }
        Err(error) => error.into_response(),
    }
}

fn caller(app: &App, headers: &HeaderMap) -> Result<Caller, ApiError> {
    let mut caller = Caller {
        first_token_within: first_token_within(headers)?,
        ..Caller::default()
    };
    if let Some(keys) = &app.options.keys {
        let client = key(headers).and_then(|key| keys.find(key));
        let client = client.ok_or_else(unauthorized)?;
        tracing::debug!(client = client.name, "authenticated");
        caller.tenant = client.tenant;
        caller.owner = Some(*client.digest);
    }
    Ok(caller)
}

/// Whether who asks may know what goes on inside: everybody where there are no keys.
pub(crate) fn may_know(app: &App, headers: &HeaderMap) -> bool {
    let Some(keys) = &app.options.keys else {
        return true;
    };
    key(headers).is_some_and(|key| keys.find(key).is_some())
}

/// OpenAI's clients send a bearer token, Anthropic's a header of its own.
fn key(headers: &HeaderMap) -> Option<&str> {
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        return headers.get(&API_KEY)?.to_str().ok().map(str::trim);
    };
    let (scheme, key) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

fn unauthorized() -> ApiError {
    let message =
        "this server needs a key; send it as \"Authorization: Bearer KEY\" or \"x-api-key: KEY\"";
    ApiError::new(StatusCode::UNAUTHORIZED, "invalid_api_key", message)
}

fn first_token_within(headers: &HeaderMap) -> Result<Option<Duration>, ApiError> {
    let Some(value) = headers.get(&FIRST_TOKEN_WITHIN) else {
        return Ok(None);
    };
    let text = value.to_str().unwrap_or_default();
    match text.parse::<u32>() {
        Ok(ms) if ms > 0 => Ok(Some(Duration::from_millis(u64::from(ms)))),
        _ => {
            let message = format!(
                "{FIRST_TOKEN_WITHIN} is {}, it must be milliseconds, 1 to 4294967295",
                Clip(text)
            );
            Err(ApiError::invalid(
                FIRST_TOKEN_WITHIN.as_str().to_owned(),
                message,
            ))
        }
    }
}

impl Caller {
    /// The caller that [`attach`] noted.
    pub(crate) fn of(request: &Request) -> Self {
        request.extensions().get().copied().unwrap_or_default()
    }

    /// How the engine treats this caller's request.
    ///
    /// # Errors
    /// 400 for a salt of the wrong length.
    pub(crate) fn class(&self, app: &App, standing: &Standing) -> Result<RequestClass, ApiError> {
        let owner = match app.options.cache_sharing {
            CacheSharing::Tenant => self.owner.as_ref().map(<[u8; 32]>::as_slice),
            CacheSharing::Global => None,
        };
        let scope = cache_scope(owner, standing.cache_salt.as_deref());
        Ok(RequestClass {
            tenant: self.tenant,
            priority: standing.priority,
            scope: scope.map_err(|error| ApiError::from_llm(error, "cache_salt"))?,
            first_token_within: self.first_token_within,
        })
    }
}
