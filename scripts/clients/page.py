"""The page of a real server in a headless Chromium: chat, keys, hostile answers, the live view, keyboard, phone, dark and light.
   page.py BINARY MODEL [--pictures DIR]
Needs Debian's package chromium. Prints what holds; exits with 1 at the first thing that does not.
"""
import argparse
import json
import os
import sys
import tempfile
import threading
import time
import urllib.request

from browser import Browser
from server import Server

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("binary")
parser.add_argument("model")
parser.add_argument("--pictures", metavar="DIR", help="keeps pictures of the page there")
args = parser.parse_args()
passed = 0
FLAGS = ["--context", "2048", "--max-sequences", "8", "--kv-memory", "64MiB"]
KEY = "a-key-of-twenty-letters"

MARKDOWN = """A **hash map** keeps *pairs* of a key and a value.

## How it works

1. A function turns the key into a number.
2. The number names a bucket.
   - Few keys share one.

> Fast on average, slow at worst.

```python
ages = {"Ada": 36, "Grace": 85}
print(ages["Ada"])  # <b>36</b>
```

| operation | average |
|---|---|
| look up | `O(1)` |

See [the article](https://en.wikipedia.org/wiki/Hash_(table)); snake_case_words and 2 * 3 * 4 stay.

def unfenced():
    return "indented"
"""
HOSTILE = """# <img src=x onerror="window.hacked=1">
<script>window.hacked=2</script><iframe src="javascript:window.hacked=3"></iframe>
![pic](https://example.com/p.png "t") ![x](javascript:window.hacked=4)
[a](javascript:window.hacked=5) [b](JaVaScRiPt:alert(1)) [c](data:text/html,<script>window.hacked=6</script>) [d](https://example.com/?a=1&b="onclick=x)
<a href="https://example.com" onclick="window.hacked=7">x</a> <https://example.com/auto> **<b onmouseover=window.hacked=8>bold</b>**
`<img src=x onerror=window.hacked=9>`
| <svg onload=window.hacked=10> | b |
|---|---|
| <style>body{display:none}</style> | <link rel=stylesheet href=https://example.com/x.css> |
> > > > > > > > > > > > deep <object data=x>
```html
<img src=x onerror="window.hacked=11">
```
"""


def ok(name, holds, detail=""):
    global passed
    if not holds:
        print(f"FAILED {name} {detail}")
        print(browser.errors)
        picture("failed")
        sys.exit(1)
    passed += 1
    print("ok", name)


def picture(name, whole=False):
    if args.pictures:
        os.makedirs(args.pictures, exist_ok=True)
        browser.picture(os.path.join(args.pictures, name + ".png"), whole)


def ask(text):
    browser.run("document.getElementById('prompt').focus()")
    browser.type(text)
    browser.key("Enter")


def parameter(name, value):
    browser.run(f"""(() => {{ const field = document.getElementById({json.dumps(name)});
        field.value = {json.dumps(str(value))}; field.dispatchEvent(new Event("input")); }})()""")


ANSWER = "document.querySelector('.message.assistant:last-of-type .body')?.textContent ?? ''"
NOTE = "document.querySelector('.message.assistant:last-of-type .note')?.textContent ?? ''"
IDLE = "document.getElementById('stop').hidden"
PROBLEM = "document.getElementById('problem').textContent"


def answer(seconds=120):
    browser.until(IDLE, seconds)
    return browser.run(ANSWER)


def chat(server):
    browser.open(server.url + "/")
    browser.until("document.getElementById('model').textContent.length > 0")
    ok("the page names the model", "mollm2" in browser.run("document.getElementById('model').textContent").lower())
    picture("1-first-visit")
    parameter("temperature", 0)
    parameter("max_tokens", 60)
    ask("Explain in two sentences what a lighthouse is for.")
    lengths = set()
    while not browser.run(IDLE):
        lengths.add(len(browser.run(ANSWER)))
        browser.wait(0.05)
    ok("an answer streams in", len(lengths) > 3, lengths)
    ok("it says what it took", "tokens/s" in browser.run(NOTE), browser.run(NOTE))
    parameter("temperature", 1)
    parameter("seed", 7)
    ask("And who lives there?")
    browser.wait(0.2)
    first = answer()
    browser.run("[...document.querySelectorAll('.message.assistant button')].find((b) => b.textContent === 'Regenerate').click()")
    browser.wait(0.3)
    ok("the same seed gives the same answer again", answer() == first and first, first)
    ok("regenerating replaces", browser.run("document.querySelectorAll('.message').length") == 4)
    parameter("max_tokens", 1500)
    ask("Write a very long story about the sea, with many chapters.")
    browser.until(f"({ANSWER}).length > 200")
    ok("the log is busy while it streams", browser.run("document.getElementById('messages').getAttribute('aria-busy')") == "true")
    picture("2-chat-under-way")
    browser.key("Escape")
    browser.until(IDLE, 5)
    ok("Escape stops", "stopped" in browser.run(NOTE), browser.run(NOTE))
    end = time.time() + 10
    while server.health()["running"] and time.time() < end:
        time.sleep(0.1)
    ok("and the engine stops too", server.health()["running"] == 0)
    told = browser.run(ANSWER)
    browser.open(server.url + "/")
    ok("a reload finds the conversation", browser.run(ANSWER) == told and browser.run("document.querySelectorAll('.message').length") == 6)
    ok("and the parameters", browser.run("document.getElementById('seed').value") == "7")


def conversations(server):
    browser.click("#new")
    ok("a new one is empty", browser.run("document.querySelectorAll('.message').length") == 0)
    parameter("max_tokens", 8)
    parameter("system", "You answer with one word.")
    ask("Hello <b>there</b>")
    answer()
    ok("two are listed", browser.run("document.querySelectorAll('#conversations li').length") == 2)
    ok("a message is text", browser.run("document.querySelector('.message.user b') === null"))
    browser.run("[...document.querySelectorAll('#conversations li:first-child .menu button')].find((b) => b.textContent === 'Rename').click()")
    browser.run("document.querySelector('#conversations input').select()")
    browser.type("A name")
    browser.key("Enter")
    ok("renaming", browser.run("document.querySelector('#conversations .title').textContent") == "A name")
    code = """new Promise((resolve) => { const make = URL.createObjectURL;
        URL.createObjectURL = (blob) => { blob.text().then(resolve); return make.call(URL, blob); };
        [...document.querySelectorAll('#conversations li:first-child .menu button')].find((b) => b.textContent === 'Export as JSON').click(); })"""
    exported = json.loads(browser.run(code))
    roles = [message["role"] for message in exported["messages"]]
    ok("exporting", exported["title"] == "A name" and roles == ["system", "user", "assistant"], exported)
    browser.run("[...document.querySelectorAll('#conversations li:first-child .menu button')].find((b) => b.textContent === 'Delete').click()")
    browser.wait(0.3)
    ok("deleting", browser.run("document.querySelectorAll('#conversations li').length") == 1)
    parameter("system", "")


def scripted(text):
    chunks = [{"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]} for piece in (text[:30], text[30:])]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in [*chunks, end]) + "data: [DONE]\n\n"


def markdown():
    browser.click("#new")
    browser.pretend({"/v1/chat/completions": (200, {"content-type": "text/event-stream"}, scripted(MARKDOWN))})
    ask("What is a hash map?")
    browser.wait(0.3)
    answer()
    browser.pretend({})
    body = "document.querySelector('.message.assistant .body')"
    wanted = ["p > strong", "p > em", "h4", "ol > li > ul > li", "blockquote > p", ".code pre > code", ".code .copy", "tbody td > code"]
    missing = [path for path in wanted if not browser.run(f"{body}.querySelector({json.dumps(path)}) !== null")]
    ok("Markdown is shown as such", missing == [], missing)
    ok("code is as it was written", "# <b>36</b>" in browser.run(f"{body}.querySelector('pre').textContent"))
    ok("a link keeps its brackets", browser.run(f"{body}.querySelector('a').href") == "https://en.wikipedia.org/wiki/Hash_(table)")
    text = browser.run(f"{body}.textContent")
    ok("and plain text its signs and spaces", all(part in text for part in ("snake_case_words and 2 * 3 * 4 stay", "\n    return")), text)
    browser.run("document.getElementById('scroll').scrollTop = 0")
    picture("3-markdown")


def hostile():
    browser.click("#new")
    headers = {"content-type": "text/event-stream"}
    browser.pretend({"/v1/chat/completions": (200, headers, scripted(HOSTILE))})
    before = len(browser.requests)
    ask("Break the page")
    browser.wait(0.3)
    answer()
    browser.wait(1)
    body = "document.querySelector('.message.assistant .body')"
    ok("nothing in an answer runs", browser.run("window.hacked === undefined"))
    names = "img,script,iframe,object,svg,style,link,form,b"
    ok("an answer's HTML stays text", browser.run(f"{body}.querySelectorAll('{names}').length") == 0)
    ok("and is shown", "<script>window.hacked=2" in browser.run(f"{body}.textContent"))
    attributes = f"[...{body}.querySelectorAll('*')].flatMap((e) => e.getAttributeNames()).filter((n) => n.startsWith('on') || n === 'style' || n === 'src').length"
    ok("no handlers, no styles", browser.run(attributes) == 0)
    links = browser.run(f"[...{body}.querySelectorAll('a')].map((a) => [a.protocol, a.rel, a.target])")
    ok("links are of the web and tell nobody whence", links and all(link == ["https:", "noopener noreferrer", "_blank"] for link in links), links)
    asked = [url for _, url in browser.requests[before:] if "/v1/" not in url]
    ok("an answer makes the page ask for nothing", asked == [], asked)
    browser.run("document.querySelector('.message.assistant .copy').click()")
    browser.pretend({})
    code = """import('/page/markdown.js').then(({ render }) => { const text = %s; const began = performance.now();
        const place = document.createElement('div'); place.append(render(text)); return [performance.now() - began, place.textContent.length]; })"""
    for name, text in [("stars", "*" * 20000), ("brackets", "[" * 20000), ("quotes", ">" * 5000), ("ticks", "`a" * 10000), ("lists", "\n".join(" " * n + "- x" for n in range(300)))]:
        took, _ = browser.run(code % json.dumps(text))
        ok(f"{len(text)} bytes of {name} take {took:.0f} ms", took < 3000)


def errors():
    quiet = len(browser.errors)
    for status, headers, said, expected in [
        (429, {"retry-after": "7"}, "it is full", "Try again in 7 s"),
        (503, {}, "the server is shutting down", "takes no requests"),
        (500, {}, "the server failed", "the server failed"),
    ]:
        browser.click("#new")
        body = json.dumps({"error": {"message": said, "type": "x", "param": None, "code": "x"}})
        browser.pretend({"/v1/chat/completions": (status, headers, body)})
        ask("Hello")
        browser.until(f"({PROBLEM}).length > 0")
        ok(f"{status} is told plainly", expected in browser.run(PROBLEM), browser.run(PROBLEM))
        browser.pretend({})
    browser.run("[...document.querySelectorAll('.message.user button')].find((b) => b.textContent === 'Try again').click()")
    browser.wait(0.3)
    ok("and tried again when asked", answer() != "" and browser.run(PROBLEM) == "")
    # The browser itself notes such answers on the console.
    del browser.errors[quiet:]


def keyboard():
    browser.click("#new")
    browser.run("document.activeElement.blur(); scrollTo(0, 0)")
    browser.open(browser.run("location.href"))
    seen, invisible = [], []
    for _ in range(40):
        browser.key("Tab")
        name = browser.run("document.activeElement.id || document.activeElement.className || document.activeElement.tagName")
        style = browser.run("(() => { const s = getComputedStyle(document.activeElement); return s.outlineStyle + s.outlineWidth; })()")
        if name == "BODY":
            break
        seen.append(name)
        if style.startswith("none") or style.endswith("0px"):
            invisible.append(name)
    wanted = ["skip", "to-chat", "to-live", "theme", "new", "prompt", "send", "system", "temperature", "seed"]
    places = [seen.index(name) if name in seen else -1 for name in wanted]
    ok("Tab goes through everything in order", -1 not in places and places == sorted(places), (wanted, seen))
    ok("what has the focus is seen", invisible == [], invisible)
    browser.run("document.querySelector('#prompt').focus()")
    browser.type("one")
    browser.key("Enter", modifiers=8)
    browser.type("two")
    ok("Shift+Enter is a new line", browser.run("document.getElementById('prompt').value") == "one\ntwo")
    labelled = """[...document.querySelectorAll('button,input,textarea,a,summary')].filter((e) =>
        !(e.textContent.trim() || e.getAttribute('aria-label') || document.querySelector(`label[for="${e.id}"]`))).length"""
    ok("every control has a name", browser.run(labelled) == 0)


def looks():
    widths = "[document.documentElement.scrollWidth, innerWidth]"
    colors = "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color].map((c) => c.match(/[0-9]+/g).slice(0, 3).reduce((a, b) => a + +b, 0))"
    for width in (360, 800):
        browser.size(width, 740, 2)
        for view in ("#chat", "#live"):
            browser.run(f"location.hash = {json.dumps(view)}")
            browser.wait(0.4)
            wide, window = browser.run(widths)
            ok(f"{view} at {width} px does not scroll sideways", wide <= window == width, (wide, window))
    browser.size(1280, 860, 1)
    for scheme, is_dark in (("dark", True), ("light", False)):
        browser.media(prefers_color_scheme=scheme)
        paper, ink = browser.run(colors)
        ok(f"{scheme} as the system wants", (paper < ink) == is_dark)
    browser.click("#theme")
    paper, ink = browser.run(colors)
    ok("the switch makes it dark", paper < ink)
    browser.open(browser.run("location.href"))
    paper, ink = browser.run(colors)
    ok("and a reload keeps that", paper < ink)
    browser.run("localStorage.removeItem('ucuz.theme'); delete document.documentElement.dataset.theme")
    browser.media(prefers_reduced_motion="reduce")
    moving = "[...document.querySelectorAll('*')].filter((e) => { const s = getComputedStyle(e); return s.animationName !== 'none' || parseFloat(s.transitionDuration) > 0; }).length"
    ok("nothing moves for who wants no motion", browser.run(moving) == 0)
    browser.media(prefers_color_scheme="light")


def figures():
    texts = browser.run("[...document.querySelectorAll('#figures div')].map((d) => [d.querySelector('dt').textContent, d.querySelector('dd').textContent])")
    return {name: float(value.replace(",", "").split()[0].rstrip("%")) if value[0].isdigit() else None for name, value in texts}


def live(server):
    browser.open(server.url + "/#live")
    browser.until("document.querySelectorAll('#figures div').length > 0")
    ok("an idle engine is shown", figures()["requests running"] == 0)
    browser.click("#examples")
    most, shared, phases = 0, 0, set()
    taken = False
    end = time.time() + 300
    while time.time() < end:
        browser.wait(0.2)
        running = figures()["requests running"]
        most = max(most, running)
        shared = max(shared, int(browser.run("document.querySelectorAll('#maps .legend li')[1].textContent.trim().split(' ')[0].replace(',', '')")))
        phases.add(browser.run("document.getElementById('gantt').getAttribute('aria-label').replace(/[0-9]+/g, 'n')"))
        if running == 8 and not taken:
            browser.wait(1.2)
            picture("4-live-8-requests", whole=True)
            taken = True
        if most > 0 and running == 0 and not browser.run("document.getElementById('examples').disabled"):
            break
    ok("eight requests run at once", most == 8 and taken, most)
    ok("blocks are shared by several", shared > 0)
    totals = server.health()
    steps = figures()["steps so far"]
    ok("figures are the engine's", totals["running"] == 0 and steps > 100, (steps, totals))
    ink = """(() => { const c = document.getElementById('gantt'); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        const seen = new Set(); for (let i = 0; i < d.length; i += 4) if (d[i + 3] === 255) seen.add(d[i] * 65536 + d[i + 1] * 256 + d[i + 2]); return seen.size; })()"""
    ok("requests have colours of their own", browser.run(ink) > 8)
    ok("plots have lines", browser.run("document.querySelectorAll('#plots path').length") >= 5)
    streams = [number for number, url in browser.requests if url.endswith("/v1/engine/live")]
    browser.run("location.hash = '#chat'")
    browser.wait(0.5)
    ok("who leaves the view closes its stream", streams and all(number in browser.ended for number in streams))
    browser.run("location.hash = '#live'")
    browser.wait(0.6)
    browser.click("#pause")
    browser.wait(0.3)
    streams = [number for number, url in browser.requests if url.endswith("/v1/engine/live")]
    ok("a pause too", all(number in browser.ended for number in streams))
    browser.click("#pause")
    browser.wait(0.5)


def phone(server):
    """Eight requests from elsewhere, seen on a phone and in the dark."""
    prompts = [f"Number {n}: " + "the sea and the sky " * (4 * n) for n in range(8)]
    body = {"prompt": prompts, "max_tokens": 250, "ignore_eos": True}
    thread = threading.Thread(target=lambda: server.post(body))
    browser.size(360, 740, 2)
    browser.media(prefers_color_scheme="dark")
    thread.start()
    browser.wait(4)
    picture("5-phone-live-dark", whole=True)
    browser.size(1280, 860, 1)
    browser.wait(1)
    picture("6-live-dark", whole=True)
    thread.join()
    browser.run("location.hash = '#chat'")
    browser.run("document.querySelector('#conversations li:last-child .title').click()")
    browser.wait(0.3)
    picture("7-chat-dark")
    browser.size(360, 740, 2)
    browser.wait(0.3)
    picture("8-phone-chat-dark")
    browser.media(prefers_color_scheme="light")
    browser.click("#show-list")
    browser.wait(0.2)
    picture("9-phone-list")
    browser.click("#show-list")
    browser.size(1280, 860, 1)


def keys():
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as file:
        file.write(f"reader {KEY}\n")
        file.flush()
        server = Server(args.binary, args.model, "--api-keys", file.name, *FLAGS)
        quiet = len(browser.errors)
        browser.open(server.url + "/")
        browser.until("document.getElementById('key-dialog').open")
        picture("10-key")
        ok("a page without a key asks for one", True)
        for key, says in [("wrong", "does not know"), (KEY, None)]:
            browser.run("document.getElementById('key').focus()")
            browser.type(key)
            browser.key("Enter")
            if says:
                browser.until(f"document.getElementById('key-says').textContent.includes({json.dumps(says)}) && document.getElementById('key-dialog').open")
                ok("a wrong key is told", True)
        browser.until("document.getElementById('model').textContent.toLowerCase().includes('mollm2')")
        kept = browser.run("[JSON.stringify({ ...sessionStorage }), JSON.stringify({ ...localStorage })]")
        ok("a key is kept for this tab only", KEY in kept[0] and KEY not in kept[1])
        parameter("max_tokens", 5)
        ask("Hello")
        browser.wait(0.3)
        ok("and used in the chat", answer() != "")
        browser.run("location.hash = '#live'")
        browser.until("document.querySelectorAll('#figures div').length > 0")
        ok("and in the live view", True)
        del browser.errors[quiet:]
        return server


def ends(servers):
    """The last server stops while its live view is looked at."""
    quiet = len(browser.errors)
    origins = tuple(server.url + "/" for server in servers)
    strays = [url for _, url in browser.requests if not url.startswith((*origins, "data:", "blob:", "about:"))]
    ok("no request left for anywhere else", strays == [], strays)
    ok("no complaint on the console", browser.errors == [], browser.errors)
    began = time.time()
    code = servers[-1].stop()
    ok(f"a server with a live view stops in order, in {time.time() - began:.1f} s", code == 0 and time.time() - began < 10, code)
    browser.wait(1)
    ok("and the page says that it is gone", browser.run("document.getElementById('live-problem').textContent") != "")
    del browser.errors[quiet:]
    ok("its siblings too", servers[0].stop() == 0)


server = Server(args.binary, args.model, *FLAGS)
with urllib.request.urlopen(server.url + "/", timeout=60) as response:
    policy = response.headers["content-security-policy"]
browser = Browser()
try:
    browser.size(1280, 860)
    browser.media(prefers_color_scheme="light")
    ok("the page may load nothing from elsewhere", "default-src 'none'" in policy)
    chat(server)
    conversations(server)
    markdown()
    hostile()
    errors()
    keyboard()
    looks()
    live(server)
    phone(server)
    ends([server, keys()])
finally:
    browser.close()
    if server.process.poll() is None:
        server.process.kill()
print(f"{passed} passed, 0 failed")
