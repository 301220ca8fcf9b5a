"""Every case tunes from a configuration file of a few lines: real networks and real data, few samples and trials."""

import json
import os
import pathlib
import shutil
import sys
import tempfile
import tomllib
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402

CASES = pathlib.Path(os.environ.get("SEQTO_CASES_DIR", models.SOURCE / "../shared/cases")).resolve()
# What a study of seconds needs of samples and trials; the rest of a file is what a user would write.
SHORT = {"calibration-samples": 8, "search-samples": 8, "evaluation-samples": 16, "max-evaluations": 8,
         "objectives": ["kl", "size"]}
# A recurrent net on audio: windows, a constant input, a state that is fed back.
OWN = {"silero_vad": {"data": "test.wav", "window": 576, "hop": 512, "lead": 64, "input": ["sr=16000"],
                      "state": ["stateN=state"], "objectives": ["mse", "size"]}}


def config_of(case):
    """model, data, labels and preprocess, as case.json names them, relative to its folder."""
    told = json.loads((case / "case.json").read_text())
    lines = {key: told[key] for key in ("model", "data", "labels", "preprocess") if told.get(key)}
    if not lines.get("labels", ".csv").endswith(".csv"):
        del lines["labels"]  # boxes, which no metric of ours reads
    lines |= OWN.get(case.name, {})
    for key in ("model", "data", "labels", "preprocess"):
        if key in lines:
            lines[key] = str((case / lines[key]).resolve())
    return lines


class Cases(unittest.TestCase):
    def check(self, case):
        out = pathlib.Path(tempfile.mkdtemp(prefix=f"seqto-case-{case.name}-"))
        self.addCleanup(shutil.rmtree, out)
        config = out / "tune.toml"
        lines = config_of(case)
        self.assertLessEqual(len(lines), 10)
        # JSON's texts, numbers and lists of them are TOML's.
        config.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in
                                  (SHORT | lines | {"output": "study"}).items()))
        self.assertEqual(tomllib.loads(config.read_text())["output"], "study")
        done = models.seqto("-q", "tune", "--config", config, timeout=900)
        self.assertEqual(done.returncode, 0, done.stderr)
        summary = json.loads((out / "study/summary.json").read_text())
        self.assertEqual(summary["evaluations"], SHORT["max-evaluations"])
        self.assertEqual(summary["samples"]["evaluation"], 16)
        self.assertGreaterEqual(len(summary["front"]), 1)
        self.assertLess(summary["front"][0]["size_bytes"], summary["baseline"]["size_bytes"])
        for point in summary["front"]:
            self.assertTrue((out / "study" / point["file"]).exists())
        self.check_plans(out / "study", lines)
        if "labels" in lines:
            self.assertIn("top1", summary["baseline"]["metrics"])

    def check_plans(self, study, lines):
        """Every plan makes its file again, with the study's data."""
        flags = []
        for key, value in lines.items():
            if key not in ("model", "objectives"):
                for entry in value if isinstance(value, list) else [value]:
                    flags += [f"--{key}", entry]
        plans = [p for p in (study / "plans").glob("*.json") if "recipe" in json.loads(p.read_text())]
        self.assertGreaterEqual(len(plans), 2)
        for plan in plans:
            again = study / "again.onnx"
            done = models.seqto("-q", "quantize", lines["model"], *flags, "--plan", plan, "-o", again, timeout=900)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(again.read_bytes(), (study / "models" / f"{plan.stem}.onnx").read_bytes(), plan.stem)


def add_cases():
    for case in sorted(path.parent for path in CASES.glob("*/case.json")):
        setattr(Cases, "test_" + case.name, lambda self, case=case: self.check(case))


if __name__ == "__main__":
    if not CASES.is_dir():
        print(f"skipped: no cases at {CASES}")
        sys.exit(77)
    if models.sanitized():
        print("skipped: whole networks are for optimised builds")
        sys.exit(77)
    add_cases()
    unittest.main()
