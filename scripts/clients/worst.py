"""Peak memory of a server whose pool and queue are full, beside the plan that it printed.

    python worst.py UCUZ MODEL [--kv-memory 448MiB] [--max-sequences 16]

Fills every KV block, then every place with long prompts that want log-probabilities and several samples. Exit code 1 when the
peak is not within 5 % of the plan.
"""
import argparse
import json
import random
import re
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

parser = argparse.ArgumentParser()
parser.add_argument("ucuz")
parser.add_argument("model")
parser.add_argument("--kv-memory", default="448MiB")
parser.add_argument("--max-sequences", type=int, default=16)
args = parser.parse_args()
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
TOKENS, WAITING = 1 << 16, 96

command = [args.ucuz, "serve", args.model, "--port", "0", "--kv-memory", args.kv_memory, "--max-sequences", str(args.max_sequences)]
command += ["--max-waiting", str(WAITING), "--max-prompt-tokens", str(TOKENS)]
server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
for line in server.stderr:
    if "takes up to" in line:
        print(line.strip())
        parts = {name.strip(): float(size) * UNITS[unit] for name, size, unit in re.findall(r"[:,] ([a-zA-Z ]+?) ([\d.]+) (B|[KMG]iB)", line)}
    if found := re.match(r"listening on (\S+)", line):
        url = found[1]
        break


def post(body):
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=1800) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, {}


def health():
    return json.load(urllib.request.urlopen(url + "/health", timeout=60))


def prompt(seed, length):
    rng = random.Random(seed)
    return [rng.randrange(1000, 20000) for _ in range(length)]


def memory(name):
    with open(f"/proc/{server.pid}/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith(name))


seed = 0
# Blocks that are never whole are not cached, but used again and again.
while any(group["free"] - group["cached"] > 2 * args.max_sequences for group in health()["kv_blocks"]) and seed < 4000:
    with ThreadPoolExecutor(args.max_sequences) as pool:
        list(pool.map(lambda k: post({"prompt": prompt(seed + k, 1024), "max_tokens": 64, "ignore_eos": True}), range(args.max_sequences)))
    seed += args.max_sequences
blocks = health()["kv_blocks"]
print(f"pool: {blocks}, {memory('VmRSS') / (1 << 20):.0f} MiB resident")
full = {"max_tokens": 48, "ignore_eos": True, "logprobs": 20, "n": 2}
with ThreadPoolExecutor(WAITING) as pool:
    statuses = list(pool.map(lambda k: post({"prompt": prompt(10_000 + k, 1000), **full})[0], range(WAITING)))
scored = post({"prompt": prompt(7, 1024), "max_tokens": 1, "prompt_logprobs": 20})[0]
peak = memory("VmHWM")
server.terminate()
server.wait(60)
plan = sum(parts.values())
print(f"queue: {statuses.count(200)} answered, {statuses.count(429)} refused; a scored prompt {scored}")
print(f"plan {plan / (1 << 20):.1f} MiB, peak {peak / (1 << 20):.1f} MiB: {100 * (peak / plan - 1):+.1f} % (wanted: within 5 %)")
sys.exit(0 if abs(peak / plan - 1) <= 0.05 else 1)
