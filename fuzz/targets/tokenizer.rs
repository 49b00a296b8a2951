//! Tokenizers from `tokenizer.json` or GGUF metadata, and what they make of text.
//!
//! An input that starts with `GGUF` is a whole file. Any other is up to three parts with a zero byte between them:
//! `tokenizer.json`, `tokenizer_config.json` (may be empty), a text to encode.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use ucuz_formats::config::{TokenizerSource, VocabMetadata};
use ucuz_formats::gguf;
use ucuz_fuzz::{bounded, check_error};
use ucuz_text::{
    DecodeOptions, Detokenizer, LeadingSpace, Special, SpecialIds, SpecialText, TextError,
    TokenKind, Tokenizer, TokenizerConfig, VocabSpec,
};

/// Text that every tokenizer of an input gets: words, digits, white space, letters outside ASCII, special-token text.
const TEXT: &str =
    "Hello  world's 1234\r\n\n \t漢字 e\u{301} 🙂<|im_end|></s>\u{2581}<0x0A> \u{10ffff}  ";

fuzz_target!(|data: &[u8]| {
    bounded(data.len(), || {
        let mut parts = data.splitn(3, |byte| *byte == 0);
        let (tokenizer, text) = if data.starts_with(b"GGUF") {
            (from_gguf(data), &data[data.len().saturating_sub(64)..])
        } else {
            let json = parts.next().unwrap_or_default();
            let config = parts.next().unwrap_or_default();
            (from_json(json, config), parts.next().unwrap_or_default())
        };
        match tokenizer {
            Some(Ok(tokenizer)) => {
                let tokenizer = Arc::new(tokenizer);
                check_text(&tokenizer, TEXT);
                check_text(&tokenizer, &String::from_utf8_lossy(text));
            }
            Some(Err(error)) => check_error(&error),
            None => {}
        }
    });
});

fn from_json(json: &[u8], config: &[u8]) -> Option<Result<Tokenizer, TextError>> {
    let config = if config.is_empty() {
        TokenizerConfig::default()
    } else {
        TokenizerConfig::from_json(config).ok()?
    };
    Some(Tokenizer::from_json(json, &config))
}

fn from_gguf(data: &[u8]) -> Option<Result<Tokenizer, TextError>> {
    match gguf::parse(data).ok()?.tokenizer().ok()? {
        TokenizerSource::Gguf(vocab) => Some(Tokenizer::from_vocab(&spec(&vocab))),
        _ => None,
    }
}

fn spec(vocab: &VocabMetadata) -> VocabSpec<'_> {
    let merges = vocab.merges.as_ref();
    VocabSpec {
        model: &vocab.model,
        pre: vocab.pre.as_deref(),
        tokens: vocab.tokens.iter().map(Vec::as_slice).collect(),
        scores: vocab.scores.clone(),
        token_types: vocab.token_types.clone(),
        merges: merges.map(|merges| merges.iter().map(String::as_bytes).collect()),
        ids: SpecialIds {
            bos: vocab.bos,
            eos: vocab.eos,
            eot: vocab.eot,
            unk: vocab.unk,
            pad: vocab.pad,
        },
        add_bos: vocab.add_bos,
        add_eos: vocab.add_eos,
        add_space_prefix: vocab.add_space_prefix,
    }
}

/// Ids lie in the vocabulary, plain text makes no control token, streamed text is whole text.
fn check_text(tokenizer: &Arc<Tokenizer>, text: &str) {
    for special in [Special::Plain, Special::Parse] {
        let ids = match tokenizer.encode(text, special) {
            Ok(ids) => ids,
            Err(error) => {
                check_error(&error);
                continue;
            }
        };
        for &id in &ids {
            let kind = tokenizer.kind(id).expect("an id lies in the vocabulary");
            // A file may name a control token as the one for text it has no token for.
            let plain = kind != TokenKind::Control || tokenizer.unk() == Some(id);
            assert!(special == Special::Parse || plain, "forged {id}");
        }
        check_stream(tokenizer, &ids);
    }
    let prompt = tokenizer
        .encode_prompt(text, Special::Plain)
        .unwrap_or_default();
    let begins = prompt
        .first()
        .is_some_and(|first| Some(*first) == tokenizer.bos());
    assert!(!tokenizer.adds_bos() || prompt.is_empty() || begins);
    assert_eq!(tokenizer.fingerprint().len(), 64);
    assert!(
        tokenizer
            .eog_ids()
            .iter()
            .all(|id| (*id as usize) < tokenizer.vocab_size())
    );
}

fn check_stream(tokenizer: &Arc<Tokenizer>, ids: &[u32]) {
    for (special, leading_space) in [
        (SpecialText::Hide, LeadingSpace::Strip),
        (SpecialText::Show, LeadingSpace::Keep),
    ] {
        let options = DecodeOptions {
            special,
            leading_space,
        };
        let mut stream = Detokenizer::new(Arc::clone(tokenizer), options);
        let mut shown: String = ids.iter().map(|id| stream.push(*id)).collect();
        shown.push_str(&stream.finish());
        assert_eq!(shown, tokenizer.decode(ids, options));
    }
}
