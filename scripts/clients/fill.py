"""N requests at once on an OpenAI-compatible server, each of TOKENS random token ids and NEW tokens of answer: fills the KV cache.

    python fill.py ADDRESS N [--prompt 1024] [--new 128]        e.g. 127.0.0.1:8000 16
"""
import argparse
import json
import random
import threading
import urllib.request

args = argparse.ArgumentParser()
args.add_argument("address")
args.add_argument("n", type=int)
args.add_argument("--prompt", type=int, default=1024)
args.add_argument("--new", type=int, default=128)
args = args.parse_args()
wrong = []


def ask(seed):
    rng = random.Random(seed)
    ids = [rng.randrange(1000, 40000) for _ in range(args.prompt)]
    body = {"prompt": ids, "max_tokens": args.new, "temperature": 0, "ignore_eos": True}
    request = urllib.request.Request(f"http://{args.address}/v1/completions", json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as answer:
        usage = json.load(answer)["usage"]
    if (usage["prompt_tokens"], usage["completion_tokens"]) != (args.prompt, args.new):
        wrong.append(usage)


threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(args.n)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not wrong, wrong
