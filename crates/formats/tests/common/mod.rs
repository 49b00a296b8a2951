//! Valid tiny checkpoints as plain data, so that a test can break exactly one thing.
#![allow(dead_code, reason = "each test binary uses its part")]

use serde_json::{Value, json};
use ucuz_formats::safetensors;
use ucuz_tensor::Format;

/// Sizes of the tiny model: heads of 16, one layer.
pub const VOCAB: u64 = 8;
pub const HIDDEN: u64 = 32;

/// A GGUF file whose every field may be made wrong.
#[derive(Clone)]
pub struct RawGguf {
    pub magic: [u8; 4],
    pub version: u32,
    pub tensor_count: Option<u64>,
    pub key_count: Option<u64>,
    /// Key, type id, encoded value.
    pub keys: Vec<(Vec<u8>, u32, Vec<u8>)>,
    pub tensors: Vec<RawTensor>,
    /// Bytes kept of the encoded file.
    pub keep: Option<usize>,
}

#[derive(Clone)]
pub struct RawTensor {
    pub name: String,
    /// Row length first.
    pub dims: Vec<u64>,
    pub dim_count: Option<u32>,
    pub type_id: u32,
    pub offset: Option<u64>,
    pub bytes: Vec<u8>,
}

pub fn string(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text].concat()
}

pub fn array(element: u32, len: u64, bytes: &[u8]) -> Vec<u8> {
    [&element.to_le_bytes()[..], &len.to_le_bytes()[..], bytes].concat()
}

pub fn strings<T: AsRef<[u8]>>(texts: &[T]) -> Vec<u8> {
    array(
        8,
        texts.len() as u64,
        &texts
            .iter()
            .flat_map(|t| string(t.as_ref()))
            .collect::<Vec<u8>>(),
    )
}

impl RawGguf {
    /// A sound llama with a vocabulary.
    pub fn valid() -> Self {
        let mut file = Self {
            magic: *b"GGUF",
            version: 3,
            tensor_count: None,
            key_count: None,
            keys: Vec::new(),
            tensors: Vec::new(),
            keep: None,
        };
        file.text("general.architecture", "llama");
        for (key, value) in [
            ("llama.embedding_length", 32),
            ("llama.block_count", 1),
            ("llama.attention.head_count", 2),
            ("llama.attention.head_count_kv", 1),
            ("llama.feed_forward_length", 64),
            ("llama.context_length", 128),
            ("llama.rope.dimension_count", 16),
            ("tokenizer.ggml.bos_token_id", 1),
        ] {
            file.u32(key, value);
        }
        file.f32("llama.attention.layer_norm_rms_epsilon", 1e-5);
        file.f32("llama.rope.freq_base", 10_000.0);
        file.text("tokenizer.ggml.model", "gpt2");
        file.set("tokenizer.ggml.tokens", 9, strings(&[b"a"; 8]));
        file.set("tokenizer.ggml.scores", 9, array(6, 8, &[0; 32]));
        file.set(
            "tokenizer.ggml.token_type",
            9,
            array(5, 8, &[1, 0, 0, 0].repeat(8)),
        );
        file.set("tokenizer.ggml.merges", 9, strings(&[b"a a"]));
        file.text("tokenizer.chat_template", "{{ messages }}");
        for (name, dims) in tensors() {
            file.add(&name, &dims);
        }
        file
    }

    pub fn set(&mut self, key: &str, type_id: u32, value: Vec<u8>) {
        match self.keys.iter_mut().find(|(k, ..)| k == key.as_bytes()) {
            Some(row) => *row = (key.into(), type_id, value),
            None => self.keys.push((key.into(), type_id, value)),
        }
    }

    pub fn u32(&mut self, key: &str, value: u32) {
        self.set(key, 4, value.to_le_bytes().into());
    }

    pub fn f32(&mut self, key: &str, value: f32) {
        self.set(key, 6, value.to_le_bytes().into());
    }

    pub fn text(&mut self, key: &str, value: &str) {
        self.set(key, 8, string(value.as_bytes()));
    }

    pub fn remove(&mut self, key: &str) {
        self.keys.retain(|(k, ..)| k != key.as_bytes());
    }

    /// An F32 tensor of zeros.
    pub fn add(&mut self, name: &str, dims: &[u64]) {
        let bytes = vec![0; dims.iter().product::<u64>() as usize * 4];
        let (dim_count, offset) = (None, None);
        let (name, dims) = (name.to_owned(), dims.to_vec());
        self.tensors.push(RawTensor {
            name,
            dims,
            dim_count,
            type_id: 0,
            offset,
            bytes,
        });
    }

    pub fn tensor(&mut self, name: &str) -> &mut RawTensor {
        self.tensors.iter_mut().find(|t| t.name == name).unwrap()
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.magic.to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend(
            self.tensor_count
                .unwrap_or(self.tensors.len() as u64)
                .to_le_bytes(),
        );
        out.extend(
            self.key_count
                .unwrap_or(self.keys.len() as u64)
                .to_le_bytes(),
        );
        for (key, type_id, value) in &self.keys {
            out.extend(string(key));
            out.extend(type_id.to_le_bytes());
            out.extend(value);
        }
        let mut data: Vec<u8> = Vec::new();
        for t in &self.tensors {
            out.extend(string(t.name.as_bytes()));
            out.extend(t.dim_count.unwrap_or(t.dims.len() as u32).to_le_bytes());
            t.dims.iter().for_each(|n| out.extend(n.to_le_bytes()));
            out.extend(t.type_id.to_le_bytes());
            out.extend(t.offset.unwrap_or(data.len() as u64).to_le_bytes());
            data.extend(&t.bytes);
            data.resize(data.len().next_multiple_of(32), 0);
        }
        out.resize(out.len().next_multiple_of(32), 0);
        out.extend(data);
        out.truncate(self.keep.unwrap_or(usize::MAX));
        out
    }
}

/// Canonical tensors of the tiny llama, row length first.
pub fn tensors() -> Vec<(String, Vec<u64>)> {
    let mut all = vec![
        ("token_embd.weight".to_owned(), vec![HIDDEN, VOCAB]),
        ("output_norm.weight".to_owned(), vec![HIDDEN]),
    ];
    for (name, dims) in [
        ("attn_norm", vec![32]),
        ("attn_q", vec![32, 32]),
        ("attn_k", vec![32, 16]),
        ("attn_v", vec![32, 16]),
        ("attn_output", vec![32, 32]),
        ("ffn_norm", vec![32]),
        ("ffn_gate", vec![32, 64]),
        ("ffn_up", vec![32, 64]),
        ("ffn_down", vec![64, 32]),
    ] {
        all.push((format!("blk.0.{name}.weight"), dims));
    }
    all
}

/// `config.json` of the same model.
pub fn config() -> Value {
    json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32,
        "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 1, "vocab_size": 8, "max_position_embeddings": 128,
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
        "tie_word_embeddings": true,
    })
}

/// Hugging Face tensors of the same model: name and shape.
pub fn hf_tensors() -> Vec<(String, Vec<usize>)> {
    let mut all = vec![
        ("model.embed_tokens.weight".to_owned(), vec![8, 32]),
        ("model.norm.weight".to_owned(), vec![32]),
    ];
    for (name, shape) in [
        ("input_layernorm", vec![32]),
        ("self_attn.q_proj", vec![32, 32]),
        ("self_attn.k_proj", vec![16, 32]),
        ("self_attn.v_proj", vec![16, 32]),
        ("self_attn.o_proj", vec![32, 32]),
        ("post_attention_layernorm", vec![32]),
        ("mlp.gate_proj", vec![64, 32]),
        ("mlp.up_proj", vec![64, 32]),
        ("mlp.down_proj", vec![32, 64]),
    ] {
        all.push((format!("model.layers.0.{name}.weight"), shape));
    }
    all
}

/// A safetensors file of F32 zeros.
pub fn safetensors_file(tensors: &[(String, Vec<usize>)]) -> Vec<u8> {
    let bytes: Vec<Vec<u8>> = tensors
        .iter()
        .map(|(_, shape)| vec![0; shape.iter().product::<usize>() * 4])
        .collect();
    let rows: Vec<_> = tensors
        .iter()
        .zip(&bytes)
        .map(|((name, shape), bytes)| (name.as_str(), Format::F32, shape.as_slice(), &bytes[..]))
        .collect();
    safetensors::write(&rows)
}

/// A safetensors file with this header and this many zero bytes of data.
pub fn with_header(header: &str, data: usize) -> Vec<u8> {
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend(header.as_bytes());
    out.resize(out.len() + data, 0);
    out
}

/// xorshift64*: enough for mutations, the same everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}
