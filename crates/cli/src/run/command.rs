//! What a person types: a message, or a command behind a slash.

/// A command for people: its words, and what it does.
pub struct Help {
    /// Its name, with the slash.
    pub name: &'static str,
    /// What follows.
    pub takes: &'static str,
    /// What it does.
    pub does: &'static str,
}

/// Every command.
pub const COMMANDS: &[Help] = &[
    help("/help", "", "show this"),
    help(
        "/system",
        "[TEXT]",
        "show the system message, or set it; \"\" removes it",
    ),
    help(
        "/set",
        "[NAME VALUE]",
        "show how answers are sampled, or change it; VALUE default takes it back",
    ),
    help(
        "/save",
        "FILE",
        "write the conversation, as .md or .json; never over another file",
    ),
    help(
        "/load",
        "FILE",
        "go on with a conversation that was saved as .json",
    ),
    help(
        "/clear",
        "",
        "begin a new conversation; the system message and the settings stay",
    ),
    help(
        "/drop",
        "",
        "forget the oldest question and its answer, to make room",
    ),
    help("/quit", "", "end, as ctrl-D does"),
];

const fn help(name: &'static str, takes: &'static str, does: &'static str) -> Help {
    Help { name, takes, does }
}

/// Other names of commands.
const ALIASES: &[(&str, &str)] = &[("/bye", "/quit"), ("/exit", "/quit"), ("/reset", "/clear")];

/// What `/help` says.
pub fn help_text() -> String {
    let line = |command: &Help| {
        let words = format!("{} {}", command.name, command.takes);
        format!("  {words:<19} {}", command.does)
    };
    let commands: Vec<_> = COMMANDS.iter().map(line).collect();
    format!(
        "{}\n\n  Several lines: end a line with \\, or stand them between \"\"\" and \"\"\".\n  \
         A message that begins with a slash: put a space before it.\n  \
         ctrl-C stops an answer, ctrl-D ends, arrows and ctrl-R go through earlier messages, tab completes commands.",
        commands.join("\n")
    )
}

/// What an input asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Line {
    /// Nothing.
    Empty,
    /// A message to the model.
    Say(String),
    /// `/help`.
    Help,
    /// `/system`: show it, or set it.
    System(Option<String>),
    /// `/set`: show all.
    Settings,
    /// `/set NAME`: show one.
    Show(String),
    /// `/set NAME VALUE`.
    Set(String, String),
    /// `/save FILE`.
    Save(String),
    /// `/load FILE`.
    Load(String),
    /// `/clear`.
    Clear,
    /// `/drop`.
    Drop,
    /// `/quit`.
    Quit,
    /// No command; what to say about it.
    Wrong(String),
}

impl Line {
    /// Reads an input, of one line or several.
    pub fn parse(text: &str) -> Self {
        let Some((name, argument)) = command(text) else {
            let text = message(text);
            return match text.trim().is_empty() {
                true => Self::Empty,
                false => Self::Say(text),
            };
        };
        let argument = message(argument);
        let argument = argument.trim();
        let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
        match (alias.map_or(name, |(_, name)| *name), argument) {
            ("/help", "") => Self::Help,
            ("/system", "") => Self::System(None),
            ("/system", "\"\"") => Self::System(Some(String::new())),
            ("/system", text) => Self::System(Some(text.to_owned())),
            ("/set", "") => Self::Settings,
            ("/set", words) => set(words),
            ("/save", file) if !file.is_empty() => Self::Save(file.to_owned()),
            ("/load", file) if !file.is_empty() => Self::Load(file.to_owned()),
            ("/clear", "") => Self::Clear,
            ("/drop", "") => Self::Drop,
            ("/quit", "") => Self::Quit,
            ("/save" | "/load", _) => Self::Wrong(format!("{name} needs the name of a file")),
            (known, _) if COMMANDS.iter().any(|command| command.name == known) => Self::Wrong(
                format!("{name} takes nothing behind it; a space before it makes it a message"),
            ),
            (unknown, _) => Self::Wrong(unknown_command(unknown)),
        }
    }
}

/// The name of a command and what follows it. A path, or a message behind a space, is none.
fn command(text: &str) -> Option<(&str, &str)> {
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (name, argument) = text.split_at(end);
    let letters = name.strip_prefix('/')?;
    let is_name = !letters.is_empty() && letters.bytes().all(|b| b.is_ascii_alphabetic());
    is_name.then_some((name, argument))
}

fn set(words: &str) -> Line {
    match words.split_once(char::is_whitespace) {
        Some((name, value)) => Line::Set(name.to_owned(), value.trim().to_owned()),
        None => Line::Show(words.to_owned()),
    }
}

fn unknown_command(name: &str) -> String {
    let names = COMMANDS.iter().map(|command| command.name);
    match closest(name, names.chain(ALIASES.iter().map(|(alias, _)| *alias))) {
        Some(close) => format!("{name} is no command; did you mean {close}?"),
        None => format!("{name} is no command; /help shows them"),
    }
}

/// The name that was probably meant.
pub fn closest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_ascii_lowercase();
    let scored = names.map(|other| (strsim::jaro_winkler(&name, other), other));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0));
    best.filter(|(score, _)| *score > 0.8)
        .map(|(_, other)| other)
}

/// What stands around a block of several lines.
const QUOTES: &str = "\"\"\"";

/// Whether an input goes on in the next line: after a backslash at its end, or in a block that is not closed.
pub fn is_continued(text: &str) -> bool {
    let body = command(text).map_or(text, |(_, argument)| argument);
    match body.trim_start().strip_prefix(QUOTES) {
        Some(block) => !block.trim_end().ends_with(QUOTES),
        None => text.ends_with('\\'),
    }
}

/// An input without the marks that made it several lines.
fn message(text: &str) -> String {
    let block = text.trim_start().strip_prefix(QUOTES);
    if let Some(block) = block {
        let block = block.trim_end();
        let block = block.strip_suffix(QUOTES).unwrap_or(block);
        return block.trim_matches('\n').to_owned();
    }
    text.replace("\\\n", "\n").trim_end().to_owned()
}

/// Where the word at `position` begins, and what it may become.
pub fn completions(line: &str, position: usize) -> (usize, Vec<String>) {
    let typed = line.get(..position).unwrap_or(line);
    let complete = |word: &str, names: &mut dyn Iterator<Item = &'static str>| {
        let found = names.filter(|name| name.starts_with(word));
        found.map(|name| format!("{name} ")).collect()
    };
    if let Some(word) = typed.strip_prefix("/set ") {
        let mut names = super::settings::SETTINGS.iter().map(|setting| setting.name);
        return (5, complete(word, &mut names));
    }
    let mut names = COMMANDS.iter().map(|command| command.name);
    match typed.starts_with('/') {
        true => (0, complete(typed, &mut names)),
        false => (position, Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_commands_or_messages() {
        let say = |text: &str| Line::Say(text.to_owned());
        let own = str::to_owned;
        for (text, line) in [
            ("", Line::Empty),
            ("  \r\n", Line::Empty),
            ("\"\"\"\n\"\"\"", Line::Empty),
            ("/help", Line::Help),
            ("/quit ", Line::Quit),
            ("/bye", Line::Quit),
            ("/reset", Line::Clear),
            ("/clear", Line::Clear),
            ("/drop", Line::Drop),
            ("/system", Line::System(None)),
            ("/system \"\"", Line::System(Some(own("")))),
            ("/system Be brief.", Line::System(Some(own("Be brief.")))),
            (
                "/system \"\"\"one\ntwo\"\"\"",
                Line::System(Some(own("one\ntwo"))),
            ),
            ("/set", Line::Settings),
            ("/set seed", Line::Show(own("seed"))),
            ("/set  seed   7 ", Line::Set(own("seed"), own("7"))),
            ("/set stop a b", Line::Set(own("stop"), own("a b"))),
            (
                "/save notes of today.md",
                Line::Save(own("notes of today.md")),
            ),
            ("/load x.json", Line::Load(own("x.json"))),
            ("/", say("/")),
            ("/etc/hosts is a file", say("/etc/hosts is a file")),
            (" /help", say(" /help")),
            ("  indented ", say("  indented")),
            ("one\\\ntwo", say("one\ntwo")),
            ("\"\"\"\none\n\n  two\n\"\"\"", say("one\n\n  two")),
            ("\"\"\"one\"\"\"", say("one")),
            ("\"quoted\"", say("\"quoted\"")),
        ] {
            assert_eq!(Line::parse(text), line, "{text:?}");
        }
    }

    #[test]
    fn what_is_no_command_is_said_with_what_helps() {
        for (text, help) in [
            ("/rest", "did you mean /reset?"),
            ("/hlep", "did you mean /help?"),
            ("/HELP", "did you mean /help?"),
            ("/sett x 1", "did you mean /set?"),
            ("/zzz", "/help shows them"),
            ("/save", "needs the name of a file"),
            ("/load  ", "needs the name of a file"),
            ("/clear the table", "takes nothing behind it"),
            ("/bye now", "/bye takes nothing"),
        ] {
            match Line::parse(text) {
                Line::Wrong(said) => assert!(said.contains(help), "{text:?}: {said}"),
                other => panic!("{text:?} is {other:?}"),
            }
        }
    }

    #[test]
    fn an_input_goes_on_until_it_is_closed() {
        for (text, is_open) in [
            ("word", false),
            ("word\\", true),
            ("word\\\nmore", false),
            ("\"\"\"", true),
            ("\"\"\"one\ntwo", true),
            ("\"\"\"one\ntwo\"\"\"", false),
            ("\"\"\"one\\", true),
            ("\"\"\"one\\\"\"\" ", false),
            ("say \"\"\"", false),
            ("/system \"\"\"one", true),
            ("/system \"\"\"one\"\"\"", false),
        ] {
            assert_eq!(is_continued(text), is_open, "{text:?}");
        }
    }

    #[test]
    fn commands_and_settings_are_completed() {
        assert_eq!(completions("/s", 2).1, ["/system ", "/set ", "/save "]);
        assert_eq!(
            completions("/set te", 7),
            (5, vec!["temperature ".to_owned()])
        );
        assert!(completions("hello", 5).1.is_empty());
    }

    #[test]
    fn help_names_every_command() {
        let text = help_text();
        assert!(
            COMMANDS.iter().all(|command| text.contains(command.name)),
            "{text}"
        );
    }
}
