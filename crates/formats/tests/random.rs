//! Thousands of seeded mutations of valid files: every one is accepted or refused, none panics.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use common::{Random, RawGguf, config, hf_tensors, safetensors_file};
use ucuz_formats::{config_json, generation, gguf, safetensors};

/// One to eight small wounds.
fn mutate(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for _ in 0..=random.below(8) {
        if out.is_empty() {
            return out;
        }
        let at = random.below(out.len());
        match random.below(6) {
            0 => out[at] ^= 1 << random.below(8),
            1 => out[at] = random.next().to_le_bytes()[0],
            2 => out.truncate(at),
            3 => {
                let end = (at + 8).min(out.len());
                let value = [0, u64::MAX, 1 << 63, 1 << 32, random.next()][random.below(5)];
                out[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
            }
            4 => {
                out.remove(at);
            }
            _ => out.insert(at, random.next().to_le_bytes()[0]),
        }
    }
    out
}

fn survive(valid: &[u8], rounds: u32, read: impl Fn(&[u8]) -> bool) {
    assert!(read(valid), "the unmutated bytes are read");
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let refused = (0..rounds)
        .filter(|_| !read(&mutate(valid, &mut random)))
        .count();
    assert!(refused > 0, "some mutations are refused");
}

#[test]
fn gguf_survives() {
    let file = RawGguf::valid().encode();
    let read = |bytes: &[u8]| {
        gguf::parse(bytes).is_ok_and(|file| {
            let _ = file.tokenizer();
            let _ = generation::of_gguf(&file);
            file.model_config(bytes).is_ok()
        })
    };
    survive(&file, 4000, read);
    // The tables alone, so that most wounds hit them; spans then lie outside and that is the refusal.
    let tables = &file[..file.len() - 31_000];
    let mut random = Random(7);
    for _ in 0..8000 {
        read(&mutate(tables, &mut random));
    }
}

#[test]
fn safetensors_survive() {
    let file = safetensors_file(&hf_tensors());
    survive(&file, 2000, |bytes| safetensors::parse(bytes).is_ok());
    let header = 8 + u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let mut random = Random(11);
    for _ in 0..8000 {
        let mut bytes = mutate(&file[..header], &mut random);
        bytes.extend(&file[header..]);
        drop(safetensors::parse(&bytes));
    }
}

#[test]
fn json_files_survive() {
    let index = br#"{"metadata":{},"weight_map":{"a":"x-1.safetensors","b":"x-2.safetensors"}}"#;
    survive(index, 4000, |bytes| safetensors::parse_index(bytes).is_ok());
    survive(config().to_string().as_bytes(), 8000, |bytes| {
        config_json::parse(bytes).is_ok()
    });
    let defaults = br#"{"temperature":0.7,"top_k":40,"top_p":0.9,"eos_token_id":[1,2]}"#;
    survive(defaults, 4000, |bytes| generation::parse(bytes).is_ok());
}
