//! `ucuz bench kernels`: each operation against what the machine can do at most.

use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Result, ensure};
use clap::builder::RangedU64ValueParser;
use ucuz_cpu::{Tier, detect};
use ucuz_measure::bench::ascending;
use ucuz_measure::bench::kernels::{self, Device, Operation, Options, Shape, Timing};
use ucuz_tensor::format::FORMATS;
use ucuz_tensor::{Format, KvDtype};

use super::host::TerminalHost;
use super::output::OutputArgs;
use super::{model, provenance};
use crate::backends::{self, BackendName, BackendOptions};
use crate::engine_args::ActivationsName;
use crate::size::ByteSize;

/// Least duration of a sample: long against a fork and join, short enough for many of them.
const SAMPLE_SECONDS: f64 = 5e-3;
/// After so long a slow case has enough samples.
const CASE_SECONDS: f64 = 2.0;
/// What calls walk through where the system does not tell its caches.
const COLD_BYTES: u64 = 512 << 20;

/// Arguments of `ucuz bench kernels`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ucuz bench kernels --html kernels.html
  ucuz bench kernels --only linear --formats Q4_1,Q8_0 --rows 1,512 --shape 49152x576
  ucuz bench kernels --tiers all --only attention --contexts 1024,8192 --json -
  ucuz bench kernels --assert

A share is the floor (counted bytes and operations over ceilings measured in the same run) divided by the median.
With all tiers, formats and rows it takes some ten minutes, most of them in generic code.

Exit codes: 0 done, 1 error, or with --assert a pick that is not the fastest, 2 wrong usage")]
pub struct Args {
    /// Where to run
    #[arg(long, value_enum, default_value = "cpu")]
    backend: BackendName,
    /// Tiers to measure side by side: all, best, generic, avx2, ... [default: best; all with --assert]
    #[arg(long, value_name = "TIER,...", value_delimiter = ',')]
    tiers: Vec<TierWord>,
    /// Operations: linear, attention, kv_store, embed, rms_norm, qk_norm_rope, silu_mul, gelu_mul, add, take_rows, sample [default: all]
    #[arg(long, value_name = "OPERATION,...", value_delimiter = ',')]
    only: Vec<Operation>,
    /// Formats of weights, e.g. Q4_1,Q8_0 [default: all]
    #[arg(long, value_name = "FORMAT,...", value_delimiter = ',', value_parser = parse_format)]
    formats: Vec<Format>,
    /// Rows of a step
    #[arg(long, value_name = "ROWS,...", value_delimiter = ',', default_value = "1,4,16,512", value_parser = row_count())]
    rows: Vec<usize>,
    /// Outputs and inputs of a weight; the inputs are the hidden size of the other operations
    #[arg(long, value_name = "ROWSxCOLS", default_value = "2048x2048")]
    shape: Shape,
    /// Tokens in the cache of attention
    #[arg(long, value_name = "TOKENS,...", value_delimiter = ',', default_value = "512,2048,8192", value_parser = model::length())]
    contexts: Vec<usize>,
    /// Precisions of that cache; those that the backend lacks are left out
    #[arg(long, value_name = "DTYPE,...", value_delimiter = ',', default_value = "bf16,int8", value_parser = parse_kv_dtype)]
    kv_dtypes: Vec<KvDtype>,
    /// How activations meet stored integers
    #[arg(long, value_enum, default_value = "int8x2")]
    activations: ActivationsName,
    /// Weights, keys and values that calls walk through, so that no cache holds them [default: twice the largest cache]
    #[arg(long, value_name = "SIZE")]
    cold_memory: Option<ByteSize>,
    /// Samples of each case; one that takes over 2 s gets fewer
    #[arg(long, default_value_t = 9, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: u16,
    /// Threads that compute [default: physical cores within affinity and container limits]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Keep each computing thread on one core
    #[arg(long)]
    pin: bool,
    /// Fail when the tier that is picked by default is not the fastest one measured
    #[arg(long)]
    assert: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// One word of `--tiers`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TierWord {
    All,
    Best,
    One(Tier),
}

impl FromStr for TierWord {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            "best" => Ok(Self::Best),
            name => name.parse().map(Self::One).map_err(|_| {
                let names = Tier::ALL.map(Tier::name).join(", ");
                format!("it is all, best or one of {names}")
            }),
        }
    }
}

/// Measures and prints; with `--assert` fails when the pick is not the fastest.
///
/// # Errors
/// A tier that this processor or backend lacks, a shape that a format cannot store, memory.
pub fn run(args: Args) -> Result<ExitCode> {
    args.output.check()?;
    let devices = devices(&args)?;
    let picked = picked(&devices);
    let provenance = provenance::of(devices[picked].backend.as_ref());
    let options = options(&args, devices.len());
    let result = kernels::run(
        &devices,
        picked,
        &options,
        provenance,
        &mut TerminalHost::start(),
    )?;
    args.output.write(&result, &result.document())?;
    if !args.assert || result.slower_picks.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    for slower in &result.slower_picks {
        note!("error: the pick is not the fastest: {slower}");
    }
    Ok(ExitCode::FAILURE)
}

/// The backends to compare, slowest tier first.
fn devices(args: &Args) -> Result<Vec<Device>> {
    let open = |name: String, tier: Option<Tier>| -> Result<Device> {
        let backend = backends::open(BackendOptions {
            name: args.backend,
            tier,
            threads: args.threads.map(usize::from),
            pin: args.pin,
        })?;
        Ok(Device { name, backend })
    };
    match args.backend {
        BackendName::Reference => {
            ensure!(
                args.tiers.is_empty(),
                "--tiers names kernels of --backend cpu, and the backend is reference; leave --tiers out or measure --backend cpu"
            );
            Ok(vec![open("reference".to_owned(), None)?])
        }
        BackendName::Cpu => tiers(args)
            .into_iter()
            .map(|tier| open(tier.to_string(), Some(tier)))
            .collect(),
    }
}

/// Index of the tier that a run without flags takes, or of the fastest listed when that one was not asked for.
fn picked(devices: &[Device]) -> usize {
    let best = detect::CpuFeatures::detect().best_tier();
    let place = devices.iter().position(|device| device.name == best.name());
    place.unwrap_or(devices.len() - 1)
}

/// Tiers that were asked for, slowest first; one that this processor lacks is refused when it is opened.
fn tiers(args: &Args) -> Vec<Tier> {
    let features = detect::CpuFeatures::detect();
    let words: &[TierWord] = match (args.tiers.as_slice(), args.assert) {
        ([], true) => &[TierWord::All],
        ([], false) => &[TierWord::Best],
        (words, _) => words,
    };
    let tiers = words.iter().flat_map(|word| match word {
        TierWord::All => features.tiers(),
        TierWord::Best => vec![features.best_tier()],
        TierWord::One(tier) => vec![*tier],
    });
    ascending(tiers.collect())
}

fn options(args: &Args, devices: usize) -> Options {
    let cache_bytes = detect::last_level_cache_bytes();
    let all_formats = || FORMATS.iter().map(|row| row.format).collect();
    Options {
        operations: or(&args.only, || Operation::ALL.into()),
        formats: or(&args.formats, all_formats),
        rows: ascending(args.rows.clone()),
        shape: args.shape,
        contexts: ascending(args.contexts.clone()),
        kv_dtypes: args.kv_dtypes.clone(),
        activations: args.activations.activations(),
        cold_bytes: args
            .cold_memory
            .map_or_else(|| cold_bytes(cache_bytes, devices), |size| size.0 as usize),
        cache_bytes,
        timing: Timing {
            repeat: usize::from(args.repeat),
            sample_seconds: SAMPLE_SECONDS,
            case_seconds: CASE_SECONDS,
        },
    }
}

/// Twice the largest cache, as far as an eighth of what is free goes round.
fn cold_bytes(cache_bytes: Option<u64>, devices: usize) -> usize {
    let wanted = cache_bytes.map_or(COLD_BYTES, |bytes| bytes.saturating_mul(2));
    let share = detect::available_memory_bytes().map(|free| free / 8 / devices as u64);
    wanted.min(share.unwrap_or(wanted)) as usize
}

fn or<T: Clone>(named: &[T], default: impl FnOnce() -> Vec<T>) -> Vec<T> {
    match named {
        [] => default(),
        named => named.to_vec(),
    }
}

fn parse_format(text: &str) -> Result<Format, String> {
    let mut all = FORMATS.iter();
    let row = all.find(|row| row.name.eq_ignore_ascii_case(text));
    row.map(|row| row.format).ok_or_else(|| {
        let names: Vec<&str> = FORMATS.iter().map(|row| row.name).collect();
        format!("a format is one of {}", names.join(", "))
    })
}

fn parse_kv_dtype(text: &str) -> Result<KvDtype, String> {
    let mut all = KvDtype::ALL.into_iter();
    all.find(|dtype| dtype.name() == text).ok_or_else(|| {
        format!(
            "it is one of {}",
            KvDtype::ALL.map(KvDtype::name).join(", ")
        )
    })
}

/// Most rows of a step that can be asked for, as `--max-step-tokens`.
const ROWS_MAX: u64 = 16384;

fn row_count() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=ROWS_MAX)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> Result<Args, clap::Error> {
        Line::try_parse_from(line.split_whitespace()).map(|line| line.args)
    }

    #[test]
    fn tiers_default_to_the_best_and_to_all_when_they_are_compared() {
        let features = detect::CpuFeatures::detect();
        let best = vec![features.best_tier()];
        for (line, expected) in [
            ("kernels", best.clone()),
            ("kernels --tiers best", best.clone()),
            ("kernels --assert", features.tiers()),
            ("kernels --assert --tiers best", best),
            ("kernels --tiers all", features.tiers()),
            ("kernels --tiers generic,generic", vec![Tier::Generic]),
            (
                "kernels --tiers avx2,generic",
                vec![Tier::Generic, Tier::Avx2],
            ),
        ] {
            assert_eq!(tiers(&parse(line).unwrap()), expected, "{line}");
        }
    }

    #[test]
    fn lists_are_parsed_and_defaults_are_everything() {
        let args = parse("kernels --only linear,add --formats q4_1,BF16 --rows 8,2,8").unwrap();
        let named = options(&args, 1);
        assert_eq!(named.operations, [Operation::Linear, Operation::Add]);
        assert_eq!(named.formats, [Format::Q4_1, Format::BF16]);
        assert_eq!(named.rows, [2, 8]);
        let all = options(&parse("kernels").unwrap(), 1);
        assert_eq!(all.operations, Operation::ALL);
        assert_eq!(all.formats.len(), FORMATS.len());
        assert_eq!(all.rows, [1, 4, 16, 512]);
    }

    #[test]
    fn the_reference_has_no_tiers() {
        let backend = "kernels --backend reference";
        assert_eq!(devices(&parse(backend).unwrap()).unwrap().len(), 1);
        let args = parse(&format!("{backend} --tiers all")).unwrap();
        let error = devices(&args).err().unwrap().to_string();
        assert!(error.contains("--backend cpu"), "{error}");
    }

    #[test]
    fn wrong_words_are_told_the_right_ones() {
        for (line, told) in [
            ("kernels --tiers sse9", "all, best or one of generic"),
            ("kernels --only matmul", "linear, attention"),
            ("kernels --formats Q9", "Q4_1"),
            ("kernels --rows 0", "1..=16384"),
            ("kernels --rows 16385", "1..=16384"),
            ("kernels --contexts 1e3", "invalid digit"),
            ("kernels --contexts 1048577", "1..=1048576"),
            ("kernels --kv-dtypes fp8", "f32, bf16, int8"),
            ("kernels --shape 3x3", "ROWSxCOLS"),
            ("kernels --repeat 0", "1..=1000"),
        ] {
            let error = parse(line).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(error.contains(told), "{line}: {error}");
        }
    }
}
