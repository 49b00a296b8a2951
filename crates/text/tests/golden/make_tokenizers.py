"""Trains tiny tokenizers of each supported shape with Hugging Face `tokenizers`; writes tokenizers.json.

Run: python3 make_tokenizers.py   (needs tokenizers 0.23)
"""
import json
import pathlib

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
DEEPSEEK3 = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
CORPUS = ["the quick brown fox jumps over the lazy dog. it's 12345 o'clock, isn't it?\n", "the the  then   there\n\n  def f(x):\n    return x\n", "ünïcödé çağrı 日本語のテキスト привет мир 🙂🙂 e\u0301"] * 4
TEXTS = ["", "Hello, world!", "  two  spaces ", "tabs\tand\nnew\r\n\n\nlines", "it's 1234567 IT'S", "日本語 🙂 e\u0301 é", "<s>hi</s> <s>", "the<mask> fox", "   ", "a", " a", "\u2581x \u2581", "x\u00a0y\u200bz", "def f(x):\n    return x ** 2  # ok\n", "[INST] the [/INST]", "!!!\n\nthe", "half½ Ⅷ ٣"]


def special(text, **flags):
    return AddedToken(text, special=True, normalized=False, **flags)


def byte_level(patterns, **model):
    t = Tokenizer(models.BPE(**model))
    split = [pre_tokenizers.Split(Regex(p), "isolated") for p in patterns]
    t.pre_tokenizer = pre_tokenizers.Sequence(split + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=420, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.add_special_tokens([special("<s>"), special("</s>"), special("<mask>", lstrip=True, rstrip=True)])
    return t


def spaced(first):
    alphabet = [f"<0x{b:02X}>" for b in range(256)]
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if first:
        t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=420, show_progress=False, special_tokens=["<unk>", "<s>", "</s>"] + alphabet))
    raw = json.loads(t.to_str())
    raw["added_tokens"] = [token for token in raw["added_tokens"] if token["id"] < 3]
    t = Tokenizer.from_str(json.dumps(raw))
    t.add_tokens([AddedToken("[INST]", normalized=False)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return t


def case(name, t):
    rows = [dict(text=x, ids=t.encode(x, add_special_tokens=False).ids) for x in TEXTS]
    for row in rows:
        row["decoded"] = t.decode(row["ids"], skip_special_tokens=True)
    adds_bos = len(t.encode("x").ids) != len(t.encode("x", add_special_tokens=False).ids)
    return dict(name=name, tokenizer=json.loads(t.to_str()), adds_bos=adds_bos, rows=rows)


nfc = byte_level([LLAMA3])
nfc.normalizer = normalizers.NFC()
cases = [
    case("llama3", byte_level([LLAMA3], ignore_merges=True)),
    case("nfc", nfc),
    case("deepseek3", byte_level([r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK3])),
    case("llama2", spaced(False)),
    case("mistral", spaced(True)),
]
path = pathlib.Path(__file__).parent / "tokenizers.json"
path.write_text(json.dumps(cases, ensure_ascii=False) + "\n")
