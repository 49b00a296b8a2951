"""Peak memory of a server whose pool and queue are full, beside the plan that it printed.

    python worst.py UCUZ MODEL [--kv-memory 448MiB] [--max-sequences 16]

Fills every KV block, then every place with long prompts that want log-probabilities and several samples. Exit code 1 when the
peak is not within 5 % of the plan.
"""
import argparse
import random
import re
import sys
import urllib.error
from concurrent.futures import ThreadPoolExecutor

from server import Server

parser = argparse.ArgumentParser()
parser.add_argument("ucuz")
parser.add_argument("model")
parser.add_argument("--kv-memory", default="448MiB")
parser.add_argument("--max-sequences", type=int, default=16)
args = parser.parse_args()
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
TOKENS, WAITING = 1 << 16, 96

flags = ["--kv-memory", args.kv_memory, "--max-sequences", str(args.max_sequences)]
server = Server(args.ucuz, args.model, *flags, "--max-waiting", str(WAITING), "--max-prompt-tokens", str(TOKENS))
planned = next(line for line in server.said if "takes up to" in line)
print(planned)
parts = [float(size) * UNITS[unit] for size, unit in re.findall(r"[:,] [a-zA-Z ]+? ([\d.]+) (B|[KMG]iB)", planned)]


def post(body):
    """The status."""
    try:
        server.post(body)
        return 200
    except urllib.error.HTTPError as error:
        return error.code


def prompt(seed, length):
    rng = random.Random(seed)
    return [rng.randrange(1000, 20000) for _ in range(length)]


def memory(name):
    with open(f"/proc/{server.process.pid}/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith(name))


seed = 0
# Blocks that are never whole are not cached, but used again and again.
while any(group["free"] - group["cached"] > 2 * args.max_sequences for group in server.health()["kv_blocks"]) and seed < 4000:
    with ThreadPoolExecutor(args.max_sequences) as pool:
        list(pool.map(lambda k: post({"prompt": prompt(seed + k, 1024), "max_tokens": 64, "ignore_eos": True}), range(args.max_sequences)))
    seed += args.max_sequences
blocks = server.health()["kv_blocks"]
print(f"pool: {blocks}, {memory('VmRSS') / (1 << 20):.0f} MiB resident")
full = {"max_tokens": 48, "ignore_eos": True, "logprobs": 20, "n": 2}
with ThreadPoolExecutor(WAITING) as pool:
    statuses = list(pool.map(lambda k: post({"prompt": prompt(10_000 + k, 1000), **full}), range(WAITING)))
scored = post({"prompt": prompt(7, 1024), "max_tokens": 1, "prompt_logprobs": 20})
peak = memory("VmHWM")
server.stop()
plan = sum(parts)
print(f"queue: {statuses.count(200)} answered, {statuses.count(429)} refused; a scored prompt {scored}")
print(f"plan {plan / (1 << 20):.1f} MiB, peak {peak / (1 << 20):.1f} MiB: {100 * (peak / plan - 1):+.1f} % (wanted: within 5 %)")
sys.exit(0 if abs(peak / plan - 1) <= 0.05 else 1)
