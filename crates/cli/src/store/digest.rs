//! SHA-256 of files and of streams on their way to disk.
//!
//! Cost: `sha2` picks the SHA instructions at run time, so a core hashes 1 to 2 GB/s with them and
//! about 0.4 GB/s without; 98 MB take 60 to 250 ms. Hence the records in `cache`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

/// A running SHA-256 that ends in 64 lowercase hex digits.
#[derive(Default)]
pub struct Hasher(Sha256);

impl Hasher {
    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Takes everything a reader gives; returns the number of bytes.
    ///
    /// # Errors
    /// The reader's.
    pub fn update_from(&mut self, mut reader: impl Read) -> io::Result<u64> {
        let mut buffer = vec![0; COPY_BYTES];
        let mut total = 0;
        loop {
            let len = read_some(&mut reader, &mut buffer)?;
            if len == 0 {
                return Ok(total);
            }
            self.update(&buffer[..len]);
            total += len as u64;
        }
    }

    /// The hash of everything taken.
    pub fn finish(self) -> String {
        self.0
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// The size of copy buffers: past 64 kB a larger one changes nothing, and it stays in L2.
pub const COPY_BYTES: usize = 256 * 1024;

/// One read that retries interruptions; 0 at the end.
///
/// # Errors
/// The reader's.
pub fn read_some(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match reader.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// SHA-256 of a file, as hex.
///
/// # Errors
/// The file cannot be opened or read.
pub fn sha256_file(path: &Path) -> io::Result<String> {
    let mut hasher = Hasher::default();
    hasher.update_from(File::open(path)?)?;
    Ok(hasher.finish())
}

/// Whether a text is a SHA-256 in lowercase hex.
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}
