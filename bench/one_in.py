"""`seqto analyze --one-in` of a generated decoder in float16, whose weights are larger than what may be in memory: peak resident
memory, bytes read from the disk over the file, and time beside that of one forward pass of the float model (which reads and widens
the weights too). The file is put out of the page cache before.

usage: ./dev bench one_in [--full]      (--full: 7 billion parameters, 14 GB on disk below $TMPDIR, an hour; else 0.4)
"""
import json
import os
import pathlib
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(os.environ["SEQTO_SOURCE_DIR"])
sys.path.insert(0, str(ROOT / "tests"))
from testing.decoder import FULL, Decoder  # noqa: E402
from quantize import BINARY  # noqa: E402
from _ratios import Ratios  # noqa: E402

TOKENS = 256
SHORT = {**FULL, "layers": 12, "width": 1536, "heads": 12, "kv_heads": 4, "wide": 4096}


def put_out(path):
    """Of the page cache: what is read then is read from the disk."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def run(*command, output):
    """Exit code and resources of a process of its own."""
    start = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        os.execv(command[0], command)
    _, status, usage = os.wait4(pid, 0)
    assert status == 0, status
    return time.perf_counter() - start, usage


def main():
    full = "--full" in sys.argv
    name = "decoder of 7 billion parameters, generated" if full else "decoder of 0.4 billion parameters, generated"
    ratios = Ratios("one_in" if full else "one_in_short", [name])
    with tempfile.TemporaryDirectory() as work:
        model, data, found = (os.path.join(work, n) for n in ("model.onnx", "ids.npz", "found.json"))
        size = FULL if full else SHORT
        Decoder(model, **size)
        weights = os.path.join(work, "model.weights")
        np.savez(data, input_ids=np.random.default_rng(3).integers(0, size["words"], (1, TOKENS)))
        put_out(weights)
        wall, usage = run(BINARY, "--json", "analyze", model, "--one-in", "int4_weights,int8_weights", "--data", data, "--threads",
                          str(os.cpu_count()), output=found)
        file = os.path.getsize(weights)
        table = json.loads(pathlib.Path(found).read_text())
    entries = sum(len(group["schemes"]) for group in table["groups"])
    failed = sum("failure" in entry for group in table["groups"] for entry in group["schemes"])
    peak, read = usage.ru_maxrss * 1024, usage.ru_inblock * 512
    print(f"{name}, {file / 1e9:.2f} GB, {TOKENS} tokens: {entries} losses ({failed} failed) in {table['blocks']} blocks, {wall:.0f} s; one "
          f"forward pass {table['forward_seconds']:.1f} s: {wall / table['forward_seconds'] / entries:.2f} of one a loss")
    print(f"peak resident memory {peak / 1e9:.2f} GB (goal 2); read from the disk {read / file:.3f} x the file (goal 1.05), by the program's own "
          f"count {table['read_bytes'] / table['model_bytes']:.3f} x")
    ratios.add("peak memory / file", peak / file, "lower")
    ratios.add("read / file", read / file, "lower")
    ratios.add("time of a loss / forward pass", wall / table["forward_seconds"] / entries, "lower")
    return ratios.finish()


if __name__ == "__main__":
    sys.exit(main())
