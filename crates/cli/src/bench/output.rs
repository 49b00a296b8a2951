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
    /// A folder that is not there.
    pub fn check(&self) -> Result<()> {
        for path in [&self.json, &self.html].into_iter().flatten() {
            let folder = path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            ensure!(
                folder.is_dir(),
                "cannot write {}: there is no folder {}",
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
        let json = serde_json::to_string_pretty(result)? + "\n";
        match &self.json {
            Some(path) if path.as_os_str() == STDOUT => output::print(&json),
            Some(path) => {
                write(path, &json)?;
                output::print(&document.to_text())
            }
            None => output::print(&document.to_text()),
        }
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
