"""ONNX Runtime in another process: for the web, under Node (_oracle_web.mjs), the graphs that it makes and the answers that it
gives; other releases, the graphs that they make (_oracle_release.py)."""
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys

import _oracle_release
import numpy as np

PATIENCE = 60  # seconds, after which a model counts as refused: some leave the runtime waiting for ever
FOLDER = pathlib.Path(os.environ["SEQTO_SOURCE_DIR"]) / ".deps/runtimes/web/node_modules/onnxruntime-web/dist"


class Refused(Exception):
    pass


def missing():
    """What is not there; empty: all is."""
    if not shutil.which("node"): return "no node on this machine"
    return "" if FOLDER.exists() else "no onnxruntime-web in .deps/runtimes (./dev setup runtimes)"


class Other:
    """One process, begun anew where a model ended it."""

    def __init__(self, title, *command, **env):
        self.command, self.env = command, {**os.environ, **env}
        self.version = f"{title} {self.start()}"

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True, env=self.env)
        return json.loads(self.process.stdout.readline())["version"]

    def ask(self, **what):
        try:
            self.process.stdin.write(json.dumps(what) + "\n")
            self.process.stdin.flush()
            # The whole answer is one line: once there is something to read, the rest follows.
            there = select.select([self.process.stdout], [], [], PATIENCE)[0]
            line = self.process.stdout.readline() if there else ""
            found = json.loads(line) if line else {"error": "the runtime ended" if there else f"no answer in {PATIENCE} s"}
        except BrokenPipeError:
            found = {"error": "the runtime ended"}
        if "error" in found:
            # An abort leaves the module useless.
            self.process.kill()
            self.process.wait()
            self.start()
            raise Refused(found["error"])
        return found

    def optimize(self, model, output):
        self.ask(model=str(model), optimized=str(output))


class Release(Other):
    def __init__(self, release):
        super().__init__("onnxruntime", sys.executable, "-B", _oracle_release.__file__, PYTHONPATH=_oracle_release.packages(release))


class Web(Other):
    def __init__(self):
        super().__init__("onnxruntime-web", "node", pathlib.Path(__file__).with_suffix(".mjs"), FOLDER)

    def inputs(self, model):
        return self.ask(model=str(model))["inputs"]

    def run(self, model, samples):
        """The outputs of each sample, by their names."""
        found = self.ask(model=str(model), samples=[{n: packed(x) for n, x in sample.items()} for sample in samples])
        return [{n: unpacked(t) for n, t in outputs.items()} for outputs in found["outputs"]]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def packed(array):
    array = np.ascontiguousarray(array)
    return {"type": array.dtype.name, "dims": list(array.shape), "data": base64.b64encode(array.tobytes()).decode()}


def unpacked(tensor):
    return np.frombuffer(base64.b64decode(tensor["data"]), tensor["type"]).reshape(tensor["dims"])
