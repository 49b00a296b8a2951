//! The two parsers over damaged bodies: an error or a request, never a panic.

use ucuz_serve::{parse_chat, parse_completion};

const SEEDS: [&str; 5] = [
    r#"{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"\u00e9\ud83d\ude00"}],"name":"n"}],"stream":true,"stream_options":{"include_usage":true},"n":2}"#,
    r#"{"messages":[{"role":"assistant","content":"x","tool_calls":[]}],"temperature":0.5,"top_p":1e-3,"logit_bias":{"1":-100,"22":5.5},"stop":["a","b"],"logprobs":true,"top_logprobs":3,"seed":-1}"#,
    r#"{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"y"}],"tools":[{"type":"function","function":{"name":"f","description":"d","strict":false,"parameters":{"type":"object","properties":{"a":{"type":"integer"}}}}}],"tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false,"include_reasoning":false}"#,
    r#"{"prompt":[[1,2,3],[4]],"echo":true,"logprobs":1,"max_tokens":0,"best_of":1,"user":"u"}"#,
    r#"{"prompt":["a","b"],"stop_token_ids":[1,2],"min_tokens":1,"ignore_eos":true,"min_p":0.1,"repetition_penalty":1.1,"skip_special_tokens":false,"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"object","properties":{"a":{"enum":[1,"x"]}},"required":["a"]}}}}"#,
];
const PIECES: [&str; 14] = [
    "null",
    "-1",
    "1e999",
    "4294967296",
    "\"",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\\ud800",
    "\u{0}",
    "é",
];

/// The finalizer of SplitMix64.
fn mix(seed: u64) -> usize {
    let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) as usize
}

#[test]
fn damaged_bodies_are_errors_or_requests() {
    let (mut good, mut bad) = (0, 0);
    for round in 0..40_000u64 {
        let draw = |n: u64| mix(round * 8 + n);
        let mut body = SEEDS[draw(0) % SEEDS.len()].as_bytes().to_vec();
        for change in 0..1 + draw(1) % 3 {
            let place = mix(round * 8 + 2 + change as u64) % body.len();
            match draw(5) % 4 {
                0 => body[place] = draw(6) as u8,
                1 => drop(body.remove(place)),
                2 => body.truncate(place + 1),
                _ => {
                    let piece = PIECES[draw(6) % PIECES.len()];
                    body.splice(place..place, piece.bytes());
                }
            }
        }
        for code in [parse_chat(&body).err(), parse_completion(&body).err()] {
            match code {
                None => good += 1,
                Some(error) => {
                    assert_eq!(error.status(), 400);
                    bad += 1;
                }
            }
        }
    }
    println!("{good} requests, {bad} errors");
    assert!(good > 0 && bad > 0);
}
