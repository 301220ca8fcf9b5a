"""Configuration files: what is set, what the command line sets instead, what is refused and how it is said."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models, unit  # noqa: E402

INVALID = 3


class Config(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-config-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.file = self.dir / "tune.toml"

    def write(self, *lines):
        self.file.write_text("\n".join(lines) + "\n")
        return self.file

    def printed(self, *words):
        done = models.seqto("tune", *words, "--print-config")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def refused(self, said, *lines):
        done = models.seqto("tune", "--config", self.write(*lines))
        self.assertEqual(done.returncode, INVALID, done.stderr)
        self.assertIn("seqto: [config] ", done.stderr)
        for word in said:
            self.assertIn(word, done.stderr)

    def test_round_trip(self):
        (self.dir / "p.json").write_text("{}")
        config = self.write('model = "m.onnx"', 'data = "d"', 'output = "o"', "max-evaluations = 4",
                            'objectives = ["kl", "latency"]', "smooth-alpha = 0.25", 'device = ["cpu", "cuda"]',
                            "per-channel = true", "resume = false", 'exclude = "op:Gemm"', 'worker-memory = "2G"',
                            "max-time = 1.5", 'exclude-from = "p.json"',
                            'labels = "a \\"b\\" \\\\ c.csv"', "tensor-method = []")
        once = self.printed("--config", config)
        for line in (f'exclude-from = "{self.dir}/p.json"', f'model = "{self.dir}/m.onnx"', 'device = ["cpu", "cuda"]',
                     "resume = false",
                     "per-channel = true", 'exclude = ["op:Gemm"]', "max-time = 1.5", 'strategy = "chain"'):
            self.assertIn(line + "\n", once)
        again = self.dir / "elsewhere" / "again.toml"
        again.parent.mkdir()
        again.write_text(once)
        self.assertEqual(self.printed("--config", again), once)

    def test_what_is_printed_is_the_same_study(self):
        """A default that is given may mean more than one that is left out: it is a comment."""
        words = (models.DIGITS, "--data", models.DIGITS_DATA, "-o", self.dir / "out", "--quick", "--max-evaluations", 3)
        printed = self.printed(*words)
        self.assertIn('# strategy = "chain"\n', printed)
        self.file.write_text(printed)
        for how in (words, ("--config", self.file)):
            done = models.seqto("tune", *how)
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = (self.dir / "out/study.jsonl").read_text().splitlines()
            trials = [line for line in lines if line.startswith('{"trial"')]
            first = first if how[0] == "--config" else (lines[0], trials)
            self.assertEqual((lines[0], trials), first)

    def test_numbers_and_paths_as_they_are_typed(self):
        """A study's folder has what was typed in a form that TOML takes, and finds its files from anywhere."""
        (self.dir / "tokenizer.json").write_text("{}")
        shutil.copy(models.DIGITS, self.dir / "m.onnx")
        done = subprocess.run([models.BINARY, "tune", "m.onnx", "--text", models.DIGITS_DATA, "-o", "out", "--begin", "--calibration-samples", "010",
                               "--compile-timeout", ".5", "--load-timeout", "300.", "--tokenizer", "tokenizer.json", "--search-evaluations", "+4"],
                              cwd=self.dir, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        written = (self.dir / "out/tune.toml").read_text()
        for line in ("calibration-samples = 10", "compile-timeout = 0.5", "load-timeout = 300.0", "search-evaluations = 4",
                     f'tokenizer = "{self.dir}/tokenizer.json"', f'model = "{self.dir}/m.onnx"'):
            self.assertIn(line + "\n", written)
        done = models.seqto("ask", self.dir / "out")
        self.assertEqual(done.returncode, 0, done.stderr)
        beside = self.write('model = "m.onnx"', 'text = "d"', 'output = "o"', 'groups = "g.json"', 'target = "t.toml"', 'metric = ["nme=p.json"]')
        (self.dir / "g.json").write_text("[]")
        (self.dir / "p.json").write_text("{}")
        printed = self.printed("--config", beside)
        for line in (f'data = "{self.dir}/d"', f'groups = "{self.dir}/g.json"', f'target = "{self.dir}/t.toml"',
                     f'metric = ["nme={self.dir}/p.json"]'):
            self.assertIn(line + "\n", printed)

    def test_flags_come_first(self):
        config = self.write("max-evaluations = 4", 'device = ["cuda"]', "resume = false", 'schemes = ["int8"]')
        got = self.printed("--config", config, "--max-evaluations", 7, "--device", "cpu", "--resume", "--schemes",
                           "int8,float16")
        for line in ("max-evaluations = 7", 'device = ["cpu"]', "resume = true", 'schemes = ["int8", "float16"]'):
            self.assertIn(line + "\n", got)

    def test_runs(self):
        shutil.copy(models.DIGITS, self.dir / "m.onnx")
        shutil.copy(models.DIGITS_DATA, self.dir / "d.npz")
        config = self.write('model = "m.onnx"', 'data = "d.npz"', 'output = "out"', "max-evaluations = 4",
                            'strategy = "incremental"')
        done = models.seqto("tune", "--config", config, "--evaluation-samples", 20)
        self.assertEqual(done.returncode, 0, done.stderr)
        summary = json.loads((self.dir / "out/summary.json").read_text())
        self.assertEqual(summary["samples"]["evaluation"], 20)
        self.assertEqual(summary["evaluations"], 4)
        config = self.write('model = "m.onnx"', 'data = "d.npz"', 'output = "r.json"', 'method = "percentile"')
        done = models.seqto("calibrate", "--config", config)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.dir / "r.json").is_file())

    def test_refused(self):
        self.refused(["tune.toml:2", "'calibration-sampels'", "'calibration-samples'"], "threads = 1",
                     "calibration-sampels = 3")
        self.refused(["tune.toml:1", 'samples = "many"', "INT"], 'samples = "many"')
        self.refused(["samples = 2.5"], "samples = 2.5")
        self.refused(["samples = -3"], "samples = -3")
        self.refused(["a number"], "samples = true")
        self.refused(["one value"], "samples = [1, 2]")
        self.refused(["true or false"], "per-channel = 1")
        self.refused(["true or false"], "per-channel = [true]")
        self.refused(["none", "mse"], 'weight-clipping = "some"')
        self.refused(["tune.toml:2", "no TOML"], "threads = 1", "x =")
        self.refused(["tune.toml:3", "no TOML"], "threads = 1", "", "threads = 2")
        self.refused(["table [tune]"], "[tune]", "threads = 1")
        self.refused(["date"], "samples = 1979-01-01")
        self.refused(["array"], 'exclude = [["a"]]')
        self.refused(["tune.toml:2", "once"], "no-resume = true", "resume = true")
        self.refused(["'config'"], 'config = "other.toml"')

    def test_missing(self):
        done = models.seqto("tune", "--config", self.dir / "none.toml")
        self.assertEqual(done.returncode, INVALID, done.stderr)
        self.assertIn("none.toml", done.stderr)
        done = models.seqto("tune", "--config", self.write("threads = 1"))
        self.assertEqual(done.returncode, 2, "what is required is so without a file too")

    def test_cases(self):
        """Every real model tunes from a file of a few lines."""
        root = pathlib.Path(os.environ.get("SEQTO_CASES_DIR", ""))
        cases = sorted(root.glob("*/case.json"))
        if not cases:
            self.skipTest(f"SEQTO_CASES_DIR '{root}' is not there")
        for case in cases:
            given = json.loads(case.read_text())
            # The one case without data of its own listens to the recording beside it, see docs/guide/data.md.
            data = given.get("data") or "test.wav"
            lines = [f'model = "{case.parent / given["model"]}"', f'data = "{case.parent / data}"',
                     f'output = "{given["name"]}"', "calibration-samples = 3", "evaluation-samples = 4",
                     "max-evaluations = 3", "quick = true"]
            if data.endswith(".wav"):
                lines += ["window = 576", "hop = 512", "lead = 64", 'input = "sr=16000"', 'state = ["stateN=state"]']
            if (case.parent / given.get("labels", ".")).is_file():
                lines.append(f'labels = "{case.parent / given["labels"]}"')
            if "preprocess" in given:
                lines.append(f'preprocess = "{case.parent / given["preprocess"]}"')
            with self.subTest(case=given["name"]):
                done = models.seqto("tune", "--config", self.write(*lines))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertTrue((self.dir / given["name"] / "report.html").is_file())


if __name__ == "__main__":
    unit.main()
