"""Requests at once on an OpenAI-compatible server, each of so many random token ids and tokens of answer: fills the KV cache.

    python fill.py ADDRESS REQUESTS [--prompt 1024] [--new 128]        e.g. 127.0.0.1:8000 16
"""
import argparse
import json
import random
import urllib.request
from concurrent.futures import ThreadPoolExecutor

parser = argparse.ArgumentParser()
parser.add_argument("address")
parser.add_argument("requests", type=int)
parser.add_argument("--prompt", type=int, default=1024)
parser.add_argument("--new", type=int, default=128)
args = parser.parse_args()


def ask(seed):
    rng = random.Random(seed)
    ids = [rng.randrange(1000, 40000) for _ in range(args.prompt)]
    body = {"prompt": ids, "max_tokens": args.new, "temperature": 0, "ignore_eos": True}
    request = urllib.request.Request(f"http://{args.address}/v1/completions", json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as answer:
        usage = json.load(answer)["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (args.prompt, args.new), usage


with ThreadPoolExecutor(args.requests) as pool:
    # Taking the results raises what a request raised.
    list(pool.map(ask, range(args.requests)))
