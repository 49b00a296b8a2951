//! `ucuz bench serve`: load on a server that is already running.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Map, Value};
use ucuz_measure::load::{
    self, Api, Arrivals, End, Header, LoadPlan, LoadReport, LoadResult, RequestShape, Target,
};

use super::host::TerminalHost;
use super::output::OutputArgs;
use super::provenance;

/// Holds a key where no file is named.
const KEY_VARIABLE: &str = "UCUZ_API_KEY";
/// Requests of a run unless told otherwise.
const REQUESTS: usize = 50;

/// Arguments of `ucuz bench serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ucuz bench serve http://127.0.0.1:8000 --concurrency 8 --requests 64
  ucuz bench serve http://127.0.0.1:8000 --poisson 2 --duration 600 --prompt-tokens 1024 --shared-tokens 50 \\
    --output-tokens 128 --records records.jsonl --html load.html
  ucuz bench serve http://127.0.0.1:8000 --burst 32:10 --requests 128 --disconnect 0.2 \\
    --probe /health --probe /metrics --pid $(pidof ucuz) --settle 60

Latencies count from when a request was due. Requests that fail are a result: what speaks against the figures is
printed first, and the exit code stays 0.

Exit codes: 0 done, 1 error, 2 wrong usage")]
pub struct Args {
    /// Address of the server, as http://host:port
    url: String,
    #[command(flatten)]
    pace: PaceArgs,
    #[command(flatten)]
    shape: ShapeArgs,
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    look: LookArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// How requests arrive, and when they end.
#[derive(Debug, clap::Args)]
struct PaceArgs {
    /// Closed loop: requests under way at all times [default: 1]
    #[arg(long, value_name = "N", group = "arrivals")]
    concurrency: Option<usize>,
    /// Open loop: requests a second in the mean, at random
    #[arg(long, value_name = "RATE", group = "arrivals")]
    poisson: Option<f64>,
    /// Open loop: requests a second, in equal gaps
    #[arg(long, value_name = "RATE", group = "arrivals")]
    constant: Option<f64>,
    /// Open loop: N requests at once, every so many seconds
    #[arg(long, value_name = "N:SECONDS", group = "arrivals", value_parser = pair::<usize, f64>)]
    burst: Option<(usize, f64)>,
    /// End after that many requests [default: 50]
    #[arg(long, value_name = "N", conflicts_with = "duration")]
    requests: Option<usize>,
    /// Send no more after that many seconds
    #[arg(long, value_name = "SECONDS")]
    duration: Option<f64>,
    /// Requests one after the other before the run, which do not count
    #[arg(long, value_name = "N", default_value_t = 1)]
    warm_up: usize,
    /// Most requests of an open loop at once; one that finds no place is late by the client's fault
    #[arg(long, value_name = "N", default_value_t = 512)]
    max_in_flight: usize,
    /// Decides arrivals, prompts and hang-ups
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// What requests look like.
#[derive(Debug, clap::Args)]
struct ShapeArgs {
    /// Model to ask for [default: the first that /v1/models lists]
    #[arg(long, value_name = "ID")]
    model: Option<String>,
    /// Ask /v1/chat/completions with common words instead of /v1/completions with token ids
    #[arg(long)]
    chat: bool,
    /// Tokens of a prompt
    #[arg(long, value_name = "TOKENS", default_value_t = 256)]
    prompt_tokens: usize,
    /// The first of them that are the same in all requests
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
    shared_tokens: usize,
    /// Tokens to generate; ignore_eos makes it exactly as many
    #[arg(long, value_name = "TOKENS", default_value_t = 64)]
    output_tokens: usize,
    /// JSON with {"output_lengths": [...]}, taken in turn
    #[arg(long, value_name = "FILE", conflicts_with = "output_tokens")]
    output_lengths: Option<PathBuf>,
    /// Token ids of prompts, from LO up to and without HI [default: 1000:20000, within the vocabulary if the server tells it]
    #[arg(long, value_name = "LO:HI", value_parser = pair::<u32, u32>)]
    ids: Option<(u32, u32)>,
    /// Further fields of each request as a JSON object; they win over those set here
    #[arg(long, value_name = "JSON", value_parser = object)]
    extra: Option<Map<String, Value>>,
    /// Share of requests that the client gives up: before the headers, during prefill, or while the answer comes
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    disconnect: f64,
}

/// Who asks.
#[derive(Debug, clap::Args)]
struct ClientArgs {
    /// File of keys, one "NAME KEY" a line, taken in turn; they are never printed [default: UCUZ_API_KEY, else none]
    #[arg(long, value_name = "FILE")]
    api_keys: Option<PathBuf>,
    /// A header of each request; can be given several times
    #[arg(long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// Seconds that a request may take
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,
}

/// What is looked at meanwhile.
#[derive(Debug, clap::Args)]
struct LookArgs {
    /// A page to ask for every 100 ms meanwhile, e.g. /health; can be given several times
    #[arg(long = "probe", value_name = "PATH")]
    probes: Vec<String>,
    /// A process on this machine whose resident memory is followed: the server
    #[arg(long)]
    pid: Option<u32>,
    /// Seconds after which that memory should not grow any more
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    settle: f64,
    /// Write a line of JSON a request to FILE; times are seconds since the start
    #[arg(long, value_name = "FILE")]
    records: Option<PathBuf>,
}

/// What `--output-lengths` names; other keys are the file's own business.
#[derive(Deserialize)]
struct Lengths {
    output_lengths: Vec<usize>,
}

/// Puts the load on the server and prints what came of it.
///
/// # Errors
/// Flags that do not fit each other, files that cannot be read or written, a server that is not there.
pub fn run(args: &Args) -> Result<ExitCode> {
    args.output.check()?;
    let plan = plan(args)?;
    plan.check()?;
    // Before the run: a file that cannot be written should not cost one.
    let records = args.look.records.as_deref().map(create).transpose()?;
    let result = load::run(&plan, &mut TerminalHost::start())?;
    if let Some((file, path)) = records {
        write(file, path, &result)?;
    }
    let report = LoadReport::new(provenance::of_client(), &result);
    args.output
        .write(&report, &report.document(&result.records))?;
    Ok(ExitCode::SUCCESS)
}

fn plan(args: &Args) -> Result<LoadPlan> {
    let (pace, client, look) = (&args.pace, &args.client, &args.look);
    let headers = client.headers.iter().map(|text| Header::parse(text));
    Ok(LoadPlan {
        target: Target::parse(&args.url)?,
        model: args.shape.model.clone(),
        headers: headers.collect::<Result<_>>()?,
        keys: keys(client.api_keys.as_deref())?,
        shape: shape(&args.shape)?,
        arrivals: arrivals(pace),
        end: match pace.duration {
            Some(seconds) => End::Seconds(seconds),
            None => End::Requests(pace.requests.unwrap_or(REQUESTS)),
        },
        warm_up: pace.warm_up,
        seed: pace.seed,
        timeout: Duration::from_secs(client.timeout),
        in_flight_max: pace.max_in_flight,
        probes: look.probes.clone(),
        pid: look.pid,
        settle_s: look.settle,
    })
}

fn arrivals(pace: &PaceArgs) -> Arrivals {
    match (pace.poisson, pace.constant, pace.burst) {
        (Some(rate), _, _) => Arrivals::Poisson { rate },
        (_, Some(rate), _) => Arrivals::Constant { rate },
        (_, _, Some((size, every_s))) => Arrivals::Bursts { size, every_s },
        _ => Arrivals::Closed {
            workers: pace.concurrency.unwrap_or(1),
        },
    }
}

fn shape(args: &ShapeArgs) -> Result<RequestShape> {
    let output_tokens = match &args.output_lengths {
        None => vec![args.output_tokens],
        Some(path) => {
            let lengths: Lengths = serde_json::from_str(&read(path)?).with_context(|| {
                format!("{} is no JSON with a list output_lengths", path.display())
            })?;
            lengths.output_lengths
        }
    };
    Ok(RequestShape {
        api: if args.chat {
            Api::Chat
        } else {
            Api::Completions
        },
        prompt_tokens: args.prompt_tokens,
        shared_tokens: args.shared_tokens,
        output_tokens,
        ids: args.ids,
        disconnect_share: args.disconnect,
        extra: args.extra.clone().unwrap_or_default(),
    })
}

/// Keys of a file, or the one of the environment.
fn keys(file: Option<&Path>) -> Result<Vec<Header>> {
    let text = match file {
        Some(path) => read(path)?,
        None => std::env::var(KEY_VARIABLE).unwrap_or_default(),
    };
    // As `serve --api-keys` reads it; a name is for people.
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    let keys = lines.filter_map(|line| line.split_whitespace().last());
    let keys = keys.map(Header::bearer).collect::<Result<Vec<_>>>()?;
    if let Some(path) = file {
        ensure!(
            !keys.is_empty(),
            "{} holds no key; write one a line",
            path.display()
        );
    }
    Ok(keys)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn create(path: &Path) -> Result<(File, &Path)> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok((file, path))
}

fn write(file: File, path: &Path, result: &LoadResult) -> Result<()> {
    load::write_records(&mut BufWriter::new(file), &result.records)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Parses `A:B`.
fn pair<A: std::str::FromStr, B: std::str::FromStr>(text: &str) -> Result<(A, B), String> {
    let parts = text.split_once(':');
    let pair = parts.and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)));
    pair.ok_or_else(|| "write two numbers with a colon between them".to_owned())
}

/// Parses a JSON object.
fn object(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text)
        .map_err(|error| format!("write a JSON object, e.g. '{{\"priority\": 1}}': {error}"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn planned(flags: &[&str]) -> Result<LoadPlan, String> {
        let words = ["serve", "http://h:1"].iter().chain(flags);
        let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
        let plan = plan(&cli.args).map_err(|error| error.to_string())?;
        plan.check().map_err(|error| error.to_string())?;
        Ok(plan)
    }

    #[test]
    fn flags_become_a_plan() {
        let plan = planned(&[]).unwrap();
        assert_eq!(plan.arrivals, Arrivals::Closed { workers: 1 });
        assert_eq!(plan.end, End::Requests(REQUESTS));
        for (flags, arrivals) in [
            (["--concurrency", "4"], Arrivals::Closed { workers: 4 }),
            (["--poisson", "0.5"], Arrivals::Poisson { rate: 0.5 }),
            (["--constant", "2"], Arrivals::Constant { rate: 2.0 }),
            (
                ["--burst", "8:0.5"],
                Arrivals::Bursts {
                    size: 8,
                    every_s: 0.5,
                },
            ),
        ] {
            assert_eq!(planned(&flags).unwrap().arrivals, arrivals);
        }
        let plan = planned(&["--duration", "3", "--ids", "5:9", "--extra", "{\"n\": 1}"]).unwrap();
        assert_eq!(
            (plan.end, plan.shape.ids),
            (End::Seconds(3.0), Some((5, 9)))
        );
        assert_eq!(plan.shape.extra["n"], 1);
    }

    #[test]
    fn flags_that_make_no_sense_are_refused() {
        for (flags, told) in [
            (&["--poisson", "0"][..], "above 0"),
            (
                &["--poisson", "1", "--constant", "1"],
                "cannot be used with",
            ),
            (
                &["--requests", "1", "--duration", "1"],
                "cannot be used with",
            ),
            (&["--requests", "0"], "a run has 1 to"),
            (&["--burst", "3"], "colon"),
            (&["--ids", "9:9"], "lower end first"),
            (&["--shared-tokens", "300"], "do not fit"),
            (&["--disconnect", "1.5"], "from 0 to 1"),
            (&["--extra", "[1]"], "JSON object"),
            (&["--header", "x"], "no colon"),
            (&["--probe", "health"], "slash first"),
            (&["--api-keys", "/none/x"], "cannot read"),
        ] {
            let error = planned(flags).unwrap_err();
            assert!(error.contains(told), "{flags:?}: {error}");
        }
    }

    #[test]
    fn keys_and_lengths_come_from_files() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let keys = file("keys", "# two\nalice one\n\n two \n");
        let lengths = file("lengths", "{\"output_lengths\": [3, 5], \"of\": \"x\"}");
        let plan = planned(&["--api-keys", &keys, "--output-lengths", &lengths]).unwrap();
        assert_eq!(plan.keys.len(), 2);
        assert_eq!(plan.shape.output_tokens, [3, 5]);
        let empty = file("empty", "\n");
        assert!(
            planned(&["--api-keys", &empty])
                .unwrap_err()
                .contains("holds no key")
        );
        assert!(
            planned(&["--output-lengths", &empty])
                .unwrap_err()
                .contains("output_lengths")
        );
    }
}
