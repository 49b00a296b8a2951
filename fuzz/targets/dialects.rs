//! Bodies of the endpoints beside chat and completions: `/v1/responses`, `/v1/messages` and its count, `/v1/embeddings`,
//! `/tokenize`, `/detokenize`. Each reads every input.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ucuz_fuzz::bounded;
use ucuz_serve::{
    ApiError, MessagesPurpose, parse_detokenize, parse_embeddings, parse_messages, parse_responses,
    parse_tokenize,
};

/// Longest text of an error that goes back to a client.
const MESSAGE_BYTES: usize = 1024;
/// Texts or lists of one embeddings request.
const INPUTS_MAX: usize = 128;

fuzz_target!(|data: &[u8]| {
    bounded(data.len(), || read(data));
});

fn read(data: &[u8]) {
    match parse_responses(data) {
        Ok(request) => {
            assert!(is_named_once(&request.ignored));
            assert!(request.metadata.len() <= 16);
        }
        Err(error) => check(&error),
    }
    match parse_messages(data, MessagesPurpose::Answer) {
        Ok(request) => {
            assert!(request.generate.max_tokens.is_some());
            assert!(is_named_once(&request.ignored));
            let count = parse_messages(data, MessagesPurpose::Count);
            assert!(count.is_ok(), "what is answered can be counted");
        }
        Err(error) => check(&error),
    }
    match parse_embeddings(data) {
        Ok(request) => assert!((1..=INPUTS_MAX).contains(&request.inputs.len())),
        Err(error) => check(&error),
    }
    parse_messages(data, MessagesPurpose::Count).map_or_else(|error| check(&error), drop);
    parse_tokenize(data).map_or_else(|error| check(&error), drop);
    parse_detokenize(data).map_or_else(|error| check(&error), drop);
}

/// A refused body is the client's fault, says so shortly, and names the field without repeating the body.
fn check(error: &ApiError) {
    assert!((400..500).contains(&error.status()), "{error:?}");
    let length = error.message().len();
    assert!((1..=MESSAGE_BYTES).contains(&length), "{error:?}");
    let length = error.param().map_or(0, str::len);
    assert!(length <= MESSAGE_BYTES, "{error:?}");
}

fn is_named_once(ignored: &[&str]) -> bool {
    ignored.windows(2).all(|pair| pair[0] != pair[1])
}
