//! A server whose model says what the prompt tells it to, one step at a time if a test wants so.

use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use ucuz_engine::sim::{SimControl, SimOptions, SimRunner};
use ucuz_engine::{Engine, EngineConfig, SystemClock};
use ucuz_formats::config::GenerationDefaults;
use ucuz_llm::{Llm, LlmParts, ModelInfo, Stats};
use ucuz_serve::{Ending, ServeOptions, Server, Socket};
use ucuz_tensor::KvDtype;
use ucuz_tensor::backend::Exactness;
use ucuz_text::{ChatTemplate, SpecialIds, TemplateTokens, Tokenizer, VocabSpec};

use crate::client::{ask, get};

/// Ids 0 to 255 are the bytes.
const IM_START: u32 = 256;
const IM_END: u32 = 257;
const VOCAB: usize = 258;
pub const CONTEXT: usize = 2000;
pub const BLOCKS: usize = 256;
/// Seconds since 1970 on the server's clock.
pub const NOW: u64 = 1_700_000_000;

const TEMPLATE: &str = "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/// How a test server differs from the default.
#[derive(Clone)]
pub struct Setup {
    /// Requests that run at once.
    pub sequences: usize,
    /// Requests that may wait.
    pub waiting: usize,
    /// Tokens a step.
    pub step_rows: usize,
    /// Tokens of a prompt and its answer.
    pub context: usize,
    /// Whether steps wait for [`Gate::allow`].
    pub gated: bool,
    pub template: &'static str,
    /// Bytes that no token spells.
    pub missing: &'static [u8],
    pub options: ServeOptions,
}

impl Default for Setup {
    fn default() -> Self {
        let mut options = ServeOptions::new("sim", 7);
        options.clock = || SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
        Self {
            sequences: 8,
            waiting: 32,
            step_rows: 64,
            context: CONTEXT,
            gated: false,
            template: TEMPLATE,
            missing: &[],
            options,
        }
    }
}

/// Steps that the engine may run.
#[derive(Clone, Default)]
pub struct Gate {
    inner: Arc<(Mutex<u64>, Condvar)>,
}

impl Gate {
    pub fn allow(&self, steps: u64) {
        let (left, changed) = &*self.inner;
        let mut left = left.lock().unwrap();
        *left = left.saturating_add(steps);
        changed.notify_all();
    }

    pub fn open(&self) {
        self.allow(u64::MAX / 2);
    }

    fn pass(&self) {
        let (left, changed) = &*self.inner;
        let mut left = changed
            .wait_while(left.lock().unwrap(), |left| *left == 0)
            .unwrap();
        *left -= 1;
    }
}

/// A running server.
pub struct Fixture {
    pub address: SocketAddr,
    pub gate: Gate,
    pub control: SimControl,
    pub llm: Arc<Llm>,
    stop: Option<oneshot::Sender<()>>,
    cancel: Option<oneshot::Sender<()>>,
    running: JoinHandle<Ending>,
}

impl Fixture {
    pub async fn start(setup: Setup) -> Self {
        let gate = Gate::default();
        let (llm, control) = llm(&setup, &gate);
        let llm = Arc::new(llm);
        let socket = Socket::bind("127.0.0.1", 0).unwrap();
        let server = Server::new(Arc::clone(&llm), setup.options, socket).unwrap();
        let address = server.address();
        let (stop, stopped) = oneshot::channel();
        let (cancel, cancelled) = oneshot::channel();
        let running = tokio::spawn(server.run(
            async {
                let _ = stopped.await;
            },
            async {
                let _ = cancelled.await;
            },
        ));
        Self {
            address,
            gate,
            control,
            llm,
            stop: Some(stop),
            cancel: Some(cancel),
            running,
        }
    }

    /// Waits until the engine's numbers are so; fails after ten seconds.
    pub async fn until(&self, what: &str, holds: impl Fn(&Stats) -> bool) {
        let began = Instant::now();
        while !holds(&self.llm.stats()) {
            let stats = self.llm.stats();
            assert!(
                began.elapsed() < Duration::from_secs(10),
                "never {what}: {stats:?}"
            );
            tokio::task::yield_now().await;
        }
    }

    /// The same behind a gate: lets one step pass at a time. A round trip in between gives the
    /// server its turn.
    pub async fn step_until(&self, what: &str, holds: impl Fn(&Stats) -> bool) {
        let began = Instant::now();
        while !holds(&self.llm.stats()) {
            let stats = self.llm.stats();
            assert!(
                began.elapsed() < Duration::from_secs(10),
                "never {what}: {stats:?}"
            );
            self.gate.allow(1);
            ask(self.address, &get("/live")).await;
        }
    }

    /// Waits until nothing is held any more.
    pub async fn until_empty(&self) {
        self.until("empty", is_empty).await;
    }

    /// The same behind a gate.
    pub async fn step_until_empty(&self) {
        self.step_until("empty", is_empty).await;
    }

    /// Tells the server to stop.
    pub fn begin_stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }

    /// Tells a stopping server to wait no longer.
    pub fn cancel(&mut self) {
        if let Some(cancel) = self.cancel.take() {
            let _ = cancel.send(());
        }
    }

    /// Waits until it has stopped, and why it did.
    pub async fn stopped(self) -> Ending {
        // Dropped, it would cancel.
        let _cancel = self.cancel;
        self.running.await.unwrap()
    }
}

/// Whether the engine holds nothing: all blocks free, all byte counters at zero.
fn is_empty(stats: &Stats) -> bool {
    let is_idle = stats.running == 0 && stats.waiting == 0;
    let is_free = stats.groups[0].free == BLOCKS;
    is_idle && is_free && stats.kv_bytes_used == 0 && stats.token_bytes == 0
}

fn llm(setup: &Setup, gate: &Gate) -> (Llm, SimControl) {
    let tokenizer = Arc::new(tokenizer(setup.missing));
    let mut options = SimOptions::new(setup.step_rows, setup.sequences, setup.context, BLOCKS);
    options.limits.vocab = VOCAB;
    options.reply = Some(Arc::new(next_token));
    if setup.gated {
        let gate = gate.clone();
        options.pace = Some(Box::new(move |_| gate.pass()));
    }
    let (runner, control) = SimRunner::new(options);
    let config = EngineConfig {
        prefix_key: Some([3; 16]),
        ..EngineConfig::plain(setup.waiting)
    };
    let handle = Engine::spawn(Box::new(runner), config, Arc::new(SystemClock::start())).unwrap();
    let tokens = TemplateTokens::new(Arc::clone(&tokenizer));
    let template = Some(ChatTemplate::new(Some(setup.template), &tokens).unwrap());
    (
        Llm::from_parts(LlmParts {
            tokenizer,
            template,
            handle,
            info: info(setup.context),
        }),
        control,
    )
}

fn info(context: usize) -> ModelInfo {
    let defaults = GenerationDefaults {
        temperature: Some(0.0),
        top_k: Some(40),
        ..Default::default()
    };
    ModelInfo {
        name: "simulated".to_owned(),
        architecture: "sim".to_owned(),
        parameters: 1000,
        bits_per_weight: 4.5,
        file_bytes: 563,
        weight_bytes: 600,
        context,
        trained_context: context,
        vocab: VOCAB,
        kv_dtype: KvDtype::Bf16,
        kv_bytes_per_token: 16,
        kv_pool_bytes: 16 * 32 * BLOCKS,
        exactness: Exactness {
            rows: true,
            chunks: true,
            resume: true,
            tiers: true,
        },
        defaults,
        has_template: true,
        fingerprint: "fp".to_owned(),
    }
}

/// One token a byte, by GPT-2's table of printable stand-ins; the tokens of missing ones spell something else.
fn tokenizer(missing: &[u8]) -> Tokenizer {
    let is_printable = |byte: u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let mut stand_in = 256;
    let mut texts = Vec::new();
    for byte in 0u32..256 {
        let point = if is_printable(byte) {
            byte
        } else {
            stand_in += 1;
            stand_in - 1
        };
        let text = char::from_u32(point).unwrap().to_string();
        texts.push(match missing.contains(&(byte as u8)) {
            true => format!("unused{byte}"),
            false => text,
        });
    }
    texts.extend(["<|im_start|>".to_owned(), "<|im_end|>".to_owned()]);
    let types = (0..VOCAB).map(|id| if id < 256 { 1 } else { 3 }).collect();
    Tokenizer::from_vocab(&VocabSpec {
        model: "gpt2",
        pre: Some("gpt-2"),
        tokens: texts.iter().map(String::as_bytes).collect(),
        token_types: Some(types),
        merges: Some(Vec::new()),
        ids: SpecialIds {
            eos: Some(IM_END),
            ..SpecialIds::default()
        },
        add_bos: Some(false),
        ..VocabSpec::default()
    })
    .unwrap()
}

/// The model: after a prompt that holds `say:TEXT|` it says TEXT and ends; after `say:TEXT*|` it
/// says TEXT for ever. Anything else is left to chance.
fn next_token(history: &[u32]) -> Option<u32> {
    let say: Vec<u32> = b"say:".iter().map(|byte| u32::from(*byte)).collect();
    let start = history.windows(4).position(|window| window == say)? + 4;
    let length = history[start..]
        .iter()
        .position(|id| *id == u32::from(b'|'))?;
    let text = &history[start..start + length];
    let bar = start + length + 1;
    let answer = match history[bar..].iter().rposition(|id| *id == IM_START) {
        Some(place) => bar + place + 1 + "assistant\n".len(),
        None => bar,
    };
    let said = history.len().checked_sub(answer)?;
    match text.split_last() {
        Some((last, endless)) if *last == u32::from(b'*') => Some(endless[said % endless.len()]),
        _ => Some(text.get(said).copied().unwrap_or(IM_END)),
    }
}
