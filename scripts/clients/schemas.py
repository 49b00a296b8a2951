"""Random JSON schemas on a real model: every finished answer must be valid. Needs `pip install jsonschema`.

    python schemas.py UCUZ MODEL [--schemas 100] [--samples 5] [--seed 1] [--overhead]

UCUZ is the program, MODEL a file. Each schema is sampled at temperature 1; an answer that ended by itself ("stop") is
checked by the package `jsonschema`, one that `max_tokens` cut ("length") is counted apart. `--overhead` measures tokens a
second with and without a constraint instead, with 1 and 16 requests at once. Exit code 1 when an answer is not valid, a
request fails, or more than one in ten answers is cut.
"""
import argparse
import json
import random
import re
import statistics
import sys
import time
import urllib.error
from concurrent.futures import ThreadPoolExecutor

from server import Server

RFC_3339_TIME = r"([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)"

parser = argparse.ArgumentParser()
parser.add_argument("ucuz")
parser.add_argument("model")
parser.add_argument("--schemas", type=int, default=100)
parser.add_argument("--samples", type=int, default=5)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--overhead", action="store_true")
args = parser.parse_args()

NAMES = "name age city tags score id kind note count is_open e-mail größe".split()
WORDS = "red green blue small large yes no new old none".split()
PATTERNS = [r"^[a-z]{2,6}$", r"^\d{3}-\d{4}$", r"^(red|green|blue)$", r"^[A-Z][a-z]{1,8}$", r"^#[0-9a-f]{6}$", r"^\w{1,8}$"]
FORMATS = ["date", "time", "date-time", "uuid", "ipv4"]


def scalar(draw):
    """Values whose text is short, so that few answers are cut."""
    least = draw.randint(-1000, 1000)
    kind = draw.randrange(10)
    if kind == 0:
        return {"type": "integer", "minimum": least, "maximum": least + draw.randint(0, 5000)}
    if kind == 1:
        return {"type": "number", "minimum": least / 8, "maximum": least / 8 + draw.randint(1, 500), "multipleOf": 0.5}
    if kind == 2:
        return {"type": "string", "maxLength": draw.randint(3, 24)}
    if kind == 3:
        return {"type": "string", "minLength": 2, "maxLength": draw.randint(2, 12)}
    if kind == 4:
        return {"type": "string", "pattern": draw.choice(PATTERNS)}
    if kind == 5:
        return {"type": "string", "format": draw.choice(FORMATS)}
    if kind == 6:
        return {"enum": draw.sample(WORDS, draw.randint(1, 5)) + draw.choice([[], [None], [1, 2.5], [True]])}
    if kind == 7:
        return {"type": "boolean"}
    if kind == 8:
        return {"type": ["null", "integer"], "minimum": 0, "maximum": draw.choice([9, 99, 20000])}
    return {"const": draw.choice([7, "fixed", None, True, [1, "a"], {"k": 1}])}


def value(draw, depth):
    kind = draw.randrange(10) if depth else 0
    if kind < 5:
        return scalar(draw)
    if kind < 7:
        return record(draw, depth - 1)
    if kind < 9:
        least = draw.randint(0, 2)
        return {"type": "array", "items": value(draw, depth - 1), "minItems": least, "maxItems": least + draw.randint(0, 3)}
    return {"anyOf": [scalar(draw), record(draw, depth - 1)]}


def record(draw, depth):
    properties = {name: value(draw, depth) for name in draw.sample(NAMES, draw.randint(1, 4))}
    required = [name for name in properties if draw.random() < 0.7]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def schema(number):
    draw = random.Random(args.seed * 100_003 + number)
    made = record(draw, 3)
    if number % 10 == 0:
        node = {"type": "object", "properties": {"v": scalar(draw), "left": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}}
        node |= {"required": ["v", "left"], "additionalProperties": False}
        made["properties"]["tree"] = {"$ref": "#/$defs/node"}
        made["$defs"] = {"node": node}
    return made


def check(server, number):
    """Answers that are valid, cut, and what is wrong with others."""
    from jsonschema import Draft202012Validator, FormatChecker

    made = schema(number)
    names = ", ".join(made["properties"])
    body = {
        "prompt": f"A record in JSON with {names}:\n", "n": args.samples, "temperature": 1, "top_k": 0, "top_p": 1,
        "repetition_penalty": 1, "seed": number, "max_tokens": 700, "structured_outputs": {"json": made},
    }
    try:
        answer = server.post(body)
    except urllib.error.HTTPError as error:
        return 0, 0, [f"schema {number}: {error.code} {error.read().decode()} for {json.dumps(made)}"]
    checker = FormatChecker(["uuid", "ipv4"])
    # The package takes what Python's own type holds; RFC 3339 bounds neither the digits of a second nor the hours of an offset.
    checker.checks("time")(lambda text: re.fullmatch(RFC_3339_TIME, text) is not None)
    validator = Draft202012Validator(made, format_checker=checker)
    valid, cut, wrong = 0, 0, []
    for choice in answer["choices"]:
        if choice["finish_reason"] == "length":
            cut += 1
            continue
        try:
            validator.validate(json.loads(choice["text"]))
            valid += 1
        except Exception as error:  # whatever it is, the answer is not what was asked for
            wrong.append(f"schema {number}: {str(error).splitlines()[0]}: {choice['text']!r} for {json.dumps(made)}")
    return valid, cut, wrong


def validity():
    server, began = Server(args.ucuz, args.model, "--max-sequences", "16"), time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda number: check(server, number), range(args.schemas)))
    health, code = server.health(), server.stop()
    valid, cut = sum(r[0] for r in results), sum(r[1] for r in results)
    wrong = [text for result in results for text in result[2]]
    for text in wrong[:20]:
        print(text)
    failures = len(wrong) + (cut * 10 > valid + cut) + (code != 0)
    print(f"{args.schemas} schemas, {args.samples} samples each in {time.monotonic() - began:.0f} s, {health['generated_tokens_total']} tokens")
    print(f"{valid} valid, {cut} cut by max_tokens, {len(wrong)} wrong, exit code {code}")
    print(f"{valid} passed, {failures} failed")
    return failures


# Never complete before `max_tokens`, so that both ways generate the same number of tokens.
ENDLESS = {
    "type": "array", "minItems": 10_000,
    "items": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}},
              "required": ["name", "age"], "additionalProperties": False},
}
NEW = 128


def speed(server, at_once, extra):
    """Tokens a second of one round."""
    def one(number):
        body = {"prompt": f"People number {number} as a JSON list:\n", "max_tokens": NEW, "seed": number, "ignore_eos": True, **extra}
        return server.post(body)["usage"]["completion_tokens"]

    began = time.monotonic()
    with ThreadPoolExecutor(at_once) as pool:
        tokens = sum(pool.map(one, range(at_once)))
    return tokens / (time.monotonic() - began)


def overhead():
    server = Server(args.ucuz, args.model, "--max-sequences", "16")
    ways = {"plain": {}, "constrained": {"structured_outputs": {"json": ENDLESS}}}
    for extra in ways.values():
        speed(server, 1, extra)
    for at_once in (1, 16):
        # In turn, so that what else the machine does meets both.
        rounds = [{name: speed(server, at_once, extra) for name, extra in ways.items()} for _ in range(7)]
        plain, constrained = (statistics.median(r[name] for r in rounds) for name in ways)
        ratios = sorted(r["constrained"] / r["plain"] for r in rounds)
        print(f"{at_once} at once: {plain:.1f} tokens/s plain, {constrained:.1f} constrained; "
              f"ratio {statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})")
    code = server.stop()
    print(f"4 passed, {int(code != 0)} failed")
    return code


sys.exit(1 if (overhead() if args.overhead else validity()) else 0)
