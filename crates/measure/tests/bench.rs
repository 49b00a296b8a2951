//! Benches on tiny checkpoints, with a clock that the test moves: no time is asserted, only what follows from it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

use ucuz_cpu::{CpuBackend, CpuOptions, Tier};
use ucuz_formats::Checkpoint;
use ucuz_measure::bench::{ModelFacts, Roofline, Setup, cache, engine};
use ucuz_measure::{DeviceFacts, Host, Machine, Provenance};
use ucuz_tensor::{KvDtype, WeightOptions};

/// One that sees all, one with windows, one with quantised weights.
const MODELS: [&str; 3] = [
    "tiny/llama-gqa",
    "tiny/gemma3-pattern",
    "tiny-gguf/llama-gqa-q8_0/model.gguf",
];

/// Each look at the clock finds it one tick later; each measured span is therefore one tick long.
const TICK: Duration = Duration::from_millis(1);

/// Records what it is told.
#[derive(Default)]
struct TestHost {
    ticks: Cell<u32>,
    stages: Vec<(String, u64, u64)>,
    peak: Option<u64>,
}

impl Host for TestHost {
    fn now(&self) -> Duration {
        self.ticks.set(self.ticks.get() + 1);
        TICK * self.ticks.get()
    }

    fn begin(&mut self, what: &str, units: u64) {
        self.stages.push((what.to_owned(), units, 0));
    }

    fn advance(&mut self, units: u64) {
        self.stages.last_mut().expect("a stage is open").2 += units;
    }

    fn end(&mut self) {
        let (what, units, done) = self.stages.last().expect("a stage is open");
        if !what.starts_with("loading") {
            assert_eq!(units, done, "{what}: what was announced is done");
        }
    }

    fn reset_peak_memory(&mut self) -> bool {
        self.peak = Some(1000);
        true
    }

    fn peak_memory_bytes(&self) -> Option<u64> {
        self.peak
    }
    fn resident_memory_bytes(&self, _pid: u32) -> Option<u64> {
        None
    }
}

fn checkpoint(name: &str) -> Checkpoint {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    Checkpoint::open(&golden.join(name)).unwrap()
}

fn backend() -> CpuBackend {
    let options = CpuOptions {
        tier: Some(Tier::Generic),
        threads: Some(1),
        pin: false,
        spin: false,
    };
    CpuBackend::new(options).unwrap()
}

fn setup<'a>(checkpoint: &'a Checkpoint, backend: &'a CpuBackend) -> Setup<'a> {
    Setup {
        checkpoint,
        backend,
        kv_dtype: KvDtype::Bf16,
        weights: WeightOptions::default(),
        context: 96,
        step_rows: 16,
        logit_rows: 4,
        kv_memory_bytes: 1 << 30,
    }
}

fn about(setup: &Setup<'_>) -> (Provenance, ModelFacts) {
    let machine = Machine {
        processor: "test".to_owned(),
        physical_cores: 1,
        memory_bytes: None,
        device: Some(DeviceFacts {
            backend: "cpu".to_owned(),
            device: "generic".to_owned(),
            threads: 1,
        }),
    };
    let provenance = Provenance {
        command: "ucuz bench".to_owned(),
        version: "0".to_owned(),
        created_unix_s: 0,
        created: String::new(),
        arithmetic_version: 1,
        machine,
    };
    (provenance, ModelFacts::of(setup, None))
}

fn engine_options() -> engine::Options {
    engine::Options {
        prompt_lengths: vec![5, 40],
        contexts: vec![1, 33, 96],
        batches: vec![1, 2, 6],
        batch_context: 34,
        repetitions: 3,
    }
}

fn run(
    setup: &Setup<'_>,
    options: &engine::Options,
    roofline: Option<Roofline>,
) -> engine::EngineResult {
    let plan = engine::Plan::new(setup, options).unwrap();
    plan.run(about(setup), roofline, &mut TestHost::default())
        .unwrap()
}

#[test]
fn every_point_of_the_engine_bench_is_measured_and_counted() {
    for name in MODELS {
        let (checkpoint, backend) = (checkpoint(name), backend());
        let setup = setup(&checkpoint, &backend);
        let options = engine_options();
        let result = run(&setup, &options, None);
        let prompts: Vec<usize> = result.prefill.iter().map(|p| p.prompt_tokens).collect();
        let contexts: Vec<usize> = result.decode.iter().map(|p| p.context).collect();
        let batches: Vec<usize> = result.batch.iter().map(|p| p.batch).collect();
        assert_eq!(
            (prompts, contexts, batches),
            (options.prompt_lengths, options.contexts, options.batches)
        );
        for point in &result.prefill {
            let measured = &point.measured;
            assert_eq!(measured.seconds.repetitions, 3, "{name}");
            assert_eq!(measured.seconds.median, TICK.as_secs_f64(), "{name}");
            let speed = point.prompt_tokens as f64 / TICK.as_secs_f64();
            assert_eq!(measured.tokens_per_s.median, speed, "{name}");
        }
        let step = TICK.as_secs_f64() / engine::STEPS as f64;
        assert!(
            result
                .decode
                .iter()
                .all(|p| p.measured.seconds.median == step)
        );
        // A batch reads the same weights as one sequence, and every sequence's own keys and values.
        let (one, six) = (result.batch[0].measured.work, result.batch[2].measured.work);
        assert_eq!(one.weight_bytes, six.weight_bytes, "{name}");
        assert_eq!(
            (one.kv_bytes * 6, one.macs() * 6),
            (six.kv_bytes, six.macs()),
            "{name}"
        );
        assert_eq!(result.knee.expect("three batches").batch, 6, "{name}");
    }
}

#[test]
fn parts_that_are_not_asked_for_are_left_out() {
    let (checkpoint, backend) = (checkpoint(MODELS[0]), backend());
    let setup = setup(&checkpoint, &backend);
    let options = engine::Options {
        prompt_lengths: Vec::new(),
        batches: Vec::new(),
        ..engine_options()
    };
    let result = run(&setup, &options, None);
    assert!(result.prefill.is_empty() && result.batch.is_empty() && result.knee.is_none());
    let document = result.document();
    let headings: Vec<&str> = document
        .sections
        .iter()
        .map(|s| s.heading.as_str())
        .collect();
    assert_eq!(headings, ["Decode"]);
}

#[test]
fn what_does_not_fit_is_refused_with_the_way_out() {
    let (checkpoint, backend) = (checkpoint(MODELS[0]), backend());
    let base = setup(&checkpoint, &backend);
    let refusal = |setup: &Setup<'_>, options: &engine::Options| {
        let plan = engine::Plan::new(setup, options);
        plan.err().expect("it does not fit").to_string()
    };
    let options = engine_options();
    let short = Setup {
        context: 64,
        ..base
    };
    assert!(refusal(&short, &options).contains("--context"));
    let poor = Setup {
        kv_memory_bytes: 1000,
        ..base
    };
    assert!(refusal(&poor, &options).contains("--kv-memory"));
    let nothing = engine::Options {
        prompt_lengths: Vec::new(),
        contexts: Vec::new(),
        batches: Vec::new(),
        ..options
    };
    assert!(refusal(&base, &nothing).contains("nothing to measure"));
}

#[test]
fn a_roofline_gives_every_point_its_share() {
    let (checkpoint, backend) = (checkpoint(MODELS[2]), backend());
    let setup = setup(&checkpoint, &backend);
    let roofline = Roofline {
        memory_bytes_per_s: 1e9,
        int8_operations_per_s: 1e9,
        float_operations_per_s: 1e9,
    };
    let result = run(&setup, &engine_options(), Some(roofline));
    for point in &result.prefill {
        let measured = &point.measured;
        let floor = roofline.floor_s(&measured.work);
        assert_eq!(
            measured.roofline_share,
            Some(floor / measured.seconds.median)
        );
        assert!(measured.work.int8_macs > 0, "weights are 8-bit codes");
    }
}

#[test]
fn a_backend_without_ceilings_has_no_roofline() {
    let backend = ucuz_tensor::reference::ReferenceBackend::new(1);
    let mut host = TestHost::default();
    assert_eq!(Roofline::measure(&backend, &mut host).unwrap(), None);
}

#[test]
fn reports_have_a_row_and_a_dot_a_point_and_stable_keys() {
    let (checkpoint, backend) = (checkpoint(MODELS[1]), backend());
    let setup = setup(&checkpoint, &backend);
    let result = run(&setup, &engine_options(), None);
    let html = result.document().to_html().unwrap();
    assert_eq!(html.matches("<circle").count(), 2 * (2 + 3 + 3));
    assert_eq!(html.matches("<tbody>").count(), 3);
    assert!(html.contains("knee: 6"));
    let json = serde_json::to_value(&result).unwrap();
    assert_eq!(json["bench"], "engine");
    assert_eq!(json["prefill"][1]["prompt_tokens"], 40);
    let measured = &json["decode"][0]["measured"];
    for key in [
        "seconds",
        "tokens_per_s",
        "work",
        "bytes_per_s",
        "operations_per_s",
        "roofline_share",
    ] {
        assert!(measured.get(key).is_some(), "{key} in {measured}");
    }
    assert!(measured["seconds"]["median"].is_f64() && measured["work"]["weight_bytes"].is_u64());
    assert_eq!(json["provenance"]["machine"]["threads"], 1);
}

#[test]
fn with_and_without_the_cache_are_identical_and_grow_as_counted() {
    for name in MODELS {
        let (checkpoint, backend) = (checkpoint(name), backend());
        let setup = setup(&checkpoint, &backend);
        let options = cache::Options {
            lengths: vec![64, 8, 16, 32],
            repetitions: 2,
        };
        let mut host = TestHost::default();
        let result = cache::run(&setup, &options, about(&setup), &mut host).unwrap();
        assert!(result.identity.holds(), "{name}: {:?}", result.identity);
        // Two passes each way; every pass gives the prompt's successor and 63 more.
        assert_eq!(result.identity.tokens_compared, 4 * 64, "{name}");
        assert_eq!(result.identity.logits_compared, 4 * checkpoint.config.vocab);
        let tokens: Vec<usize> = result.points.iter().map(|p| p.tokens).collect();
        assert_eq!(tokens, [8, 16, 32, 64], "{name}");
        for point in &result.points {
            let steps = point.tokens as f64 * TICK.as_secs_f64();
            let relative = point.with.seconds.median / steps - 1.0;
            // A sum of up to 64 ticks, each rounded.
            assert!(relative.abs() < 64.0 * f64::EPSILON, "{name}: {relative}");
            assert_eq!(point.with.seconds.repetitions, 2, "{name}");
            assert!(point.with.macs < point.without.macs, "{name}");
            assert_eq!(point.with.memory_peak_bytes, Some(0), "{name}");
        }
        let growth = |quantity: &str| {
            let found = result.growth.iter().find(|g| g.quantity == quantity);
            let growth = found.expect("the quantity is there");
            let exponent = |law: &Option<ucuz_report::PowerLaw>| law.expect("four points").exponent;
            (exponent(&growth.with), exponent(&growth.without))
        };
        let (with, without) = growth("multiply-accumulates");
        assert!((1.0..2.0).contains(&with), "{name}: {with}");
        // One row of logits a step, whatever is recomputed: on so small a model the head holds the exponent down.
        assert!((1.4..3.0).contains(&without), "{name}: {without}");
        assert!(with + 0.3 < without, "{name}: {with} {without}");
        let (with, without) = growth("score bytes");
        assert!(with < without, "{name}: {with} {without}");
    }
}

#[test]
fn the_cache_report_says_whether_all_was_equal() {
    let (checkpoint, backend) = (checkpoint(MODELS[0]), backend());
    let setup = setup(&checkpoint, &backend);
    let options = cache::Options {
        lengths: vec![4, 8, 16],
        repetitions: 1,
    };
    let mut host = TestHost::default();
    let mut result = cache::run(&setup, &options, about(&setup), &mut host).unwrap();
    let text = result.document().to_text();
    assert!(text.contains("32 tokens all equal"), "{text}");
    let html = result.document().to_html().unwrap();
    assert_eq!(html.matches("<svg").count(), 4);
    let json = serde_json::to_value(&result).unwrap();
    assert_eq!(json["identity"]["tokens_equal"], true);
    assert!(json["growth"][0]["without"]["exponent"].is_f64(), "{json}");
    result.identity.tokens_equal = false;
    assert!(result.document().to_text().contains("NOT EQUAL"));
}
