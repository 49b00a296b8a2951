//! `ucuz run`: chat in the terminal, or one answer to a prompt from a flag or from stdin.
//!
//! ```text
//! chat ──► input ──► command ──► settings, conversation, file
//!   └──► answer ──► screen ──► markdown          one answer: answer ──► screen
//! ```
//! Here: the arguments, and which of the two is meant. stdout gets answers and nothing else, people are told the rest on stderr.

mod answer;
mod chat;
mod command;
mod conversation;
mod file;
mod input;
mod interrupt;
mod markdown;
mod screen;
mod settings;

use std::io::{self, IsTerminal, Read};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde_json::json;
use ucuz_llm::{Input, Llm, Message};

use crate::engine_args::{BatchArgs, ModelArgs, PreparedArgs};
use crate::output;
use answer::{Answer, Said};
use conversation::End;
use interrupt::{EXIT_INTERRUPTED, Idle, Interrupt};
use screen::Look;
use settings::Settings;

/// Most bytes read from stdin as a prompt.
const STDIN_BYTES_MAX: u64 = 16 << 20;

/// Arguments of `ucuz run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ucuz run                                       chat with the default model
  ucuz run smollm2 -p \"What is the capital of France?\" --temperature 0
  ucuz run -p \"Summarise this:\" < notes.txt      the prompt, a newline, the text
  git diff | ucuz run -s \"Review this patch.\" > review.md
  ucuz run base-model.gguf --raw -p \"Once upon a time\" --max-tokens 64
  ucuz run -p \"Name a colour.\" --json | jq -r .text

In a chat, /help shows the commands, ctrl-C stops an answer, ctrl-D ends the chat.

Exit codes: 0 done, also when a reader of stdout has enough (head); 1 error; 2 wrong usage; 130 ctrl-C")]
pub struct Args {
    /// A path, an alias, hf:org/repo[/file], or pypi:package [default: smollm2]
    model: Option<String>,
    /// Prompt; with text on stdin, a newline and the text follow it. Without one, a chat starts
    #[arg(short, long)]
    prompt: Option<String>,
    /// System message
    #[arg(short, long, conflicts_with = "raw")]
    system: Option<String>,
    /// Continue the prompt as it is, without the chat template (base models do so by default)
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    settings: Settings,
    /// Print the one answer as JSON when it is whole: text, finish_reason, usage, seed, times
    #[arg(long)]
    json: bool,
    /// Show Markdown as it is written, as when NO_COLOR is set or TERM is dumb
    #[arg(long)]
    plain: bool,
    /// Neither read nor keep what is typed in a chat [default: $XDG_DATA_HOME/ucuz/history]
    #[arg(long)]
    no_history: bool,
    /// Print speed and counts on stderr after each answer
    #[arg(long)]
    stats: bool,
    #[command(flatten)]
    engine: ModelArgs,
    #[command(flatten)]
    prepared: PreparedArgs,
}

impl Args {
    /// How answers look on stdout.
    fn look(&self) -> Look {
        Look::of_stdout(if self.plain {
            Look::Plain
        } else {
            Look::Styled
        })
    }
}

/// Runs the chat or the one answer.
///
/// # Errors
/// The model cannot be brought or loaded, or a request breaks a rule.
pub fn run(args: Args) -> Result<ExitCode> {
    let stdin = io::stdin();
    let piped = if stdin.is_terminal() {
        None
    } else {
        Some(read_all(stdin.lock())?)
    };
    let one_shot = one_shot_prompt(&args, piped)?;
    let resolved = args.engine.resolve(args.model.as_deref())?;
    let name = resolved.alias.map_or_else(
        || resolved.display_name.clone(),
        |alias| alias.name.to_owned(),
    );
    let (path, prepared) = (&resolved.path, args.prepared);
    let llm = args
        .engine
        .open(path, &name, BatchArgs::ALONE, prepared)?
        .load()?;
    match one_shot {
        Some(prompt) => one_answer(&args, &llm, prompt),
        None => chat::chat(&args, &llm).map(|()| ExitCode::SUCCESS),
    }
}

/// Everything that is piped in.
fn read_all(stdin: impl Read) -> Result<String> {
    let mut text = String::new();
    stdin
        .take(STDIN_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .context("cannot read stdin as UTF-8 text")?;
    if text.len() as u64 > STDIN_BYTES_MAX {
        bail!("stdin holds more than {STDIN_BYTES_MAX} bytes; give a shorter text");
    }
    Ok(text)
}

/// The prompt from the flag and from what is piped in; `None` when a chat is meant. Checked before any model is loaded.
fn one_shot_prompt(args: &Args, piped: Option<String>) -> Result<Option<String>> {
    let terminal = piped.is_none();
    let piped = piped.filter(|text| !text.trim().is_empty());
    let prompt = match (args.prompt.clone(), piped) {
        (Some(prompt), Some(text)) => Some(format!("{prompt}\n{text}")),
        (prompt, text) => prompt.or(text),
    };
    match &prompt {
        Some(text) if text.is_empty() => bail!("the prompt is empty; write something after -p"),
        Some(_) => {}
        None if !terminal => bail!("no prompt: stdin is empty and there is no -p PROMPT"),
        None if args.json => {
            bail!("--json prints one answer, and there is no prompt; give one with -p")
        }
        None if args.raw => bail!("--raw continues a prompt, and there is none; give one with -p"),
        None => {}
    }
    Ok(prompt)
}

/// One answer on stdout.
fn one_answer(args: &Args, llm: &Llm, prompt: String) -> Result<ExitCode> {
    let look = match args.json {
        true => Look::Hidden,
        false => args.look(),
    };
    // On a terminal a stopped answer leaves no style behind; into a pipe nothing needs to be put in order.
    let interrupt = match look {
        Look::Plain | Look::Styled => Interrupt::watch(Idle::Ends)?,
        Look::Hidden | Look::Exact => Interrupt::never(),
    };
    interrupt.begin();
    let answer = Answer::start(llm, &args.settings, one_input(args, llm, prompt)?)?;
    let said = answer.write(&interrupt, look)?;
    match args.json {
        true => output::print(&format!("{:#}\n", as_json(&said, &llm.info().name)))?,
        false => output::print("\n")?,
    }
    if let Some(taken) = said.taken.as_ref().filter(|_| args.stats) {
        note!("{}", taken.in_words());
    }
    Ok(match said.end {
        End::Interrupted => ExitCode::from(EXIT_INTERRUPTED),
        End::Stop | End::Length => ExitCode::SUCCESS,
    })
}

fn one_input(args: &Args, llm: &Llm, prompt: String) -> Result<Input> {
    let raw = args.raw || !llm.info().has_template;
    if raw && args.system.is_some() {
        bail!(
            "--system needs a chat template, and this model has none; put the text into the prompt"
        );
    }
    if raw {
        return Ok(Input::Text(prompt));
    }
    let system = args.system.iter();
    let mut messages: Vec<_> = system.map(|text| Message::new("system", text)).collect();
    messages.push(Message::new("user", &prompt));
    Ok(Input::Chat(messages))
}

/// An answer for programs. The keys are stable.
fn as_json(said: &Said, model: &str) -> serde_json::Value {
    let mut answer = json!({ "model": model, "text": said.text, "finish_reason": said.end });
    if !said.thoughts.is_empty() {
        answer["thoughts"] = json!(said.thoughts);
    }
    if let Some(taken) = &said.taken {
        answer["seed"] = json!(taken.seed);
        answer["usage"] = json!({
            "prompt_tokens": taken.usage.prompt_tokens,
            "completion_tokens": taken.usage.completion_tokens,
        });
        answer["first_token_ms"] = json!(taken.first.as_millis() as u64);
        answer["total_ms"] = json!(taken.total.as_millis() as u64);
    }
    answer
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn parse(flags: &[&str]) -> Result<Args, clap::Error> {
        let words = ["run"].iter().chain(flags);
        Command::try_parse_from(words).map(|command| command.args)
    }

    #[test]
    fn values_out_of_range_are_refused_before_anything_is_loaded() {
        for (flags, rule) in [
            (["-t", "3"], "between 0 and 2"),
            (["-t", "-1"], "between 0 and 2"),
            (["-t", "nan"], "between 0 and 2"),
            (["-t", "warm"], "between 0 and 2"),
            (["--top-p", "0"], "above 0 and at most 1"),
            (["--top-p", "1.1"], "above 0 and at most 1"),
            (["--top-k", "-1"], "--top-k"),
            (["-n", "0"], "--max-tokens"),
            (["-n", "-5"], "--max-tokens"),
            (["--seed", "-1"], "--seed"),
            (["--min-p", "1.5"], "between 0 and 1"),
            (["--repetition-penalty", "0"], "above 0 and at most 100"),
            (["--presence-penalty", "-3"], "between -2 and 2"),
            (["--frequency-penalty", "3"], "between -2 and 2"),
            (["--stop", ""], "1 to 256 bytes"),
            (["--context", "1"], "--context"),
            (["--max-sequences", "4"], "--max-sequences"),
            (["--max-waiting", "4"], "--max-waiting"),
        ] {
            let error = parse(&flags).expect_err(flags[0]);
            assert_eq!(error.exit_code(), 2, "{flags:?}");
            assert!(error.to_string().contains(rule), "{flags:?}: {error}");
        }
        let both = parse(&["--raw", "-s", "Be brief.", "-p", "x"]);
        assert!(both.is_err(), "--system is for the chat template");
        for flags in [
            ["-t", "0"],
            ["-t", "2"],
            ["--top-p", "1"],
            ["-n", "1"],
            ["--context", "2"],
        ] {
            assert!(parse(&flags).is_ok(), "{flags:?}");
        }
    }

    #[test]
    fn the_prompt_comes_from_the_flag_and_from_stdin() {
        let prompt = |flags: &[&str], piped: Option<&str>| {
            let args = parse(flags).expect("good flags");
            one_shot_prompt(&args, piped.map(str::to_owned)).map_err(|error| error.to_string())
        };
        let some = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(prompt(&[], None), Ok(None));
        assert_eq!(prompt(&["-p", "a"], None), some("a"));
        assert_eq!(prompt(&["-p", "a"], Some(" \n")), some("a"));
        assert_eq!(prompt(&["-p", "a"], Some("b")), some("a\nb"));
        assert_eq!(prompt(&[], Some("b\n")), some("b\n"));
        for (flags, piped, rule) in [
            (&[][..], Some("\n"), "stdin is empty"),
            (&["-p", ""], None, "the prompt is empty"),
            (&["--raw"], None, "--raw"),
            (&["--json"], None, "--json"),
        ] {
            let error = prompt(flags, piped).expect_err("no prompt");
            assert!(error.contains(rule), "{error}");
        }
    }

    #[test]
    fn stdin_is_text_and_not_endless() {
        assert_eq!(read_all(&b"abc"[..]).expect("text"), "abc");
        let error = read_all(&b"\xff"[..]).expect_err("no text");
        assert!(format!("{error:#}").contains("UTF-8"), "{error:#}");
        let error = read_all(io::repeat(b'x')).expect_err("too long");
        assert!(error.to_string().contains("bytes"), "{error}");
    }
}
