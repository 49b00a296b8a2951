"""Cases drawn from a server's own `/openapi.json`, right ones and wrong ones. Needs `pip install schemathesis`.

    python contract.py UCUZ MODEL [--cases 20000] [--seed 1] [--seconds 2]

UCUZ is the program, MODEL a file or folder; a tiny model makes time for more cases. Endpoints with a body get nearly all of
the cases, half of them as the document allows and half as it does not. Each must be answered within the time, by a status, a
media type and a body that the document names, and never by 5xx but 503; what the document does not allow must be refused. In the
end the server must hold nothing and answer as in the beginning. Prints the statuses of each endpoint and `N passed, 0 failed`.
"""
import argparse
import atexit
import collections
import json
import sys
import time

import hypothesis
import requests
import schemathesis
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance, negative_data_rejection, response_schema_conformance, status_code_conformance)

from server import Server

parser = argparse.ArgumentParser()
parser.add_argument("ucuz")
parser.add_argument("model")
parser.add_argument("--cases", type=int, default=20000)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--seconds", type=float, default=2.0)
args = parser.parse_args()

CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance, negative_data_rejection]
# Streams without an end, and how many cases an endpoint is worth that takes nothing.
ENDLESS = "/v1/engine/live"
BARE_CASES = 20
# An answer may be as long as the context: short ones leave the time to the server's own work.
CONTEXT = "128"


def fail(case, response, why):
    sys.exit(f"FAILED {case.operation.label}: {why}\n  {case.as_curl_command()}\n  {response and response.text[:2000]}")


def check(case, session):
    began = time.monotonic()
    try:
        response = case.call(session=session, timeout=10 * args.seconds)
    except requests.exceptions.RequestException as error:
        fail(case, None, repr(error))
    took = time.monotonic() - began
    statuses[case.operation.label][response.status_code] += 1
    slowest[case.operation.label] = max(slowest[case.operation.label], took)
    if response.status_code >= 500 and response.status_code != 503:
        fail(case, response, f"status {response.status_code}")
    if took > args.seconds:
        fail(case, response, f"took {took:.1f} s")
    try:
        case.validate_response(response, checks=CHECKS)
    except schemathesis.errors.FailureGroup as group:
        fail(case, response, "; ".join(str(error) for error in group.exceptions))


def run(operation, mode, cases):
    @hypothesis.seed(args.seed)
    @hypothesis.settings(max_examples=cases, deadline=None, database=None, phases=[hypothesis.Phase.generate],
                         suppress_health_check=list(hypothesis.HealthCheck), verbosity=hypothesis.Verbosity.quiet)
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def one(case):
        check(case, session)

    one()


def prompt():
    body = {"prompt": "Hello", "max_tokens": 4, "temperature": 0}
    return server.post(body)["choices"][0]["text"]


statuses = collections.defaultdict(collections.Counter)
slowest = collections.Counter()
server = Server(args.ucuz, args.model, "--context", CONTEXT)
atexit.register(server.process.kill)
session = requests.Session()
first = prompt()
schema = schemathesis.openapi.from_url(server.url + "/openapi.json")
operations = [operation.ok() for operation in schema.get_all_operations()]
operations = [operation for operation in operations if operation.path != ENDLESS]
takers = [operation for operation in operations if operation.method == "post"]
left = args.cases - BARE_CASES * (len(operations) - len(takers))
for operation in operations:
    if operation in takers:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            run(operation, mode, -(-left // (2 * len(takers))))
    else:
        for _ in range(BARE_CASES):
            run(operation, GenerationMode.POSITIVE, 1)
    label = operation.label
    print(f"{label}: {dict(sorted(statuses[label].items()))}, slowest {slowest[label]:.2f} s", flush=True)

if prompt() != first:
    sys.exit("FAILED: the same prompt has another answer than in the beginning")
health = server.health()
held = [blocks["used"] for blocks in health["kv_blocks"]] + [health["token_bytes"], health["running"], health["waiting"]]
if any(held) or health["requests_failed_total"]:
    sys.exit(f"FAILED: something is left behind: {json.dumps(health)}")
if server.stop() != 0:
    sys.exit("FAILED: the server did not end well")
total = sum(sum(counts.values()) for counts in statuses.values())
print(f"{total} cases\n{len(operations)} passed, 0 failed")
