//! A panic on one request's path ends that request with 500, and nothing else.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ucuz_llm::panic_text;

use crate::error::ApiError;

/// Answers 500 when a handler panics.
pub(crate) async fn attach(request: Request, next: Next) -> Response {
    let mut response = pin!(next.run(request));
    poll_fn(move |cx| {
        let polled = catch_unwind(AssertUnwindSafe(|| response.as_mut().poll(cx)));
        polled.unwrap_or_else(|panic| Poll::Ready(error(panic.as_ref()).into_response()))
    })
    .await
}

/// The answer for a panic; what it said goes to the log.
pub(crate) fn error(panic: &(dyn Any + Send)) -> ApiError {
    ApiError::internal(&panic_text(panic))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::body::Body;
    use axum::middleware;
    use axum::routing::get;
    use hyper::service::Service;
    use hyper_util::service::TowerToHyperService;

    #[tokio::test]
    async fn a_panicking_handler_answers_500() {
        let router: Router = Router::new()
            .route("/", get(async || -> &'static str { panic!("secret") }))
            .layer(middleware::from_fn(attach));
        let service = TowerToHyperService::new(router);
        let response = service.call(Request::new(Body::empty())).await;
        assert_eq!(response.map(|r| r.status().as_u16()), Ok(500));
    }
}
