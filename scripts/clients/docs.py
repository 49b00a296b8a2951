"""Runs every example of a document against a running server, and compares what comes with what is written.

    python docs.py DOCUMENT ADDRESS [--write]          e.g. docs/api.md 127.0.0.1:8000

An example is a block that begins with "$ curl"; below the command stands its answer. Words and numbers may differ, names and
types may not: of JSON, and of each kind of event in a stream. Lists are cut to three entries, streams in the middle. With
--write the answers in the document are replaced by those that came. Prints `N passed, 0 failed`; exits 1 at a difference.
"""
import json
import re
import subprocess
import sys

document, address = sys.argv[1:3]
writes = "--write" in sys.argv
BLOCK = re.compile(r"^```console\n(\$ curl (?:.*\\\n)*.*\n)((?:(?!```).*\n)*)```$", re.M)
MODEL = "127.0.0.1:8000"


def cut(value):
    if isinstance(value, list):
        return [cut(item) for item in value[:3]]
    if isinstance(value, dict):
        return {name: cut(item) for name, item in value.items()}
    if isinstance(value, str) and len(value) > 200:
        return value[:60] + "…"
    return value


def shape(value):
    """Names and types; what is null or empty once may be something another time."""
    if isinstance(value, dict):
        return {name: shape(item) for name, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value[:1]]
    return "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__


def agrees(written, got):
    if "NoneType" in (written, got) or [] in (written, got):
        return True
    if isinstance(written, dict) and isinstance(got, dict):
        return written.keys() == got.keys() and all(agrees(written[name], got[name]) for name in written)
    if isinstance(written, list) and isinstance(got, list):
        return agrees(written[0], got[0])
    return written == got


def events(text):
    """Of each event its name, if any, and its data."""
    for event in text.strip().split("\n\n"):
        lines = [line for line in event.splitlines() if not line.startswith(":") and line != "…"]
        if lines:
            yield lines[:-1], lines[-1].removeprefix("data: ")


def kinds(text):
    """The different kinds of events, by name and the names of what they hold."""
    found = []
    for name, data in events(text):
        kind = (name, "[DONE]" if data == "[DONE]" else sorted(json.loads(data)))
        if kind not in found:
            found.append(kind)
    return found


def shown(output):
    if output.startswith(("data: ", "event: ")):
        parts = output.strip().split("\n\n")
        parts = parts if len(parts) <= 9 else parts[:5] + ["…"] + parts[-3:]
        return "\n\n".join(parts) + "\n"
    try:
        return json.dumps(cut(json.loads(output)), ensure_ascii=False, indent=1) + "\n"
    except json.JSONDecodeError:
        lines = output.splitlines()
        return "\n".join(lines[:6] + ["…"] * (len(lines) > 6)) + "\n"


def problem(written, output):
    if output.startswith(("data: ", "event: ")):
        missing = [kind for kind in kinds(written) if kind not in kinds(output)]
        return f"no event {missing[0]}" if missing else None
    try:
        got = json.loads(output)
    except json.JSONDecodeError:
        first = lambda text: re.sub(r"[\d.]+", "0", text.split("\n")[0])
        return None if first(written) == first(output) else f"begins with {output[:80]!r}"
    return None if agrees(shape(json.loads(written)), shape(cut(got))) else f"came {shown(output)}"


def example(match):
    command, written = match[1], match[2]
    run = subprocess.run(["bash", "-c", command.removeprefix("$ ").replace(MODEL, address)], capture_output=True, text=True, timeout=300)
    name = " ".join(re.sub(r"\s+", " ", command).split()[1:4])
    if run.returncode != 0 or not run.stdout:
        sys.exit(f"FAILED {name}: curl ended with {run.returncode} {run.stderr}")
    if not writes:
        why = problem(written, run.stdout)
        if why:
            sys.exit(f"FAILED {name}: {why}")
    examples.append(name)
    print(f"ok {name}")
    return f"```console\n{command}{shown(run.stdout)}```"


examples = []
with open(document) as file:
    text = file.read()
replaced = BLOCK.sub(example, text)
if text.count("$ curl") != len(examples):
    sys.exit(f"FAILED {text.count('$ curl')} commands stand in the document, {len(examples)} are whole examples")
if writes:
    with open(document, "w") as file:
        file.write(replaced)
print(f"{len(examples)} passed, 0 failed")
