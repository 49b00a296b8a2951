//! What every handler shares, and the table of routes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::http::StatusCode;
use axum::middleware;
use tokio::sync::Semaphore;
use ucuz_llm::{GenerateRequest, Llm, Prepared};

use crate::body::BodyBudget;
use crate::clip::Clip;
use crate::error::ApiError;
use crate::options::ServeOptions;
use crate::watchdog::Verdict;
use crate::{caller, request_id, routes, unwind};

/// Shared by all handlers; immutable but for two counters.
pub(crate) struct App {
    pub llm: Arc<Llm>,
    pub options: ServeOptions,
    /// Ready when the engine is given up.
    pub verdict: Verdict,
    /// Seconds since 1970 at the start of the server.
    pub started: u64,
    /// Memory of bodies that arrive.
    pub bodies: BodyBudget,
    preparing: Arc<Semaphore>,
    drawn: AtomicU64,
}

impl App {
    pub(crate) fn new(llm: Arc<Llm>, options: ServeOptions, verdict: Verdict) -> Arc<Self> {
        Arc::new(Self {
            started: unix_seconds((options.clock)()),
            preparing: Arc::new(Semaphore::new(options.limits.preparing.max(1))),
            bodies: BodyBudget::new(options.limits.bodies_bytes, options.limits.body_bytes),
            drawn: AtomicU64::new(0),
            llm,
            options,
            verdict,
        })
    }

    /// Seconds since 1970, now.
    pub(crate) fn now(&self) -> u64 {
        unix_seconds((self.options.clock)())
    }

    /// A number of 53 bits (exact in every JSON reader) that differs from call to call.
    pub(crate) fn draw(&self) -> u64 {
        let count = self.drawn.fetch_add(1, Ordering::Relaxed);
        mix(self.options.entropy.wrapping_add(mix(count))) >> 11
    }

    /// A new id with a prefix.
    pub(crate) fn new_id(&self, prefix: &str) -> String {
        format!("{prefix}{:014x}{:014x}", self.draw(), self.draw())
    }

    /// Refuses a request for another model than the one served.
    pub(crate) fn check_model(&self, asked: Option<&str>) -> Result<(), ApiError> {
        match asked {
            Some(other) if other != self.options.model_id => {
                let message = format!(
                    "model {} is not served here; this server has {:?}",
                    Clip(other),
                    self.options.model_id
                );
                Err(
                    ApiError::new(StatusCode::NOT_FOUND, "model_not_found", message)
                        .with_param("model"),
                )
            }
            _ => Ok(()),
        }
    }

    /// Refuses at once what would be refused after its prompt was encoded: a flood must cost little.
    pub(crate) fn check_room(&self) -> Result<(), ApiError> {
        let room = self.llm.check_room(1);
        room.map_err(|error| ApiError::from_llm(error, "request"))
    }

    /// Prepares one prompt with a seed of its own; `input` names the field that holds it.
    pub(crate) fn prompt(
        &self,
        generate: &GenerateRequest,
        input: &'static str,
    ) -> Result<Prepared, ApiError> {
        let now = (self.options.clock)();
        let prepared = self.llm.prepare(generate, self.draw(), now);
        prepared.map_err(|error| ApiError::from_llm(error, input))
    }

    /// Runs parsing, rendering and encoding off the event loop, a few at a time.
    pub(crate) async fn prepare<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&App) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let permit = Arc::clone(&self.preparing).acquire_owned().await;
        let permit = permit.map_err(|closed| ApiError::internal(&closed))?;
        let app = Arc::clone(self);
        let span = tracing::Span::current();
        let task = tokio::task::spawn_blocking(move || {
            let result = span.in_scope(|| work(&app));
            drop(permit);
            result
        });
        task.await
            .unwrap_or_else(|panic| Err(ApiError::internal(&panic)))
    }

    /// All routes.
    pub(crate) fn router(self: &Arc<Self>) -> Router {
        let mut router = match self.options.page {
            true => routes::page::router(),
            false => Router::new(),
        };
        for route in routes::ROUTES {
            router = router.route(route.path, (route.handler)());
        }
        router
            .fallback(routes::missing::not_found)
            .method_not_allowed_fallback(routes::missing::method_not_allowed)
            .layer(middleware::from_fn_with_state(
                Arc::clone(self),
                caller::attach,
            ))
            .layer(middleware::from_fn(unwind::attach))
            .layer(middleware::from_fn_with_state(
                Arc::clone(self),
                request_id::attach,
            ))
            .with_state(Arc::clone(self))
    }
}

fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_secs()
}

/// The finalizer of SplitMix64: a permutation without visible pattern.
/// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
