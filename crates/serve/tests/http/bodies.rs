//! Good bodies of every endpoint that takes one.

/// Paths and bodies; what each asks for is answered with 200.
pub const GOOD: [(&str, &str); 17] = [
    (
        "/v1/chat/completions",
        r#"{"model":"sim","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"say:ok|\u00e9\ud83d\ude00"}],"name":"n"}],"max_tokens":8,"logprobs":true,"top_logprobs":3,"n":2,"seed":-1}"#,
    ),
    (
        "/v1/chat/completions",
        r#"{"messages":[{"role":"user","content":"say:ok|"}],"max_tokens":8,"stream":true,"stream_options":{"include_usage":true},"temperature":0.5,"top_p":1e-3,"top_k":5,"min_p":0.1,"logit_bias":{"1":-100,"22":5.5},"stop":["a","b"],"presence_penalty":0.1,"frequency_penalty":-0.1,"user":"u"}"#,
    ),
    (
        "/v1/chat/completions",
        r#"{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}],"reasoning_content":"r"},{"role":"tool","tool_call_id":"c","content":"say:ok|"}],"max_tokens":8,"tool_choice":"none","tools":[{"type":"function","function":{"name":"f","description":"d","strict":false,"parameters":{"type":"object","properties":{"a":{"type":"integer"}}}}}],"include_reasoning":false}"#,
    ),
    (
        "/v1/chat/completions",
        r##"{"messages":[{"role":"user","content":"x"}],"max_tokens":8,"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"object","properties":{"a":{"enum":[1,"x"]},"b":{"type":"array","items":{"$ref":"#/$defs/d"},"maxItems":3}},"required":["a"],"$defs":{"d":{"type":"string","pattern":"^[a-c]+$","maxLength":4}}}}}}"##,
    ),
    (
        "/v1/chat/completions/render",
        r#"{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}],"logprobs":true}"#,
    ),
    (
        "/v1/completions",
        r#"{"prompt":[[1,2,3],[4]],"echo":true,"logprobs":1,"max_tokens":0,"best_of":1,"n":1}"#,
    ),
    (
        "/v1/completions",
        r#"{"prompt":["a","say:b|"],"max_tokens":4,"stop_token_ids":[1,2],"min_tokens":1,"ignore_eos":true,"repetition_penalty":1.1,"skip_special_tokens":false,"cache_salt":"s","priority":-1,"explain":true,"prompt_logprobs":2}"#,
    ),
    (
        "/v1/completions",
        r#"{"prompt":"a","max_tokens":6,"structured_outputs":{"regex":"[a-c]{1,4}x?"}}"#,
    ),
    (
        "/v1/completions",
        r#"{"prompt":"a","max_tokens":6,"guided_grammar":"root ::= e \"x\"? e\ne ::= [0-9]{1,3}","stream":true}"#,
    ),
    (
        "/v1/completions",
        r#"{"prompt":"a","max_tokens":6,"guided_choice":["yes","no"]}"#,
    ),
    ("/v1/completions/render", r#"{"prompt":["a",[1,2]]}"#),
    (
        "/v1/responses",
        r#"{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"say:ok|"}]}],"instructions":"i","max_output_tokens":8,"temperature":0.5,"top_p":0.9,"metadata":{"a":"b"},"text":{"format":{"type":"json_object"}},"stream":true}"#,
    ),
    (
        "/v1/messages",
        r#"{"max_tokens":8,"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"text","text":"say:ok|"}]},{"role":"assistant","content":"y"},{"role":"user","content":"z"}],"stop_sequences":["x"],"top_k":3,"thinking":{"type":"disabled"},"stream":true}"#,
    ),
    (
        "/v1/messages/count_tokens",
        r#"{"messages":[{"role":"user","content":"x"}],"system":"s"}"#,
    ),
    (
        "/v1/embeddings",
        r#"{"input":["a",[1,2]],"pooling":"last","encoding_format":"base64","normalize":false}"#,
    ),
    (
        "/tokenize",
        r#"{"prompt":"a <|im_start|>","add_special_tokens":true}"#,
    ),
    ("/detokenize", r#"{"tokens":[104,105,256]}"#),
];
