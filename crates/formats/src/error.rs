//! The one error of this crate: which file, where in it, which rule, what was found, what to do.
//!
//! Here: [`FormatError`] and [`Fault`]. Everybody above may match on the variant; texts are for people.

use std::fmt;
use std::path::{Path, PathBuf};

/// Advice for files whose bytes contradict themselves.
pub(crate) const FETCH_AGAIN: &str = "the file is damaged or incomplete: fetch or convert it again";
/// Advice for prepared weights; they are made from the model again.
pub(crate) const MAKE_ANEW: &str = "what is damaged is not used; it is made anew from the model";
/// Advice for models beyond this reader.
pub(crate) const OTHER_MODEL: &str = "use a model of a supported kind (see `ucuz inspect`)";
/// Advice for settings a person may have edited.
pub(crate) const CORRECT_CONFIG: &str = "correct the setting or take the publisher's original file";

/// Why a checkpoint is refused.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// The operating system refused; the caller can check path, rights and space.
    #[error("{}: {source}; check that the path exists and may be read", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The bytes break a rule of their format: nothing from the file was used.
    #[error("{0}")]
    Damaged(Box<Fault>),
    /// The file is sound but holds something that is not read here, named in the fault.
    #[error("{0}")]
    Unsupported(Box<Fault>),
    /// A file, key or tensor that must be there is not.
    #[error("{0}")]
    Missing(Box<Fault>),
}

/// What exactly is wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// The file, when it came from one.
    pub file: Option<PathBuf>,
    /// Where in it.
    pub place: Place,
    /// The rule that does not hold.
    pub rule: String,
    /// What was found instead; empty when the rule says it all.
    pub value: String,
    /// What the reader of the message can do.
    pub way_out: &'static str,
}

/// Where in a file a [`Fault`] lies.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// The file as a whole.
    File,
    /// A byte offset from the start of the file.
    Offset(u64),
    /// A metadata or JSON key.
    Key(String),
    /// A tensor, by its stored name.
    Tensor(String),
}

impl Place {
    pub(crate) fn key(key: impl Into<String>) -> Self {
        Self::Key(key.into())
    }

    pub(crate) fn tensor(name: impl Into<String>) -> Self {
        Self::Tensor(name.into())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => Ok(()),
            Self::Offset(at) => write!(f, "byte {at}: "),
            Self::Key(key) => write!(f, "key {}: ", Shown(key)),
            Self::Tensor(name) => write!(f, "tensor {}: ", Shown(name)),
        }
    }
}

/// A foreign string made safe to print: control characters escaped, at most 80 characters.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars().take(80) {
            for escaped in c.escape_debug() {
                write!(f, "{escaped}")?;
            }
        }
        if self.0.chars().nth(80).is_some() {
            f.write_str("…")?;
        }
        Ok(())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}: ", file.display())?;
        }
        write!(f, "{}{}", self.place, self.rule)?;
        if !self.value.is_empty() {
            write!(f, ", found {}", Shown(&self.value))?;
        }
        write!(f, "; {}", self.way_out)
    }
}

impl FormatError {
    /// The bytes at `place` break `rule`.
    pub(crate) fn damaged(place: Place, rule: impl Into<String>, value: impl ToString) -> Self {
        Self::Damaged(Fault::boxed(
            place,
            rule.into(),
            value.to_string(),
            FETCH_AGAIN,
        ))
    }

    /// Prepared weights are not what they should be.
    pub(crate) fn unusable(place: Place, rule: impl Into<String>, value: impl ToString) -> Self {
        Self::Damaged(Fault::boxed(
            place,
            rule.into(),
            value.to_string(),
            MAKE_ANEW,
        ))
    }

    /// A setting has a value that no model can have.
    pub(crate) fn setting(key: &str, rule: impl Into<String>, value: impl ToString) -> Self {
        let place = Place::key(key);
        Self::Damaged(Fault::boxed(
            place,
            rule.into(),
            value.to_string(),
            CORRECT_CONFIG,
        ))
    }

    /// Sound, but not read here.
    pub(crate) fn unsupported(place: Place, rule: impl Into<String>, value: impl ToString) -> Self {
        Self::Unsupported(Fault::boxed(
            place,
            rule.into(),
            value.to_string(),
            OTHER_MODEL,
        ))
    }

    /// Something that must be there is not.
    pub(crate) fn missing(place: Place, rule: impl Into<String>) -> Self {
        Self::Missing(Fault::boxed(place, rule.into(), String::new(), FETCH_AGAIN))
    }

    /// The system's refusal for `path`.
    pub(crate) fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            source,
        }
    }

    /// The same error, said of `file` (kept when a file is named already).
    #[must_use]
    pub(crate) fn in_file(mut self, file: &Path) -> Self {
        if let Some(fault) = self.fault_mut() {
            fault.file.get_or_insert_with(|| file.to_owned());
        }
        self
    }

    /// The same error, its byte offset told together with the key it belongs to.
    #[must_use]
    pub(crate) fn at_key(mut self, key: &str) -> Self {
        if let Some(fault) = self.fault_mut()
            && let Place::Offset(at) = fault.place
        {
            fault.rule = format!("byte {at}: {}", fault.rule);
            fault.place = Place::key(key);
        }
        self
    }

    /// The same error with other advice.
    #[must_use]
    pub(crate) fn advise(mut self, way_out: &'static str) -> Self {
        if let Some(fault) = self.fault_mut() {
            fault.way_out = way_out;
        }
        self
    }

    /// The fault, unless the operating system refused.
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            Self::Io { .. } => None,
            Self::Damaged(fault) | Self::Unsupported(fault) | Self::Missing(fault) => Some(fault),
        }
    }

    fn fault_mut(&mut self) -> Option<&mut Fault> {
        match self {
            Self::Io { .. } => None,
            Self::Damaged(fault) | Self::Unsupported(fault) | Self::Missing(fault) => Some(fault),
        }
    }
}

impl Fault {
    fn boxed(place: Place, rule: String, value: String, way_out: &'static str) -> Box<Self> {
        Box::new(Self {
            file: None,
            place,
            rule,
            value,
            way_out,
        })
    }
}
