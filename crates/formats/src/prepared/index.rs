//! Header and table of a prepared file, as hostile bytes.

use std::collections::HashMap;
use std::ops::Range;

use super::{Identity, Key};
use crate::error::{FormatError, Place};
use crate::limits::PREPARED_PARTS_MAX;

const MAGIC: &[u8; 8] = b"ucuzprep";
const VERSION: u32 = 1;
/// Bytes of the header that mean something.
const HEADER_BYTES: usize = 64;
/// Bytes of one row of the table.
const ROW_BYTES: usize = 64;
/// Where parts begin, and what their offsets are a multiple of: a page, so that each can be mapped by itself.
pub(super) const PART_ALIGN_BYTES: usize = 4096;

/// Where the parts of a file lie.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Index {
    parts: HashMap<Identity, Part>,
}

/// Where one part lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) span: Range<usize>,
    pub(super) crc: u32,
}

impl Index {
    /// Reads the index of a whole file and checks all that can be checked without reading the parts.
    ///
    /// # Errors
    /// [`FormatError::Damaged`] for a file of another kind, version or key, one that is cut short or longer than it says, a
    /// checksum that is wrong, parts that overlap or lie outside.
    pub fn parse(bytes: &[u8], key: &Key) -> Result<Self, FormatError> {
        let header: &[u8; HEADER_BYTES] = bytes
            .first_chunk()
            .filter(|_| bytes.len() >= PART_ALIGN_BYTES)
            .ok_or_else(|| {
                let rule = format!("prepared weights have at least {PART_ALIGN_BYTES} bytes");
                FormatError::unusable(Place::File, rule, bytes.len())
            })?;
        let header = Header::parse(header, key)?;
        let table = table(bytes, &header)?;
        let mut parts = HashMap::with_capacity(table.len());
        let (parts_end, mut end) = (bytes.len() - table.len() * ROW_BYTES, PART_ALIGN_BYTES);
        for (i, row) in table.iter().enumerate() {
            let (identity, part) = parse_row(row)
                .filter(|(_, part)| {
                    part.span.start.is_multiple_of(PART_ALIGN_BYTES)
                        && (end..=parts_end).contains(&part.span.start)
                        && part.span.end <= parts_end
                })
                .ok_or_else(|| {
                    let at = place(parts_end + i * ROW_BYTES);
                    FormatError::unusable(at, "parts lie in the file, one after the other", "")
                })?;
            end = part.span.end;
            if parts.insert(identity, part).is_some() {
                let at = place(parts_end + i * ROW_BYTES);
                return Err(FormatError::unusable(at, "each part is there once", ""));
            }
        }
        Ok(Self { parts })
    }

    /// Number of parts.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Whether there is no part.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Spans of all parts in the file, in no particular order.
    pub fn spans(&self) -> impl Iterator<Item = Range<usize>> {
        self.parts.values().map(|part| part.span.clone())
    }

    pub(super) fn get(&self, identity: &Identity) -> Option<&Part> {
        self.parts.get(identity)
    }
}

fn place(at: usize) -> Place {
    Place::Offset(at as u64)
}

struct Header {
    num_parts: u32,
    table_offset: u64,
    table_crc: u32,
}

impl Header {
    fn parse(bytes: &[u8; HEADER_BYTES], key: &Key) -> Result<Self, FormatError> {
        let mut fields = Fields(bytes);
        let (magic, version) = (fields.take::<8>(), u32::from_le_bytes(fields.take()));
        if magic != *MAGIC {
            let rule = "prepared weights begin with \"ucuzprep\"";
            return Err(FormatError::unusable(
                Place::File,
                rule,
                magic.escape_ascii(),
            ));
        }
        if version != VERSION {
            let rule = format!("the version is {VERSION}");
            return Err(FormatError::unusable(place(8), rule, version));
        }
        let num_parts = u32::from_le_bytes(fields.take());
        let found = Key(fields.take());
        let table_offset = u64::from_le_bytes(fields.take());
        let table_crc = u32::from_le_bytes(fields.take());
        let crc = u32::from_le_bytes(fields.take());
        if crc != crc32fast::hash(&bytes[..HEADER_BYTES - 4]) {
            let rule = "the header has its checksum";
            return Err(FormatError::unusable(place(HEADER_BYTES - 4), rule, crc));
        }
        if found != *key {
            let rule = "the file belongs to this model, layout and version";
            return Err(FormatError::unusable(place(16), rule, found.file_name()));
        }
        Ok(Self {
            num_parts,
            table_offset,
            table_crc,
        })
    }
}

/// The rows of the table, which must end with the file and have its checksum.
fn table<'a>(bytes: &'a [u8], header: &Header) -> Result<&'a [[u8; ROW_BYTES]], FormatError> {
    if header.num_parts > PREPARED_PARTS_MAX {
        let rule = format!("at most {PREPARED_PARTS_MAX} parts");
        return Err(FormatError::unusable(place(12), rule, header.num_parts));
    }
    let wanted = u64::from(header.num_parts) * ROW_BYTES as u64;
    let table = usize::try_from(header.table_offset)
        .ok()
        .filter(|start| *start >= PART_ALIGN_BYTES)
        .and_then(|start| bytes.get(start..))
        .filter(|table| table.len() as u64 == wanted)
        .ok_or_else(|| {
            let rule = format!(
                "{} parts are listed from byte {} to the end of the file",
                header.num_parts, header.table_offset
            );
            FormatError::unusable(Place::File, rule, format!("{} bytes", bytes.len()))
        })?;
    let crc = crc32fast::hash(table);
    if crc != header.table_crc {
        let rule = format!("the table has the checksum {:08x}", header.table_crc);
        let at = Place::Offset(header.table_offset);
        return Err(FormatError::unusable(at, rule, format!("{crc:08x}")));
    }
    Ok(table.as_chunks().0)
}

fn parse_row(row: &[u8; ROW_BYTES]) -> Option<(Identity, Part)> {
    let mut fields = Fields(row);
    let identity = Identity(fields.take());
    let start = usize::try_from(u64::from_le_bytes(fields.take())).ok()?;
    let len = usize::try_from(u64::from_le_bytes(fields.take())).ok()?;
    let crc = u32::from_le_bytes(fields.take());
    let span = start..start.checked_add(len)?;
    Some((identity, Part { span, crc }))
}

/// Fields of a record, one after the other.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    /// The next `N` bytes; zeros past the end, which no record here reaches.
    fn take<const N: usize>(&mut self) -> [u8; N] {
        match self.0.split_first_chunk() {
            Some((field, rest)) => {
                self.0 = rest;
                *field
            }
            None => [0; N],
        }
    }
}

/// The table and the header of a file with these parts, in the order of their offsets.
pub(super) fn encode(
    key: &Key,
    parts: &[(Identity, Part)],
    table_offset: u64,
) -> Option<(Vec<u8>, [u8; HEADER_BYTES])> {
    let num_parts = u32::try_from(parts.len()).ok()?;
    let mut table = Vec::with_capacity(parts.len() * ROW_BYTES);
    for (Identity(identity), Part { span, crc }) in parts {
        table.extend(identity);
        table.extend((span.start as u64).to_le_bytes());
        table.extend((span.len() as u64).to_le_bytes());
        table.extend(crc.to_le_bytes());
        table.resize(table.len().next_multiple_of(ROW_BYTES), 0);
    }
    let mut header = Vec::with_capacity(HEADER_BYTES);
    header.extend(MAGIC);
    header.extend(VERSION.to_le_bytes());
    header.extend(num_parts.to_le_bytes());
    header.extend(key.0);
    header.extend(table_offset.to_le_bytes());
    header.extend(crc32fast::hash(&table).to_le_bytes());
    header.extend(crc32fast::hash(&header).to_le_bytes());
    Some((table, header.try_into().ok()?))
}
