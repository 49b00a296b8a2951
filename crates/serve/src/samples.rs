//! The samples of one HTTP request: started together, their events merged, closed when dropped.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::sync::mpsc;
use ucuz_llm::{Closed, Event, EventSink, FailureKind, Generation, LlmResult, Output, Prepared};

use crate::app::App;

/// Events of a sample beside its tokens: prompt scores, the end, and two to spare.
const EXTRA_EVENTS: usize = 4;

/// Answers under way, numbered as the choices of the response.
pub(crate) struct Samples {
    receiver: mpsc::Receiver<(usize, Event)>,
    /// `None` once ended.
    generations: Vec<Option<Generation>>,
    /// Ready when the engine is given up.
    given_up: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Samples {
    /// Starts `n` samples of each prompt; choice `p * n + i` is sample `i` of prompt `p`.
    ///
    /// # Errors
    /// That of the first sample that the engine refuses; those already started are closed.
    pub(crate) fn start(app: &App, prompts: &[Prepared]) -> LlmResult<Self> {
        let (sender, receiver) = mpsc::channel(capacity(prompts));
        let mut samples = Self {
            receiver,
            generations: Vec::new(),
            given_up: Box::pin(app.verdict.clone().given_up()),
        };
        let choices = prompts.iter().map(|prepared| prepared.n as usize).sum();
        app.llm.check_room(choices)?;
        for prepared in prompts {
            let relaxed = prepared.clone().without_deadline();
            for sample in 0..prepared.n {
                let choice = samples.generations.len();
                // The first one answers for all: an answer that has begun is not refused.
                let prepared = if choice == 0 { prepared } else { &relaxed };
                let sink = Box::new(ChannelSink {
                    choice,
                    sender: sender.clone(),
                });
                samples
                    .generations
                    .push(Some(app.llm.start(prepared, sample, sink)?));
            }
        }
        Ok(samples)
    }

    /// Choices of the response.
    pub(crate) fn len(&self) -> usize {
        self.generations.len()
    }

    /// The next output of any choice; `None` once all have ended.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<(usize, Output)>> {
        let Some(open) = self.generations.iter().position(Option::is_some) else {
            return Poll::Ready(None);
        };
        if self.given_up.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(
                self.fail(open, "the engine stalled under this request"),
            ));
        }
        let Some((choice, event)) = ready!(self.receiver.poll_recv(cx)) else {
            let text = "the engine stopped before the end of this request";
            return Poll::Ready(Some(self.fail(open, text)));
        };
        let Some(generation) = &mut self.generations[choice] else {
            return Poll::Ready(Some((choice, Output::Nothing)));
        };
        let output = generation.push(event);
        if matches!(output, Output::Finished(..) | Output::Failed { .. }) {
            self.generations[choice] = None;
        }
        Poll::Ready(Some((choice, output)))
    }

    fn fail(&mut self, choice: usize, text: &str) -> (usize, Output) {
        self.generations[choice] = None;
        let failed = Output::Failed {
            kind: FailureKind::Engine,
            text: text.to_owned(),
        };
        (choice, failed)
    }

    /// Waits for [`Samples::poll_next`].
    pub(crate) async fn next(&mut self) -> Option<(usize, Output)> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }
}

/// Every event that admission grants fits, so the engine never waits. The channel allocates only
/// what is in it.
fn capacity(prompts: &[Prepared]) -> usize {
    let events = prompts.iter().map(|prepared| {
        (prepared.max_tokens as usize)
            .saturating_add(EXTRA_EVENTS)
            .saturating_mul(prepared.n as usize)
    });
    events
        .fold(1, usize::saturating_add)
        .min(tokio::sync::Semaphore::MAX_PERMITS)
}

/// The engine's side of the channel.
struct ChannelSink {
    choice: usize,
    sender: mpsc::Sender<(usize, Event)>,
}

impl EventSink for ChannelSink {
    fn send(&mut self, event: Event) -> Result<(), Closed> {
        self.sender
            .try_send((self.choice, event))
            .map_err(|_| Closed)
    }

    fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}
