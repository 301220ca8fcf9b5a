"""What a link costs: calls of a model compiled by TVM, in a worker on this machine and over RPC on loopback.

Prints, for each way and chunk, the median time of a call less that of the kernels, and what it is beyond the worker's.
"""

import base64
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests"))
from testing import models, tvm  # noqa: E402

tvm.skip_without_tvm(code=0)
import numpy as np  # noqa: E402

CALLS = 200


class Worker:
    def __init__(self, folder, *flags):
        self.process = subprocess.Popen([tvm.WORKER, "worker", "--blobs", folder, *flags], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.last = 0
        self.ask(verb="hello", protocol=1)

    def ask(self, **message):
        self.last += 1
        self.process.stdin.write(json.dumps({"id": self.last, **message}) + "\n")
        self.process.stdin.flush()
        reply = json.loads(self.process.stdout.readline())
        if "error" in reply:
            raise RuntimeError(reply["error"]["message"])
        return reply["ok"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def overhead_ms(worker, model, sample, chunk):
    """Medians over the calls: of a whole call, and of what is not kernels in it."""
    session = worker.ask(verb="load", file=str(model))["session"]
    calls, others = [], []
    for i in range(CALLS + 5):
        start = time.perf_counter()
        answer = worker.ask(verb="run_many", session=session, samples=[[sample]] * chunk)
        call = (time.perf_counter() - start) * 1e3
        if i >= 5:
            calls.append(call)
            others.append(call - sum(r["ns"] for r in answer["results"]) / 1e6)
    return statistics.median(calls), statistics.median(others)


def main():
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "model"
        model.mkdir()
        subprocess.run([tvm.PYTHON, "-B", models.SOURCE / "src/runner/tvm_compile.py", models.DIGITS, model,
                        '{"kind":"llvm"}'], check=True)
        array = np.load(models.DIGITS_DATA)["x"][:1].astype(np.float32)
        sample = {"type": "float32", "dims": list(array.shape), "base64": base64.b64encode(array.tobytes()).decode()}
        ours, theirs = tvm.serve(), tvm.python_serve()
        ways = {"worker": [], "seqto server": ["--rpc", f"127.0.0.1:{ours.port}", "--key", "k"],
                "TVM's server": ["--rpc", f"127.0.0.1:{theirs.port}", "--key", "k"]}
        print(f"examples/digits, {CALLS} calls each, medians in ms")
        print(f"{'way':14} {'chunk':>5} {'call':>8} {'not kernels':>12} {'beyond worker':>14}")
        for chunk in (1, 16):
            base = None
            for name, flags in ways.items():
                worker = Worker(folder, *flags)
                call, other = overhead_ms(worker, model, sample, chunk)
                worker.close()
                base = other if base is None else base
                print(f"{name:14} {chunk:5} {call:8.3f} {other:12.3f} {other - base:14.3f}")
        ours.stop()
        theirs.stop()


main()
