//! Conversations in files.

use std::env;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::conversation::Conversation;

/// Most bytes of a file that is loaded.
const BYTES_MAX: u64 = 16 << 20;

/// Writes the conversation into a new file, as its extension says; returns the file's path.
///
/// # Errors
/// Another extension, a file that is there already, a disk that takes no more.
pub fn save(name: &str, conversation: &Conversation, model: &str) -> Result<PathBuf> {
    let path = path(name);
    let text = match extension(&path).as_str() {
        "md" | "markdown" => conversation.to_markdown(model),
        "json" => conversation.to_json(model)?,
        _ => bail!("{name} is not saved: the name must end with .md or .json"),
    };
    let created = OpenOptions::new().write(true).create_new(true).open(&path);
    let mut file = match created {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{} exists already; give another name", path.display())
        }
        created => created.with_context(|| format!("cannot write {}", path.display()))?,
    };
    let written = file.write_all(text.as_bytes());
    written.with_context(|| format!("cannot write all of {}", path.display()))?;
    Ok(path)
}

/// Reads a conversation that was saved as JSON.
///
/// # Errors
/// No such file, one that is too long, or none of a conversation.
pub fn load(name: &str) -> Result<Conversation> {
    let path = path(name);
    if extension(&path) != "json" {
        bail!("{name} is not loaded: only conversations saved as .json are");
    }
    let file = File::open(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut text = String::new();
    let read = file.take(BYTES_MAX + 1).read_to_string(&mut text);
    read.with_context(|| format!("cannot read {}", path.display()))?;
    if text.len() as u64 > BYTES_MAX {
        bail!("{} has more than {BYTES_MAX} bytes", path.display());
    }
    let conversation = Conversation::from_json(&text);
    conversation.with_context(|| format!("{} holds no conversation", path.display()))
}

fn extension(path: &Path) -> String {
    let extension = path.extension().unwrap_or_default();
    extension.to_string_lossy().to_ascii_lowercase()
}

/// What a shell would make of `~/name`.
fn path(name: &str) -> PathBuf {
    let home = name.strip_prefix("~/").zip(env::var_os("HOME"));
    match home {
        Some((name, home)) => Path::new(&home).join(name),
        None => PathBuf::from(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_made_by_extension_and_never_written_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let name = |name: &str| folder.path().join(name).display().to_string();
        let conversation = Conversation::new(Some("Be brief.".to_owned()));
        for file in ["a.md", "a.json"] {
            let path = save(&name(file), &conversation, "m").expect(file);
            let before = std::fs::read_to_string(&path).expect("written");
            assert!(before.contains("Be brief."), "{before}");
            let other = Conversation::default();
            let error = save(&name(file), &other, "m").expect_err("it exists");
            assert!(error.to_string().contains("exists already"), "{error}");
            assert_eq!(std::fs::read_to_string(&path).expect("kept"), before);
        }
        assert_eq!(load(&name("a.json")).expect("own"), conversation);
        for (file, why) in [
            ("a.txt", ".md or .json"),
            ("a", ".md or .json"),
            ("no/a.md", "cannot write"),
        ] {
            let error = save(&name(file), &conversation, "m").expect_err(file);
            assert!(error.to_string().contains(why), "{error}");
        }
        for (file, why) in [("a.md", "only conversations"), ("b.json", "cannot read")] {
            let error = load(&name(file)).expect_err(file);
            assert!(error.to_string().contains(why), "{error}");
        }
        std::fs::write(folder.path().join("c.json"), "[]").expect("a disk");
        let error = load(&name("c.json")).expect_err("no conversation");
        assert!(
            error.to_string().contains("holds no conversation"),
            "{error}"
        );
    }
}
