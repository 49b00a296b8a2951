"""`ucuz run` on a pseudo-terminal, as a person sits before it, and in pipes, as a script uses it.
   terminal.py BINARY MODEL
Needs the standard library alone. Prints what holds; exits with 1 at the first thing that does not.
"""
import json
import os
import pty
import re
import select
import signal
import stat
import subprocess
import sys
import tempfile
import termios
import time

UCUZ, MODEL = map(os.path.abspath, sys.argv[1:3])
FLAGS = ["--context", "2048"]
WAIT_S = 120
CTRL_C, CTRL_D, ENTER, UP = "\x03", "\x04", "\r", "\x1b[A"
work = tempfile.TemporaryDirectory()
data = os.path.join(work.name, "data")
history = os.path.join(data, "ucuz/history")
environment = {**os.environ, "XDG_DATA_HOME": data, "TERM": "xterm-256color", "UCUZ_CACHE": os.path.join(work.name, "cache")}
environment.pop("NO_COLOR", None)
passed = 0


def ok(name, holds, detail=""):
    global passed
    if not holds:
        print(f"FAILED {name}: {detail!r}")
        sys.exit(1)
    passed += 1
    print("ok", name)


class Terminal:
    """A program on a terminal of its own; `seen` is all that it wrote."""

    def __init__(self, *flags, **variables):
        self.seen, self.mark = "", 0
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.chdir(work.name)
            if "-p" in flags:
                # A slow machine shows on stderr how far the model is loaded.
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            os.execve(UCUZ, [UCUZ, "run", MODEL, *FLAGS, *flags], {**environment, **variables})

    def read(self, seconds):
        """Takes what comes within that time; false at the end."""
        if not select.select([self.terminal], [], [], seconds)[0]:
            return True
        try:
            piece = os.read(self.terminal, 65536)
        except OSError:
            return False
        self.seen += piece.decode(errors="replace")
        return piece != b""

    def since(self):
        """What came since the last `type`."""
        return self.seen[self.mark:]

    def wait(self, text, name):
        """Waits until `text` has come since the last `type`."""
        end = time.monotonic() + WAIT_S
        while text not in self.since() and time.monotonic() < end and self.read(1):
            pass
        ok(name, text in self.since(), self.since()[-2000:])

    def type(self, keys):
        self.mark = len(self.seen)
        os.write(self.terminal, keys.encode())

    def answer(self, question, name):
        """Types a question and waits for its answer and the next prompt; returns what came."""
        self.type(question + ENTER)
        end = time.monotonic() + WAIT_S
        # The prompt stands at the beginning of a line, behind the empty line below an answer.
        while not re.search(r"\n\r?\n(.*\n)*\r?(\x1b\[[^m]*)*> ", self.since()) and time.monotonic() < end and self.read(1):
            pass
        came = self.since()
        ok(name, len(came) > len(question) + 10, came[-2000:])
        return came

    def end(self):
        """Its exit code, as a shell tells it."""
        while self.read(WAIT_S):
            pass
        code = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        wanted = termios.ECHO | termios.ICANON | termios.ISIG
        ok("the terminal is as it was", termios.tcgetattr(self.terminal)[3] & wanted == wanted)
        os.close(self.terminal)
        return code if code >= 0 else 128 - code


def piped(*flags, text=None, **variables):
    """Stdout, stderr and exit code of a run in pipes."""
    command = [UCUZ, "run", MODEL, *FLAGS, *flags]
    end = {"input": text.encode()} if text is not None else {"stdin": subprocess.DEVNULL}
    done = subprocess.run(command, capture_output=True, env={**environment, **variables}, timeout=WAIT_S, **end)
    told = [line for line in done.stderr.decode().splitlines() if not line.startswith("loading ")]
    return done.stdout.decode(), "\n".join(told), done.returncode


def chat():
    chat = Terminal()
    chat.wait("> ", "a prompt")
    chat.type("/set temperature 0" + ENTER)
    chat.wait("temperature         0", "/set")
    chat.type("/set temperature 9" + ENTER)
    chat.wait("it must be a number between 0 and 2", "/set says the range")
    chat.type("/set temprature 1" + ENTER)
    chat.wait("did you mean temperature?", "/set suggests a name")
    chat.type("/set" + ENTER)
    chat.wait("frequency_penalty", "/set alone shows all")
    chat.type("/hlep" + ENTER)
    chat.wait("did you mean /help?", "an unknown command gets a suggestion")
    chat.type("/help" + ENTER)
    chat.wait("/save FILE", "/help")
    chat.type("/system You are a helpful assistant." + ENTER)
    chat.wait("(the system message is set)", "/system")
    came = chat.answer("What is the capital of France?", "a question is answered")
    ok("and rightly", "Paris" in came, came)

    chat.type("Write a very long story about a dragon." + ENTER)
    chat.wait("\n", "a long answer")
    start = len(chat.seen)
    while len(chat.seen) < start + 100 and chat.read(WAIT_S):
        pass
    chat.type(CTRL_C)
    chat.wait("(stopped; what was said stays", "ctrl-C stops it")
    chat.wait("> ", "and the program goes on")
    chat.type("/set max_tokens 8" + ENTER)
    chat.wait("max_tokens          8", "a limit of tokens")
    came = chat.answer("And of Italy?", "the next question is answered")
    ok("and cut where the limit is", "(cut off at max_tokens 8" in came, came)
    chat.answer('"""' + ENTER + "Count" + ENTER + "  to three." + ENTER + '"""', "a block of several lines")
    chat.answer("Name a\\" + ENTER + "colour.", "a backslash at the end of a line")
    chat.answer("\x1b[200~Two\nlines.\x1b[201~", "several lines pasted")
    chat.answer("No\x7f\x7fMore\x01Say ", "a line is edited")

    chat.type("words that are not sent" + CTRL_C)
    chat.wait("(ctrl-D ends the chat)", "ctrl-C at the prompt drops a line, and tells of ctrl-D")
    chat.type("/sav\t out.json" + ENTER)
    chat.wait("(saved to out.json)", "/save, completed by tab")
    chat.type("/save out.json" + ENTER)
    chat.wait("exists already", "/save never writes over a file")
    chat.type("/save out.md" + ENTER)
    chat.wait("(saved to out.md)", "/save as Markdown")
    chat.type(CTRL_D)
    while chat.read(WAIT_S):
        pass
    ok("ctrl-D ends with 0", chat.end() == 0)
    return chat


def saved():
    with open(os.path.join(work.name, "out.json")) as file:
        messages = json.load(file)["messages"]
    asked = [message["content"] for message in messages if message["role"] == "user"]
    expected = ["What is the capital of France?", "Write a very long story about a dragon.", "And of Italy?", "Count\n  to three.",
                "Name a\ncolour.", "Two\nlines.", "Say More"]
    ok("the saved questions are those that were asked", asked == expected, asked)
    ends = [message.get("finish_reason") for message in messages if message["role"] == "assistant"]
    ok("an answer that was stopped is kept as cut", ends[:3] == ["stop", "interrupted", "length"], ends)
    ok("with what it had said", len(messages[4]["content"]) > 50, messages[4])
    ok("the system message is saved", messages[0] == {"role": "system", "content": "You are a helpful assistant."}, messages[0])
    with open(os.path.join(work.name, "out.md")) as file:
        page = file.read()
    ok("the page says what was cut", page.startswith("# Conversation with ") and "*(stopped by ctrl-C)*" in page, page[:400])
    with open(history) as file:
        kept = file.read()
    ok("the history holds messages and commands", "capital of France" in kept and "/save out.md" in kept and "not sent" not in kept, kept)
    ok("for nobody else", stat.S_IMODE(os.stat(history).st_mode) == 0o600)


def second():
    hostile = {"messages": [{"role": "system", "content": "\x1b]0;title\x07\x1b[2J\u009b31m\u202eevil"}]}
    with open(os.path.join(work.name, "hostile.json"), "w") as file:
        json.dump(hostile, file)
    before = os.stat(history)
    chat = Terminal("--no-history")
    chat.wait("> ", "a second chat")
    chat.type(UP + "/system" + ENTER)
    chat.wait("there is no system message", "--no-history: there is nothing to go back to")
    chat.type("/load out.json" + ENTER)
    chat.wait("(loaded; 7 questions so far)", "/load")
    chat.type("/clear" + ENTER)
    chat.wait("(a new conversation)", "/clear")
    chat.type("/load hostile.json" + ENTER)
    chat.wait("(loaded; 0 questions so far)", "a hostile file is loaded")
    chat.type("/system" + ENTER)
    chat.wait("evil", "and shown")
    shown = chat.since()
    ok("its control characters visible, not obeyed", "\\u{1b}]0;title\\u{7}\\u{1b}[2J\\u{9b}31m\\u{202e}evil" in shown
       and "\x1b]0" not in shown and "\x1b[2J" not in shown and "\x9b" not in shown, shown)
    chat.type("/quit" + ENTER)
    ok("/quit ends with 0", chat.end() == 0)
    after = os.stat(history)
    ok("--no-history writes nothing", (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns))
    chat = Terminal()
    chat.wait("> ", "a third chat")
    chat.type(UP)
    chat.wait("/save out.md", "arrow up: the history of earlier chats")
    # Between two lines the terminal is in no editor's hands, and a key that comes then may be lost.
    chat.type(CTRL_C)
    chat.wait("> ", "ctrl-C: a new line")
    chat.type(CTRL_D)
    ok("its end", chat.end() == 0)


def looks():
    question = ["--raw", "-p", "**Apple** is red. **Banana** is yellow. **Cherry** is red. **Lemon** is", "--temperature", "0", "-n", "40"]
    raw, told, code = piped(*question)
    ok("in a pipe: the answer and nothing else", code == 0 and "\x1b" not in raw and told == "", (raw, told, code))
    ok("with its marks", "**" in raw, raw)
    styled = Terminal(*question)
    ok("on a terminal", styled.end() == 0)
    ok("the same with styles", "\x1b[1mOrange\x1b[0m is" in styled.seen, styled.seen)
    strip = re.sub(r"\x1b\[[0-9;]*m", "", styled.seen).replace("\r\n", "\n")
    letters = lambda text: re.sub(r"[^A-Za-z0-9]", "", text)
    ok("and no letter lost", letters(strip) == letters(raw), (strip, raw))
    ok("the terminal's own style at the end", styled.seen.count("\x1b[1m") == styled.seen.count("\x1b[0m"), styled.seen)
    for name, flags, variables in [("--plain", ["--plain"], {}), ("NO_COLOR", [], {"NO_COLOR": "1"}), ("TERM=dumb", [], {"TERM": "dumb"})]:
        plain = Terminal(*question, *flags, **variables)
        ok(f"{name}: as it is written", plain.end() == 0 and plain.seen.replace("\r\n", "\n") == raw, (plain.seen, raw))
    dumb = Terminal("--temperature", "0", TERM="dumb")
    dumb.wait("> ", "a chat on a dumb terminal")
    dumb.type("What is the capital of France?\n")
    dumb.wait("Paris", "is answered")
    dumb.type(CTRL_D)
    ok("without one control sequence", dumb.end() == 0 and "\x1b" not in dumb.seen, dumb.seen)
    stopped = Terminal("-p", "Write a very long story.", "--temperature", "0")
    while len(stopped.seen) < 100 and stopped.read(WAIT_S):
        pass
    stopped.type(CTRL_C)
    ok("one answer, stopped: 130", stopped.end() == 130, stopped.seen)


def pipes():
    greedy = ["--temperature", "0", "-n", "30"]
    asked, told, code = piped("-p", "What is the capital of France?", *greedy)
    ok("-p", code == 0 and "Paris" in asked and asked.endswith("\n") and told == "", (asked, told))
    ok("stdin is the prompt", piped(*greedy, text="What is the capital of France?") == (asked, "", 0))
    both = piped("-p", "What is the capital", *greedy, text="of France?")
    ok("-p and stdin are joined by a newline", both == piped(*greedy, text="What is the capital\nof France?"), both)
    said, told, code = piped("-p", "What is the capital of France?", "--json", *greedy)
    said = json.loads(said)
    ok("--json", code == 0 and said["text"] + "\n" == asked and said["finish_reason"] == "stop" and said["usage"]["completion_tokens"] > 3, said)
    ok("no prompt", piped(text="")[2] == 1)
    ok("wrong usage", piped("--temperature", "3")[2] == 2)
    command = [UCUZ, "run", MODEL, *FLAGS, "-p", "Write a very long story.", "--temperature", "0"]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    run.stdout.read(1)
    run.stdout.close()
    ok("a reader that has enough ends it, quietly", run.wait(WAIT_S) == 0 and b"rror" not in run.stderr.read())
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    run.stdout.read(1)
    run.send_signal(signal.SIGINT)
    ok("ctrl-C in a pipe ends it by the signal", run.wait(WAIT_S) == -signal.SIGINT)


chat()
saved()
second()
looks()
pipes()
print(f"{passed} passed, 0 failed")
