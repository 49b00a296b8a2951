//! `GET /v1/engine/live`: the engine's steps, requests and blocks as Server-Sent Events, a few times a second.
//!
//! An event has the steps since the one before, and everything else as it is. It holds numbers only: whoever has a key sees
//! that others are there and how long their texts are, never who they are or what they say. The stream ends with
//! `{"end": STATE}` when the server drains or the engine dies.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_core::Stream;
use serde::{Serialize, Serializer};
use tokio::time::{Instant, Sleep, sleep};
use ucuz_llm::{
    BlockMap, BlockMark, EngineView, Life, Phase, RunningView, StepEntry, StepView, TokenTime,
    WaitingView, Watch,
};

use crate::app::App;
use crate::error::ApiError;
use crate::sse::{Frames, stream_response};

/// When to try again while too many look.
const RETRY_AFTER_S: u64 = 5;

/// What a browser says of the relation between the page that asks and this server.
/// Source: Fetch Metadata Request Headers, section 2.3.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

pub(crate) async fn live(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    check_site(&headers)?;
    let limits = &app.options.limits;
    let Some(watch) = app.llm.watch(limits.watchers) else {
        let message = format!(
            "{} live views are open, which is the limit; close one",
            limits.watchers
        );
        return Err(ApiError::too_many(message, RETRY_AFTER_S));
    };
    let stream = LiveStream {
        tick: Box::pin(sleep(Duration::ZERO)),
        spoke_at: Instant::now(),
        app: Arc::clone(&app),
        watch: Some(watch),
        shown: None,
        last_step: 0,
        frames: Frames::default(),
    };
    Ok(stream_response(Body::from_stream(stream)))
}

/// Refuses other sites' pages: they could not read the stream, but would take the places of who can.
fn check_site(headers: &HeaderMap) -> Result<(), ApiError> {
    match headers.get(&FETCH_SITE).map(HeaderValue::as_bytes) {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(_) => {
            let message = "another site's page may not look at this engine; open the server's own";
            Err(ApiError::new(StatusCode::FORBIDDEN, "cross_site", message))
        }
    }
}

/// The body; dropping it ends the look.
struct LiveStream {
    app: Arc<App>,
    /// `None` once the last event is made.
    watch: Option<Watch>,
    /// The view that was sent last.
    shown: Option<Arc<EngineView>>,
    /// The newest step that was sent.
    last_step: u64,
    tick: Pin<Box<Sleep>>,
    spoke_at: Instant,
    frames: Frames,
}

impl LiveStream {
    /// What there is to say at this tick, if anything.
    fn look(&mut self) -> Option<Bytes> {
        let limits = &self.app.options.limits;
        if let Some(end) = end(&self.app.llm.health().life) {
            self.watch = None;
            self.frames.push(&End { end });
            return Some(self.frames.take());
        }
        let view = self.watch.as_ref()?.view();
        let is_new = |view: &Arc<EngineView>| {
            let shown = self.shown.as_ref();
            shown.is_none_or(|shown| !Arc::ptr_eq(shown, view))
        };
        match view.filter(is_new) {
            Some(view) => {
                self.frames.push(&event(&view, self.last_step));
                self.last_step = view.steps.last().map_or(self.last_step, |step| step.step);
                self.shown = Some(view);
            }
            None if self.spoke_at.elapsed() >= limits.keep_alive => self.frames.comment("idle"),
            None => return None,
        }
        self.spoke_at = Instant::now();
        Some(self.frames.take())
    }
}

impl Stream for LiveStream {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if self.watch.is_none() {
                return Poll::Ready(None);
            }
            ready!(self.tick.as_mut().poll(cx));
            let next = Instant::now() + self.app.options.limits.watch_period;
            self.tick.as_mut().reset(next);
            if let Some(bytes) = self.look() {
                return Poll::Ready(Some(Ok(bytes)));
            }
        }
    }
}

/// Why there is no more to see; what a fault said stays in the log.
fn end(life: &Life) -> Option<&'static str> {
    match life {
        Life::Serving => None,
        Life::Draining => Some("draining"),
        Life::Stopped => Some("stopped"),
        Life::Dead(_) => Some("dead"),
    }
}

#[derive(Serialize)]
struct End {
    end: &'static str,
}

#[derive(Serialize)]
struct Event {
    at_ms: f64,
    slots: usize,
    steps: Vec<Step>,
    running: Vec<Running>,
    waiting: Waiting,
    groups: Vec<Group>,
    totals: Totals,
}

#[derive(Serialize)]
struct Step {
    step: u64,
    at_ms: f64,
    took_ms: f64,
    rows: usize,
    budget: usize,
    running: usize,
    waiting: usize,
    /// Pairs of request and slot.
    preempted: Vec<(u64, u32)>,
    entries: Vec<Entry>,
}

/// `[request, slot, start, rows, phase, first_ms, next_ms]`: phase 0 reads, 1 writes; the times of a token, or null.
#[derive(Serialize)]
struct Entry(u64, u32, usize, usize, u8, Option<f64>, Option<f64>);

#[derive(Serialize)]
struct Running {
    request: u64,
    slot: u32,
    prompt: usize,
    known: usize,
    computed: usize,
    cached: usize,
    preemptions: u32,
}

#[derive(Serialize)]
struct Waiting {
    count: usize,
    first: Vec<Queued>,
}

#[derive(Serialize)]
struct Queued {
    request: u64,
    tokens: usize,
    waited_ms: f64,
    preemptions: u32,
}

#[derive(Serialize)]
struct Group {
    total: usize,
    free: usize,
    cached: usize,
    leaving: usize,
    held: usize,
    shared: usize,
    window: Option<usize>,
    cell_blocks: usize,
    cells: Runs,
}

/// Cells as `[mark, count, mark, count, ...]`: 0 free, 1 cached, 2 leaving, 3 shared, 4 and more held by slot `mark - 4`.
struct Runs(Vec<(u32, usize)>);

#[derive(Serialize)]
struct Totals {
    requests: u64,
    generated_tokens: u64,
    computed_rows: u64,
    preemptions: u64,
    prefix_queries: u64,
    prefix_hits: u64,
    steps: u64,
}

/// The view, with those of its steps that come after `last_step`.
fn event(view: &EngineView, last_step: u64) -> Event {
    let steps = view.steps.iter().filter(|step| step.step > last_step);
    let totals = &view.stats.totals;
    Event {
        at_ms: ms(view.at),
        slots: view.slots,
        steps: steps.map(|step| self::step(step)).collect(),
        running: view.running.iter().map(running).collect(),
        waiting: Waiting {
            count: view.stats.waiting,
            first: view.waiting.iter().map(queued).collect(),
        },
        groups: view.groups.iter().map(group).collect(),
        totals: Totals {
            requests: totals.requests,
            generated_tokens: totals.generated_tokens,
            computed_rows: totals.computed_rows,
            preemptions: totals.preemptions,
            prefix_queries: totals.prefix_queries,
            prefix_hits: totals.prefix_hits,
            steps: totals.steps,
        },
    }
}

/// Milliseconds, to the microsecond.
fn ms(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}

fn step(step: &StepView) -> Step {
    Step {
        step: step.step,
        at_ms: ms(step.at),
        took_ms: ms(step.took),
        rows: step.rows,
        budget: step.budget,
        running: step.running,
        waiting: step.waiting,
        preempted: step.preempted.clone(),
        entries: step.entries.iter().map(entry).collect(),
    }
}

fn entry(entry: &StepEntry) -> Entry {
    let phase = match entry.phase {
        Phase::Prefill => 0,
        Phase::Decode => 1,
    };
    let (first, next) = match entry.token {
        Some(TokenTime::First(time)) => (Some(ms(time)), None),
        Some(TokenTime::Next(time)) => (None, Some(ms(time))),
        None => (None, None),
    };
    let StepEntry {
        request,
        slot,
        start,
        rows,
        ..
    } = *entry;
    Entry(request, slot, start, rows, phase, first, next)
}

fn running(running: &RunningView) -> Running {
    Running {
        request: running.request,
        slot: running.slot,
        prompt: running.prompt,
        known: running.known,
        computed: running.computed,
        cached: running.cached,
        preemptions: running.preemptions,
    }
}

fn queued(waiting: &WaitingView) -> Queued {
    Queued {
        request: waiting.request,
        tokens: waiting.tokens,
        waited_ms: ms(waiting.waited),
        preemptions: waiting.preemptions,
    }
}

fn group(map: &BlockMap) -> Group {
    let runs = map.cells.chunk_by(|a, b| a == b);
    let runs = runs.map(|run| (code(run[0]), run.len()));
    Group {
        total: map.total,
        free: map.counts.free,
        cached: map.counts.cached,
        leaving: map.counts.leaving,
        held: map.counts.held,
        shared: map.counts.shared,
        window: map.window,
        cell_blocks: map.cell_blocks,
        cells: Runs(runs.collect()),
    }
}

fn code(mark: BlockMark) -> u32 {
    match mark {
        BlockMark::Free => 0,
        BlockMark::Cached => 1,
        BlockMark::Leaving => 2,
        BlockMark::Shared => 3,
        BlockMark::Held(slot) => slot.saturating_add(4),
    }
}

impl Serialize for Runs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let flat = self.0.iter();
        serializer.collect_seq(flat.flat_map(|&(mark, count)| [u64::from(mark), count as u64]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_written_as_runs() {
        let runs = Runs(vec![(6, 2), (0, 1), (3, 4)]);
        let text = serde_json::to_string(&runs).unwrap_or_default();
        assert_eq!(text, "[6,2,0,1,3,4]");
    }

    #[test]
    fn a_fault_is_not_told() {
        let dead = Life::Dead("secret".to_owned());
        let words = [Life::Serving, Life::Draining, Life::Stopped, dead].map(|life| end(&life));
        assert_eq!(
            words,
            [None, Some("draining"), Some("stopped"), Some("dead")]
        );
    }
}
