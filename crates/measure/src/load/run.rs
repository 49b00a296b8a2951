//! The run: who is sent when, and what is looked at meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};

use super::arrivals::{Arrivals, End, REQUESTS_MAX};
use super::exchange::Client;
use super::gauge::{InFlight, lags};
use super::http::Link;
use super::memory::MemorySample;
use super::plan::{LoadPlan, PlanFacts};
use super::probe::{Probe, probe};
use super::record::{Outcome, Record};
use super::request::{Jobs, ids_within};
use crate::Host;

/// Bytes read of `/v1/models`.
const MODELS_BYTES_MAX: usize = 4 << 20;
/// How long the server may take to say what it serves.
const MODELS_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a worker of a closed loop rests after a refusal that names no time.
const REST: Duration = Duration::from_secs(1);
/// The longest rest that a server can ask of it.
const REST_MAX: Duration = Duration::from_secs(60);

/// All that was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadResult {
    /// What was done.
    pub plan: PlanFacts,
    /// Each request, in the order of the schedule.
    pub records: Vec<Record>,
    /// Seconds from the start to the end of the last request.
    pub wall_s: f64,
    /// Requests under way.
    pub in_flight: InFlight,
    /// By how many seconds the client's timer was late, looked at all along.
    pub lags_s: Vec<f64>,
    /// One a page.
    pub probes: Vec<Probe>,
    /// Memory of the process that was named, each second.
    pub memory: Vec<MemorySample>,
}

#[derive(Deserialize)]
struct Models {
    data: Vec<Served>,
}

/// What a server says of its model; only the name is there everywhere.
#[derive(Deserialize)]
struct Served {
    id: String,
    vocab_size: Option<u32>,
}

/// Puts the load of `plan` on its server and waits for the last answer.
///
/// Everything runs on this thread, beside the server's if that is on the same machine.
///
/// # Errors
/// A plan that cannot be run, a server that is not there or does not say what it serves. What goes wrong with single requests
/// is a result.
pub fn run(plan: &LoadPlan, host: &mut dyn Host) -> Result<LoadResult> {
    plan.check()?;
    let schedule = plan.arrivals.schedule(plan.end, plan.seed);
    let scheduled = schedule.as_ref().map_or(0, Vec::len);
    ensure!(
        scheduled <= REQUESTS_MAX,
        "the schedule has more than {REQUESTS_MAX} requests; lower the rate or shorten the run"
    );
    ensure!(
        schedule.is_none() || scheduled > 0,
        "no request is due before the end; raise the rate or lengthen the run"
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the client's runtime")?;
    runtime.block_on(load(plan, schedule, host))
}

async fn load(
    plan: &LoadPlan,
    schedule: Option<Vec<Duration>>,
    host: &mut dyn Host,
) -> Result<LoadResult> {
    let link = Link::resolve(&plan.target, &plan.headers, &plan.keys).await?;
    let (model, vocab) = served(plan, &link).await?;
    let ids = ids_within(plan.shape.ids, vocab);
    let jobs = Arc::new(Jobs::new(&plan.shape, &model, ids, plan.seed));
    let client = Client {
        link,
        path: plan.shape.api.path(),
        timeout: plan.timeout,
        start: Instant::now(),
        in_flight: Mutex::new(InFlight::default()),
    };
    let client = warmed(plan, &jobs, client, host).await;
    let (stop, stopped) = watch::channel(false);
    let lags = tokio::spawn(lags(stopped.clone()));
    let probes = plan.probes.iter().map(|path| {
        let probe = probe(Arc::clone(&client), path.clone(), stopped.clone());
        tokio::spawn(probe)
    });
    let probes: Vec<JoinHandle<Probe>> = probes.collect();
    let (sender, receiver) = mpsc::unbounded_channel();
    let units = schedule.as_ref().map(|schedule| schedule.len());
    send(plan, schedule, &client, &jobs, sender);
    let (mut records, memory) = collect(plan, units, &client, receiver, host).await;
    let wall_s = records.iter().map(|r| r.times.end_s).fold(0.0, f64::max);
    let _ = stop.send(true);
    records.sort_by_key(|record| record.index);
    let in_flight = *client.in_flight.lock().unwrap_or_else(|e| e.into_inner());
    let mut result = LoadResult {
        plan: plan.facts(&model, ids),
        records,
        wall_s,
        in_flight,
        lags_s: lags.await?,
        probes: Vec::new(),
        memory,
    };
    for probe in probes {
        result.probes.push(probe.await?);
    }
    Ok(result)
}

/// Name and vocabulary of the model, asked for only where the plan does not say enough.
async fn served(plan: &LoadPlan, link: &Link) -> Result<(String, Option<u32>)> {
    if let (Some(model), Some(_)) = (&plan.model, plan.shape.ids) {
        return Ok((model.clone(), None));
    }
    let listed = listed(plan, link).await;
    match (&plan.model, listed) {
        (Some(model), Ok(listed)) => {
            let found = listed.iter().find(|served| served.id == *model);
            Ok((model.clone(), found.and_then(|served| served.vocab_size)))
        }
        (Some(model), Err(_)) => Ok((model.clone(), None)),
        (None, listed) => {
            let first = listed?.into_iter().next();
            let first = first.context("the server lists no model; name one with --model")?;
            Ok((first.id, first.vocab_size))
        }
    }
}

async fn listed(plan: &LoadPlan, link: &Link) -> Result<Vec<Served>> {
    let url = plan.target.url();
    let answer = timeout(MODELS_TIMEOUT, link.get("/v1/models", MODELS_BYTES_MAX)).await;
    let (status, body) = answer
        .with_context(|| format!("{url}/v1/models did not answer within 30 s"))?
        .with_context(|| format!("no server answers at {url}; start it, or check the address"))?;
    ensure!(
        status.is_success(),
        "{url}/v1/models answers {status}; name the model with --model, or give a key"
    );
    let models: Models = serde_json::from_slice(&body)
        .with_context(|| format!("{url}/v1/models is no list of models; name one with --model"))?;
    Ok(models.data)
}

/// The client after the requests that do not count, with its clock and its count at zero.
async fn warmed(plan: &LoadPlan, jobs: &Jobs, client: Client, host: &mut dyn Host) -> Arc<Client> {
    if plan.warm_up > 0 {
        host.begin("warming up", plan.warm_up as u64);
        for index in 0..plan.warm_up as u64 {
            client.perform(&jobs.warm_up(index), None).await;
            host.advance(1);
        }
        host.end();
    }
    Arc::new(Client {
        start: Instant::now(),
        in_flight: Mutex::new(InFlight::default()),
        ..client
    })
}

/// Starts what sends requests; their records come through the channel, which closes after the last one.
fn send(
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

/// Takes records as they come, and looks at the memory of the server each second.
async fn collect(
    plan: &LoadPlan,
    scheduled: Option<usize>,
    client: &Client,
    mut receiver: mpsc::UnboundedReceiver<Record>,
    host: &mut dyn Host,
) -> (Vec<Record>, Vec<MemorySample>) {
    let (mut records, mut memory) = (Vec::new(), Vec::new());
    let (units, is_by_second) = match (scheduled, plan.end) {
        (Some(count), _) | (None, End::Requests(count)) => (count as u64, false),
        (None, End::Seconds(seconds)) => (seconds.ceil() as u64, true),
    };
    host.begin(&plan.arrivals.words(), units);
    let mut second = interval(Duration::from_secs(1));
    second.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            record = receiver.recv() => match record {
                Some(record) => records.push(record),
                None => break,
            },
            _ = second.tick() => {
                let bytes = plan.pid.and_then(|pid| host.resident_memory_bytes(pid));
                let at_s = client.now_s();
                memory.extend(bytes.map(|bytes| MemorySample { at_s, bytes }));
                if is_by_second { host.advance(1) }
                continue;
            }
        }
        if !is_by_second {
            host.advance(1);
        }
    }
    host.end();
    (records, memory)
}
