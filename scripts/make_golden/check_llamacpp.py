"""Compares tests/golden/tiny-gguf/ with a llama.cpp server: last_top20, greedy tokens up to its end token, token ids.

Usage: python check_llamacpp.py LLAMA_SERVER_BINARY. Starts the server on a loopback port, one file at a time, and stops it. Only the
float32 twins are held to a bound: on quantised weights that server rounds activations to int8.
"""

import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden" / "tiny-gguf"
PORT = 18977
LIMIT = 1e-4  # nat
FLAGS = ["--host", "127.0.0.1", "--port", str(PORT), "-t", "1", "-c", "512", "-np", "1", "-ctk", "f32", "-ctv", "f32", "-fa", "off"]


def call(path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", data, {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=60))


def wait_until_ready():
    for _ in range(100):
        try:
            return call("/health")
        except OSError:
            time.sleep(0.2)
    raise SystemExit("the server did not start within 20 s")


def compare(name, golden):
    answer = call("/completion", {
        "prompt": golden["ids"], "n_predict": len(golden["greedy_ids"]), "temperature": 0, "n_probs": 20, "cache_prompt": False,
        "return_tokens": True})
    top = {t["id"]: t["logprob"] for t in answer["completion_probabilities"][0]["top_logprobs"]}
    distance = max(abs(top[i] - value) for i, value in golden["last_top20"] if i in top)
    tokens = answer["tokens"]
    same = sum(1 for _ in iter_same(tokens, golden["greedy_ids"]))
    text = all(call("/tokenize", {"content": row["text"], "parse_special": True, "add_special": False})["tokens"] == row["ids"]
               for row in golden["tokenizer"])
    print(f"{name:20} last_top20 within {distance:.1e} nat, greedy {same} of {len(tokens)} equal, token ids {'equal' if text else 'DIFFER'}")
    return text and (not name.endswith("f32") or (distance < LIMIT and same == len(tokens)))


def iter_same(left, right):
    for a, b in zip(left, right):
        if a != b:
            return
        yield a


def main():
    good = True
    for folder in sorted(GOLDEN.iterdir()):
        golden = json.loads((folder / "values.json").read_text())
        command = [sys.argv[1], "-m", str(folder / "model.gguf"), *FLAGS]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until_ready()
            good &= compare(folder.name, golden)
        finally:
            server.terminate()
            server.wait()
    if not good:
        raise SystemExit("the float32 twins or the token ids differ")


if __name__ == "__main__":
    main()
