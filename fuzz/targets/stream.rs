//! Token ids to streamed text and stop strings: deltas joined are the whole, cut at the first stop.
//!
//! An input is stop strings with a zero byte between them, a byte 255, then one token id a byte.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use ucuz_fuzz::{bounded, check_error};
use ucuz_text::{
    DecodeOptions, Detokenizer, LeadingSpace, SpecialText, StopMatcher, Tokenizer, TokenizerConfig,
};

const JSON: &[u8] = include_bytes!("../../tests/golden/tiny/qwen2/tokenizer.json");

static TOKENIZER: LazyLock<Arc<Tokenizer>> = LazyLock::new(|| {
    Arc::new(Tokenizer::from_json(JSON, &TokenizerConfig::default()).expect("a good file"))
});

const OPTIONS: DecodeOptions = DecodeOptions {
    special: SpecialText::Show,
    leading_space: LeadingSpace::Keep,
};

fuzz_target!(|data: &[u8]| {
    LazyLock::force(&TOKENIZER);
    bounded(data.len(), || check(data));
});

fn check(data: &[u8]) {
    let cut = data
        .iter()
        .position(|byte| *byte == 255)
        .unwrap_or(data.len());
    let stops: Vec<String> = data[..cut]
        .split(|byte| *byte == 0)
        .filter(|stop| !stop.is_empty())
        .map(|stop| String::from_utf8_lossy(stop).into_owned())
        .collect();
    // The first ids are control tokens, the last merged ones.
    let ids: Vec<u32> = data[cut..]
        .iter()
        .map(|byte| u32::from(*byte) + 16)
        .collect();
    let mut matcher = match StopMatcher::new(&stops) {
        Ok(matcher) => matcher,
        Err(error) => return check_error(&error),
    };
    let mut stream = Detokenizer::new(Arc::clone(&TOKENIZER), OPTIONS);
    let mut shown = String::new();
    for &id in &ids {
        shown.push_str(&matcher.push(&stream.push(id)).text);
    }
    shown.push_str(&matcher.push(&stream.finish()).text);
    shown.push_str(&matcher.finish());
    assert_eq!(shown, expected(&stops, &TOKENIZER.decode(&ids, OPTIONS)));
    assert!(matcher.num_accepted() <= ids.len() + 1);
}

/// The rule, said naively on the whole text: cut before the stop that ends first, of those the longest.
fn expected(stops: &[String], text: &str) -> String {
    for end in 0..=text.len() {
        let ending = |stop: &&String| text.as_bytes()[..end].ends_with(stop.as_bytes());
        if let Some(longest) = stops.iter().filter(ending).map(String::len).max() {
            return text[..end - longest].to_owned();
        }
    }
    text.to_owned()
}
