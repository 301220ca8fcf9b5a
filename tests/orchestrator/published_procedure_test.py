"""`seqto tune --strategy incremental` against the published procedure on onnxruntime.quantization, trial by trial.

The published script takes minutes, so its result is kept in .deps/cache by the content of everything that shapes it.
Sizes within 1 %, KL within 5 % or 0.002, and the same exclusion order wherever its errors differ by more than 1e-6.
SEQTO_SLOW=1 adds mobilenetv2.
"""
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).parents[1] / "differential"))
import cases  # noqa: E402

CALIBRATION, EVALUATION = 50, 150


def inputs(root, name, path):
    folder = Path(root) / name
    case = json.loads((folder / "case.json").read_text())
    model = onnx.load(folder / case["model"])
    samples = cases.inputs(folder, case, model, CALIBRATION + EVALUATION)
    x = np.ascontiguousarray(np.concatenate([next(iter(s.values())) for s in samples]))
    np.savez(path, x=x, y=np.zeros(len(x), np.int64))
    return folder / case["model"], hashlib.sha256(x.tobytes())


def baseline(script, model, data, key):
    """The script's result, cached."""
    key.update(script.read_bytes() + model.read_bytes() + f"{CALIBRATION} {EVALUATION}".encode())
    cache = Path(os.environ["SEQTO_SOURCE_DIR"]) / ".deps" / "cache" / f"published-{key.hexdigest()[:16]}.json"
    if not cache.exists():
        cache.parent.mkdir(parents=True, exist_ok=True)
        fresh = cache.with_suffix(f".{os.getpid()}")
        subprocess.run([sys.executable, str(script), str(model), str(data), "--calib", str(CALIBRATION), "--eval", str(EVALUATION),
                        "-o", str(fresh)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        fresh.rename(cache)
    return json.loads(cache.read_text())


def tune(model, data, output):
    command = [os.environ["SEQTO_BINARY"], "tune", str(model), "--data", str(data), "--strategy", "incremental",
               "--schemes", "int8,float32", "--calibration-samples", str(CALIBRATION),
               "--evaluation-samples", str(EVALUATION), "-o", str(output)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    lines = [json.loads(line) for line in (output / "study.jsonl").read_text().splitlines()]
    return [line["trial"] for line in lines if "trial" in line and line["trial"]["id"] != "float"]


def check(root, script, name, scratch):
    model, key = inputs(root, name, scratch / "data.npz")
    published = baseline(script, model, scratch / "data.npz", key)["trials"]
    ours = tune(model, scratch / "data.npz", scratch / "out")
    assert all(t["outcome"] == "ok" for t in ours), [t["failure"] for t in ours if t["outcome"] != "ok"]
    same_order(name, published[-1]["excluded"], ours[-1]["excluded"])
    assert len(ours) == len(published), f"{name}: {len(published)} trials published, {len(ours)} here"
    worst_size = worst_kl = 0
    for i, (a, b) in enumerate(zip(published, ours)):
        size, kl = b["size_bytes"], b["losses"]["kl"]
        worst_size = max(worst_size, abs(size / a["size_bytes"] - 1))
        worst_kl = max(worst_kl, abs(kl - a["kl"]))
        assert abs(size - a["size_bytes"]) <= 0.01 * a["size_bytes"], f"{name} trial {i}: {a['size_bytes']} bytes published, {size} here"
        assert abs(kl - a["kl"]) <= max(0.002, 0.05 * abs(a["kl"])), f"{name} trial {i}: KL {a['kl']} published, {kl} here"
        for loss in ("top1_disagreement", "rank_dissimilarity"):
            assert abs(b["losses"][loss] - a[loss]) <= 0.05, f"{name} trial {i}: {loss} {a[loss]} published, {b['losses'][loss]} here"
    print(f"{name}: {len(ours)} trials, sizes within {worst_size:.4%}, KL within {worst_kl:.2g}")


def same_order(name, published, ours):
    """The lists are equal but for neighbours whose errors tie, which may change places."""
    length = min(len(published), len(ours))
    moved = [i for i in range(length) if published[i] != ours[i]]
    # A tie swaps entries; an entry that travels further is another order.
    place = {entry: i for i, entry in enumerate(ours)}
    far = [(published[i], i, place.get(published[i])) for i in moved if abs(place.get(published[i], 10**6) - i) > 6]
    assert not far, f"{name}: exclusion orders part: entry, place published, place here: {far[:5]}"
    if moved:
        print(f"{name}: {len(moved)} of {length} entries change places with neighbours of equal error")


def main():
    root = os.environ.get("SEQTO_CASES_DIR", "")
    script = Path(root) / ".." / "bench" / "seqto_baseline.py"
    if not script.exists():
        print(f"skipped: the published script is not at {script}")
        return 77
    for name in ["resnet20"] + (["mobilenetv2"] if os.environ.get("SEQTO_SLOW") else []):
        with tempfile.TemporaryDirectory() as scratch:
            check(root, script, name, Path(scratch))
    return 0


if __name__ == "__main__":
    sys.exit(main())
