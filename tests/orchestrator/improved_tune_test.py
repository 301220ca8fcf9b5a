"""tune with improvers: every candidate has them, the published reference has not, a resumed study ends the same; plans
that mix schemes have biases of their own, and within the limits codes of their own."""
import json
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from testing.models import seqto  # noqa: E402

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits"
DATA = ["--data", EXAMPLE / "digits.npz"]
IMPROVERS = ["--improve", "--refine-ranges", "--bias-correction", "fast", "--per-channel"]


def tune(folder, evaluations, *flags):
    return seqto("tune", EXAMPLE / "model.onnx", *DATA, "-o", folder, "--strategy", "incremental",
                 "--calibration-samples", "32", "--evaluation-samples",
                 "100", "--max-evaluations", evaluations, *flags)


def trials(folder):
    lines = [json.loads(line) for line in (folder / "study.jsonl").read_text().splitlines()]
    return {line["trial"]["id"]: line["trial"] for line in lines if "trial" in line}


def search(folder):
    result = seqto("tune", EXAMPLE / "model.onnx", *DATA, "-o", folder, "--objectives", "kl,size", "--schemes",
                 "int8,int4_weights,float32", "--improve", "--calibration-samples", 32, "--search-evaluations", 60,
                   "--max-size", "40%")
    assert result.returncode == 0, result.stderr
    return {p.name: p.read_bytes() for p in (folder / "models").iterdir()}


def own_corrections(folder):
    whole, parts = folder / "mixed", folder / "mixed-parts"
    models = search(whole)
    notes = [json.loads(line) for line in (whole / "study.jsonl").read_text().splitlines()]
    taken = {n["note"].split()[-1]: n["value"] for n in notes if n.get("note", "").startswith("own corrections of")}
    found = trials(whole)
    mixed = [i for i, t in found.items() if t.get("part", "evaluation") == "evaluation"
             and "int8" in t["plan"].values() and i != "full" and t.get("step") != "uniform"]
    assert len(taken) > 3 and set(taken) <= set(mixed), "of the plans that mix static layers with others"
    assert sum(map(bool, taken.values())) > len(taken) / 2, taken
    assert "codes" in taken.values() and "biases" in taken.values(), taken
    assert {p.stem for p in (whole / "own_corrections").iterdir()} == {i for i, own in taken.items() if own}
    # A run that was killed among its reported plans goes on to the same files.
    lines = (whole / "study.jsonl").read_text().splitlines(keepends=True)
    last = [k for k, line in enumerate(lines) if '"own corrections of' in line][len(taken) // 2]
    parts.mkdir()
    (parts / "study.jsonl").write_text("".join(lines[:last + 1]))
    shutil.copy(whole / "corrections.npz", parts)
    assert search(parts) == models
    shutil.rmtree(whole / "own_corrections")
    assert search(whole) == models, "they are found again"


def limited_time(folder):
    """Learning ends with its part of a limited time, and biases are corrected instead; unless it was asked for by name."""
    kinds = {}
    for name, flags in (("short", ["--max-time", "0.0001"]), ("asked", ["--max-time", "0.0001", "--rounding", "learned"]),
                        ("long", ["--max-time", "3000", "--search-evaluations", 10])):
        out = folder / name
        result = seqto("tune", EXAMPLE / "model.onnx", *DATA, "-o", out, "--objectives", "kl,size", "--schemes",
                       "int8,int8_weights,float32", "--improve", "--calibration-samples", 32, *flags)
        assert result.returncode == 0, result.stderr
        with zipfile.ZipFile(out / "corrections.npz") as file:
            # <scheme>/<kind>:<layer>
            kinds[name] = {tuple(entry.split(":")[0].split("/")) for entry in file.namelist()}
    assert kinds["short"] == {("int8", "shifts"), ("int8_weights", "shifts")}, kinds["short"]
    for name in ("asked", "long"):
        assert {("int8", "codes"), ("int8_weights", "codes")} <= kinds[name], (name, kinds[name])
    kl = {name: {t["step"]: t for t in trials(folder / name).values() if "step" in t}["uniform"]["losses"]["kl"]
          for name in ("short", "asked")}
    notes = [note for name in kl for note in json.loads((folder / name / "summary.json").read_text())["notes"]]
    if not any("center, equalize and smooth" in note for note in notes):  # a busy machine has no second for them
        assert kl["asked"] < kl["short"], kl


def rewritten_again(folder):
    """Ranges and codes of a study belong to its rewritten model, whatever time the run has that goes on with it."""
    whole, parts = folder / "rewritten", folder / "rewritten-parts"
    flags = ["--objectives", "kl,size", "--schemes", "int8,int8_weights,float32", "--improve", "--calibration-samples", 32]
    for out, more in ((whole, ["--search-evaluations", 8]), (parts, ["--search-evaluations", 8, "--max-time", "0.0001"])):
        if out == parts:
            lines = (whole / "study.jsonl").read_text().splitlines(keepends=True)
            begins = next(k for k, line in enumerate(lines) if '"search begins"' in line)
            parts.mkdir()
            (parts / "study.jsonl").write_text("".join(lines[:begins + 1]))
            shutil.copy(whole / "corrections.npz", parts)
        result = seqto("tune", EXAMPLE / "model.onnx", *DATA, "-o", out, *flags, *more)
        assert result.returncode == 0, result.stderr
    full = [(out / "models/full.onnx") for out in (whole, parts)]
    assert full[0].read_bytes() == full[1].read_bytes(), "another model than the one that was measured"


def main():
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        whole, parts = folder / "whole", folder / "parts"
        for out, count in ((whole, 6), (parts, 4), (parts, 6)):
            result = tune(out, count, *IMPROVERS)
            assert result.returncode == 0, result.stderr
            if out == parts and count == 4:
                before = (parts / "corrections.npz").stat().st_mtime_ns
        assert (parts / "corrections.npz").stat().st_mtime_ns == before, "a resumed study improved again"
        found = trials(whole)
        assert {"float", "published", "full"} < set(found), list(found)
        kl = lambda id: found[id]["losses"]["kl"]
        print("KL: published %.3g, full %.3g" % (kl("published"), kl("full")))
        assert kl("full") < kl("published")
        # What tune writes is what quantize writes.
        alone, first = folder / "alone.onnx", folder / "first.npz"
        arrays = np.load(EXAMPLE / "digits.npz")
        np.savez(first, **{name: arrays[name][:32] for name in arrays.files})
        result = seqto("quantize", EXAMPLE / "model.onnx", "--data", first, "-o", alone, *IMPROVERS)
        assert result.returncode == 0, result.stderr
        assert (whole / "models" / "full.onnx").read_bytes() == alone.read_bytes()
        result = seqto("quantize", EXAMPLE / "model.onnx", "--data", first, "-o", alone, "--compat", "onnxruntime")
        assert (whole / "models" / "published.onnx").read_bytes() == alone.read_bytes()
        # It is calibrated by onnxruntime's defaults, whatever the study's ranges are.
        percentile = tune(folder / "percentile", 4, "--no-improve", "--calibration-method", "percentile")
        assert percentile.returncode == 0, percentile.stderr
        assert (folder / "percentile/models/published.onnx").read_bytes() == alone.read_bytes()
        losses = lambda t: {k: v["losses"] for k, v in t.items()}
        assert losses(trials(parts)) == losses(found)
        models = {p.name: p.read_bytes() for p in (whole / "models").iterdir()}
        assert models == {p.name: p.read_bytes() for p in (parts / "models").iterdir()}
        other = tune(parts, 6, "--per-channel")
        assert other.returncode != 0 and "improvers" in other.stderr, other.stderr
        own_corrections(folder)
        limited_time(folder)
        rewritten_again(folder)


if __name__ == "__main__":
    sys.exit(main())
