//! Where a result goes: tables on stdout, JSON, an HTML page.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use ucuz_report::Document;

use crate::output;

/// Stands for stdout.
const STDOUT: &str = "-";

/// Where to write.
#[derive(Debug, Clone, clap::Args)]
pub struct OutputArgs {
    /// Write everything with stable keys to FILE; - writes it to stdout instead of the tables
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write tables and plots to FILE as one page that needs no network
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl OutputArgs {
    /// Refuses files that cannot be written, before minutes are spent.
    ///
    /// # Errors
    /// A path that is a folder, or that lies in one that is not there.
    pub fn check(&self) -> Result<()> {
        let json = self.json.iter().filter(|path| path.as_os_str() != STDOUT);
        for path in json.chain(&self.html) {
            ensure!(
                !path.is_dir(),
                "cannot write {}: it is a folder; name a file in it",
                path.display()
            );
            let folder = path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            ensure!(
                folder.is_dir(),
                "cannot write {}: there is no folder {}; make it or name another",
                path.display(),
                folder.display()
            );
        }
        Ok(())
    }

    /// Writes.
    ///
    /// # Errors
    /// A file that cannot be written, a plot that cannot be drawn.
    pub fn write(&self, result: &impl Serialize, document: &Document) -> Result<()> {
        if let Some(path) = &self.html {
            write(path, &document.to_html()?)?;
        }
        if let Some(path) = &self.json {
            let json = serde_json::to_string_pretty(result)? + "\n";
            if path.as_os_str() == STDOUT {
                return output::print(&json);
            }
            write(path, &json)?;
        }
        output::print(&document.to_text())
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_no_file_and_one_that_is_missing_holds_none() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| Some(folder.path().join(name));
        for (json, html, told) in [
            (place(""), None, Some("it is a folder")),
            (None, place(""), Some("it is a folder")),
            (place("none/a.json"), None, Some("there is no folder")),
            (place("a.json"), place("a.html"), None),
            (Some(STDOUT.into()), None, None),
            (Some("a.json".into()), None, None),
        ] {
            let checked = OutputArgs { json, html }.check();
            let error = checked.err().map(|error| error.to_string());
            match told {
                Some(told) => assert!(error.unwrap().contains(told)),
                None => assert_eq!(error, None),
            }
        }
    }
}
