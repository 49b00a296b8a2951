//! Bodies of `/v1/chat/completions` and `/v1/completions`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ucuz_fuzz::bounded;
use ucuz_serve::{ApiError, parse_chat, parse_completion};

/// Longest text of an error that goes back to a client.
const MESSAGE_BYTES: usize = 1024;

fuzz_target!(|data: &[u8]| {
    bounded(data.len(), || {
        match parse_chat(data) {
            Ok(request) => assert!(is_named_once(&request.ignored)),
            Err(error) => check(&error),
        }
        match parse_completion(data) {
            Ok(request) => {
                assert!(!request.prompts.is_empty());
                assert!(is_named_once(&request.ignored));
            }
            Err(error) => check(&error),
        }
    });
});

/// A refused body is the client's fault, says so shortly, and names the field without repeating the body.
fn check(error: &ApiError) {
    assert!((400..500).contains(&error.status()), "{error:?}");
    assert!(
        !error.message().is_empty() && error.message().len() <= MESSAGE_BYTES,
        "{error:?}"
    );
    assert!(
        error
            .param()
            .is_none_or(|param| param.len() <= MESSAGE_BYTES),
        "{error:?}"
    );
}

fn is_named_once(ignored: &[&str]) -> bool {
    ignored.windows(2).all(|pair| pair[0] != pair[1])
}
