//! The run: sends, looks on, collects.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::arrivals::{End, REQUESTS_MAX};
use super::exchange::Client;
use super::gauge::{InFlight, lags};
use super::http::Link;
use super::memory::MemorySample;
use super::plan::{LoadPlan, PlanFacts};
use super::probe::{Probe, probe};
use super::record::Record;
use super::request::{Jobs, ids_within};
use super::send::send;
use super::served::served;
use crate::Host;

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
    let client = warmed(plan, &jobs, client(plan, link), host).await;
    let watchers = Watchers::start(plan, &client);
    let (sender, receiver) = mpsc::unbounded_channel();
    let units = schedule.as_ref().map(Vec::len);
    send(plan, schedule, &client, &jobs, sender);
    let (mut records, memory) = collect(plan, units, &client, receiver, host).await;
    let (lags_s, probes) = watchers.stop().await?;
    let wall_s = records.iter().map(|r| r.times.end_s).fold(0.0, f64::max);
    records.sort_by_key(|record| record.index);
    let in_flight = *client.in_flight.lock().unwrap_or_else(|e| e.into_inner());
    Ok(LoadResult {
        plan: plan.facts(&model, ids),
        records,
        wall_s,
        in_flight,
        lags_s,
        probes,
        memory,
    })
}

fn client(plan: &LoadPlan, link: Link) -> Client {
    Client {
        link,
        path: plan.shape.api.path(),
        timeout: plan.timeout,
        start: Instant::now(),
        in_flight: Mutex::new(InFlight::default()),
    }
}

/// What looks on while the load runs.
struct Watchers {
    stop: watch::Sender<bool>,
    lags: JoinHandle<Vec<f64>>,
    probes: Vec<JoinHandle<Probe>>,
}

impl Watchers {
    fn start(plan: &LoadPlan, client: &Arc<Client>) -> Self {
        let (stop, stopped) = watch::channel(false);
        let probes = plan.probes.iter().map(|path| {
            let probe = probe(Arc::clone(client), path.clone(), stopped.clone());
            tokio::spawn(probe)
        });
        Self {
            probes: probes.collect(),
            lags: tokio::spawn(lags(stopped)),
            stop,
        }
    }

    async fn stop(self) -> Result<(Vec<f64>, Vec<Probe>)> {
        // Where nobody listens any more, nobody needs to be told.
        let _ = self.stop.send(true);
        let mut probes = Vec::with_capacity(self.probes.len());
        for probe in self.probes {
            probes.push(probe.await?);
        }
        Ok((self.lags.await?, probes))
    }
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
