"""What a server does when the world breaks: one scene each, on a running program.

    python kill.py UCUZ MODEL [--scene NAME]

Scenes: stall (the engine's thread is held), leaving (held while the server is asked to end), forgiven (held, then let go), sigterm (200 requests inside), files (64 file
descriptors), disk (stderr on a full disk), gone (the process is killed: no stream may look finished). Exit code 1 when any
outcome is wrong.
"""
import argparse
import ctypes
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

parser = argparse.ArgumentParser()
parser.add_argument("ucuz")
parser.add_argument("model")
parser.add_argument("--scene")
args = parser.parse_args()
libc = ctypes.CDLL(None, use_errno=True)
SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
WALL = 0x40000000  # waits for a thread, which is no child in the usual sense


def ptrace(request, thread):
    if libc.ptrace(request, thread, None, None) != 0:
        sys.exit(f"ptrace {request:#x}: {os.strerror(ctypes.get_errno())}")


class Server:
    def __init__(self, *flags, stderr=None, **popen):
        self.log = tempfile.TemporaryFile("w+")
        command = [args.ucuz, "serve", args.model, "--kv-memory", "448MiB", *flags]
        self.port = free_port()
        self.process = subprocess.Popen([*command, "--port", str(self.port)], stderr=stderr or self.log, **popen)
        self.url = f"http://127.0.0.1:{self.port}"
        end = time.monotonic() + 60
        while self.health()[0] != 200:
            assert self.process.poll() is None and time.monotonic() < end, self.said()
            time.sleep(0.02)

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def health(self):
        try:
            with urllib.request.urlopen(self.url + "/health", timeout=5) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)
        except OSError:
            return None, {}

    def until(self, what, holds, seconds):
        began = time.monotonic()
        while not holds():
            assert time.monotonic() - began < seconds, f"never {what}: {self.health()}"
            time.sleep(0.01)
        return time.monotonic() - began

    def engine(self):
        for task in os.listdir(f"/proc/{self.process.pid}/task"):
            with open(f"/proc/{self.process.pid}/task/{task}/comm") as comm:
                if comm.read().startswith("ucuz-engine"):
                    return int(task)

    def exit(self, seconds):
        return self.process.wait(seconds)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Client(threading.Thread):
    """One stream; `outcome` is its finish reason, "error" for an error event, "cut" when it just ended."""

    def __init__(self, server, tokens=400):
        super().__init__()
        self.server, self.tokens, self.outcome, self.count = server, tokens, None, 0
        self.start()

    def run(self):
        body = {"prompt": "Once upon a time", "max_tokens": self.tokens, "ignore_eos": True, "stream": True}
        request = urllib.request.Request(self.server.url + "/v1/completions", json.dumps(body).encode(), {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                self.read(answer)
        except urllib.error.HTTPError as error:
            self.outcome = error.code
        except OSError as error:
            self.outcome = self.outcome or repr(error)

    def read(self, answer):
        self.outcome = "cut"
        for line in answer:
            if line.startswith(b"data: {"):
                event = json.loads(line[6:])
                if "error" in event:
                    self.outcome = "error"
                elif event["choices"][0]["finish_reason"]:
                    self.outcome = event["choices"][0]["finish_reason"]
                else:
                    self.count += 1


def begun(server, clients):
    server.until("all begun", lambda: all(client.count for client in clients), 120)


def outcomes(clients):
    for client in clients:
        client.join()
    return sorted({str(client.outcome) for client in clients})


def reap(thread):
    """The kernel ends a held thread with its process, but who holds it must hear of it first."""
    while not os.WIFSIGNALED(status := os.waitpid(thread, WALL)[1]) and not os.WIFEXITED(status):
        pass


def stall():
    server = Server("--stall-exit", "5")
    clients = [Client(server) for _ in range(4)]
    begun(server, clients)
    thread = server.engine()
    ptrace(SEIZE, thread)
    ptrace(INTERRUPT, thread)
    unwell = server.until("503", lambda: server.health()[0] == 503, 15)
    status = server.health()[1].get("status")
    seen = outcomes(clients)
    ended = time.monotonic()
    reap(thread)
    code = server.exit(30)
    print(f"stall: /health 503 ({status}) after {unwell:.1f} s, streams ended by {seen}, exit {code} {time.monotonic() - ended:.1f} s later")
    return (status, seen, code) == ("stalled", ["error"], 70)


def leaving():
    server = Server("--stall-exit", "5", "--drain-timeout", "120")
    clients = [Client(server) for _ in range(4)]
    begun(server, clients)
    thread = server.engine()
    ptrace(SEIZE, thread)
    ptrace(INTERRUPT, thread)
    server.process.terminate()
    began = time.monotonic()
    seen = outcomes(clients)
    reap(thread)
    code = server.exit(30)
    seconds = time.monotonic() - began
    print(f"leaving: asked to end with its engine held, streams ended by {seen}, exit {code} after {seconds:.1f} s")
    return (seen, code) == (["error"], 70) and seconds < 20


def forgiven():
    server = Server()
    clients = [Client(server) for _ in range(4)]
    begun(server, clients)
    thread = server.engine()
    ptrace(SEIZE, thread)
    ptrace(INTERRUPT, thread)
    server.until("503", lambda: server.health()[0] == 503, 15)
    os.waitpid(thread, WALL)
    ptrace(DETACH, thread)
    well = server.until("200", lambda: server.health()[0] == 200, 10)
    seen = outcomes(clients)
    server.process.terminate()
    code = server.exit(60)
    print(f"forgiven: /health 200 again {well:.2f} s after the thread was let go, streams ended by {seen}, exit {code}")
    return (seen, code) == (["length"], 0)


def sigterm():
    server = Server("--max-sequences", "64", "--drain-timeout", "120")
    clients = [Client(server, 40) for _ in range(200)]
    server.until("200 inside", lambda: server.health()[1].get("requests_total") == 200, 60)
    server.process.terminate()
    began = time.monotonic()
    # A connection that was just accepted may be closed without an answer.
    server.until("503", lambda: server.health()[0] == 503, 2)
    status, body = server.health()
    late = Client(server, 4)
    late.join()
    seen = outcomes(clients)
    code = server.exit(60)
    lost = sum(client.count == 0 for client in clients)
    print(f"sigterm: /health {status} ({body.get('status')}), a late request {late.outcome}, 200 streams ended by {seen}, {lost} without a token, exit {code} after {time.monotonic() - began:.1f} s")
    return (status, late.outcome, seen, lost, code) == (503, 503, ["length"], 0, 0)


def files():
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    server = Server(preexec_fn=limit)
    clients = [Client(server) for _ in range(4)]
    begun(server, clients)
    # More than it can take: the rest waits in the kernel's queue.
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(100)]
    counts = [client.count for client in clients]
    server.until("going on", lambda: all(client.count > count + 5 for client, count in zip(clients, counts)), 60)
    for connection in idle:
        connection.close()
    seen = outcomes(clients)
    after = Client(server, 4)
    after.join()
    health = server.health()[0]
    server.process.terminate()
    code = server.exit(60)
    print(f"files: streams went on and ended by {seen}, then a new request {after.outcome}, /health {health}, exit {code}")
    return (seen, after.outcome, health, code) == (["length"], "length", 200, 0)


def disk():
    with open("/dev/full", "w") as full:
        server = Server("--log", "debug", stderr=full)
    clients = [Client(server, 40) for _ in range(4)]
    seen = outcomes(clients)
    server.process.terminate()
    code = server.exit(60)
    print(f"disk: with no room for a line of log, streams ended by {seen}, exit {code}")
    return (seen, code) == (["length"], 0)


def gone():
    server = Server()
    clients = [Client(server) for _ in range(4)]
    begun(server, clients)
    os.kill(server.process.pid, signal.SIGKILL)
    code = server.exit(10)
    seen = outcomes(clients)
    print(f"gone: streams ended by {seen} and none by a finish reason, exit {code}")
    return not {"length", "stop"} & set(seen) and code == -9


scenes = [stall, leaving, forgiven, sigterm, files, disk, gone]
chosen = [scene for scene in scenes if args.scene in (None, scene.__name__)]
wrong = [scene.__name__ for scene in chosen if not scene()]
if wrong:
    sys.exit(f"wrong: {', '.join(wrong)}")
print(f"{len(chosen)} passed, 0 failed")
