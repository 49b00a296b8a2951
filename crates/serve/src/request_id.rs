//! What every request passes first: the limit of its head, and its id, taken from the client if it
//! is harmless, else made; sent back and logged.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tracing::Instrument;

use crate::app::App;
use crate::error::ApiError;

/// The header, in requests and responses.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longest id taken from a client, in bytes.
const MAX_ID_BYTES: usize = 128;

/// Gives the request its id and a span, and the response the header.
pub(crate) async fn attach(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let id = given(request.headers()).unwrap_or_else(|| app.new_id("req-"));
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    // Of the highest level, so that every line about this request carries the id.
    let trace = trace_id(request.headers());
    let span = tracing::error_span!("request", %id, trace, %method, path);
    let began = Instant::now();
    let mut response = match check_head(&request, app.options.limits.header_bytes) {
        Ok(()) => next.run(request).instrument(span.clone()).await,
        Err(error) => error.into_response(),
    };
    let status = response.status().as_u16();
    let ms = began.elapsed().as_millis();
    // A stream goes on after this; its end is the engine's to count.
    span.in_scope(|| tracing::debug!(status, ms, "response begun"));
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// The HTTP library's own limit is the size of its buffer, which a head that arrives at once may
/// pass.
fn check_head(request: &Request, limit: usize) -> Result<(), ApiError> {
    // What stands around a header line: a colon, a space, the end of the line.
    const AROUND: usize = 4;
    let lines = request.headers().iter();
    let lines: usize = lines
        .map(|(name, value)| name.as_str().len() + value.len() + AROUND)
        .sum();
    let target = request.uri().path_and_query();
    let target = target.map_or(0, |target| target.as_str().len());
    let bytes = lines + target + request.method().as_str().len();
    if bytes <= limit {
        return Ok(());
    }
    let message = format!("the request's head has {bytes} bytes, the limit is {limit}; send less");
    let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    Err(ApiError::new(status, "headers_too_large", message))
}

/// The id of the trace that this request is part of, for whoever joins logs.
///
/// Source: W3C Trace Context, section 3.2: `version-trace_id-parent_id-flags`, in lower-case hexadecimal digits.
fn trace_id(headers: &HeaderMap) -> Option<&str> {
    let mut parts = headers.get("traceparent")?.to_str().ok()?.split('-');
    let version = parts
        .next()
        .filter(|text| is_hex(text, 2) && *text != "ff")?;
    let trace = parts.next().filter(|text| is_hex(text, 32))?;
    let parent = parts.next().filter(|text| is_hex(text, 16))?;
    let has_flags = parts.next().is_some_and(|text| is_hex(text, 2));
    // Later versions may have more parts.
    let is_whole = has_flags && (version != "00" || parts.next().is_none());
    let is_zero = |text: &str| text.bytes().all(|byte| byte == b'0');
    (is_whole && !is_zero(trace) && !is_zero(parent)).then_some(trace)
}

fn is_hex(text: &str, digits: usize) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == digits && text.bytes().all(is_digit)
}

/// The client's id, if it cannot disturb a log or a header.
fn given(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(REQUEST_ID)?.to_str().ok()?;
    let is_sane = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    let is_whole = !id.is_empty() && id.len() <= MAX_ID_BYTES;
    (is_whole && id.bytes().all(is_sane)).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_known_by_its_whole_header() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let cases = [
            (format!("00-{trace}-b7ad6b7169203331-01"), true),
            (format!("01-{trace}-b7ad6b7169203331-01-more"), true),
            (format!("00-{trace}-b7ad6b7169203331-01-more"), false),
            (format!("ff-{trace}-b7ad6b7169203331-01"), false),
            (format!("00-{trace}-0000000000000000-01"), false),
            (
                format!("00-{}-b7ad6b7169203331-01", trace.to_uppercase()),
                false,
            ),
            (format!("00-{trace}-b7ad6b7169203331"), false),
        ];
        for (header, is_good) in cases {
            let mut headers = HeaderMap::new();
            headers.insert("traceparent", HeaderValue::from_str(&header).unwrap());
            let expected = is_good.then_some(trace);
            assert_eq!(trace_id(&headers), expected, "{header}");
        }
    }

    #[test]
    fn only_harmless_ids_are_taken_from_a_client() {
        let long = "x".repeat(129);
        let cases = [
            ("abc-1.2:3_4", true),
            ("", false),
            ("a b", false),
            ("a\"b", false),
            (&long, false),
        ];
        for (id, taken) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, HeaderValue::from_str(id).unwrap());
            assert_eq!(given(&headers).is_some(), taken, "{id:?}");
        }
    }
}
