//! Prepared weights on disk: the bytes that kernels read, kept so that the next start maps them and repacks nothing.
//!
//! Here: the [`Key`] that says for what a file is good, the [index](Index) of a file, and two destinations of weights:
//! [`Prepared`], a file that is there, and [`Preparing`], one being written. Not here: which files are kept and which are
//! removed (`cli`), what the bytes mean (`ucuz-tensor`).
//!
//! ```text
//! 0      "ucuzprep"  version u32  num_parts u32  key [32]  table_offset u64  table crc32  crc32 of the 60 bytes before
//! 4096   parts, each at a multiple of 4096, in the order of loading; zeros between
//! table  num_parts rows of 64 bytes up to the end of the file:
//!          identity [32]  offset u64  bytes u64  crc32  zeros [12]
//! ```
//! All numbers are little-endian. The identity of a part is a hash of its name, layout and size.
//!
//! **Trust.** Such a file is foreign bytes like any other. Header and table are checked whole when it is opened; each
//! part's bytes are summed when the part is taken, every time: it costs about one reading of the weights, as much as the
//! first token does, runs beside the making of the tokenizer, and the pages must come from disk anyway. So nothing has to be
//! synchronised when a file is written: a file torn by a loss of power is found out. A file that breaks a rule is never used
//! in part of a part; whoever loads makes the bytes from the model instead.
//!
//! **Writing.** A file is written under another name, which only this process uses, and renamed once complete. Readers see
//! no file or a whole one, and who has the old one mapped keeps it. Bytes go to the file piece by piece and are read back
//! through a map, so the weights are resident once, as clean pages of the file that the system may drop and read again.

mod index;
mod reader;
mod writer;

use sha2::{Digest, Sha256};
use ucuz_tensor::destination::PartPlan;
use ucuz_tensor::{ARITHMETIC_VERSION, Backend, OnLoad};

use crate::Checkpoint;

pub use index::Index;
pub use reader::Prepared;
pub use writer::{Preparing, remove_abandoned};

/// For which model, in which layout, a file is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(pub [u8; 32]);

/// For which part some bytes are good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Identity([u8; 32]);

impl Key {
    /// The key of `checkpoint` on `backend`, its formats treated as `on_load` says.
    ///
    /// It holds what the weights are made from, not where they lie, as far as that is known without reading them: see
    /// [`Checkpoint::identity`].
    pub fn new(checkpoint: &Checkpoint, backend: &dyn Backend, on_load: OnLoad) -> Self {
        let mut hash = Sha256::new();
        hash.update(checkpoint.identity());
        let made_by = (ARITHMETIC_VERSION, backend.layout_id(), on_load.name());
        hash.update(format!("{made_by:?} {}", std::env::consts::ARCH));
        Self(hash.finalize().into())
    }

    /// The key as a file name: 32 hex digits and `.prepared`.
    pub fn file_name(&self) -> String {
        let digits = self.0.iter().take(16).map(|byte| format!("{byte:02x}"));
        digits.chain([SUFFIX.to_owned()]).collect()
    }
}

/// How names of prepared files end.
pub const SUFFIX: &str = ".prepared";

impl Identity {
    fn of(plan: &PartPlan<'_>) -> Self {
        let what = format!("{:?} {:?} {}", plan.name, plan.layout, plan.bytes);
        Self(Sha256::digest(what).into())
    }
}
