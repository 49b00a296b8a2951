"""The same greedy answers however a server is run: many prompts, each against the answers of a run alone.

    python same.py UCUZ MODEL [--prompts 1000] [--new 24]

UCUZ is the program, MODEL a file. Servers are started one after the other on free ports. Exit code 1 when any token differs.
"""
import argparse
import itertools
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from server import Server

parser = argparse.ArgumentParser()
parser.add_argument("ucuz")
parser.add_argument("model")
parser.add_argument("--prompts", type=int, default=1000)
parser.add_argument("--new", type=int, default=24)
args = parser.parse_args()

TOPICS = "the sea|a small town|bread|winter|an old clock|rivers|the moon|trains|honey|a lost letter|chess|rain|stars|salt|bridges|ants|paper|a garden|wind|glass".split("|")
TASKS = "Write a sentence about|Explain to a child|Name three facts about|Begin a story about|Write a short poem on|List what is needed for|Describe the smell of|Give advice about|Translate into French:|Ask a question about".split("|")
STYLES = "Be brief.|Use simple words.|Be formal.|Sound excited.|Answer as a teacher would."
SYSTEM = "You are a careful assistant. You answer in plain English, you never invent facts, and you keep to the question. "


def prompts():
    """Some begin alike over many blocks, some are short, some are long."""
    for number, (style, task, topic) in enumerate(itertools.product(STYLES.split("|"), TASKS, TOPICS)):
        head = SYSTEM * (number % 4)
        yield f"{head}{task} {topic}. {style}" + " and again" * (number % 7 * 5)


def answer(server, prompt, new):
    body = {"prompt": prompt, "max_tokens": new, "temperature": 0, "ignore_eos": True, "logprobs": 1}
    # Log-probabilities too: they show a difference long before a token does.
    logprobs = server.post(body)["choices"][0]["logprobs"]
    return logprobs["tokens"][: args.new], logprobs["token_logprobs"][: args.new]


def run(name, at_once, flags, rounds=1, expect=None, new=args.new):
    global compared
    server, began = Server(args.ucuz, args.model, *flags), time.monotonic()
    for _ in range(rounds):
        with ThreadPoolExecutor(at_once) as pool:
            answers = list(pool.map(lambda text: answer(server, text, new), texts))
    health = server.health()
    assert server.stop() == 0
    different = 0 if expect is None else sum(a != b for a, b in zip(answers, expect, strict=True))
    compared += expect is not None
    print(
        f"{name}: {len(answers)} prompts, {different} differ; {health['preemptions_total']} preemptions, "
        f"{health['prefix_hits_total']} of {health['prefix_queries_total']} prompt tokens cached, {time.monotonic() - began:.0f} s",
        flush=True,
    )
    return answers, different, health


texts = list(itertools.islice(prompts(), args.prompts))
assert len(set(texts)) == len(texts) == args.prompts
failed = compared = 0
for dtype in ["bf16", "int8"]:
    kv = ["--kv-dtype", dtype]
    expect, _, _ = run(f"{dtype}, alone, no prefix cache", 1, [*kv, "--max-sequences", "1", "--no-prefix-cache"])
    for name, at_once, flags, rounds in [
        ("32 at once", 32, ["--max-sequences", "32"], 1),
        ("32 at once, warm: twice in one server", 32, ["--max-sequences", "32"], 2),
        ("32 at once, no prefix cache", 32, ["--max-sequences", "32", "--no-prefix-cache"], 1),
        ("16 tokens a step", 32, ["--max-sequences", "16", "--max-step-tokens", "16"], 1),
        ("64 tokens a step", 32, ["--max-sequences", "32", "--max-step-tokens", "64"], 1),
        ("256 tokens a step", 32, ["--max-sequences", "32", "--max-step-tokens", "256"], 1),
    ]:
        _, different, _ = run(f"{dtype}, {name}", at_once, [*kv, *flags], rounds, expect)
        failed += different
    # Answers three times as long outgrow the block that each has to spare; their beginnings must be the same.
    pool = ["--max-sequences", "32", "--context", "512", "--kv-memory", {"bf16": "28MiB", "int8": "15MiB"}[dtype]]
    _, different, health = run(f"{dtype}, a pool of 40 blocks", 32, [*kv, *pool], 1, expect, 3 * args.new)
    failed += different + (health["preemptions_total"] == 0)
if failed:
    sys.exit(f"{failed} answers differ, or nothing was preempted")
print(f"{compared} passed, 0 failed")
