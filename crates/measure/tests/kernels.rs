//! `bench kernels` on tiny shapes: every row that was asked for, with numbers that agree with each other.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ucuz_cpu::detect::CpuFeatures;
use ucuz_cpu::{CpuBackend, CpuOptions};
use ucuz_measure::bench::kernels::{self, Device, KernelBench, Operation, Options, Timing};
use ucuz_measure::{DeviceFacts, Host, Machine, Provenance};
use ucuz_tensor::backend::{BackendInfo, Limits};
use ucuz_tensor::format::FORMATS;
use ucuz_tensor::layout::PanelLayout;
use ucuz_tensor::reference::ReferenceBackend;
use ucuz_tensor::{
    Activations, Backend, CacheSpec, Ceiling, CeilingKind, KvDtype, KvPool, Queue, TensorResult,
};

/// A real clock, and nobody who waits; counts the stages that begin.
struct Silent {
    origin: Instant,
    stages: usize,
}

impl Silent {
    fn start() -> Self {
        Self {
            origin: Instant::now(),
            stages: 0,
        }
    }
}

impl Host for Silent {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }
    fn begin(&mut self, _what: &str, _units: u64) {
        self.stages += 1;
    }
    fn advance(&mut self, _units: u64) {}
    fn end(&mut self) {}
    fn reset_peak_memory(&mut self) -> bool {
        false
    }
    fn peak_memory_bytes(&self) -> Option<u64> {
        None
    }
    fn resident_memory_bytes(&self, _pid: u32) -> Option<u64> {
        None
    }
}

/// A device whose ceilings are known.
struct KnownCeilings(CpuBackend);

const RATE: f64 = 1e12;

impl Backend for KnownCeilings {
    fn describe(&self) -> BackendInfo {
        self.0.describe()
    }
    fn layout_id(&self) -> String {
        self.0.layout_id()
    }
    fn layout_bytes(&self, layout: &PanelLayout) -> TensorResult<usize> {
        self.0.layout_bytes(layout)
    }
    fn repack(
        &self,
        data: &mut [u8],
        layout: &PanelLayout,
        stored: &[u8],
        rows: Range<usize>,
    ) -> TensorResult<()> {
        self.0.repack(data, layout, stored, rows)
    }
    fn kv_pool(&self, spec: &CacheSpec, blocks: &[usize]) -> TensorResult<KvPool> {
        self.0.kv_pool(spec, blocks)
    }
    fn scratch_bytes(&self, limits: &Limits) -> usize {
        self.0.scratch_bytes(limits)
    }
    fn queue(&self, limits: &Limits) -> TensorResult<Box<dyn Queue>> {
        self.0.queue(limits)
    }
    fn ceiling(&self, kind: CeilingKind) -> TensorResult<Option<Ceiling>> {
        Ok(Some(Ceiling::of_runs(kind, RATE, &[1.0])))
    }
}

fn tiers() -> Vec<Device> {
    let tiers = CpuFeatures::detect().tiers().into_iter();
    let device = |tier| Device {
        name: format!("{tier}"),
        backend: Arc::new(KnownCeilings(
            CpuBackend::new(CpuOptions::quiet(tier, 2)).unwrap(),
        )),
    };
    tiers.map(device).collect()
}

fn options() -> Options {
    Options {
        operations: Operation::ALL.into(),
        formats: FORMATS.iter().map(|row| row.format).collect(),
        rows: vec![1, 5],
        shape: "48x256".parse().unwrap(),
        contexts: vec![40],
        kv_dtypes: KvDtype::ALL.into(),
        activations: Activations::Int8Pair,
        cold_bytes: 1 << 16,
        cache_bytes: Some(1 << 20),
        timing: Timing {
            repeat: 2,
            sample_seconds: 1e-6,
            case_seconds: 1.0,
        },
    }
}

fn provenance() -> Provenance {
    Provenance {
        command: "ucuz bench kernels".to_owned(),
        version: "0".to_owned(),
        created_unix_s: 0,
        created: "1970-01-01 00:00:00 UTC".to_owned(),
        arithmetic_version: ucuz_tensor::ARITHMETIC_VERSION,
        machine: Machine {
            processor: "some".to_owned(),
            physical_cores: 1,
            memory_bytes: None,
            device: Some(DeviceFacts {
                backend: "cpu".to_owned(),
                device: "some".to_owned(),
                threads: 2,
            }),
        },
    }
}

fn bench(devices: &[Device], options: &Options) -> KernelBench {
    let mut host = Silent::start();
    let picked = devices.len() - 1;
    kernels::run(devices, picked, options, provenance(), &mut host).unwrap()
}

fn count(bench: &KernelBench, operation: Operation, device: &str) -> usize {
    let rows = bench.rows.iter();
    rows.filter(|row| row.label.operation == operation.name() && row.device == device)
        .count()
}

#[test]
fn every_operation_has_a_row_for_each_variant_number_of_rows_and_tier() {
    let devices = tiers();
    let bench = bench(&devices, &options());
    assert_eq!(bench.ceilings.len(), devices.len());
    for device in &devices {
        for operation in Operation::ALL {
            // One context in three phases, or two numbers of rows.
            let expected = match operation {
                Operation::Linear | Operation::Embed => 2 * FORMATS.len(),
                Operation::Attention => 3 * KvDtype::ALL.len(),
                Operation::KvStore => 2 * KvDtype::ALL.len(),
                Operation::Sample => 4,
                _ => 2,
            };
            let rows = count(&bench, operation, &device.name);
            assert_eq!(rows, expected, "{operation}");
        }
    }
}

#[test]
fn numbers_of_a_row_agree_with_each_other() {
    let bench = bench(&tiers(), &options());
    for row in &bench.rows {
        let floor = row.floor_seconds.unwrap();
        let work = row.memory_bytes.max(row.cache_bytes).max(row.operations);
        assert_eq!(floor, work as f64 / RATE, "{row:?}");
        assert_eq!(row.roofline_share, Some(floor / row.seconds.median));
        assert!(
            row.seconds.min > 0.0 && row.seconds.repetitions >= 2,
            "{row:?}"
        );
        assert!(row.memory_bytes + row.cache_bytes > 0, "{row:?}");
    }
    let five_rows = |operation: &str, variant: &str| {
        let mut rows = bench.rows.iter().filter(|r| r.label.rows == 5);
        rows.find(|r| r.label.operation == operation && r.label.variant == variant)
            .unwrap()
    };
    let product = |format: &str| five_rows("linear", format);
    // 48 x 256 weights with 5 rows; stored integers meet two digits; 18 bytes hold 32 weights of Q4_0.
    assert_eq!(product("BF16").operations, 2 * 5 * 48 * 256);
    assert_eq!(product("Q4_0").operations, 2 * 2 * 5 * 48 * 256);
    assert_eq!(product("Q4_0").memory_bytes, 48 * 256 / 32 * 18);
    assert_eq!(product("Q4_0").cache_bytes, 5 * (48 + 256) * 4);
    assert_eq!(product("Q4_0").bound, Some("int8"));
    // One code for each activation, whatever `activations` says; one scale a row beside the codes.
    assert_eq!(product("INT8_ROW").operations, 2 * 5 * 48 * 256);
    assert_eq!(product("INT8_ROW").bound, Some("int8"));
    // Four heads of 64 and one for keys are read and written; the one for values is not touched.
    let rotation = five_rows("qk_norm_rope", "");
    assert_eq!(rotation.cache_bytes, 5 * (4 + 1) * 64 * 2 * 4);
    assert_eq!(rotation.operations, 5 * (4 + 1) * 64 * 7);
}

#[test]
fn only_what_is_asked_for_is_measured_and_reported() {
    let mut options = options();
    options.operations = vec![Operation::Linear, Operation::Add];
    options
        .formats
        .retain(|format| format.to_string() == "Q8_0");
    options.rows = vec![3];
    let devices = tiers();
    let bench = bench(&devices, &options);
    assert_eq!(bench.rows.len(), 2 * devices.len());
    let text = bench.document().to_text();
    for device in &devices {
        assert!(text.contains(&device.name), "{text}");
    }
    assert!(
        text.contains("Q8_0, 48x256") && !text.contains("attention"),
        "{text}"
    );
    assert!(bench.document().to_html().unwrap().contains("<h2>add</h2>"));
    let json = serde_json::to_value(&bench).unwrap();
    for key in [
        "operation",
        "variant",
        "device",
        "seconds",
        "floor_seconds",
        "roofline_share",
    ] {
        assert!(!json["rows"][0][key].is_null(), "{key} {json:#}");
    }
    assert_eq!(json["bench"], "kernels");
    assert_eq!(json["ceilings"][0]["measured"][0]["kind"], "memory");
}

#[test]
fn no_format_is_lost_from_the_plots() {
    let mut options = options();
    options.operations = vec![Operation::Linear];
    let device = Device {
        name: "reference".to_owned(),
        backend: Arc::new(ReferenceBackend::new(1)),
    };
    let html = bench(&[device], &options).document().to_html().unwrap();
    assert_eq!(
        html.matches("<svg").count(),
        FORMATS.len().div_ceil(ucuz_report::SERIES_MAX)
    );
    // A dot for each format and number of rows.
    assert_eq!(html.matches("<circle").count(), 2 * FORMATS.len());
}

#[test]
fn a_backend_without_ceilings_is_measured_without_shares() {
    let mut options = options();
    options.formats.truncate(1);
    let device = Device {
        name: "reference".to_owned(),
        backend: Arc::new(ReferenceBackend::new(1)),
    };
    let bench = bench(&[device], &options);
    assert!(bench.ceilings[0].ceilings.measured.is_empty());
    assert!(!bench.rows.is_empty());
    assert!(bench.rows.iter().all(|row| row.roofline_share.is_none()));
    assert!(bench.document().to_text().contains("nothing to compare"));
}

#[test]
fn rows_that_a_format_cannot_store_are_refused_before_anything_is_measured() {
    let mut options = options();
    options.shape = "16x32".parse().unwrap();
    options.operations = vec![Operation::Linear];
    options
        .formats
        .retain(|format| format.to_string() == "Q4_K");
    let mut host = Silent::start();
    let error = kernels::run(&tiers(), 0, &options, provenance(), &mut host).unwrap_err();
    assert!(
        format!("{error:#}").contains("multiples of 256, got 32"),
        "{error:#}"
    );
    assert_eq!(host.stages, 0);
}
