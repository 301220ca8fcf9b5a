"""--max-time holds on a machine with other work: two busy loops for each processor run beside `tune`, which ends within
the limit and the larger of a tenth of it and 10 s, says what it left out, and leaves a front with its files. An audit,
which takes many times as long as the search, does not delay the end."""
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from testing.models import node, sanitized, save, seqto, weight  # noqa: E402

SECONDS, LATE = 4, 10


def network(path):
    """Some 5 ms a sample on one core."""
    nodes, weights, name = [], [], "x"
    for i, (inputs, outputs) in enumerate([(3, 32), (32, 64), (64, 64), (64, 64)]):
        nodes += [node("Conv", [name, f"w{i}"], [f"c{i}"], pads=[1, 1, 1, 1], strides=[1, 1]),
                  node("Relu", [f"c{i}"], [f"r{i}"])]
        weights.append((f"w{i}", weight(outputs, inputs, 3, 3, seed=i) / np.float32(np.sqrt(9 * inputs))))
        name = f"r{i}"
    nodes += [node("GlobalAveragePool", [name], ["p"]), node("Flatten", ["p"], ["f"]), node("Gemm", ["f", "v"], ["y"])]
    weights.append(("v", weight(64, 10, seed=9)))
    return save(path, nodes, [("x", [1, 3, 48, 48])], [("y", [1, 10])], weights)


def main():
    if sanitized():
        return 77
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        model = network(scratch / "model.onnx")
        np.savez(scratch / "data.npz", x=np.random.default_rng(0).normal(size=(900, 3, 48, 48)).astype(np.float32))
        loop = [sys.executable, "-c", f"import time\nend = time.time() + {SECONDS + 60}\nwhile time.time() < end: pass"]
        busy = [subprocess.Popen(loop) for _ in range(2 * (os.cpu_count() or 1))]
        try:
            start = time.monotonic()
            done = seqto("tune", model, "--data", scratch / "data.npz", "-o", scratch / "out", "--max-time", SECONDS)
            took = time.monotonic() - start
        finally:
            for process in busy:  # at the latest they end by themselves
                process.kill()
                process.wait()
        assert done.returncode == 0, done.stderr
        summary = json.loads((scratch / "out" / "summary.json").read_text())
        print(f"--max-time {SECONDS}: {took:.1f} s", summary["samples"], *summary["notes"], sep="\n  ")
        assert took <= SECONDS + max(SECONDS / 10, LATE), took
        assert any("--max-time" in note for note in summary["notes"]), summary["notes"]
        assert summary["front"]
        for point in summary["front"]:
            assert (scratch / "out" / point["file"]).exists() and (scratch / "out" / point["plan"]).exists(), point["id"]
        start = time.monotonic()
        done = seqto("tune", model, "--data", scratch / "data.npz", "-o", scratch / "audited", "--max-time", SECONDS,
                     "--schemes", "int8,float32", "--audit-samples", 400)
        took = time.monotonic() - start
        assert done.returncode == 0, done.stderr
        notes = json.loads((scratch / "audited" / "summary.json").read_text())["notes"]
        assert took <= SECONDS + LATE, took
        assert any("--max-time left none for" in note and "the audit" in note for note in notes), notes
    return 0


if __name__ == "__main__":
    sys.exit(main())
