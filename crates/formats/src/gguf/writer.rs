//! A small GGUF v3 writer for tests and tools: keys and tensors in the order given.

use ucuz_tensor::Format;

/// Collects keys and tensors; [`Writer::finish`] gives the file.
#[derive(Debug, Clone)]
pub struct Writer {
    alignment: u64,
    keys: Vec<u8>,
    key_count: u64,
    tensors: Vec<(String, Format, Vec<usize>, Vec<u8>)>,
}

impl Default for Writer {
    fn default() -> Self {
        Self::new()
    }
}

impl Writer {
    /// An empty file with alignment 32.
    pub fn new() -> Self {
        Self {
            alignment: 32,
            keys: Vec::new(),
            key_count: 0,
            tensors: Vec::new(),
        }
    }

    /// Another alignment, written as `general.alignment`.
    #[must_use]
    pub fn alignment(mut self, alignment: u32) -> Self {
        self.alignment = u64::from(alignment);
        self.u32("general.alignment", alignment)
    }

    /// A value of any type, its bytes encoded by the caller.
    #[must_use]
    pub fn raw(mut self, key: &str, type_id: u32, value: &[u8]) -> Self {
        put_string(&mut self.keys, key.as_bytes());
        self.keys.extend(type_id.to_le_bytes());
        self.keys.extend(value);
        self.key_count += 1;
        self
    }

    /// A U32.
    #[must_use]
    pub fn u32(self, key: &str, value: u32) -> Self {
        self.raw(key, 4, &value.to_le_bytes())
    }

    /// An F32.
    #[must_use]
    pub fn f32(self, key: &str, value: f32) -> Self {
        self.raw(key, 6, &value.to_le_bytes())
    }

    /// A bool.
    #[must_use]
    pub fn bool(self, key: &str, value: bool) -> Self {
        self.raw(key, 7, &[u8::from(value)])
    }

    /// A string.
    #[must_use]
    pub fn string(self, key: &str, value: &str) -> Self {
        let mut bytes = Vec::new();
        put_string(&mut bytes, value.as_bytes());
        self.raw(key, 8, &bytes)
    }

    /// An array of strings.
    #[must_use]
    pub fn strings<T: AsRef<[u8]>>(self, key: &str, values: &[T]) -> Self {
        let mut bytes = array_head(8, values.len());
        for value in values {
            put_string(&mut bytes, value.as_ref());
        }
        self.raw(key, 9, &bytes)
    }

    /// An array of F32.
    #[must_use]
    pub fn f32s(self, key: &str, values: &[f32]) -> Self {
        let mut bytes = array_head(6, values.len());
        bytes.extend(values.iter().flat_map(|x| x.to_le_bytes()));
        self.raw(key, 9, &bytes)
    }

    /// An array of I32.
    #[must_use]
    pub fn i32s(self, key: &str, values: &[i32]) -> Self {
        let mut bytes = array_head(5, values.len());
        bytes.extend(values.iter().flat_map(|x| x.to_le_bytes()));
        self.raw(key, 9, &bytes)
    }

    /// A tensor, `shape` outermost first; `bytes` as the format stores them (their number is not checked).
    #[must_use]
    pub fn tensor(mut self, name: &str, format: Format, shape: &[usize], bytes: &[u8]) -> Self {
        self.tensors
            .push((name.to_owned(), format, shape.to_vec(), bytes.to_owned()));
        self
    }

    /// The file.
    pub fn finish(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(3u32.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend(self.key_count.to_le_bytes());
        out.extend(&self.keys);
        let mut data = Vec::new();
        for (name, format, shape, bytes) in &self.tensors {
            put_string(&mut out, name.as_bytes());
            out.extend(u32::try_from(shape.len()).unwrap_or(u32::MAX).to_le_bytes());
            for n in shape.iter().rev() {
                out.extend((*n as u64).to_le_bytes());
            }
            // A format that GGUF lacks gets an id that no reader takes.
            let id = format.info().gguf_id.unwrap_or(u32::MAX);
            out.extend(id.to_le_bytes());
            out.extend((data.len() as u64).to_le_bytes());
            data.extend(bytes);
            pad(&mut data, self.alignment);
        }
        pad(&mut out, self.alignment);
        out.extend(data);
        out
    }
}

fn put_string(out: &mut Vec<u8>, value: &[u8]) {
    out.extend((value.len() as u64).to_le_bytes());
    out.extend(value);
}

fn array_head(element: u32, len: usize) -> Vec<u8> {
    let mut bytes = element.to_le_bytes().to_vec();
    bytes.extend((len as u64).to_le_bytes());
    bytes
}

fn pad(out: &mut Vec<u8>, alignment: u64) {
    while !(out.len() as u64).is_multiple_of(alignment) {
        out.push(0);
    }
}
