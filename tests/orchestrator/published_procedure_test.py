"""`seqto tune --strategy incremental` against the published procedure on onnxruntime.quantization, trial by trial.

The published script takes minutes, so its result is kept in .deps/cache by the content of everything that shapes it.
Sizes within 0.1 %, KL within 0.0005, other losses within one sample of the 150, and the same exclusion order but for tensors
whose errors tie: onnxruntime lists those in the order of Python's hashes, another one in each process. A trial that ends
between two of them excludes another layer than ours, so only trials that exclude the same are compared.
SEQTO_SLOW=1 adds mobilenetv2.
"""
import hashlib
import json
import math
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
    trials = [line["trial"] for line in lines if "trial" in line and line["trial"]["id"] != "float"]
    found = next(line["value"] for line in lines if line.get("note") == "sensitivity")
    return trials, {**{t["tensor"]: t["score"] for t in found["activations"]}, **{t["tensor"]: t["sqnr"] for t in found["weights"]}}


def check(root, script, name, scratch):
    model, key = inputs(root, name, scratch / "data.npz")
    published = baseline(script, model, scratch / "data.npz", key)["trials"]
    ours, errors = tune(model, scratch / "data.npz", scratch / "out")
    assert all(t["outcome"] == "ok" for t in ours), [t["failure"] for t in ours if t["outcome"] != "ok"]
    same_order(name, published[-1]["excluded"], ours[-1]["excluded"], errors)
    assert len(ours) == len(published), f"{name}: {len(published)} trials published, {len(ours)} here"
    worst_size = worst_kl = worst_other = 0
    same = [(i, a, b) for i, (a, b) in enumerate(zip(published, ours)) if set(a["excluded"]) == set(b["excluded"])]
    assert len(same) >= 0.8 * len(ours), f"{name}: only {len(same)} of {len(ours)} trials exclude the same"
    for i, a, b in same:
        size, kl = b["size_bytes"], b["losses"]["kl"]
        worst_size = max(worst_size, abs(size / a["size_bytes"] - 1))
        worst_kl = max(worst_kl, abs(kl - a["kl"]))
        assert abs(size - a["size_bytes"]) <= 0.001 * a["size_bytes"], f"{name} trial {i}: {a['size_bytes']} bytes published, {size} here"
        assert abs(kl - a["kl"]) <= 0.0005, f"{name} trial {i}: KL {a['kl']} published, {kl} here"
        for loss in ("top1_disagreement", "rank_dissimilarity"):
            worst_other = max(worst_other, abs(b["losses"][loss] - a[loss]))
            assert abs(b["losses"][loss] - a[loss]) <= 1.01 / EVALUATION, f"{name} trial {i}: {loss} {a[loss]} published, {b['losses'][loss]} here"
    print(f"{name}: {len(same)} of {len(ours)} trials exclude the same, sizes within {worst_size:.4%}, KL within {worst_kl:.2g}, others {worst_other:.2g}")


def same_order(name, published, ours, errors):
    """The lists are equal but for tensors whose errors tie, which may change places, each with the nodes behind it."""
    assert sorted(published) == sorted(ours), f"{name}: {sorted(set(published) ^ set(ours))[:5]} are in one exclusion list only"
    pairs = list(zip(*([entry for entry in entries if entry in errors] for entries in (published, ours))))
    apart = [(i, a, b) for i, (a, b) in enumerate(pairs) if not math.isclose(errors[a], errors[b], rel_tol=1e-6)]
    assert not apart, f"{name}: exclusion orders part: place, tensor published, tensor here: {apart[:5]}"
    if moved := sum(a != b for a, b in pairs):
        print(f"{name}: {moved} of {len(pairs)} tensors change places with others of equal error")
    else:
        assert published == ours, f"{name}: nodes stand in another order behind their tensors: {published} published, {ours} here"


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
