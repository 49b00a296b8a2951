#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets: tiny valid files of every kind (fuzz/seeds/TARGET/NAME).

    python3 fuzz/make_seeds.py

GGUF and safetensors hold a llama of one layer, 32 wide, all zeros; JSON comes from tests/golden/tiny.
"""

import json
import struct
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
TINY = HERE.parent / "tests/golden/tiny"
HIDDEN, FFN, HEADS, VOCAB = 32, 32, 2, 8
U32, I32, F32, BOOL, STRING, ARRAY, U64 = 4, 5, 6, 7, 8, 9, 10


def put(target, name, data):
    folder = HERE / "seeds" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())


def text(value):
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def value(kind, given):
    if kind == STRING:
        return text(given)
    if kind == ARRAY:
        element, items = given
        return struct.pack("<IQ", element, len(items)) + b"".join(value(element, i) for i in items)
    return struct.pack({U32: "<I", I32: "<i", F32: "<f", BOOL: "<?", U64: "<Q"}[kind], given)


def gguf(keys, tensors, version=3):
    """tensors: (name, shape innermost first, type id, bytes)."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys))
    for key, (kind, given) in keys.items():
        head += text(key) + struct.pack("<I", kind) + value(kind, given)
    data = b""
    for name, shape, kind, size in tensors:
        head += text(name) + struct.pack("<I", len(shape))
        head += b"".join(struct.pack("<Q", n) for n in shape) + struct.pack("<IQ", kind, len(data))
        data += bytes(size) + bytes(-size % 32)
    return head + bytes(-len(head) % 32) + data


def model_tensors(norms=(), biases=False, kind=8, block=(32, 34)):
    def matrix(name, rows, cols):
        return (name, [cols, rows], kind, rows * cols // block[0] * block[1])

    def vector(name, size):
        return (name, [size], 0, 4 * size)

    layer = "blk.0."
    out = [matrix("token_embd.weight", VOCAB, HIDDEN), vector("output_norm.weight", HIDDEN)]
    out += [vector(layer + name + ".weight", size) for name, size in
            [("attn_norm", HIDDEN), ("ffn_norm", HIDDEN), *norms]]
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        out.append(matrix(layer + name + ".weight", HIDDEN, HIDDEN))
    if biases:
        out += [vector(layer + name + ".bias", HIDDEN) for name in ("attn_q", "attn_k", "attn_v")]
    return out


def model_keys(architecture):
    key = architecture + "."
    return {
        "general.architecture": (STRING, architecture),
        "general.alignment": (U32, 32),
        key + "block_count": (U32, 1),
        key + "context_length": (U32, 512),
        key + "embedding_length": (U32, HIDDEN),
        key + "feed_forward_length": (U32, FFN),
        key + "attention.head_count": (U32, HEADS),
        key + "attention.head_count_kv": (U32, HEADS),
        key + "attention.layer_norm_rms_epsilon": (F32, 1e-5),
        key + "rope.freq_base": (F32, 10000.0),
        key + "rope.dimension_count": (U32, HIDDEN // HEADS),
    }


TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
PAIRS = {
    "tokenizer.ggml.model": (STRING, "gpt2"),
    "tokenizer.ggml.pre": (STRING, "smollm"),
    "tokenizer.ggml.tokens": (ARRAY, (STRING, ["<|endoftext|>", "<|im_end|>", "h", "e", "l", "o", "he", "\u0120"])),
    "tokenizer.ggml.token_type": (ARRAY, (I32, [3, 3, 1, 1, 1, 1, 1, 1])),
    "tokenizer.ggml.merges": (ARRAY, (STRING, ["h e"])),
    "tokenizer.ggml.bos_token_id": (U32, 0),
    "tokenizer.ggml.eos_token_id": (U32, 1),
    "tokenizer.ggml.unknown_token_id": (U32, 0),
    "tokenizer.ggml.add_bos_token": (BOOL, False),
    "tokenizer.chat_template": (STRING, TEMPLATE),
    "general.sampling.temp": (F32, 0.7),
    "general.sampling.top_k": (I32, 40),
}
PIECES = {
    "tokenizer.ggml.model": (STRING, "llama"),
    "tokenizer.ggml.tokens": (ARRAY, (STRING, ["<unk>", "<s>", "</s>", "<0x0A>", "\u2581", "he", "h", "e"])),
    "tokenizer.ggml.scores": (ARRAY, (F32, [0.0, 0.0, 0.0, 0.0, -1.0, -2.0, -3.0, -4.0])),
    "tokenizer.ggml.token_type": (ARRAY, (I32, [2, 3, 3, 6, 1, 1, 1, 1])),
    "tokenizer.ggml.bos_token_id": (U32, 1),
    "tokenizer.ggml.eos_token_id": (U32, 2),
    "tokenizer.ggml.unknown_token_id": (U32, 0),
}


def gguf_seeds():
    head = HIDDEN // HEADS
    qk = [("attn_q_norm", head), ("attn_k_norm", head)]
    post = [("post_attention_norm", HIDDEN), ("post_ffw_norm", HIDDEN)]
    gemma = {**model_keys("gemma3"), **PIECES,
             "gemma3.attention.key_length": (U32, head), "gemma3.attention.value_length": (U32, head),
             "gemma3.attention.sliding_window": (U32, 16)}
    scaled = {**model_keys("llama"), **PIECES, "llama.rope.scaling.type": (STRING, "linear"),
              "llama.rope.scaling.factor": (F32, 2.0), "llama.vocab_size": (U32, VOCAB)}
    files = {
        "llama": gguf({**model_keys("llama"), **PAIRS}, model_tensors()),
        "llama-v2": gguf(scaled, model_tensors(), version=2),
        "qwen2": gguf({**model_keys("qwen2"), **PAIRS}, model_tensors(biases=True)),
        "qwen3": gguf({**model_keys("qwen3"), **PAIRS}, model_tensors(norms=qk)),
        "gemma3": gguf(gemma, model_tensors(norms=qk + post)),
        "nested": gguf({"a": (ARRAY, (ARRAY, [(U32, [1, 2]), (STRING, ["x"])])), "b": (U64, 7)}, []),
    }
    for name, data in files.items():
        put("gguf", name, data)
    for name, keys in (("gguf-pairs", PAIRS), ("gguf-pieces", PIECES)):
        put("tokenizer", name, gguf(keys, []))


def config(name, **changes):
    """A golden configuration, shrunk to the tensors of the seeds."""
    json_ = json.loads((TINY / name / "config.json").read_text())
    json_.update(hidden_size=HIDDEN, intermediate_size=FFN, num_hidden_layers=1,
                 num_attention_heads=HEADS, num_key_value_heads=HEADS, vocab_size=VOCAB, **changes)
    if "layer_types" in json_:
        json_["layer_types"] = ["sliding_attention"]
    return json.dumps(json_)


def safetensors(tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in tensors.items():
        size = 2
        for n in shape:
            size *= n
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    return struct.pack("<Q", len(head)) + head + bytes(at)


def hugging_face_seeds():
    layer = "model.layers.0."
    tensors = {"model.embed_tokens.weight": [VOCAB, HIDDEN], "model.norm.weight": [HIDDEN],
               layer + "input_layernorm.weight": [HIDDEN], layer + "post_attention_layernorm.weight": [HIDDEN]}
    for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                 "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"):
        tensors[f"{layer}{name}.weight"] = [HIDDEN, HIDDEN]
    put("safetensors", "llama.safetensors", safetensors(tensors))
    put("safetensors", "scalar-and-empty", safetensors({"a": [], "b": [0, 3]}))
    names = {name: "model-00001-of-00001.safetensors" for name in tensors}
    put("safetensors", "index.json", json.dumps({"metadata": {"total_size": 1}, "weight_map": names}))
    put("config", "llama.json", config("llama-gqa"))
    for name in ("llama3-rope", "llama-linear-rope-f16", "mistral-window", "qwen2", "qwen3",
                 "gemma3-layer-types", "gemma3-pattern"):
        put("config", f"{name}.json", config(name, head_dim=HIDDEN // HEADS))
    put("config", "generation.json", json.dumps({
        "do_sample": True, "temperature": 0.7, "top_k": 20, "top_p": 0.8, "min_p": 0.05,
        "repetition_penalty": 1.1, "eos_token_id": [1, 2]}))
    put("config", "tokenizer.json", (TINY / "qwen2/tokenizer_config.json").read_text())


def tokenizer_seeds():
    text_ = "The cat's 12  dogs\n<|im_end|> caf\u00e9".encode()
    for name in ("qwen2", "llama-gqa", "llama3-rope"):
        json_ = (TINY / name / "tokenizer.json").read_bytes()
        config_ = (TINY / name / "tokenizer_config.json").read_bytes()
        put("tokenizer", name, json_ + b"\0" + config_ + b"\0" + text_)
    small = {
        "added_tokens": [{"id": 0, "content": "<s>", "special": True, "lstrip": True, "rstrip": True},
                         {"id": 6, "content": "<u>", "special": False, "single_word": True}],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "\u2581"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
        "pre_tokenizer": None,
        "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}]},
        "model": {"type": "BPE", "unk_token": "<unk>", "byte_fallback": True, "fuse_unk": True,
                  "vocab": {"<s>": 0, "<unk>": 1, "<0x0A>": 2, "h": 3, "e": 4, "he": 5, "\u2581": 7},
                  "merges": ["h e"]},
    }
    put("tokenizer", "pieces", json.dumps(small).encode() + b"\0\0" + b"he <u> he<s> \n")
    small["normalizer"] = None
    small["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
        {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True},
        {"type": "Digits", "individual_digits": True},
        {"type": "Split", "pattern": {"Regex": "[a-z]+|\\s+(?!\\S)|\\s+"}, "behavior": "Isolated"}]}
    put("tokenizer", "metaspace", json.dumps(small).encode() + b"\0\0" + b"he  12 he")


def prepared_seeds():
    def file(parts, pages):
        table = b"".join(bytes([i]) * 32 + struct.pack("<QQI", offset, size, 0) + bytes(12)
                         for i, (offset, size) in enumerate(parts))
        head = b"ucuzprep" + struct.pack("<II", 1, len(parts)) + bytes(range(32))
        head += struct.pack("<QI", 4096 * (1 + pages), zlib.crc32(table))
        return bytes([pages]) + head + struct.pack("<I", zlib.crc32(head)) + table

    put("prepared", "none", file([], 0))
    put("prepared", "two", file([(4096, 4096), (8192, 100)], 2))
    put("prepared", "five", file([(4096, 1), (8192, 5000), (16384, 4096), (20480, 0), (20480, 64)], 5))


TEMPLATES = {
    "chatml": TEMPLATE + "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "system": "{%- if messages[0]['role'] == 'system' -%}{% set s = messages[0].content | trim %}"
              "{% set messages = messages[1:] %}{% else %}{% set s = '' %}{% endif %}{{ bos_token }}{{ s }}"
              "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
              "{{ raise_exception('roles must alternate') }}{% endif %}{{ m.content.strip() + eos_token }}{% endfor %}",
    "tools": "{% macro show(x, n=1) %}{{ x | tojson(indent=n) }}{% endmacro %}{% set ns = namespace(i=0) %}"
             "{% for m in messages | reverse %}{% set ns.i = ns.i + 1 %}{{ show(m) }}{{ loop.last }}{% endfor %}"
             "{% for k, v in messages[0].items() %}{{ k ~ v }}{% endfor %}{{ tools is defined and tools is not none }}",
    "strings": "{{ strftime_now('%d %b %Y') }}{{ messages[1].content.split('\\n')[-1].lstrip('a') | upper }}"
               "{{ messages[0].content.replace('a', 'b').startswith('<|im_start|>') }}{{ range(3) | list | join(',') }}"
               "{% generation %}{{ 'x' * 3 }}{% endgeneration %}{{ {'a': [1, 2.5, none, true]} | tojson }}{# note #}",
}


def template_seeds():
    for name, source in TEMPLATES.items():
        messages = "Be <|im_end|> kind.\0Hi <|im_start|>\nthere \U00100000\0" + '{"x": [1, {"y": null}]}'
        put("template", name, source + "\0" + messages)


def grammar_seeds():
    schema = {"type": "object", "properties": {"a": {"type": "integer", "minimum": -5, "maximum": 1e3}, "b": {"$ref": "#/$defs/d"},
              "c": {"type": "array", "items": {"anyOf": [{"type": "null"}, {"enum": ["x", 1]}]}, "minItems": 1, "maxItems": 3}},
              "required": ["a"], "additionalProperties": {"type": "string", "pattern": "^[a-c]+\\d$"},
              "$defs": {"d": {"type": "string", "format": "date", "maxLength": 12}}}
    sources = {
        "schema": "s" + json.dumps(schema),
        "regex": "r(a+)+b|[^x]{2,5}\\d?(?i:q)",
        "lark": 'gstart: e\ne: /[0-9]+/ | "(" e ("+" | "-") e ")"\n%ignore /[ ]/\n',
        "gbnf": 'groot ::= e "\\n"? # end\ne ::= [0-9]{1,3} | "(" e [-+] e ")"\n',
        "choices": "cyes\nno\nyes, but",
        "object": "o",
    }
    for name, source in sources.items():
        put("grammar", name, source.encode() + b"\0" + bytes(range(0, 240, 17)))


def request_seeds():
    sampling = {"temperature": 0.5, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "seed": -1, "max_tokens": 8, "n": 2,
                "stop": ["\n", "x"], "presence_penalty": 0.1, "frequency_penalty": -0.1, "logit_bias": {"5": -100},
                "stop_token_ids": [1], "ignore_eos": True, "min_tokens": 1, "user": "u", "repetition_penalty": 1.1}
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "t"}]},
                {"role": "assistant", "content": "a", "tool_calls": []}, {"role": "user", "content": "u", "name": "n"}]
    bodies = {
        "chat": {"model": "m", "messages": messages, **sampling, "stream": True,
                 "stream_options": {"include_usage": True}, "logprobs": True, "top_logprobs": 2},
        "chat-neutral": {"messages": messages[:2], "max_completion_tokens": 3, "tools": [], "tool_choice": "none",
                         "response_format": {"type": "json_object"}, "modalities": ["text"], "metadata": {"a": "b"}},
        "chat-tools": {
            "messages": [
                {"role": "user", "content": "x"},
                {"role": "assistant", "content": None, "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": "c", "content": "y"}],
            "tools": [{"type": "function", "function": {
                "name": "f", "description": "d", "strict": False,
                "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}}],
            "tool_choice": {"type": "function", "function": {"name": "f"}},
            "parallel_tool_calls": False, "include_reasoning": False},
        "completion": {"model": "m", "prompt": ["a", [1, 2]], **sampling, "echo": True, "logprobs": 1, "best_of": 2},
        "completion-ids": {"prompt": [1, 2, 3], "prompt_logprobs": 1, "suffix": "", "stop": "x"},
    }
    for name, body in bodies.items():
        put("request", name, json.dumps(body))
    put("request", "escapes", '{"prompt": "\\u00e9\\ud83d\\ude42\\n", "temperature": 1e-3, "seed": 18446744073709551615}')


def dialect_seeds():
    blocks = [{"type": "text", "text": "t", "cache_control": {"type": "ephemeral"}}]
    turns = [{"role": "user", "content": blocks}, {"role": "assistant", "content": "a"}, {"role": "user", "content": "u"}]
    part = {"type": "input_text", "text": "t"}
    items = [{"type": "message", "role": "developer", "content": [part]},
             {"id": "m", "status": "completed", "role": "assistant",
              "content": [{"type": "output_text", "text": "a", "annotations": [], "logprobs": []}]}]
    schema = {"type": "json_schema", "name": "n", "strict": True, "schema": {"type": "object", "properties": {"a": {}}}}
    standing = {"cache_salt": "s", "priority": -1}
    bodies = {
        "messages": {"model": "m", "max_tokens": 8, "messages": turns, "system": blocks, "stop_sequences": ["x"], "stream": True,
                     "temperature": 0.5, "top_k": -1, "top_p": 0.9, "seed": 1, "thinking": {"type": "disabled"},
                     "metadata": {"user_id": "u"}, **standing},
        "count": {"messages": [{"role": "user", "content": "u"}], "system": "s", "service_tier": "auto"},
        "responses": {"model": "m", "input": items, "instructions": "i", "max_output_tokens": 8, "temperature": 1, "top_p": 1,
                      "text": {"format": schema}, "metadata": {"a": "b"}, "store": False, "tools": [], "include": [],
                      "reasoning": {}, "truncation": "disabled", "background": False, "top_logprobs": 0, **standing},
        "responses-text": {"input": "u", "text": {"format": {"type": "text"}}, "tool_choice": "auto", "stream": True},
        "embeddings": {"input": ["a", [1, 2]], "pooling": "last", "encoding_format": "base64", "dimensions": 4, "normalize": False},
        "embeddings-ids": {"input": [1, 2, 3], "user": "u"},
        "tokenize": {"model": "m", "prompt": "a", "add_special_tokens": True},
        "detokenize": {"tokens": [1, 2, 3]},
    }
    for name, body in bodies.items():
        put("dialects", name, json.dumps(body))


def forced_call_seeds():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", None, 1.5]}, "c": {"type": "array",
              "items": {"$ref": "#/$defs/d"}, "maxItems": 2}}, "required": ["a"], "additionalProperties": False,
              "$defs": {"d": {"type": "string", "maxLength": 3}}}
    # A form, 4 times the choice, 12 times whether there may be several.
    for name, how in (("mistral", 4), ("gemma", 5), ("hermes", 6), ("llama3", 7), ("hermes-free", 2), ("hermes-named", 10),
                      ("mistral-parallel", 16), ("llama3-parallel", 19)):
        put("forced_calls", name, bytes([how]) + json.dumps(schema).encode() + b"\0" + bytes(range(0, 120, 7)))
    put("forced_calls", "free-object", b"\x06{}\0" + bytes(range(40, 90, 3)))


def stream_seeds():
    put("stream", "no-stop", b"\xff" + bytes(range(80, 120)))
    put("stream", "stops", b"ab\0bc\0\xc3\xa9\xff" + bytes([84, 85, 86, 84, 85, 178, 152, 84]))
    put("stream", "split-letters", b"x\xff" + bytes([223, 141, 136, 114, 223, 141, 20, 178, 152]))


def tool_call_seeds():
    seeds = {
        "hermes": b'\x02\x01Hm.\n<tool_call>\n{"name": "add", "arguments": {"a": [1, -2.5e3, "\\u00e9\xc3\xa9"]}}\n</tool_call>',
        "hermes-late-name": b'\x02\x05<tool_call>[{"arguments": {}, "name": "f"}, {"name": "f"}]</tool_call>',
        "llama3": b'\x03\x02<|python_tag|>{"name": "add", "parameters": {"a": true}}; {"name": "f", "parameters": {}}',
        "mistral": b'\x00\x03[TOOL_CALLS][{"name": "add", "arguments": {"a": null}}]',
        "mistral-named": b'\x00\x03[TOOL_CALLS]add[CALL_ID]x9[ARGS]{"a": 1}[TOOL_CALLS]f{}',
        "gemma-python": b"\x01\x04```tool_code\nprint(add(a=[True, 'x\\n'], b={\"c\": 1}))\n```",
        "gemma-marks": b'\x01\x04<start_function_call>call:add{a:<escape>x<escape>,b:{c:[1]}}<end_function_call>',
        "thoughts": b'\x06\x07<think>\na < b\n</think>\n\n<tool_call>{"name": "add", "arguments": {}}</tool_call>',
        "thoughts-open": b"\x0a\x07well </think>\n\nYes.",
    }
    for name, text in seeds.items():
        put("tool_calls", name, text)


if __name__ == "__main__":
    gguf_seeds()
    hugging_face_seeds()
    prepared_seeds()
    tokenizer_seeds()
    template_seeds()
    grammar_seeds()
    request_seeds()
    dialect_seeds()
    forced_call_seeds()
    stream_seeds()
    tool_call_seeds()
