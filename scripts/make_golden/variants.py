"""The tiny checkpoints: what each one is there to show. Data only.

`ablations` are configuration changes that must move the log-probabilities; the maker fails if one does not, so that a reader of these
checkpoints that overlooks the fact cannot pass.
"""

BASE = {
    "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
    "vocab_size": 128, "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
    "attention_bias": False, "attention_dropout": 0.0, "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2,
    "use_cache": True, "initializer_range": 0.02,
}
ARCHITECTURE = {
    "llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
}
LLAMA3_SCALING = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64,
}
GEMMA = {
    "model_type": "gemma3_text", "num_key_value_heads": 1, "head_dim": 32, "query_pre_attn_scalar": 24, "sliding_window": 16,
    "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "tie_word_embeddings": True, "hidden_act": None,
    "final_logit_softcapping": None, "attn_logit_softcapping": None, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 1,
}
TEXT = {"vocab_size": 288, "bos_token_id": 1, "eos_token_id": 2}
QWEN_TEXT = {"vocab_size": 288, "bos_token_id": 0, "eos_token_id": 2}


def variant(config, ablations, dtype="F32", shards=1, tokenizer=None):
    merged = {**BASE, **config}
    merged = {k: v for k, v in merged.items() if v is not None or k.endswith("softcapping") or k == "sliding_window"}
    return {"config": merged, "ablations": ablations, "dtype": dtype, "shards": shards, "tokenizer": tokenizer}


VARIANTS = {
    "llama-mha": variant({"model_type": "llama", "rope_scaling": None}, [{"rope_theta": 1000.0}]),
    "llama-gqa": variant(
        {"model_type": "llama", "num_key_value_heads": 2, "intermediate_size": 96, "tie_word_embeddings": True, **TEXT},
        [{"rope_theta": 1000.0}], tokenizer="smollm"),
    "llama-mqa-sharded": variant(
        {"model_type": "llama", "hidden_size": 96, "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 32},
        [{"rope_theta": 1000.0}], shards=2),
    "llama3-rope": variant(
        {"model_type": "llama", "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32, "tie_word_embeddings": True,
         "rope_scaling": LLAMA3_SCALING, **TEXT},
        [{"rope_scaling": None}, {"rope_scaling": {**LLAMA3_SCALING, "high_freq_factor": 1.001}},
         {"rope_scaling": {"rope_type": "linear", "factor": 8.0}}], tokenizer="llama3"),
    "llama-linear-rope-f16": variant(
        {"model_type": "llama", "num_key_value_heads": 2, "rope_scaling": {"type": "linear", "factor": 4.0}},
        [{"rope_scaling": None}], dtype="F16"),
    "llama-attention-bias": variant(
        {"model_type": "llama", "num_attention_heads": 2, "num_key_value_heads": 2, "attention_bias": True, "eos_token_id": [2, 3]},
        [{"rope_theta": 1000.0}]),
    "mistral-bf16": variant(
        {"model_type": "mistral", "num_key_value_heads": 2, "head_dim": 32, "intermediate_size": 96, "sliding_window": None,
         "rope_theta": 1000000.0, "attention_bias": None},
        [{"rope_theta": 10000.0}], dtype="BF16"),
    "mistral-window": variant(
        {"model_type": "mistral", "num_key_value_heads": 2, "head_dim": 16, "sliding_window": 24, "attention_bias": None},
        [{"sliding_window": None}, {"sliding_window": 23}, {"sliding_window": 25}]),
    "qwen2": variant(
        {"model_type": "qwen2", "num_attention_heads": 2, "num_key_value_heads": 1, "tie_word_embeddings": True, "rms_norm_eps": 1e-6,
         "rope_theta": 1000000.0, "use_sliding_window": False, "sliding_window": 16, "max_window_layers": 1, "attention_bias": None,
         **QWEN_TEXT},
        [{"rope_theta": 10000.0}], tokenizer="qwen2"),
    "qwen3": variant(
        {"model_type": "qwen3", "num_key_value_heads": 2, "head_dim": 32, "rms_norm_eps": 1e-6, "rope_theta": None,
         "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}, "tie_word_embeddings": True, "sliding_window": None,
         "use_sliding_window": False, "max_window_layers": 2, "layer_types": ["full_attention"] * 2, **QWEN_TEXT},
        [{"rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}}], tokenizer="qwen2"),
    "gemma3-pattern": variant(
        {**GEMMA, "num_hidden_layers": 4, "num_attention_heads": 2, "sliding_window_pattern": 3, "rope_theta": 1000000.0,
         "rope_local_base_freq": 10000.0, "rope_scaling": None},
        [{"sliding_window_pattern": 4}, {"sliding_window_pattern": 1}, {"sliding_window_pattern": 99}, {"sliding_window": 15},
         {"sliding_window": 17}, {"rope_theta": 10000.0}, {"rope_local_base_freq": 1000000.0}, {"query_pre_attn_scalar": 32}]),
    "gemma3-layer-types": variant(
        {**GEMMA, "num_hidden_layers": 4, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 48, "query_pre_attn_scalar": 64, "intermediate_size": 32,
         "rope_theta": None,
         "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
         "rope_parameters": {"full_attention": {"rope_theta": 1000000.0, "rope_type": "linear", "factor": 8.0},
                             "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}}},
        [{"layer_types": ["full_attention"] * 4}, {"query_pre_attn_scalar": 48},
         {"rope_parameters": {"full_attention": {"rope_theta": 1000000.0, "rope_type": "default"},
                              "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}}}]),
}
