//! A prepared file that is there, as a destination: parts are found, not made.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ucuz_tensor::TensorResult;
use ucuz_tensor::destination::{Anonymous, Destination, MakeChunk, PartPlan};
use ucuz_tensor::part_bytes::{PartBytes, SharedMemory};

use super::{Identity, Index, Key};
use crate::error::{FormatError, Place};
use crate::mmap::Map;

/// A prepared file, mapped. Parts that it does not have as they should be are made in memory.
#[derive(Debug)]
pub struct Prepared {
    path: PathBuf,
    map: Arc<Map>,
    index: Index,
    fault: Option<FormatError>,
}

impl Prepared {
    /// Maps the file at `path` and checks its header and table.
    ///
    /// # Errors
    /// [`FormatError::Io`] when it is not there or cannot be read; [`FormatError::Damaged`] as [`Index::parse`].
    pub fn open(path: &Path, key: &Key) -> Result<Self, FormatError> {
        let map = Map::open(path)?;
        let index = Index::parse(map.bytes(), key).map_err(|e| e.in_file(path))?;
        map.expect_reading();
        Ok(Self {
            path: path.to_owned(),
            map: Arc::new(map),
            index,
            fault: None,
        })
    }

    /// What was wrong with the first part that could not be taken from the file; such a file should be removed.
    pub fn fault(&self) -> Option<&FormatError> {
        self.fault.as_ref()
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn find(&self, plan: &PartPlan<'_>) -> Result<PartBytes, FormatError> {
        let unusable = |rule: &str, value: String| {
            FormatError::unusable(Place::tensor(plan.name), rule, value).in_file(&self.path)
        };
        let part = self
            .index
            .get(&Identity::of(plan))
            .filter(|part| part.span.len() == plan.bytes)
            .ok_or_else(|| unusable("the file has the tensor in this layout", String::new()))?;
        let bytes = self.map.bytes().get(part.span.clone()).unwrap_or_default();
        let crc = crc32fast::hash(bytes);
        if crc != part.crc {
            let rule = format!("the prepared bytes have the checksum {:08x}", part.crc);
            return Err(unusable(&rule, format!("{crc:08x}")));
        }
        let memory: Arc<dyn SharedMemory> = Arc::clone(&self.map) as _;
        PartBytes::shared(memory, part.span.clone())
            .map_err(|e| unusable("parts can be mapped", e.to_string()))
    }
}

impl Destination for Prepared {
    fn place(&mut self, plan: &PartPlan<'_>, make: &mut MakeChunk<'_>) -> TensorResult<PartBytes> {
        // A file has no parts without bytes.
        if plan.bytes == 0 {
            return Anonymous.place(plan, make);
        }
        match self.find(plan) {
            Ok(bytes) => Ok(bytes),
            Err(fault) => {
                self.fault.get_or_insert(fault);
                Anonymous.place(plan, make)
            }
        }
    }
}
