"""A running `ucuz serve` for the scripts beside this one."""
import json
import re
import signal
import subprocess
import sys
import urllib.request


class Server:
    """Started on a free port; `said` holds its lines on stderr up to its address."""

    def __init__(self, ucuz, model, *flags):
        command = [ucuz, "serve", model, "--port", "0", *flags]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.said = []
        for line in self.process.stderr:
            self.said.append(line.strip())
            if found := re.match(r"listening on (\S+)", line):
                self.url = found[1]
                return
        sys.exit("no server: " + " / ".join(self.said))

    def health(self, key=None):
        headers = {"authorization": f"Bearer {key}"} if key else {}
        with urllib.request.urlopen(urllib.request.Request(self.url + "/health", headers=headers), timeout=60) as answer:
            return json.load(answer)

    def post(self, body, headers=None):
        """The answer to a completion request; raises `urllib.error.HTTPError`."""
        headers = {"content-type": "application/json", **(headers or {})}
        request = urllib.request.Request(self.url + "/v1/completions", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=1800) as answer:
            return json.load(answer)

    def stop(self):
        """Its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(120)
