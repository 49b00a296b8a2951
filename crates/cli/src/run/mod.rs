//! `ucuz run`: chat in the terminal, or one answer to a prompt from a flag or from stdin.
//!
//! Here: the arguments, and which of the two is meant. [`chat`] talks, [`answer`] runs one request, [`interrupt`] watches for Ctrl-C.

mod answer;
mod chat;
mod interrupt;

use std::io::{self, IsTerminal, Read};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use ucuz_llm::{Input, Llm, Message};

use crate::engine_args::{BatchArgs, ModelArgs, PreparedArgs};
use answer::Answer;
use interrupt::Interrupt;

/// Most bytes read from stdin as a prompt.
const STDIN_BYTES_MAX: u64 = 16 << 20;

/// Arguments of `ucuz run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ucuz run
  ucuz run smollm2 -p \"What is the capital of France?\" --temperature 0
  cat notes.txt | ucuz run -p \"Summarise this:\"
  ucuz run base-model.gguf --raw -p \"Once upon a time\" --max-tokens 64

In a chat, ctrl-C stops an answer, ctrl-D or /bye ends the chat, /reset forgets it, /drop forgets its oldest question")]
pub struct Args {
    /// A path, an alias, hf:org/repo[/file], or pypi:package [default: smollm2]
    model: Option<String>,
    /// Prompt; with text on stdin, the text follows it. Without one, a chat starts
    #[arg(short, long)]
    prompt: Option<String>,
    /// System message
    #[arg(short, long, conflicts_with = "raw")]
    system: Option<String>,
    /// Continue the prompt as it is, without the chat template (base models do so by default)
    #[arg(long)]
    raw: bool,
    /// Most tokens of an answer [default: what the context leaves]
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    max_tokens: Option<u32>,
    /// 0 always takes the likeliest token, 2 is the most [default: the model's own, else 1]
    #[arg(short, long, value_parser = parse_temperature, allow_negative_numbers = true)]
    temperature: Option<f32>,
    /// Keep the K likeliest tokens; 0 keeps all
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    top_k: Option<u32>,
    /// Keep the smallest set of tokens with this much probability, above 0 and at most 1
    #[arg(long, value_parser = parse_top_p, allow_negative_numbers = true)]
    top_p: Option<f32>,
    /// Seed of the sampling noise [default: drawn from the clock]
    #[arg(long, allow_negative_numbers = true)]
    seed: Option<u64>,
    /// Print speed and counts on stderr after each answer
    #[arg(long)]
    stats: bool,
    #[command(flatten)]
    engine: ModelArgs,
    #[command(flatten)]
    prepared: PreparedArgs,
}

fn parse_temperature(text: &str) -> Result<f32, String> {
    number(
        text,
        |value| (0.0..=2.0).contains(&value),
        "between 0 and 2",
    )
}

fn parse_top_p(text: &str) -> Result<f32, String> {
    number(text, |p| p > 0.0 && p <= 1.0, "above 0 and at most 1")
}

fn number(text: &str, holds: fn(f32) -> bool, rule: &str) -> Result<f32, String> {
    let value = text.parse::<f32>().ok().filter(|value| holds(*value));
    value.ok_or_else(|| format!("it must be a number {rule}"))
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
        Some(prompt) => one_answer(&args, &llm, prompt)?,
        None => chat::chat(&args, &llm)?,
    }
    Ok(ExitCode::SUCCESS)
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
        None if args.raw => bail!("--raw continues a prompt, and there is none; give one with -p"),
        None => {}
    }
    Ok(prompt)
}

fn one_answer(args: &Args, llm: &Llm, prompt: String) -> Result<()> {
    let raw = args.raw || !llm.info().has_template;
    if raw && args.system.is_some() {
        bail!(
            "--system needs a chat template, and this model has none; put the text into the prompt"
        );
    }
    let input = if raw {
        Input::Text(prompt)
    } else {
        let mut messages = system_message(args);
        messages.push(Message::new("user", &prompt));
        Input::Chat(messages)
    };
    Answer::start(args, llm, input)?.print(&Interrupt::never())?;
    println!();
    Ok(())
}

fn system_message(args: &Args) -> Vec<Message> {
    args.system
        .iter()
        .map(|text| Message::new("system", text))
        .collect()
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
