"""KV events of a running server, read with libzmq (`pyzmq`) and `msgpack`: chains, numbers, replay, eviction, salts.

    python kv_events.py BASE_URL ARRAY_ENDPOINT REPLAY_ENDPOINT MAP_ENDPOINT

    ucuz serve MODEL --context 512 --kv-memory 24MiB --kv-events endpoint=ARRAY,replay=REPLAY,topic=kv@w \\
        --kv-events endpoint=MAP,encoding=map          e.g. http://127.0.0.1:8000 tcp://127.0.0.1:5557 ...

The pool must be small (some hundred tokens), or nothing is evicted. Prints one line per check, then `N passed, 0 failed`;
exits 1 at the first failure.
"""
import json
import struct
import sys
import time
import urllib.request

import msgpack
import zmq

base, array_endpoint, replay_endpoint, map_endpoint = sys.argv[1:5]
BLOCK = 32
passed = 0
context = zmq.Context()


def check(name, holds, detail=""):
    global passed
    if not holds:
        sys.exit(f"FAILED {name}: {detail}")
    passed += 1
    print(f"ok {name}")


def ask(path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(base + path, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()


def complete(prompt, **more):
    return json.loads(ask("/v1/completions", {"prompt": prompt, "max_tokens": 4, "temperature": 0, **more}))


def socket(kind, endpoint, timeout_ms=5000):
    socket = context.socket(kind)
    socket.setsockopt(zmq.RCVTIMEO, timeout_ms)
    socket.setsockopt(zmq.LINGER, 0)
    # The server must answer them, or libzmq takes the connection for dead.
    socket.setsockopt(zmq.HEARTBEAT_IVL, 100)
    socket.connect(endpoint)
    return socket


class Subscriber:
    """Messages of one endpoint, in order."""

    def __init__(self, endpoint, topic=b""):
        self.socket = socket(zmq.SUB, endpoint)
        self.socket.setsockopt(zmq.SUBSCRIBE, topic)
        self.messages = []

    def receive(self, timeout_ms):
        """The next batch, or nothing within the time."""
        if not self.socket.poll(timeout_ms):
            return None
        topic, number, payload = self.socket.recv_multipart()
        self.messages.append((topic, struct.unpack(">Q", number)[0], payload))
        return msgpack.unpackb(payload, strict_map_key=False)

    def settle(self):
        """All events until nothing more comes for a while."""
        events = []
        while (batch := self.receive(300)) is not None:
            events += batch[1]
        return events

    def numbers(self):
        return [number for _, number, _ in self.messages]


def stored(events):
    return [event for event in events if event[0] == "BlockStored"]


class Router:
    """What a router would know: blocks by name, as the events said."""

    def __init__(self):
        self.blocks = {}

    def hear(self, events):
        for event in events:
            if event[0] == "AllBlocksCleared":
                self.blocks.clear()
            elif event[0] == "BlockRemoved":
                for name in event[1]:
                    assert name in self.blocks, f"removed {name}, which is not there"
                    del self.blocks[name]
            else:
                _, names, parent, tokens, size, *_ = event
                assert size == BLOCK and len(tokens) == BLOCK * len(names), event
                assert parent is None or parent in self.blocks, f"no parent {parent}"
                for index, name in enumerate(names):
                    assert 0 <= name < 2**63 and name not in self.blocks
                    self.blocks[name] = (parent, tokens[index * BLOCK:(index + 1) * BLOCK])
                    parent = name

    def leading_tokens(self, prompt):
        """How many tokens of the prompt are cached, by walking from a root."""
        parent, count = None, 0
        while block := prompt[count:count + BLOCK]:
            names = [name for name, known in self.blocks.items() if known == (parent, block)]
            if not names:
                break
            parent, count = names[0], count + BLOCK
        return count


def replay(first, kind=zmq.DEALER):
    """Batches from a number on, up to the end marker: [(number, payload)]."""
    requester = socket(kind, replay_endpoint)
    requester.send_multipart(([b""] if kind == zmq.DEALER else []) + [struct.pack(">Q", first)])
    batches = []
    while True:
        *delimiter, number, payload = requester.recv_multipart()
        assert delimiter == ([b""] if kind == zmq.DEALER else []), delimiter
        if number == b"\xff" * 8:
            assert payload == b""
            break
        batches.append((struct.unpack(">Q", number)[0], payload))
        if kind == zmq.REQ:
            break
    requester.close()
    return batches


def words(seed, count):
    """A prompt of token ids that begins as no other seed's."""
    return [(seed * 7919 + i * 31) % 40_000 + 100 for i in range(count)]


arrays, maps, others = Subscriber(array_endpoint, b"kv@"), Subscriber(map_endpoint), Subscriber(array_endpoint, b"kv@x")
for attempt in range(100):
    complete(words(1000 + attempt, 40))
    if arrays.receive(200) and maps.receive(200):
        break
arrays.settle(), maps.settle()
check("a late subscriber joins", arrays.messages, f"{attempt} attempts")
check("topics are sent", {topic for topic, _, _ in arrays.messages} == {b"kv@w"} and {topic for topic, _, _ in maps.messages} == {b""})

router = Router()
router.hear([event for _, payload in replay(0) for event in msgpack.unpackb(payload)[1]])
prefix = words(1, 4 * BLOCK)
first = prefix + words(2, 40)
began = time.time()
complete(first)
events = arrays.settle()
told = stored(events)
router.hear(events)
check("a prompt's blocks are stored", sum(len(event[1]) for event in told) == len(first) // BLOCK, told)
check("neighbours are told together", len(told) < len(first) // BLOCK, len(told))
check("the first block has no parent", told[0][2] is None)
check("all nine fields are there", all(len(event) == 9 and event[5:] == [None] * 4 for event in told), told[0])
check("token ids chain to the prompt", router.leading_tokens(first) == len(first) // BLOCK * BLOCK)
batch = msgpack.unpackb(arrays.messages[-1][2])
check("a batch has time and no rank", began - 1 < batch[0] < time.time() + 1 and batch[2] is None and len(batch) == 3, batch[0])

second = prefix + words(3, 70)
expected = router.leading_tokens(second)
usage = complete(second)["usage"]
events = arrays.settle()
router.hear(events)
check("the server finds what events said", usage["prompt_tokens_details"]["cached_tokens"] == expected == len(prefix), usage)
check("a shared prefix is told once", [event[2] for event in stored(events)][0] is not None)
check("the second prompt is known", router.leading_tokens(second) == len(second) // BLOCK * BLOCK)

for seed in range(10, 40):
    complete(words(seed, 300))
    events = arrays.settle()
    router.hear(events)
    if any(event[0] == "BlockRemoved" for event in events):
        break
removed = [event for event in events if event[0] == "BlockRemoved"]
check("eviction is told", removed and all(len(event) == 3 and event[2] is None for event in removed), f"{seed} prompts")
metrics = dict(line.rsplit(" ", 1) for line in ask("/metrics").splitlines() if not line.startswith("#"))
cached = sum(float(value) for name, value in metrics.items() if name.startswith("ucuz_kv_blocks{") and 'state="cached"' in name)
check("a router knows as many blocks as are cached", len(router.blocks) == cached, f"{len(router.blocks)} of {cached}")
prompt = words(seed, 300)
usage = complete(prompt)["usage"]
check("after eviction too", usage["prompt_tokens_details"]["cached_tokens"] == min(router.leading_tokens(prompt), 288), usage)

salted = complete(words(50, 70), cache_salt="pepper")
told = stored(arrays.settle())
taints = {json.dumps(event[8]) for event in told}
check("a salt taints", len(taints) == 1 and len(told[0][8][0][0]) == 32, taints)
maps.settle()
named = [event for event in msgpack.unpackb(maps.messages[-1][2])[1] if event["type"] == "BlockStored"]
check("in a map by name", named[0]["cache_salt"] == told[0][8][0][0] and named[0]["extra_keys"] is None, named)
check("a salt is not sent", all(b"pepper" not in payload for _, _, payload in arrays.messages + maps.messages))

numbers = arrays.numbers()
check("numbers have no gap", numbers == list(range(numbers[0], numbers[0] + len(numbers))), numbers)
check("both endpoints number alike", maps.numbers() == numbers, (numbers, maps.numbers()))
as_arrays = [msgpack.unpackb(payload) for _, _, payload in arrays.messages]
as_maps = [msgpack.unpackb(payload) for _, _, payload in maps.messages]
same = all(
    a[0] == m[0] and [event[0] for event in a[1]] == [event["type"] for event in m[1]]
    and [event[1] for event in a[1]] == [event["block_hashes"] for event in m[1]]
    for a, m in zip(as_arrays, as_maps))
check("both encodings say the same", same)
check("another topic is not sent", others.receive(0) is None)

batches = replay(0)
check("replay begins with a cleared cache", batches[0][0] == 0 and msgpack.unpackb(batches[0][1])[1] == [["AllBlocksCleared"]], batches[0])
check("replay has no gap", [number for number, _ in batches] == list(range(numbers[-1] + 1)))
check("replay repeats what was sent", batches[numbers[0]:] == [(number, payload) for _, number, payload in arrays.messages])
check("replay from the middle", replay(numbers[-1]) == batches[-1:])
check("replay from the future", replay(2**63) == [])
check("replay for REQ", replay(0, zmq.REQ) == batches[:1])
counted = [line.rsplit(" ", 1)[1] for line in ask("/metrics").splitlines() if line.startswith("ucuz_kv_events_")]
check("metrics count batches, drops, subscribers", counted == [str(numbers[-1] + 1), "0", "3"], counted)

# A router that dies leaves nothing behind, and one that comes back goes on.
arrays.socket.close()
complete(words(60, 70))
arrays = Subscriber(array_endpoint)
for attempt in range(100):
    complete(words(2000 + attempt, 40))
    if arrays.receive(200):
        break
arrays.settle()
missed = [number for number, _ in replay(numbers[-1] + 1)]
check("a router that returns replays what it missed", missed == list(range(numbers[-1] + 1, arrays.numbers()[-1] + 1)), missed)
print(f"{passed} passed, 0 failed")
