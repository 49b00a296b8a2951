//! Each operation of a queue against the roofline of its device.
//!
//! Everything goes through [`Backend`] and [`Queue`](ucuz_tensor::Queue), so it holds for any device; several devices (the
//! tiers of a processor) take turns. The ceilings are measured in the same run, before and after; a floor is the largest of
//! memory bytes, cache bytes and operations, each divided by its ceiling, and a share is floor / median.
//!
//! Start at [`run`]. `operations` says what is called and what it must cost, `timing` how often, `verdict` whether the
//! device that would be picked is the fastest, `document` how it looks.

mod case;
mod ceilings;
mod data;
mod document;
mod operation;
mod operations;
mod shape;
mod timing;
mod verdict;

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use ucuz_report::Spread;
use ucuz_tensor::backend::HeadShape;
use ucuz_tensor::{Activations, Backend, Format, KvDtype};

pub use case::Label;
pub use ceilings::{Ceilings, DRIFT_MAX, MeasuredCeiling};
pub use operation::{Operation, UnknownOperation};
pub use shape::{BadShape, Shape};
pub use timing::Timing;
pub use verdict::{MARGIN, SlowerPick};

use crate::{Host, Provenance};
use operations::Group;
use timing::Runner;

/// What to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Operations.
    pub operations: Vec<Operation>,
    /// Formats of weights.
    pub formats: Vec<Format>,
    /// Rows of a step.
    pub rows: Vec<usize>,
    /// Weights of a product; its columns are the hidden size of the other operations.
    pub shape: Shape,
    /// Tokens in the cache of attention.
    pub contexts: Vec<usize>,
    /// Precisions of the cache; those that a backend lacks are left out.
    pub kv_dtypes: Vec<KvDtype>,
    /// How activations meet stored integers.
    pub activations: Activations,
    /// Weights, keys and values that calls walk through, so that none is found in a cache.
    pub cold_bytes: usize,
    /// The largest cache; `None` when it is not known.
    pub cache_bytes: Option<u64>,
    /// How long.
    pub timing: Timing,
}

impl Options {
    /// Heads of the hidden size.
    pub fn heads(&self) -> HeadShape {
        self.shape.heads()
    }

    /// Refuses formats that cannot store rows of the shape.
    fn check(&self) -> Result<()> {
        let are_stored = |o: &Operation| matches!(o, Operation::Linear | Operation::Embed);
        if self.operations.iter().any(are_stored) {
            for format in &self.formats {
                data::row_bytes(*format, self.shape.cols)?;
            }
        }
        Ok(())
    }
}

/// A device by name.
#[derive(Clone)]
pub struct Device {
    /// Name of its row, e.g. the tier.
    pub name: String,
    /// The device.
    pub backend: Arc<dyn Backend>,
}

/// One case on one device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KernelRow {
    /// What was called.
    #[serde(flatten)]
    pub label: Label,
    /// On which device.
    pub device: String,
    /// Seconds a call.
    pub seconds: Spread,
    /// Bytes that only memory holds.
    pub memory_bytes: u64,
    /// Bytes that a cache may hold.
    pub cache_bytes: u64,
    /// Operations.
    pub operations: u64,
    /// Bytes a second, of both kinds.
    pub bytes_per_s: f64,
    /// Operations a second.
    pub operations_per_s: f64,
    /// Least seconds that the ceilings allow.
    pub floor_seconds: Option<f64>,
    /// The ceiling that sets the floor.
    pub bound: Option<&'static str>,
    /// Floor divided by median.
    pub roofline_share: Option<f64>,
}

/// Ceilings of one device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceCeilings {
    /// Name of the device.
    pub device: String,
    /// What it can do at most.
    #[serde(flatten)]
    pub ceilings: Ceilings,
}

/// Everything measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KernelBench {
    /// `kernels`.
    pub bench: &'static str,
    /// Where and how.
    pub provenance: Provenance,
    /// Weights of a product, `ROWSxCOLS`.
    pub shape: String,
    /// How activations met stored integers.
    pub activations: &'static str,
    /// Bytes of weights, keys or values that calls walked through.
    pub cold_bytes: usize,
    /// Bytes of the largest cache.
    pub largest_cache_bytes: Option<u64>,
    /// Who would be picked when nobody is asked for.
    pub picked: String,
    /// One entry a device.
    pub ceilings: Vec<DeviceCeilings>,
    /// One entry a case and device.
    pub rows: Vec<KernelRow>,
    /// Cases in which the pick is not the fastest.
    pub slower_picks: Vec<SlowerPick>,
}

/// Measures on all devices; `picked` is the index of the one that is used when nobody asks for another.
///
/// # Errors
/// Shapes that a format cannot store, memory, a device that fails.
pub fn run(
    devices: &[Device],
    picked: usize,
    options: &Options,
    provenance: Provenance,
    host: &mut dyn Host,
) -> Result<KernelBench> {
    ensure!(picked < devices.len(), "no device to measure");
    options.check()?;
    let mut bench = Bench {
        devices,
        picked,
        options,
        timed: Vec::new(),
        slower_picks: Vec::new(),
    };
    let mut ceilings = bench.ceilings("ceilings", host)?;
    let groups = Group::all(options);
    host.begin("kernels", groups.len() as u64);
    for group in &groups {
        bench
            .measure(group, host)
            .with_context(|| format!("cannot measure {}", group.name()))?;
        host.advance(1);
    }
    host.end();
    let after = bench.ceilings("ceilings again", host)?;
    for (before, after) in ceilings.iter_mut().zip(&after) {
        before.ceilings.finish(&after.ceilings);
    }
    Ok(KernelBench {
        bench: "kernels",
        provenance,
        shape: options.shape.to_string(),
        activations: options.activations.name(),
        cold_bytes: options.cold_bytes,
        largest_cache_bytes: options.cache_bytes,
        picked: devices[picked].name.clone(),
        rows: bench
            .timed
            .iter()
            .map(|timed| timed.row(&ceilings))
            .collect(),
        ceilings,
        slower_picks: bench.slower_picks,
    })
}

/// A case's time on a device, before the ceilings are known for good.
struct Timed {
    label: Label,
    cost: case::Cost,
    device: usize,
    seconds: Spread,
}

impl Timed {
    fn row(&self, ceilings: &[DeviceCeilings]) -> KernelRow {
        let DeviceCeilings { device, ceilings } = &ceilings[self.device];
        let (cost, median) = (&self.cost, self.seconds.median);
        let floor = ceilings.floor(cost);
        KernelRow {
            label: self.label.clone(),
            device: device.clone(),
            seconds: self.seconds,
            memory_bytes: cost.memory_bytes,
            cache_bytes: cost.cache_bytes,
            operations: cost.operations,
            bytes_per_s: cost.bytes() as f64 / median,
            operations_per_s: cost.operations as f64 / median,
            floor_seconds: floor.map(|floor| floor.seconds),
            bound: floor.map(|floor| floor.bound.name()),
            roofline_share: floor.map(|floor| floor.seconds / median),
        }
    }
}

/// A run under way.
struct Bench<'a> {
    devices: &'a [Device],
    picked: usize,
    options: &'a Options,
    timed: Vec<Timed>,
    slower_picks: Vec<SlowerPick>,
}

impl Bench<'_> {
    fn ceilings(&self, what: &str, host: &mut dyn Host) -> Result<Vec<DeviceCeilings>> {
        host.begin(what, self.devices.len() as u64);
        let mut all = Vec::with_capacity(self.devices.len());
        for device in self.devices {
            all.push(DeviceCeilings {
                device: device.name.clone(),
                ceilings: Ceilings::measure(device.backend.as_ref())?,
            });
            host.advance(1);
        }
        host.end();
        Ok(all)
    }

    /// Measures the cases of a group one after the other, each on the devices that can run it.
    fn measure(&mut self, group: &Group, host: &dyn Host) -> Result<()> {
        let mut by_device = Vec::new();
        for (index, device) in self.devices.iter().enumerate() {
            let cases = group.cases(device.backend.as_ref(), self.options)?;
            by_device.push((index, cases.into_iter()));
        }
        loop {
            let (mut indices, mut runners) = (Vec::new(), Vec::new());
            for (index, cases) in &mut by_device {
                let Some(case) = cases.next() else { continue };
                let queue = self.devices[*index].backend.queue(&case.limits)?;
                indices.push(*index);
                runners.push(Runner::new(queue, case));
            }
            if runners.is_empty() {
                return Ok(());
            }
            self.time(&indices, &mut runners, host)?;
        }
    }

    /// Times one case on its devices and judges the pick. A pick that seems slower gets a second chance, in which all of
    /// them are timed for longer.
    fn time(&mut self, indices: &[usize], runners: &mut [Runner], host: &dyn Host) -> Result<()> {
        let timing = &self.options.timing;
        timing::time(runners, timing, host)?;
        let picked = indices.iter().position(|index| *index == self.picked);
        let faster = |runners: &[Runner]| -> Result<Option<usize>> {
            let seconds = spreads(runners)?;
            Ok(picked.and_then(|picked| verdict::faster_than_picked(picked, &seconds)))
        };
        if faster(runners)?.is_some() {
            timing::time_again(runners, timing, host)?;
        }
        if let (Some(picked), Some(fastest)) = (picked, faster(runners)?) {
            let seconds = spreads(runners)?;
            self.slower_picks.push(SlowerPick {
                case: runners[picked].case().label.to_string(),
                picked: self.devices[self.picked].name.clone(),
                picked_seconds: seconds[picked].median,
                fastest: self.devices[indices[fastest]].name.clone(),
                fastest_seconds: seconds[fastest].median,
            });
        }
        for ((device, runner), seconds) in indices.iter().zip(&*runners).zip(spreads(runners)?) {
            self.timed.push(Timed {
                label: runner.case().label.clone(),
                cost: runner.case().cost,
                device: *device,
                seconds,
            });
        }
        Ok(())
    }
}

fn spreads(runners: &[Runner]) -> Result<Vec<Spread>> {
    let spread = |runner: &Runner| {
        Spread::of(&runner.samples).context("nothing was measured; raise --repeat")
    };
    runners.iter().map(spread).collect()
}
