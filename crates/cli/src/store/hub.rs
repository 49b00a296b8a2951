//! A model of a Hugging Face hub: found in the cache, or listed, chosen, brought and installed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::cache::{self, Record, on_disk, with_suffix};
use super::download::{self, Remote};
use super::http::Client;
use super::listing::{Choice, Listed, Listing, SHARD_INDEX};
use super::progress::{Progress, size_text};
use super::reference::{HubRef, check_part, starts_as_gguf};

/// The longest list of a repository, in bytes; a thousand files take about 300 kB.
const LISTING_BYTES_MAX: u64 = 16 << 20;
/// The longest shard index, in bytes; a 600 B model has about 10 MB.
const INDEX_BYTES_MAX: u64 = 64 << 20;

/// The place of one repository at one revision in the cache.
pub struct Place<'a> {
    folder: PathBuf,
    repo: &'a str,
    revision: &'a str,
}

/// A whole model in the cache.
pub struct Found {
    /// The GGUF file or the folder.
    pub path: PathBuf,
    /// Its record.
    pub record: Record,
}

/// What the repository alone (without a file) stood for when it was last brought.
#[derive(Serialize, Deserialize)]
struct Pick {
    /// A GGUF file, or `None` for the safetensors folder.
    file: Option<String>,
}

impl<'a> Place<'a> {
    /// The place below `models/`; ids were checked when they were parsed.
    pub fn new(models: &Path, repo: &'a str, revision: &'a str) -> Self {
        let folder = models
            .join("hf")
            .join(repo.replace('/', "--"))
            .join(revision.replace('/', "~"));
        Self {
            folder,
            repo,
            revision,
        }
    }

    /// The model if it is whole in the cache.
    pub fn cached(&self, file: Option<&str>) -> Option<Found> {
        let file = match file {
            Some(file) => Some(file.to_owned()),
            None => cache::read_json::<Pick>(&self.pick_path())?.file,
        };
        let path = match file {
            Some(file) => {
                HubRef::parse(&format!("{}/{file}", self.repo)).ok()?;
                self.gguf_path(&file)
            }
            None => self.safetensors_path(),
        };
        cache::lookup(&path).map(|record| Found { path, record })
    }

    /// Brings the model; waits for another process that does so already and then takes its result.
    ///
    /// # Errors
    /// The hub's, the choice's, the disk's; see `Listing::choose` and `download::fetch`.
    pub fn bring(
        &self,
        client: &Client,
        file: Option<&str>,
        progress: &mut dyn Progress,
    ) -> Result<Found> {
        let _lock = cache::lock(&self.folder, progress)?;
        if let Some(found) = self.cached(file) {
            return Ok(found);
        }
        let listing = self.list(client)?;
        let wanted = HubRef {
            repo: self.repo.to_owned(),
            file: file.map(str::to_owned),
        };
        let choice = listing
            .choose(file)
            .with_context(|| format!("{wanted} cannot be taken"))?;
        let (found, pick) = match choice {
            Choice::Gguf(listed) => {
                progress.note(&format!("taking {} of {}", describe(&listed), self.repo));
                (
                    self.bring_gguf(client, &listing, &listed, progress)?,
                    Some(listed.name),
                )
            }
            Choice::Safetensors { files, sharded } => {
                progress.note(&format!("taking the safetensors of {}", self.repo));
                (
                    self.bring_safetensors(client, &listing, files, sharded, progress)?,
                    None,
                )
            }
        };
        if file.is_none() {
            cache::write_json(&self.pick_path(), &Pick { file: pick })?;
        }
        Ok(found)
    }

    fn list(&self, client: &Client) -> Result<Listing> {
        let at = match self.revision {
            "main" => String::new(),
            revision => format!("/revision/{}", revision.replace('/', "%2F")),
        };
        let path = format!("/api/models/{}{at}?blobs=true", self.repo);
        let json = client.get_small(&path, LISTING_BYTES_MAX)?;
        Listing::parse(&json).with_context(|| format!("{}{path} is refused", client.endpoint()))
    }

    fn bring_gguf(
        &self,
        client: &Client,
        listing: &Listing,
        listed: &Listed,
        progress: &mut dyn Progress,
    ) -> Result<Found> {
        let path = self.gguf_path(&listed.name);
        let part = with_suffix(&path, ".part");
        let sha256 = self.fetch(client, listing, listed, &part, progress)?;
        if !starts_as_gguf(&part) {
            cache::remove(&part)?;
            anyhow::bail!(
                "{} of {} is not a GGUF file; it was deleted",
                listed.name,
                self.repo
            );
        }
        let files = vec![(String::new(), sha256)];
        let record = cache::install(&part, &path, self.source(listing), files)?;
        Ok(Found { path, record })
    }

    /// Brings the files into a folder beside their place. Files whole from an earlier try of the same
    /// commit are kept: they have their final names only after their check.
    fn bring_safetensors(
        &self,
        client: &Client,
        listing: &Listing,
        mut files: Vec<Listed>,
        sharded: bool,
        progress: &mut dyn Progress,
    ) -> Result<Found> {
        let path = self.safetensors_path();
        let part = with_suffix(&path, ".part");
        self.open_part_folder(listing, &part)?;
        if sharded {
            let index = listing
                .find(SHARD_INDEX)
                .context("the shard index vanished from the list")?;
            self.fetch_into(client, listing, index, &part, progress)?;
            files.extend(listing.shards(&read_index(&part.join(SHARD_INDEX))?)?);
        }
        let mut hashes = Vec::new();
        for listed in &files {
            let sha256 = self.fetch_into(client, listing, listed, &part, progress)?;
            hashes.push((listed.name.clone(), sha256));
        }
        cache::remove(&part.join(".from"))?;
        let record = cache::install(&part, &path, self.source(listing), hashes)?;
        Ok(Found { path, record })
    }

    /// Keeps the part folder only if it belongs to the same commit.
    fn open_part_folder(&self, listing: &Listing, part: &Path) -> Result<()> {
        let from = part.join(".from");
        let source = self.source(listing);
        let is_same =
            listing.commit.is_some() && cache::read_json::<String>(&from) == Some(source.clone());
        if !is_same {
            cache::remove(part)?;
        }
        fs::create_dir_all(part).map_err(|e| on_disk(e, "make folder", part))?;
        cache::write_json(&from, &source)
    }

    /// Brings one file into a folder under its own name, unless it lies there; returns its SHA-256.
    fn fetch_into(
        &self,
        client: &Client,
        listing: &Listing,
        listed: &Listed,
        folder: &Path,
        progress: &mut dyn Progress,
    ) -> Result<String> {
        let path = folder.join(&listed.name);
        if path.is_file() {
            return super::digest::sha256_file(&path).map_err(|e| on_disk(e, "read", &path));
        }
        let part = with_suffix(&path, ".part");
        let sha256 = self.fetch(client, listing, listed, &part, progress)?;
        fs::rename(&part, &path).map_err(|e| on_disk(e, "rename to", &path))?;
        Ok(sha256)
    }

    fn fetch(
        &self,
        client: &Client,
        listing: &Listing,
        listed: &Listed,
        part: &Path,
        progress: &mut dyn Progress,
    ) -> Result<String> {
        if let Some(folder) = part.parent() {
            fs::create_dir_all(folder).map_err(|e| on_disk(e, "make folder", folder))?;
        }
        let revision = listing
            .commit
            .as_deref()
            .unwrap_or(self.revision)
            .replace('/', "%2F");
        let remote = Remote {
            path: &format!(
                "/{}/resolve/{revision}/{}",
                self.repo,
                listed.name.replace('+', "%2B")
            ),
            name: &listed.name,
            size_bytes: listed.size_bytes,
            sha256: listed.sha256.as_deref(),
        };
        download::fetch(client, &remote, part, progress)
    }

    fn source(&self, listing: &Listing) -> String {
        format!(
            "hf:{}@{}",
            self.repo,
            listing.commit.as_deref().unwrap_or(self.revision)
        )
    }

    fn gguf_path(&self, file: &str) -> PathBuf {
        self.folder.join("gguf").join(file)
    }

    fn safetensors_path(&self) -> PathBuf {
        self.folder.join("safetensors")
    }

    fn pick_path(&self) -> PathBuf {
        self.folder.join("pick.json")
    }
}

/// Checks a revision: parts as in an id, separated by `/`.
///
/// # Errors
/// The rule, with the value.
pub fn check_revision(revision: &str) -> Result<()> {
    ensure!(
        revision.len() <= 200,
        "--hf-revision has {} characters, limit 200",
        revision.len()
    );
    revision
        .split('/')
        .try_for_each(|part| check_part("revision", part))
}

fn describe(listed: &Listed) -> String {
    let size = listed
        .size_bytes
        .map(|size| format!(" ({})", size_text(size)))
        .unwrap_or_default();
    format!("{}{size}", listed.name)
}

fn read_index(path: &Path) -> Result<Vec<u8>> {
    let size_bytes = fs::metadata(path)
        .map_err(|e| on_disk(e, "read", path))?
        .len();
    ensure!(
        size_bytes <= INDEX_BYTES_MAX,
        "{SHARD_INDEX} has {size_bytes} bytes, limit {INDEX_BYTES_MAX}"
    );
    fs::read(path).map_err(|e| on_disk(e, "read", path))
}
