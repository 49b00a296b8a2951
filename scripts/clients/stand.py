"""What a server stands: a small client beside a greedy one, ten times what it can do, half an hour with clients that vanish.

    python stand.py UCUZ MODEL fair [--streams 100] [--rounds 30]
    python stand.py UCUZ MODEL overload [--seconds 300]
    python stand.py UCUZ MODEL soak [--seconds 1800]
    python stand.py UCUZ MODEL forecast

The load is `ucuz bench serve`. Exit code 1 when a figure is outside of its bound; bounds are printed beside the figures.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import urllib.error

from server import Server

parser = argparse.ArgumentParser()
parser.add_argument("ucuz")
parser.add_argument("model")
parser.add_argument("scene", choices=["fair", "overload", "soak", "forecast"])
parser.add_argument("--streams", type=int, default=100)
parser.add_argument("--rounds", type=int, default=30)
parser.add_argument("--seconds", type=int)
args = parser.parse_args()
folder = tempfile.mkdtemp()
wrong = []


def check(what, value, bound, holds):
    print(f"{what}: {value} (wanted: {bound}){'' if holds else '  WRONG'}", flush=True)
    if not holds:
        wrong.append(what)


def file(name, text=""):
    path = os.path.join(folder, name)
    with open(path, "w") as out:
        out.write(text)
    return path


class Loaded(Server):
    def __init__(self, *flags):
        super().__init__(args.ucuz, args.model, *flags)

    def until(self, holds, key=None):
        while not holds(self.health(key)):
            time.sleep(0.2)

    def load(self, *flags):
        return Load(self, [str(flag) for flag in flags])


class Load:
    def __init__(self, server, flags):
        self.records = file(f"records-{time.monotonic_ns()}")
        command = [args.ucuz, "bench", "serve", server.url, "--json", "-", "--records", self.records, *flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def result(self):
        result = json.loads(self.process.communicate()[0])
        with open(self.records) as records:
            return result, [json.loads(line) for line in records]


def p95(result):
    return result["latency"]["ttft_s"]["p95"]["value"]


def fair():
    keys = {name: file(name, f"{name} {name}-0123456789abcdef\n") for name in ["greedy", "small"]}
    both = "".join(open(path).read() for path in keys.values())
    server = Loaded("--kv-memory", "1GiB", "--max-sequences", "16", "--api-keys", file("both", both))
    prompts = ["--prompt-tokens", 1024, "--output-tokens", 16, "--concurrency", 1, "--requests", args.rounds]
    small = lambda seed: server.load("--api-keys", keys["small"], "--seed", seed, *prompts).result()[0]
    alone = small(1)
    greedy = server.load("--api-keys", keys["greedy"], "--concurrency", args.streams, "--duration", 100000, "--warm-up", 0, "--prompt-tokens", 128, "--output-tokens", 128)
    server.until(lambda health: health["running"] + health["waiting"] >= 0.9 * args.streams, "small-0123456789abcdef")
    beside = small(2)
    health = server.health("small-0123456789abcdef")
    greedy.process.kill()
    print(f"alone: TTFT p50 {alone['latency']['ttft_s']['p50']['value']:.3f} s, p95 {p95(alone):.3f} s")
    print(f"beside {args.streams} streams: TTFT p50 {beside['latency']['ttft_s']['p50']['value']:.3f} s, p95 {p95(beside):.3f} s; {health['preemptions_total']} preemptions")
    ratio = p95(beside) / p95(alone)
    check("TTFT p95 beside / alone", f"{ratio:.2f}", "at most 3", ratio <= 3)
    server.stop()


def overload():
    shape = ["--prompt-tokens", 128, "--output-tokens", 32]
    # What is inside when the flood ends takes this long to begin, and some seconds more to end: together below 10 s.
    server = Loaded("--kv-memory", "1GiB", "--max-sequences", "32", "--slo-ttft", "4000")
    closed, _ = server.load("--concurrency", 32, "--requests", 300, *shape).result()
    capacity = closed["validity"]["rates"]["completed_per_s"]
    normal = server.load("--concurrency", 1, "--requests", 10, "--seed", 2, *shape).result()[0]["latency"]["ttft_s"]["p50"]["value"]
    seconds = args.seconds or 300
    print(f"capacity {capacity:.1f} requests a second, TTFT alone {normal:.3f} s; now {10 * capacity:.0f} a second for {seconds} s")
    flood = server.load("--seed", 3, "--poisson", 10 * capacity, "--duration", seconds, "--max-in-flight", 4096, *shape)
    # Single requests all along tell when it is as before.
    singles = server.load("--seed", 4, "--constant", 2, "--duration", seconds + 30, "--warm-up", 0, *shape)
    result, records = flood.result()
    _, probes = singles.result()
    ended = max(r["sent_s"] for r in records)
    late = [r["intended_s"] for r in probes if r["outcome"] != "ok" or r["first_s"] - r["intended_s"] > 2 * normal + 0.05]
    again = max(0.0, max(late, default=0.0) - ended)
    outcomes = {name: count for name, count in result["validity"]["outcomes"].items() if count}
    print(f"outcomes {outcomes}, flags {result['validity']['flags']}")
    check("other outcomes than an answer or 429", sum(n for name, n in outcomes.items() if name not in ("ok", "refused")), "0", set(outcomes) <= {"ok", "refused"})
    refused = [r for r in records if r["outcome"] == "refused"]
    waits = sorted(r["headers_s"] - r["sent_s"] for r in refused)
    p99 = waits[int(0.99 * len(waits))]
    check("429 answered within, p99", f"{1000 * p99:.1f} ms", "at most 50 ms", p99 <= 0.05)
    check("429 without Retry-After", sum(r["retry_after"] is None for r in refused), "0", all(r["retry_after"] is not None for r in refused))
    accepted = sorted((r["sent_s"], r["end_s"]) for r in records if r["outcome"] == "ok")
    factors, index, latest = [], 0, 0.0
    for r in sorted(refused, key=lambda r: r["sent_s"]):
        # What was inside when this one was refused has ended when the last of it has.
        while index < len(accepted) and accepted[index][0] <= r["sent_s"]:
            latest = max(latest, accepted[index][1])
            index += 1
        backlog = latest - r["sent_s"]
        if backlog >= 4:
            factors.append(int(r["retry_after"]) / backlog)
    factors.sort()
    check("refusals with a backlog of 4 s or more", len(factors), "some", bool(factors))
    if factors:
        right = sum(0.5 <= factor <= 2 for factor in factors) / len(factors)
        spread = ", ".join(f"{factors[int(q * (len(factors) - 1))]:.2f}" for q in (0, 0.05, 0.5, 0.95, 1))
        check(f"Retry-After / backlog of 4 s or more, {len(factors)} times: share within 0.5 to 2", f"{right:.3f}; min, p5, p50, p95, max: {spread}", "1", right == 1)
    check("TTFT normal again after", f"{again:.1f} s", "at most 10 s", again <= 10)
    health = server.health()
    check("blocks held at the end", health["kv_blocks"][0]["used"], "0", health["kv_blocks"][0]["used"] == 0)
    server.stop()


def soak():
    seconds = args.seconds or 1800
    settle = min(300, seconds // 3)
    server = Loaded("--kv-memory", "1GiB", "--max-sequences", "64")
    before = server.health()
    flags = ["--concurrency", 64, "--duration", seconds, "--disconnect", 0.1, "--probe", "/health", "--probe", "/metrics", "--pid", server.process.pid, "--settle", settle]
    result, records = server.load(*flags, "--prompt-tokens", 192, "--shared-tokens", 64, "--output-tokens", 64).result()
    server.until(lambda health: health["running"] + health["waiting"] == 0)
    health = server.health()
    outcomes = {name: count for name, count in result["validity"]["outcomes"].items() if count}
    print(f"{len(records)} requests: {outcomes}; {result['throughput']}")
    check("outcomes", sorted(outcomes), "ok, disconnected, refused", set(outcomes) <= {"ok", "disconnected", "refused"})
    ends = health["requests_ended_total"]
    check("requests in an end state", f"{ends} of {health['requests_total']}", "all", ends == health["requests_total"])
    memory = result["memory"]
    slope = memory["mib_per_10_min"]
    check("memory slope", f"{slope:.3f} MiB in 10 min", "below 1", slope < 1)
    same = [b["free"] for b in health["kv_blocks"]] == [b["free"] for b in before["kv_blocks"]]
    check("free blocks", [b["free"] for b in health["kv_blocks"]], [b["free"] for b in before["kv_blocks"]], same)
    for probe, bound in zip(result["probes"], (0.05, 0.02)):
        p99 = probe["p99_s"]
        check(f"{probe['path']} p99", f"{1000 * p99:.1f} ms of {sum(probe['statuses'].values())}", f"below {1000 * bound:.0f} ms", p99 < bound)
    code = server.stop()
    check("exit", code, "0", code == 0)


def forecast():
    """A fresh server knows what a prompt takes: it takes who has four times the time, and refuses who has a quarter."""
    server = Loaded("--kv-memory", "448MiB")
    rng = random.Random(5)

    def status(length, within_s):
        body = {"prompt": [rng.randrange(1000, 20000) for _ in range(length)], "max_tokens": 1}
        began = time.monotonic()
        try:
            server.post(body, {"x-slo-ttft-ms": str(int(1000 * within_s))})
            return 200, time.monotonic() - began
        except urllib.error.HTTPError as error:
            return error.code, time.monotonic() - began

    # Before any request: only the server's own two steps are known.
    first = status(1500, 0.02)
    check("1500 tokens in 0.02 s, asked first", first[0], 429, first[0] == 429)
    for length in (1500, 200, 700):
        taken = sorted(status(length, 600)[1] for _ in range(3))[1]
        for factor, wanted in ((4, 200), (0.25, 429)):
            got = status(length, factor * taken)[0]
            check(f"{length} tokens, which take {taken:.2f} s, in {factor} times that", got, wanted, got == wanted)
    server.stop()
    print(f"{7 - len(wrong)} passed, {len(wrong)} failed")


{"forecast": forecast, "fair": fair, "overload": overload, "soak": soak}[args.scene]()
if wrong:
    sys.exit(f"wrong: {', '.join(wrong)}")
