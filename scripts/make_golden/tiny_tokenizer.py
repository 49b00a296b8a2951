"""A byte-level BPE vocabulary of 288 tokens: 3 control tokens, the 256 bytes, 29 merges. The same one for tokenizer.json and GGUF."""

import json

CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = [
    "Ġ t", "h e", "i n", "r e", "Ġ a", "Ġt he", "o n", "e r", "Ġ s", "a t", "Ġ w", "o u", "n d", "e s", "i s", "Ġ o", "in g", "l l", "o r",
    "Ġ b", "e n", "i t", "Ġ f", "Ġ c", "Ġo f", "a l", "Ġa nd", "1 2", "12 3",
]
LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2_SPLIT = LLAMA3_SPLIT.replace(r"\p{N}{1,3}", r"\p{N}")
GGUF_PRE = {"smollm": "smollm", "llama3": "llama-bpe", "qwen2": "qwen2"}
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
STRINGS = [
    "the king and the thing", " of all", "1234567 12", "It's   two\n\nlines\t", "İstanbul'da çay", "<|im_start|>user\nhi<|im_end|>", "日本🙂", "",
]


def byte_characters():
    """GPT-2's printable stand-in for each byte, in byte order."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    extra = iter(range(256, 512))
    return [chr(b) if b in keep else chr(next(extra)) for b in range(256)]


def tokens():
    return CONTROL + byte_characters() + [m.replace(" ", "") for m in MERGES]


def pre_tokenizer(kind):
    if kind == "smollm":
        return [{"type": "Digits", "individual_digits": True},
                {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]
    split = LLAMA3_SPLIT if kind == "llama3" else QWEN2_SPLIT
    return [{"type": "Split", "pattern": {"Regex": split}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}]


def tokenizer_json(kind):
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    added = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
             for i, t in enumerate(CONTROL)]
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
             "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
             "vocab": {t: i for i, t in enumerate(tokens())}, "merges": [m.split(" ") for m in MERGES]}
    return json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "NFC"} if kind == "qwen2" else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": pre_tokenizer(kind)},
        "post_processor": None, "decoder": byte_level, "model": model,
    }, ensure_ascii=False, separators=(",", ":"))


def tokenizer_config(config):
    eos = config["eos_token_id"]
    return {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": CONTROL[config["bos_token_id"]], "eos_token": CONTROL[eos],
            "add_bos_token": False, "clean_up_tokenization_spaces": False, "model_max_length": config["max_position_embeddings"],
            "chat_template": CHAT_TEMPLATE}


def encoded_strings(text):
    """Rows of text and ids by the `tokenizers` package (special tokens in the text parsed, none added)."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(text)
    return [{"text": s, "ids": tokenizer.encode(s, add_special_tokens=False).ids} for s in STRINGS]
