"""Checks forward.py against tests/golden/real/, whose values come from another implementation (transformers).

Usage: python check_real.py MODEL_FOLDER (the GGUF files that those values name). Prints the largest distances; fails above 1e-3 nat.
"""

import json
import sys
from pathlib import Path

import gguf
import numpy as np

from forward import forward, log_softmax, prompt_logprobs
from gguf_twins import GLOBAL, NAMES, unpermute

REAL = Path(__file__).resolve().parents[2] / "tests" / "golden" / "real"
GEMMA_NORMS = {"post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm",
               "post_ffw_norm": "post_feedforward_layernorm"}
LIMIT = 1e-3


def field(reader, key, default=None):
    found = reader.fields.get(key)
    return found.contents() if found else default


def config_of(reader):
    arch = field(reader, "general.architecture")
    get = lambda key, default=None: field(reader, f"{arch}.{key}", default)
    config = {
        "model_type": {"gemma3": "gemma3_text"}.get(arch, arch), "hidden_size": get("embedding_length"),
        "num_hidden_layers": get("block_count"), "num_attention_heads": get("attention.head_count"),
        "num_key_value_heads": get("attention.head_count_kv"), "head_dim": get("attention.key_length"),
        "rms_norm_eps": get("attention.layer_norm_rms_epsilon"), "rope_theta": get("rope.freq_base"),
    }
    if arch == "gemma3":
        config |= {"query_pre_attn_scalar": config["head_dim"], "sliding_window": get("attention.sliding_window"),
                   "sliding_window_pattern": 6, "rope_local_base_freq": 10000.0}
    return config


def weights_of(reader, config):
    gemma = config["model_type"] == "gemma3_text"
    back = {v: k for k, v in NAMES.items()} | (GEMMA_NORMS if gemma else {})
    top = {v: k for k, v in GLOBAL.items()}
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    weights = {}
    for tensor in reader.tensors:
        stem, suffix = tensor.name.rsplit(".", 1)
        kind = stem.split(".")[-1]
        x = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        if config["model_type"] == "llama" and kind in heads:
            x = unpermute(x, heads[kind])
        if gemma and kind.endswith("norm"):
            x = x - 1
        name = top[stem] if stem in top else f"model.layers.{stem.split('.')[1]}.{back[kind]}"
        weights[f"{name}.{suffix}"] = x.astype(np.float32)
    return weights


def distance(config, weights, prompt):
    logits = forward(config, weights, prompt["ids"], np.float32)
    last = log_softmax(logits)[-1]
    top = max(abs(last[i] - value) for i, value in prompt["last_top20"])
    rest = np.abs(prompt_logprobs(logits, prompt["ids"]) - prompt["logprobs"])
    return max(float(top), float(rest.max(initial=0)))


def main():
    worst = 0.0
    for path in sorted(REAL.glob("*.json")):
        golden = json.loads(path.read_text())
        reader = gguf.GGUFReader(Path(sys.argv[1]) / golden["model_file"])
        config = config_of(reader)
        weights = weights_of(reader, config)
        found = [distance(config, weights, p) for p in golden["prompts"] + golden["chat"]]
        print(f"{path.name:32} {len(found)} prompts, largest distance {max(found):.2e} nat", flush=True)
        worst = max(worst, *found)
    if worst > LIMIT:
        raise SystemExit(f"largest distance {worst} nat, limit {LIMIT}")


if __name__ == "__main__":
    main()
