"""Prefill and decode speed of two OpenAI-compatible servers, taken in turns: A B A B ...

    python speed.py URL_A URL_B [ROUNDS] [--prompt 512] [--new 128]        e.g. http://127.0.0.1:8000/v1 http://127.0.0.1:8080/v1

Prefill: a prompt of random token ids and one token of answer, tokens a second of the whole request, HTTP included.
Decode: a prompt of 16 ids and NEW tokens, streamed; tokens a second between the first and the last. One request at a time.
Prints median (min-max) of each and the ratio A/B of the medians.
"""
import argparse
import json
import random
import statistics
import time
import urllib.request

args = argparse.ArgumentParser()
args.add_argument("a")
args.add_argument("b")
args.add_argument("rounds", type=int, nargs="?", default=5)
args.add_argument("--prompt", type=int, default=512)
args.add_argument("--new", type=int, default=128)
args = args.parse_args()
rng = random.Random(1)


def request(url, prompt, tokens, stream):
    body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "stream": stream, "ignore_eos": True}
    data = json.dumps(body).encode()
    return urllib.request.Request(f"{url}/completions", data, {"content-type": "application/json"})


def prefill(url):
    ids = [rng.randrange(1000, 40000) for _ in range(args.prompt)]
    began = time.perf_counter()
    with urllib.request.urlopen(request(url, ids, 1, False), timeout=300) as answer:
        usage = json.load(answer)["usage"]
    assert usage["prompt_tokens"] == args.prompt, usage
    return args.prompt / (time.perf_counter() - began)


def decode(url):
    ids = [rng.randrange(1000, 40000) for _ in range(16)]
    times = []
    with urllib.request.urlopen(request(url, ids, args.new, True), timeout=300) as answer:
        for line in answer:
            if line.startswith(b"data: {") and json.loads(line[6:])["choices"]:
                times.append(time.perf_counter())
    return (args.new - 1) / (times[-1] - times[0])


for name, measure in (("prefill", prefill), ("decode", decode)):
    results = ([], [])
    measure(args.a), measure(args.b)
    for _ in range(args.rounds):
        for url, list_ in zip((args.a, args.b), results):
            list_.append(measure(url))
    medians = [statistics.median(r) for r in results]
    text = [f"{m:.1f} ({min(r):.1f}-{max(r):.1f})" for m, r in zip(medians, results)]
    print(f"{name}: A {text[0]} tok/s, B {text[1]} tok/s, ratio {medians[0] / medians[1]:.2f}")
