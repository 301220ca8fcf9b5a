"""TVM in tests: where it is, servers and trackers that end with the test, and links that misbehave."""

import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time

from testing import models

WORKER = pathlib.Path(os.environ.get("SEQTO_BUILD_DIR", models.SOURCE / "build")) / "bin/seqto-tvm"
PYTHON = pathlib.Path(os.environ.get("SEQTO_TVM_PYTHON", models.SOURCE / ".deps/tvm/bin/python"))


def skip_without_tvm(code=77):
    """Ends the script, as skipped, with the reason, where TVM is not set up."""
    for path, missing in ((PYTHON, "no wheel of TVM here (tools/setup.sh tvm)"),
                          (WORKER, "built without TVM (SEQTO_TVM)")):
        if not path.exists():
            print(f"skipped: {missing}")
            sys.exit(code)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Program:
    """A child process that says on one of its streams when it is ready."""

    def __init__(self, command, ready, env=None):
        self.command, self.ready, self.env = [str(word) for word in command], re.compile(ready), env
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        env={**os.environ, **(self.env or {})}, start_new_session=True)
        self.lines = []
        for line in self.process.stdout:
            self.lines.append(line)
            if match := self.ready.search(line):
                self.match = match
                break
        else:
            raise RuntimeError(f"{self.command} did not start: {''.join(self.lines)}")
        self.reader = threading.Thread(target=lambda: self.lines.extend(self.process.stdout), daemon=True)
        self.reader.start()

    def send(self, number):
        """To the process and all that it started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)

    def stop(self, number=signal.SIGTERM):
        """Its exit code; killed where it does not heed the signal."""
        self.send(number)
        try:
            code = self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.send(signal.SIGKILL)
            code = self.process.wait(timeout=30)
        self.reader.join(timeout=10)
        self.process.stdout.close()
        return code


def serve(*flags, port=0, key="k"):
    """Our own server; `.port` is where it listens."""
    program = Program([WORKER, "serve", "--port", port, "--key", key, *flags], r"listening on \S+:(\d+)")
    program.port = int(program.match[1])
    return program


def python_serve(key="k"):
    port = free_port()
    program = Program([PYTHON, "-m", "tvm.exec.rpc_server", "--host", "127.0.0.1", "--port", port,
                       "--port-end", port + 1, "--key", key], r"bind to")
    program.port = port
    return program


def tracker():
    port = free_port()
    program = Program([PYTHON, "-m", "tvm.exec.rpc_tracker", "--host", "127.0.0.1", "--port", port,
                       "--port-end", port + 1], r"bind to")
    program.port = port
    return program


class Proxy:
    """A link to `target` that may be slow and may break: `cut` of its connections end after a random number of bytes,
    in `garbage` of them the server's bytes are random from there on."""

    def __init__(self, target, cut=0.0, garbage=0.0, delay=0.0, seed=0, most_bytes=20000):
        self.target, self.cut, self.garbage, self.delay, self.most_bytes = target, cut, garbage, delay, most_bytes
        self.random = random.Random(seed)
        self.connections = self.faults = 0
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.open = True
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while self.open:
            try:
                client, _ = self.listening.accept()
            except OSError:
                return
            self.connections += 1
            chance, left = self.random.random(), self.random.randrange(self.most_bytes)
            fault = "cut" if chance < self.cut else "garbage" if chance < self.cut + self.garbage else None
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            budget = {"left": left, "fault": fault}
            for pair in ((client, server, False), (server, client, True)):
                threading.Thread(target=self.pump, args=(*pair, budget), daemon=True).start()

    def pump(self, source, sink, from_server, budget):
        try:
            while data := source.recv(65536):
                if self.delay:
                    time.sleep(self.delay)
                budget["left"] -= len(data)
                if budget["fault"] and budget["left"] < 0:
                    self.faults += not budget.get("happened")
                    budget["happened"] = True
                    if budget["fault"] == "cut":
                        break
                    if from_server:
                        data = self.random.randbytes(len(data))
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        source.close()  # the other thread's source is the other end

    def close(self):
        self.open = False
        self.listening.close()
