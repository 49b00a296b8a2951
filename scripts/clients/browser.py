"""A headless Chromium for the scripts beside this one, driven by the DevTools protocol over a plain WebSocket."""
import base64
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

NAMES = ["chromium", "chromium-browser", "google-chrome", "chrome"]
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions", "--hide-scrollbars",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-port=0", "about:blank"]
KEYS = {"Enter": (13, "\r"), "Tab": (9, ""), "Escape": (27, ""), " ": (32, " ")}


class WebSocket:
    """Texts to and from a server; the client's side of RFC 6455, without extensions."""

    def __init__(self, url):
        host, path = url.removeprefix("ws://").split("/", 1)
        name, port = host.split(":")
        self.socket = socket.create_connection((name, int(port)))
        self.buffer = b""
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        while b"\r\n\r\n" not in self.buffer:
            self.fill()
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        if b" 101 " not in head.split(b"\r\n")[0]:
            sys.exit(f"no WebSocket: {head!r}")

    def fill(self):
        got = self.socket.recv(1 << 16)
        if not got:
            raise ConnectionError("the browser is gone")
        self.buffer += got

    def take(self, count):
        while len(self.buffer) < count:
            self.fill()
        got, self.buffer = self.buffer[:count], self.buffer[count:]
        return got

    def send(self, text):
        data = text.encode()
        size = len(data)
        head = struct.pack(">BB", 0x81, 0x80 | size) if size < 126 else (
            struct.pack(">BBH", 0x81, 0xFE, size) if size < 1 << 16 else struct.pack(">BBQ", 0x81, 0xFF, size))
        # A mask of zeros leaves the data as it is.
        self.socket.sendall(head + bytes(4) + data)

    def receive(self, timeout):
        """The next text; None when none comes in time."""
        text = b""
        while True:
            self.socket.settimeout(timeout if not self.buffer and not text else 60)
            try:
                first, size = self.take(2)
            except TimeoutError:
                return None
            if size == 126:
                size = struct.unpack(">H", self.take(2))[0]
            elif size == 127:
                size = struct.unpack(">Q", self.take(8))[0]
            data = self.take(size)
            if first & 0x0F in (0, 1):
                text += data
                if first & 0x80:
                    return text.decode()


class Browser:
    """One page. `requests` are the URLs it asked for, `errors` what its console complained of."""

    def __init__(self):
        program = next((found for name in NAMES if (found := shutil.which(name))), None)
        if program is None:
            sys.exit("no browser: install Debian's package chromium")
        self.profile = tempfile.mkdtemp()
        self.process = subprocess.Popen([program, f"--user-data-dir={self.profile}", *FLAGS], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        path = os.path.join(self.profile, "DevToolsActivePort")
        for _ in range(600):
            if os.path.exists(path) and (lines := open(path).read().split("\n"))[0]:
                break
            time.sleep(0.1)
        else:
            sys.exit("the browser does not start")
        with urllib.request.urlopen(f"http://127.0.0.1:{lines[0]}/json/list", timeout=60) as answer:
            page = next(target for target in json.load(answer) if target["type"] == "page")
        self.socket = WebSocket(page["webSocketDebuggerUrl"])
        self.number = 0
        self.requests, self.errors, self.ended = [], [], []
        self.answers = {}  # part of a URL -> what is answered in the server's stead
        for domain in ["Page", "Runtime", "Network", "Log"]:
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        self.number += 1
        number = self.number
        self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.receive(120) or sys.exit(f"{method}: no answer"))
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.hear(message)

    def hear(self, message):
        method, params = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append((params["requestId"], params["request"]["url"]))
        elif method in ("Network.loadingFinished", "Network.loadingFailed"):
            self.ended.append(params["requestId"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(params["exceptionDetails"].get("exception", {}).get("description") or params["exceptionDetails"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(str([arg.get("value", arg.get("description")) for arg in params["args"]]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Page.javascriptDialogOpening":
            self.post("Page.handleJavaScriptDialog", accept=True)
        elif method == "Fetch.requestPaused":
            self.answer(params)

    def post(self, method, **params):
        """A call whose answer nobody waits for."""
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": params}))

    def answer(self, paused):
        for part, (status, headers, body) in self.answers.items():
            if part in paused["request"]["url"]:
                headers = [{"name": name, "value": value} for name, value in headers.items()]
                encoded = base64.b64encode(body.encode()).decode()
                return self.post("Fetch.fulfillRequest", requestId=paused["requestId"], responseCode=status, responseHeaders=headers, body=encoded)
        self.post("Fetch.continueRequest", requestId=paused["requestId"])

    def pretend(self, answers):
        """Answers some requests in the server's stead; none with an empty table."""
        self.answers = answers
        if answers:
            self.call("Fetch.enable", patterns=[{"urlPattern": "*/v1/*"}])
        else:
            self.call("Fetch.disable")

    def wait(self, seconds):
        """Hears what happens meanwhile."""
        end = time.time() + seconds
        while (left := end - time.time()) > 0:
            if text := self.socket.receive(left):
                self.hear(json.loads(text))

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def run(self, code):
        """The value of an expression, awaited."""
        result = self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise RuntimeError(f"{code}: {details.get('exception', {}).get('description', details['text'])}")
        return result["result"].get("value")

    def until(self, code, seconds=60):
        """Waits until an expression is true, and gives its value."""
        end = time.time() + seconds
        while True:
            if value := self.run(code):
                return value
            if time.time() > end:
                raise TimeoutError(f"never: {code}")
            self.wait(0.03)

    def key(self, name, modifiers=0):
        code, text = KEYS[name]
        both = {"key": name, "code": name, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **both)
        self.call("Input.dispatchKeyEvent", type="keyUp", **both)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def click(self, selector):
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def size(self, width, height, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=width < 600)

    def media(self, **features):
        """Sets media features: `prefers_color_scheme="dark"`."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": k.replace("_", "-"), "value": v} for k, v in features.items()])

    def picture(self, path, whole=False):
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
            data = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        else:
            data = self.call("Page.captureScreenshot")
        with open(path, "wb") as file:
            file.write(base64.b64decode(data["data"]))

    def close(self):
        self.process.terminate()
        self.process.wait(30)
        shutil.rmtree(self.profile, ignore_errors=True)
