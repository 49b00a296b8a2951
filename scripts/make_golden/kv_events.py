"""The golden payloads of crates/serve/src/kv_events/golden.rs: the batch of its test, written by the package `msgpack`.

    pip install msgpack && python kv_events.py > ../../crates/serve/src/kv_events/golden.rs
"""
import hashlib

import msgpack

NIL = None
SIZE = 32
tokens = [[(i * 7919 + seed) % 151_936 for i in range(SIZE)] for seed in (0, 1, 100_000)]
salt = hashlib.sha256(b"kv events" + bytes([9] * 16) + bytes([5] * 16)).hexdigest()[:32]
names = ["block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name", "extra_keys"]
first, second, third = 2**62 + 5, 300, 2**63 - 1


def batch(event):
    return [1.5, [
        event("AllBlocksCleared", [], []),
        event("BlockStored", names, [[first, second], NIL, tokens[0] + tokens[1], SIZE, NIL, NIL, NIL, NIL]),
        event("BlockStored", names, [[third], second, tokens[2], SIZE, NIL, NIL, NIL, [[salt]]]),
        event("BlockRemoved", ["block_hashes", "medium"], [[third, second], NIL]),
    ], NIL]


def as_array(kind, _, values):
    return [kind, *values]


def as_map(kind, names, values):
    event = {"type": kind, **dict(zip(names, values))}
    if event.get("extra_keys"):
        event["cache_salt"] = event["extra_keys"][0][0]
        event["extra_keys"] = NIL
    return event


print("//! Made by `scripts/make_golden/kv_events.py`; not edited by hand.\n")
for name, event in (("ARRAY", as_array), ("MAP", as_map)):
    text = msgpack.packb(batch(event)).hex()
    print(f"/// The batch of the test, every event as {'an array' if name == 'ARRAY' else 'a map'}, in hexadecimal.")
    print(f"pub(super) const {name}: &str = \"\\")
    for start in range(0, len(text), 96):
        end = '";' if start + 96 >= len(text) else "\\"
        print(f"    {text[start:start + 96]}{end}")
    if name == "ARRAY":
        print()
