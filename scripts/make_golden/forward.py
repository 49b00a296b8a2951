"""A decoder-only transformer in plain numpy: the independent implementation behind tests/golden/tiny.

Written from the papers and from the semantics of the Hugging Face configuration keys; shares nothing with the crates. One function,
whole prompt at once, no cache, attention as a full matrix. Weights are a dict of Hugging Face tensor names; `config` is a
config.json dict in either the older form (rope_theta, rope_scaling) or the newer one (rope_parameters).
"""

import math

import numpy as np


def head_dim(config):
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def layer_types(config):
    """Per layer: "full_attention" or "sliding_attention"."""
    count, kind = config["num_hidden_layers"], config["model_type"]
    if config.get("layer_types"):
        return config["layer_types"]
    if kind == "gemma3_text":
        pattern = config.get("sliding_window_pattern", 6)
        return ["full_attention" if (i + 1) % pattern == 0 else "sliding_attention" for i in range(count)]
    if kind == "mistral" and config.get("sliding_window"):
        return ["sliding_attention"] * count
    return ["full_attention"] * count


def rope_settings(config, layer_type):
    """The rope dict of a layer: rope_theta, rope_type and the scaling's own keys."""
    new = config.get("rope_parameters")
    if new is not None:
        return new[layer_type] if layer_type in new else new
    if config["model_type"] == "gemma3_text" and layer_type == "sliding_attention":
        return {"rope_theta": config["rope_local_base_freq"], "rope_type": "default"}
    scaling = config.get("rope_scaling") or {}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    return {**scaling, "rope_theta": config["rope_theta"], "rope_type": kind}


def inverse_frequencies(config, layer_type):
    """[head_dim / 2] rotations per position."""
    rope, dim = rope_settings(config, layer_type), head_dim(config)
    freq = 1.0 / rope["rope_theta"] ** (np.arange(0, dim, 2, dtype=np.float64) / dim)
    if rope["rope_type"] == "default":
        return freq
    if rope["rope_type"] == "linear":
        return freq / rope["factor"]
    if rope["rope_type"] != "llama3":
        raise ValueError(f"rope type {rope['rope_type']} is not written here")
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    turns = rope["original_max_position_embeddings"] * freq / (2 * math.pi)  # turns in the original context
    smooth = np.clip((turns - low) / (high - low), 0.0, 1.0)  # 0: divide by factor, 1: keep
    return (1 - smooth) * freq / rope["factor"] + smooth * freq


def rms_norm(x, weight, eps, plus_one):
    scale = weight + 1 if plus_one else weight
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + x.dtype.type(eps)) * scale


def rotate(x, freq):
    """x: [tokens, heads, head_dim]; halves are paired (i, i + head_dim / 2)."""
    angle = np.arange(x.shape[0], dtype=np.float64)[:, None] * freq
    cos, sin = (f(angle).astype(x.dtype)[:, None, :] for f in (np.cos, np.sin))
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def attend(q, k, v, scale, window):
    """q: [tokens, heads, d]; k, v: [tokens, kv_heads, d]; a query sees keys in (i - window, i]."""
    repeat = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, repeat, axis=1), np.repeat(v, repeat, axis=1)
    scores = np.einsum("ihd,jhd->hij", q, k) * q.dtype.type(scale)
    i, j = np.arange(q.shape[0])[:, None], np.arange(q.shape[0])[None, :]
    visible = (j <= i) & ((j > i - window) if window else True)
    scores = np.where(visible, scores, q.dtype.type(-np.inf))
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    return np.einsum("hij,jhd->ihd", p, v).reshape(q.shape[0], -1)


def silu(x):
    return x / (1 + np.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / math.pi).astype(x.dtype) * (x + x.dtype.type(0.044715) * x**3)))


def forward(config, weights, ids, dtype=np.float64):
    """Logits [len(ids), vocab]."""
    gemma = config["model_type"] == "gemma3_text"
    eps = config["rms_norm_eps"]
    heads, kv_heads, dim = config["num_attention_heads"], config["num_key_value_heads"], head_dim(config)
    scale = (config["query_pre_attn_scalar"] if gemma else dim) ** -0.5
    activation = gelu_tanh if gemma else silu

    def get(name):
        return weights[name].astype(dtype)

    def norm(x, name):
        return rms_norm(x, get(name), eps, gemma)

    def linear(x, name):
        y = x @ get(name + ".weight").T
        return y + get(name + ".bias") if name + ".bias" in weights else y

    x = weights["model.embed_tokens.weight"][np.asarray(ids)].astype(dtype)
    if gemma:
        x = x * dtype(np.float32(config["hidden_size"] ** 0.5))
    for layer, kind in enumerate(layer_types(config)):
        p = f"model.layers.{layer}."
        h = norm(x, p + "input_layernorm.weight")
        q = linear(h, p + "self_attn.q_proj").reshape(-1, heads, dim)
        k = linear(h, p + "self_attn.k_proj").reshape(-1, kv_heads, dim)
        v = linear(h, p + "self_attn.v_proj").reshape(-1, kv_heads, dim)
        if p + "self_attn.q_norm.weight" in weights:
            q, k = norm(q, p + "self_attn.q_norm.weight"), norm(k, p + "self_attn.k_norm.weight")
        freq = inverse_frequencies(config, kind)
        window = config["sliding_window"] if kind == "sliding_attention" else None
        h = linear(attend(rotate(q, freq), rotate(k, freq), v, scale, window), p + "self_attn.o_proj")
        x = x + (norm(h, p + "post_attention_layernorm.weight") if gemma else h)
        before = "pre_feedforward_layernorm.weight" if gemma else "post_attention_layernorm.weight"
        h = norm(x, p + before)
        h = activation(linear(h, p + "mlp.gate_proj")) * linear(h, p + "mlp.up_proj")
        h = linear(h, p + "mlp.down_proj")
        x = x + (norm(h, p + "post_feedforward_layernorm.weight") if gemma else h)
    x = norm(x, "model.norm.weight")
    head = "lm_head.weight" if "lm_head.weight" in weights else "model.embed_tokens.weight"
    return x @ get(head).T


def log_softmax(logits):
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def prompt_logprobs(logits, ids):
    """Log-probability of each prompt token after the first."""
    return log_softmax(logits)[np.arange(len(ids) - 1), ids[1:]]
