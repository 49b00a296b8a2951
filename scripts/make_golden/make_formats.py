"""Writes tests/golden/formats/<type>.json: block bytes and the f32 values that the `gguf` package reads from them; for Q4_0 and Q8_0 also
blocks that it writes.
"""

import json
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "golden" / "formats"
# Byte offsets of a block's f16 scales.
SCALES = {
    T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2],
    T.Q5_K: [0, 2], T.Q6_K: [208], T.IQ4_NL: [0], T.IQ4_XS: [0], T.MXFP4: [],
}
ENCODED = [T.Q4_0, T.Q8_0]
BLOCKS = 4
# The four blocks' scales: two plain ones, a negative one, an f16 denormal. Exponents of MXFP4: two plain ones, the two smallest.
F16_SCALES = [0.0123, 1.75, -0.031, 3e-6]
F16_MINIMA = [0.5, -0.0625, 2.25, 4e-6]
EXPONENTS = [127, 118, 1, 0]


def float_hex(x):
    return "".join(f"{b:08x}" for b in np.ascontiguousarray(x, dtype=np.float32).view(np.uint32).ravel())


def decode_blocks(qtype, rng):
    _, size = gguf.GGML_QUANT_SIZES[qtype]
    blocks = rng.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
    for values, offset in zip([F16_SCALES, F16_MINIMA], SCALES[qtype]):
        blocks[:, offset : offset + 2] = np.array(values, dtype=np.float16)[:, None].view(np.uint8)
    if qtype == T.MXFP4:
        blocks[:, 0] = EXPONENTS
    return blocks


def encode_rows(rng):
    """Named rows of 32: what an encoder gets wrong first."""
    normal = rng.standard_normal(32)
    tie8 = np.concatenate([[127.0], np.arange(31) - 15.5])
    tie4 = np.concatenate([[-8.0], np.arange(31) % 15 - 7.5])
    return {
        "normal": normal,
        "normal_small": normal[::-1] * 0.013,
        "zeros": np.zeros(32),
        "negative_zeros": -np.zeros(32),
        "negative_maximum": np.concatenate([[-3.0], rng.uniform(-1, 2.9, 31)]),
        "positive_maximum": np.concatenate([rng.uniform(-2.9, 1, 31), [3.0]]),
        "equal_magnitudes": np.where(np.arange(32) % 2 == 0, 1.5, -1.5),
        "equal_magnitudes_negative_first": np.where(np.arange(32) % 2 == 0, -1.5, 1.5),
        "ties_scale_1_of_8_bits": tie8,
        "ties_scale_1_of_4_bits": tie4,
        "ties_mirrored_of_4_bits": -tie4,
        "one_value": np.eye(1, 32, 17)[0] * 0.7,
        "denormal_scale": normal * 2e-6,
        "scale_below_f16": normal * 1e-9,
        "large": normal * 20000,
    }


def write(qtype, rng):
    elements, size = gguf.GGML_QUANT_SIZES[qtype]
    blocks = decode_blocks(qtype, rng)
    values = gguf.quants.dequantize(blocks, qtype)
    assert values.shape == (BLOCKS, elements) and np.isfinite(values).all()
    out = {
        "type": qtype.name, "ggml_type": int(qtype), "block_elements": elements, "block_bytes": size,
        "decode": [{"bytes": b.tobytes().hex(), "values": float_hex(v)} for b, v in zip(blocks, values)],
    }
    if qtype in ENCODED:
        out["encode"] = []
        for name, row in encode_rows(rng).items():
            row = row.astype(np.float32)
            with np.errstate(all="ignore"):
                data = gguf.quants.quantize(row[None], qtype)
            out["encode"].append({"name": name, "values": float_hex(row), "bytes": data.tobytes().hex()})
    lines = json.dumps(out, separators=(",", ":")).replace('{"bytes"', '\n{"bytes"').replace('{"name"', '\n{"name"')
    (FOLDER / f"{qtype.name.lower()}.json").write_text(lines + "\n")


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for qtype in SCALES:
        write(qtype, np.random.default_rng([20, int(qtype)]))


if __name__ == "__main__":
    main()
