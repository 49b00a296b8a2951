//! Who is sent when: by the schedule, or by workers that wait for their answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::time::{sleep, sleep_until};

use super::arrivals::{Arrivals, End, REQUESTS_MAX};
use super::exchange::Client;
use super::plan::LoadPlan;
use super::record::{Outcome, Record};
use super::request::Jobs;

/// How long a worker of a closed loop rests after a refusal that names no time.
const REST: Duration = Duration::from_secs(1);
/// The longest rest that a server can ask of it.
const REST_MAX: Duration = Duration::from_secs(60);

/// Starts what sends requests; their records come through the channel, which closes after the last one.
pub(super) fn send(
    plan: &LoadPlan,
    schedule: Option<Vec<Duration>>,
    client: &Arc<Client>,
    jobs: &Arc<Jobs>,
    sender: mpsc::UnboundedSender<Record>,
) {
    if let Some(schedule) = schedule {
        let places = plan.in_flight_max;
        let (client, jobs) = (Arc::clone(client), Arc::clone(jobs));
        tokio::spawn(open_loop(schedule, places, client, jobs, sender));
        return;
    }
    let Arrivals::Closed { workers } = plan.arrivals else {
        return;
    };
    let next = Arc::new(AtomicU64::new(0));
    for _ in 0..workers {
        let worker = Worker {
            next: Arc::clone(&next),
            end: plan.end,
            client: Arc::clone(client),
            jobs: Arc::clone(jobs),
            sender: sender.clone(),
        };
        tokio::spawn(worker.run());
    }
}

/// Sends each request when it is due, whatever became of those before.
async fn open_loop(
    schedule: Vec<Duration>,
    places: usize,
    client: Arc<Client>,
    jobs: Arc<Jobs>,
    sender: mpsc::UnboundedSender<Record>,
) {
    let places = Arc::new(Semaphore::new(places));
    for (index, due) in schedule.into_iter().enumerate() {
        let job = jobs.job(index as u64);
        sleep_until(client.start + due).await;
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let (client, sender) = (Arc::clone(&client), sender.clone());
        tokio::spawn(async move {
            let record = client.perform(&job, Some(due.as_secs_f64())).await;
            // The receiver outlives the run.
            let _ = sender.send(record);
            drop(place);
        });
    }
}

/// Of a closed loop.
struct Worker {
    /// Number of the next request of all workers.
    next: Arc<AtomicU64>,
    end: End,
    client: Arc<Client>,
    jobs: Arc<Jobs>,
    sender: mpsc::UnboundedSender<Record>,
}

impl Worker {
    async fn run(self) {
        while let Some(index) = self.claim() {
            let job = self.jobs.job(index);
            let record = self.client.perform(&job, None).await;
            let rest = rest(&record);
            // The receiver outlives the run.
            let _ = self.sender.send(record);
            if let Some(rest) = rest {
                sleep(rest.min(self.left())).await;
            }
        }
    }

    /// The number of the next request, unless the run is over.
    fn claim(&self) -> Option<u64> {
        if self.left().is_zero() {
            return None;
        }
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        let last = match self.end {
            End::Requests(count) => count,
            End::Seconds(_) => REQUESTS_MAX,
        };
        (index < last as u64).then_some(index)
    }

    /// Time until the run is over.
    fn left(&self) -> Duration {
        match self.end {
            End::Requests(_) => Duration::MAX,
            End::Seconds(seconds) => {
                Duration::from_secs_f64(seconds).saturating_sub(self.client.start.elapsed())
            }
        }
    }
}

/// How long a worker rests after a request: as long as a refusal asks for, so that it is not repeated thousands of times a
/// second.
fn rest(record: &Record) -> Option<Duration> {
    match record.outcome {
        Outcome::Refused => {
            let asked = record.retry_after_s().map(Duration::from_secs);
            Some(asked.unwrap_or(REST).min(REST_MAX))
        }
        Outcome::Unreachable => Some(REST),
        _ => None,
    }
}
