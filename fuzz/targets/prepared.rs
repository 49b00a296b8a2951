//! Prepared weights: header and table of a file, and the file opened.
//!
//! Input: a byte for the pages of parts, the header (64 bytes), the table. A file is built of them once as they are and once
//! with checksums that fit, which a search would hardly find.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use ucuz_formats::prepared::{Index, Key, Prepared};
use ucuz_fuzz::{bounded, check_error, put, scratch};

static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(scratch);
const HEADER_BYTES: usize = 64;
const PAGE_BYTES: usize = 4096;

fuzz_target!(|data: &[u8]| {
    LazyLock::force(&FOLDER);
    let Some((pages, rest)) = data.split_first() else {
        return;
    };
    let (header, table) = rest.split_at(rest.len().min(HEADER_BYTES));
    let mut file = header.to_vec();
    file.resize(PAGE_BYTES * (1 + usize::from(pages % 8)), 0);
    file.extend(table);
    bounded(file.len(), || {
        read(data);
        read(&file);
    });
    if header.len() == HEADER_BYTES {
        let table_crc = crc32fast::hash(table).to_le_bytes();
        file[56..60].copy_from_slice(&table_crc);
        let crc = crc32fast::hash(&file[..60]).to_le_bytes();
        file[60..64].copy_from_slice(&crc);
        bounded(file.len(), || read(&file));
    }
});

fn read(file: &[u8]) {
    let key = file.get(16..48).and_then(|key| key.try_into().ok());
    let key = Key(key.unwrap_or([0; 32]));
    let other = Key(key.0.map(|byte| !byte));
    assert!(Index::parse(file, &other).is_err(), "another key is refused");
    let index = match Index::parse(file, &key) {
        Ok(index) => index,
        Err(error) => return check_error(&error),
    };
    let mut spans: Vec<_> = index.spans().collect();
    assert_eq!(spans.len(), index.len());
    spans.sort_by_key(|span| (span.start, span.end));
    let mut end = PAGE_BYTES;
    for span in spans {
        assert!(span.start.is_multiple_of(PAGE_BYTES) && end <= span.start);
        assert!(span.start <= span.end && span.end <= file.len());
        end = span.end;
    }
    let path = FOLDER.path().join("model.prepared");
    put(&path, file);
    let opened = Prepared::open(&path, &key).expect("its index was read");
    assert!(opened.fault().is_none());
}
