"""GGUF twins of the tiny checkpoints, written with the `gguf` package the way llama.cpp's converter lays tensors out."""

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T

import tiny_tokenizer
from forward import head_dim, inverse_frequencies

MIXED = {
    "token_embd": T.Q8_0, "attn_q": T.Q4_0, "attn_k": T.Q4_1, "attn_v": T.Q5_0, "attn_output": T.Q5_1, "ffn_gate": T.Q4_0,
    "ffn_up": T.Q5_1, "ffn_down": T.Q4_1,
}
# `types`: tensor kind -> type; a kind not named is F32.
TWINS = {
    "llama-gqa-f32": {"of": "llama-gqa", "types": {}, "file_type": 0},
    "llama-gqa-q8_0": {"of": "llama-gqa", "types": dict.fromkeys(MIXED, T.Q8_0), "file_type": 7},
    "llama-gqa-mixed": {"of": "llama-gqa", "types": MIXED, "file_type": 2},
    "llama3-rope-f32": {"of": "llama3-rope", "types": {}, "file_type": 0},
    "qwen2-f32": {"of": "qwen2", "types": {}, "file_type": 0},
    "qwen3-f32": {"of": "qwen3", "types": {}, "file_type": 0},
}
NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}
GLOBAL = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def gguf_name(name):
    """The GGUF name and kind of a Hugging Face tensor name."""
    stem, suffix = name.rsplit(".", 1)
    if stem in GLOBAL:
        return f"{GLOBAL[stem]}.{suffix}", GLOBAL[stem]
    _, _, layer, rest = stem.split(".", 3)
    return f"blk.{layer}.{NAMES[rest]}.{suffix}", NAMES[rest]


def permute(x, heads):
    """Rotary halves to interleaved pairs, as llama.cpp stores q and k rows of the llama architecture."""
    return x.reshape(heads, 2, x.shape[0] // heads // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def unpermute(x, heads):
    return x.reshape(heads, x.shape[0] // heads // 2, 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def add_metadata(writer, twin, spec, file_type):
    config = spec["config"]
    writer.add_name(twin)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base((config.get("rope_parameters") or config)["rope_theta"])
    if config["model_type"] == "llama":
        writer.add_vocab_size(config["vocab_size"])
        writer.add_rope_dimension_count(head_dim(config))
    if config.get("head_dim"):
        writer.add_key_length(head_dim(config))
        writer.add_value_length(head_dim(config))
    writer.add_file_type(file_type)
    writer.add_quantization_version(2)


def add_vocabulary(writer, spec):
    tokens, control = tiny_tokenizer.tokens(), len(tiny_tokenizer.CONTROL)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(tiny_tokenizer.GGUF_PRE[spec["tokenizer"]])
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL] * control + [gguf.TokenType.NORMAL] * (len(tokens) - control))
    writer.add_token_merges(tiny_tokenizer.MERGES)
    writer.add_bos_token_id(spec["config"]["bos_token_id"])
    writer.add_eos_token_id(spec["config"]["eos_token_id"])
    writer.add_add_bos_token(False)
    writer.add_chat_template(tiny_tokenizer.CHAT_TEMPLATE)


def add_rope_factors(writer, config):
    """Llama 3's scaling is stored as one divisor per frequency."""
    if not config.get("rope_scaling"):
        return
    plain = inverse_frequencies({**config, "rope_scaling": None}, "full_attention")
    writer.add_tensor("rope_freqs.weight", (plain / inverse_frequencies(config, "full_attention")).astype(np.float32))


def write(path, twin, spec, weights):
    """Writes the file; returns the weights that it holds, dequantised, under their Hugging Face names."""
    config, recipe = spec["config"], TWINS[twin]
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    writer = gguf.GGUFWriter(str(path), config["model_type"])
    add_metadata(writer, twin, spec, recipe["file_type"])
    add_vocabulary(writer, spec)
    add_rope_factors(writer, config)
    held = {}
    for key, x in weights.items():
        name, kind = gguf_name(key)
        turned = config["model_type"] == "llama" and kind in heads
        x = np.ascontiguousarray(permute(x, heads[kind]) if turned else x)
        qtype = recipe["types"].get(kind) if x.ndim == 2 else None
        if qtype is None:
            writer.add_tensor(name, x)
        else:
            data = gguf.quants.quantize(x, qtype)
            writer.add_tensor(name, data, raw_dtype=qtype)
            x = gguf.quants.dequantize(data, qtype)
        held[key] = unpermute(x, heads[kind]) if turned else x
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return held
