"""lint against the graphs that onnxruntime made: `./dev bench oracle` with few graphs."""
import collections
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
import oracle as bench  # noqa: E402

with tempfile.TemporaryDirectory() as name:
    found, wrong, by_file, models = collections.Counter(), [], collections.Counter(), 0
    for seed in range(7000, 7040):
        try:
            path = bench.generated(seed, Path(name))
        except Exception:
            continue  # what onnxruntime's quantizer refuses
        models += bench.compare(str(path), os.path.join(name, "optimized.onnx"), found, wrong, by_file) == "models"
    right, nodes = sum(c for (_, r), c in found.items() if r), sum(found.values())
    print(f"{right} of {nodes} nodes right in {models} models")
    assert models > 25 and right >= 0.995 * nodes, "\n".join(wrong)
