//! What a person types: edited lines with a history on a terminal, plain lines where it can do no more.

use std::env;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use rustyline::completion::Completer;
use rustyline::config::{Behavior, BellStyle};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use super::command;
use super::screen::is_dumb;

/// Inputs that the history keeps, the newest.
const HISTORY_ENTRIES_MAX: usize = 1000;
/// Most bytes of an input that the history keeps; a longer one is pasted again when it is needed.
const HISTORY_ENTRY_BYTES_MAX: usize = 4096;
/// Most bytes of a line that is not edited.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// In front of what is typed.
const PROMPT: &str = "> ";

/// What came from a person.
#[derive(Debug, PartialEq, Eq)]
pub enum Entry {
    /// An input, of one line or several.
    Text(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D.
    End,
}

/// Where inputs come from.
pub enum Source {
    /// A terminal whose lines are edited here.
    Editor(Box<Editor<Assistant, FileHistory>>, Option<PathBuf>),
    /// Lines as they come.
    Lines,
}

impl Source {
    /// Inputs of the terminal; `history` is the file that keeps them.
    pub fn open(history: Option<PathBuf>) -> Self {
        if is_dumb() {
            return Self::Lines;
        }
        match editor() {
            Err(error) => {
                note!("(lines cannot be edited: {error})");
                Self::Lines
            }
            Ok(mut editor) => {
                let history = history.filter(|file| load(&mut editor, file));
                Self::Editor(Box::new(editor), history)
            }
        }
    }

    /// Asks for the next input.
    ///
    /// # Errors
    /// A terminal that is gone.
    pub fn next(&mut self) -> Result<Entry> {
        match self {
            Self::Lines => Ok(lines(&mut io::stdin().lock())?),
            Self::Editor(editor, history) => match editor.readline(PROMPT) {
                Ok(text) => {
                    remember(editor, history, &text);
                    Ok(Entry::Text(text))
                }
                Err(ReadlineError::Interrupted) => Ok(Entry::Interrupted),
                Err(ReadlineError::Eof) => Ok(Entry::End),
                Err(error) => Err(error.into()),
            },
        }
    }
}

/// An editor on the terminal, on stdout unless that goes elsewhere.
fn editor() -> rustyline::Result<Editor<Assistant, FileHistory>> {
    let behavior = match io::stdout().is_terminal() {
        true => Behavior::Stdio,
        false => Behavior::PreferTerm,
    };
    let config = Config::builder()
        .max_history_size(HISTORY_ENTRIES_MAX)?
        .history_ignore_space(true)
        .completion_type(CompletionType::List)
        .bell_style(BellStyle::None)
        .behavior(behavior)
        .build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(Assistant));
    Ok(editor)
}

/// Reads the history and makes its folder; false, and said, when there can be none.
fn load(editor: &mut Editor<Assistant, FileHistory>, file: &Path) -> bool {
    let folder = file.parent().unwrap_or(Path::new("."));
    // Source: XDG Base Directory Specification 0.8: folders are made with the mode 0700.
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    let read = match file.exists() {
        true => editor.load_history(file),
        false => Ok(()),
    };
    match made.map_err(ReadlineError::from).and(read) {
        Ok(()) => true,
        Err(error) => {
            note!("(no history: {}: {error})", file.display());
            false
        }
    }
}

/// Adds an input to the history, and to its file at once: a program that is killed loses none.
fn remember(editor: &mut Editor<Assistant, FileHistory>, file: &mut Option<PathBuf>, text: &str) {
    if text.trim().is_empty() || text.len() > HISTORY_ENTRY_BYTES_MAX {
        return;
    }
    let kept = editor
        .add_history_entry(text)
        .and_then(|is_new| match &file {
            Some(file) if is_new => editor.append_history(file),
            _ => Ok(()),
        });
    if let Err(error) = kept {
        note!("(the history is not kept: {error})");
        *file = None;
    }
}

/// The file of the history, below the user's folder for data.
pub fn history_file() -> Option<PathBuf> {
    data_folder(env::var_os("XDG_DATA_HOME"), env::var_os("HOME"))
        .map(|folder| folder.join("ucuz/history"))
}

/// Source: XDG Base Directory Specification 0.8: a path that is not absolute counts as not set.
fn data_folder(data: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    data.and_then(absolute)
        .or_else(|| Some(home.and_then(absolute)?.join(".local/share")))
}

/// One input in plain lines. Bytes that are no text are replaced, as terminals do.
fn lines(input: &mut impl BufRead) -> io::Result<Entry> {
    let _ = io::stderr().write_all(PROMPT.as_bytes());
    let mut text = String::new();
    loop {
        let mut bytes = Vec::new();
        let read = input
            .by_ref()
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut bytes)?;
        if read == 0 && text.is_empty() {
            note!("");
            return Ok(Entry::End);
        }
        let line = String::from_utf8_lossy(&bytes);
        text.push_str(line.trim_end_matches(['\r', '\n']));
        if read == 0 || !command::is_continued(&text) || text.len() as u64 > LINE_BYTES_MAX {
            return Ok(Entry::Text(text));
        }
        text.push('\n');
    }
}

/// Completes commands, and knows when an input goes on in the next line.
pub struct Assistant;

impl Completer for Assistant {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(command::completions(line, position))
    }
}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match command::is_continued(context.input()) {
            true => ValidationResult::Incomplete,
            false => ValidationResult::Valid(None),
        })
    }
}

impl Hinter for Assistant {
    type Hint = String;
}

impl Highlighter for Assistant {}
impl Helper for Assistant {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_lines_end_and_go_on_as_edited_ones_do() {
        let mut input = &b"a\xffb\r\n\none\\\ntwo\n\"\"\"\nx\n\"\"\"\nlast"[..];
        let text = |text: &str| Entry::Text(text.to_owned());
        for expected in [
            text("a\u{fffd}b"),
            text(""),
            text("one\\\ntwo"),
            text("\"\"\"\nx\n\"\"\""),
            text("last"),
            Entry::End,
        ] {
            assert_eq!(lines(&mut input).expect("memory"), expected);
        }
    }

    #[test]
    fn the_history_lies_in_the_folder_for_data() {
        let folder = |data: &str, home: &str| {
            let value = |text: &str| (!text.is_empty()).then(|| OsString::from(text));
            data_folder(value(data), value(home))
        };
        assert_eq!(folder("/data", "/home/a"), Some(PathBuf::from("/data")));
        let own = Some(PathBuf::from("/home/a/.local/share"));
        assert_eq!(folder("", "/home/a"), own);
        assert_eq!(folder("relative", "/home/a"), own);
        assert_eq!(folder("", ""), None);
        assert_eq!(folder("", "relative"), None);
    }

    #[test]
    fn the_history_is_kept_private_and_bounded() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("new/history");
        let mut first = editor().expect("no terminal is needed to begin");
        assert!(load(&mut first, &file));
        let mut kept = Some(file.clone());
        for text in ["one", "two\nlines", "two\nlines", " secret", ""] {
            remember(&mut first, &mut kept, text);
        }
        remember(
            &mut first,
            &mut kept,
            &"x".repeat(HISTORY_ENTRY_BYTES_MAX + 1),
        );
        let mode = file.metadata().expect("written").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut second = editor().expect("no terminal is needed to begin");
        assert!(load(&mut second, &file));
        let entries: Vec<_> = second.history().iter().cloned().collect();
        assert_eq!(entries, ["one", "two\nlines"]);
        for n in 0..HISTORY_ENTRIES_MAX + 5 {
            remember(&mut second, &mut kept, &n.to_string());
        }
        let text = std::fs::read_to_string(&file).expect("written");
        assert!(
            text.lines().count() <= HISTORY_ENTRIES_MAX + 1,
            "{}",
            text.lines().count()
        );
        std::fs::write(&file, b"\xff\xfe\n").expect("a disk");
        assert!(!load(&mut second, &file), "bytes that are no text");
    }
}
