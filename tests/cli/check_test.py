"""`seqto check`: limits on a study and on a pair of models, lock files, reports, and examples/ci/gate.sh as CI runs it."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import numpy as np
import onnxruntime

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402
from testing.samples import bootstrapped  # noqa: E402

USAGE, INVALID, GATE = 2, 3, 5


def check(*words):
    done = models.seqto("check", *words, "--json")
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def scores(path, x):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return np.array([session.run(None, {"x": row[None]})[0][0] for row in x], np.float64)


class Folder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-check-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir)

    def limits(self, found):
        return {limit["figure"]: limit for limit in found["limits"]}


class Pair(Folder):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = cls.dir / "q.onnx"
        done = models.seqto("quantize", models.DIGITS, "-o", cls.model, "--data", models.DIGITS_DATA, "--samples", 50,
                            "--activation-type", "int8")
        assert done.returncode == 0, done.stderr
        cls.words = [cls.model, "--reference", models.DIGITS, "--data", models.DIGITS_DATA, "--no-latency"]

    def test_a_share_is_at_most_1(self):
        for limit in ("top1_disagreement=5", "probability_change=200"):
            code, _, said = check(*self.words, "--max-loss", limit)
            self.assertEqual(code, USAGE)
            self.assertIn("which is 1 at most", said)
        code, _, said = check(*self.words, "--max-loss", "top1_disagreement=5%")
        self.assertEqual(code, 0, said)

    def test_outputs_are_found_by_their_names(self):
        both, turned = (self.dir / f"{name}.onnx" for name in ("both", "turned"))
        nodes = [models.node("MatMul", ["x", "w"], ["start"]), models.node("MatMul", ["x", "v"], ["end"])]
        weights = [("w", models.weight(6, 4)), ("v", models.weight(6, 4, seed=1))]
        for path, names in ((both, ("start", "end")), (turned, ("end", "start"))):
            models.save(path, nodes, [("x", [1, 6])], [(name, [1, 4]) for name in names], weights)
        data = self.dir / "six.npz"
        np.savez(data, x=models.weight(8, 6, seed=2))
        code, found, said = check(turned, "--reference", both, "--data", data, "--no-latency", "--max-loss", "kl=1e-9")
        self.assertEqual(code, 0, said)
        self.assertEqual(found["figures"]["kl"]["value"], 0)

    def test_none_of_few_is_not_sure(self):
        few = self.dir / "few.npz"
        np.savez(few, x=np.load(models.DIGITS_DATA)["x"][:16])
        words = (models.DIGITS, "--reference", models.DIGITS, "--data", few, "--no-latency", "--max-loss", "top1_disagreement=0.1")
        code, found, said = check(*words)
        self.assertEqual(code, 0, said)
        self.assertAlmostEqual(found["figures"]["top1_disagreement"]["interval"][1], 1 - 0.025 ** (1 / 16), delta=1e-9)
        self.assertEqual(check(*words, "--confident")[0], GATE)

    def test_figures_are_numpys(self):
        code, found, said = check(*self.words, "--max-loss", 100)
        self.assertEqual(code, 0, said)
        file = np.load(models.DIGITS_DATA)
        x, y = file["x"].astype(np.float32), file["y"]
        a, b = scores(models.DIGITS, x), scores(self.model, x)
        figures = found["figures"]
        hits = b.argmax(1) == y
        self.assertEqual(figures["top1"]["value"], hits.mean())
        self.assertAlmostEqual(figures["top1_drop"]["value"], (a.argmax(1) == y).mean() - hits.mean(), delta=1e-12)
        self.assertAlmostEqual(figures["top1_disagreement"]["value"], (a.argmax(1) != b.argmax(1)).mean(), delta=1e-12)
        self.assertAlmostEqual(figures["mse"]["value"], ((a - b)**2).mean(), delta=1e-6)
        low, high = figures["mse"]["interval"]
        per_sample = ((a - b)**2).mean(1)
        error = per_sample.std() / np.sqrt(len(x))
        for found_end, end in zip((low, high), bootstrapped(per_sample)):
            self.assertAlmostEqual(found_end, end, delta=0.1 * error)
        sizes = [p.stat().st_size for p in (self.model, models.DIGITS)]
        self.assertEqual(figures["size_bytes"]["value"], sizes[0])
        self.assertAlmostEqual(figures["size_ratio"]["value"], sizes[0] / sizes[1], delta=1e-12)
        self.assertNotIn("latency_ns", figures)

    def test_labels_that_cannot_be_right(self):
        """The drop of 0 of a float model that is never right would pass any gate."""
        file = np.load(models.DIGITS_DATA)
        labels = self.dir / "labels.csv"

        def with_labels(values):
            labels.write_text("file,label\n" + "".join(f"{i},{v}\n" for i, v in enumerate(values)))
            return check(*self.words, "--labels", labels, "--max-accuracy-drop", 0.01)

        code, _, said = with_labels(file["y"][:50] + 100)
        self.assertEqual(code, INVALID)
        self.assertRegex(said, r"the label 10\d and a first output of 10 values found; a class from 0 to 9 expected")
        best = scores(models.DIGITS, file["x"].astype(np.float32)[:50]).argmin(1)
        code, _, said = with_labels(best)
        self.assertEqual(code, INVALID)
        self.assertIn("warning: the float model scores 0 in f1, top1", said.lower())
        self.assertIn("--max-accuracy-drop: a limit of top1_drop found, and a float model that scores 0 in top1, from which nothing can drop", said)
        code, found, said = check(*self.words, "--labels", labels, "--max-loss", 100, "--lock", self.dir / "zero.lock.json")
        self.assertEqual(code, 0, said)
        self.assertIn("the float model scores 0 in f1, top1", "\n".join(found["notes"]))
        self.assertNotIn("top1_drop", json.loads((self.dir / "zero.lock.json").read_text())["figures"])
        self.assertEqual(check(*self.words, "--max-accuracy-drop", "100%")[1]["notes"], [])
        tuned = models.seqto("tune", models.DIGITS, "--data", models.DIGITS_DATA, "--labels", labels, "--quick", "--max-evaluations", 3,
                             "-o", self.dir / "zero")
        self.assertEqual(tuned.returncode, 0, tuned.stderr)
        self.assertIn("the float model scores 0 in", "\n".join(json.loads((self.dir / "zero/summary.json").read_text())["notes"]))
        tuned = models.seqto("tune", models.DIGITS, "--data", models.DIGITS_DATA, "--labels", labels, "--quick", "--max-evaluations", 3,
                             "--max-accuracy-drop", 0.01, "-o", self.dir / "refused")
        self.assertEqual(tuned.returncode, INVALID, tuned.stderr)
        self.assertIn("a float model that scores 0 in top1", tuned.stderr)

    def test_a_float_model_without_numbers(self):
        """Of its score nothing is known to drop; one sample of 20 is enough."""
        file = self.dir / "negative.npz"
        x = np.abs(models.weight(20, 3, 8, 8))
        x[3] *= -1
        np.savez(file, x=x, y=np.zeros(20, np.int64))
        logarithm = models.conv(self.dir / "log.onnx", before=["Log"])
        code, found, said = check(logarithm, "--reference", logarithm, "--data", file, "--max-accuracy-drop", 0.5)
        self.assertEqual(code, GATE)
        self.assertIn("holds NaN or infinity for sample '3', from Log 'before_0'", "\n".join(found["notes"]))
        self.assertIn("top1_drop: nan found", said)

    def test_a_subject_that_is_not_there(self):
        for limit in (("--max-size", "1M"), ("--max-loss", 1)):
            code, _, said = check(self.dir / "nowhere", *limit)
            self.assertEqual(code, INVALID)
            self.assertRegex(said, "nowhere: nothing found there; the folder of a study, its DIR:3, or an ONNX file .* expected; check the path")

    def test_every_violated_limit_is_named(self):
        size = self.model.stat().st_size
        code, found, said = check(*self.words, "--max-size", size - 1, "--max-size", "100%", "--max-loss", "mse=0", "--max-loss", "kl=1",
                                  "--min-accuracy", "50%", "--max-accuracy-drop", "f1=100%")
        self.assertEqual(code, USAGE)  # one --max-size
        code, found, said = check(*self.words, "--max-size", size - 1, "--max-loss", "mse=0", "--max-loss", "kl=1",
                                  "--min-accuracy", "50%", "--max-accuracy-drop", "f1=100%")
        self.assertEqual(code, GATE)
        limits = self.limits(found)
        self.assertEqual({n: l["met"] for n, l in limits.items()},
                         {"size_bytes": False, "mse": False, "kl": True, "top1": True, "f1_drop": True})
        self.assertEqual(limits["size_bytes"]["excess"], 1)
        self.assertEqual(limits["mse"]["excess"], limits["mse"]["found"])
        self.assertEqual(len(found["failures"]), 2)
        self.assertIn("at most", said)
        self.assertIn("allowed by --max-size; 1 B too much", said)
        self.assertIn("mse: ", said)
        self.assertEqual(check(*self.words, "--max-size", size)[0], 0)
        self.assertEqual(check(*self.words, "--max-size", "39%")[0], GATE)
        self.assertEqual(check(*self.words, "--max-size", "1MB", "--min-accuracy", "top5=0.9")[0], 0)
        for endless in (("--max-size", "inf"), ("--max-loss", "kl=inf"), ("--max-latency", "inf")):
            self.assertEqual(check(*self.words, *endless)[0], USAGE, endless)

    def test_confident(self):
        figure = check(*self.words, "--max-loss", 100)[1]["figures"]["kl"]
        middle = (figure["value"] + figure["interval"][1]) / 2
        self.assertEqual(check(*self.words, "--max-loss", middle)[0], 0)
        code, found, said = check(*self.words, "--max-loss", middle, "--confident")
        self.assertEqual(code, GATE)
        self.assertIn("within, but not all of", said)

    def test_latency(self):
        words = self.words[:-1]
        code, found, said = check(*words, "--samples", 20, "--max-latency", "1000s")
        self.assertEqual(code, 0, said)
        self.assertEqual(set(self.limits(found)), {"latency_ns"})
        self.assertIn("latency_ratio", found["figures"])
        code, found, said = check(*words, "--samples", 20, "--max-latency", "0.1%")
        self.assertEqual(code, GATE)
        self.assertEqual(set(self.limits(found)), {"latency_ratio"})

    def test_reports(self):
        files = {n: self.dir / f"check.{n}" for n in ("xml", "md", "html")}
        code, found, _ = check(*self.words, "--max-size", "1%", "--max-loss", 100, "--junit", files["xml"], "--markdown", files["md"],
                               "--report", files["html"])
        self.assertEqual(code, GATE)
        suite = xml.etree.ElementTree.parse(files["xml"]).getroot().find("testsuite")
        self.assertEqual((suite.get("tests"), suite.get("failures")), ("2", "1"))
        cases = {c.get("name"): c.find("failure") for c in suite.findall("testcase")}
        self.assertEqual(list(cases), ["size_ratio (--max-size)", "kl (--max-loss)"])
        self.assertIn("at most 1 % allowed by --max-size", cases["size_ratio (--max-size)"].get("message"))
        self.assertIsNone(cases["kl (--max-loss)"])
        self.assertIn("**FAILED: 1 of 2 limits not met**", files["md"].read_text())
        self.assertIn("FAILED: 1 of 2 limits not met", files["html"].read_text())

    def test_lock(self):
        lock = self.dir / "seqto.lock.json"
        self.assertEqual(check(*self.words, "--max-size", "1%", "--lock", lock)[0], GATE)
        self.assertFalse(lock.exists(), "what missed a limit is not locked")
        self.assertEqual(check(*self.words, "--lock", lock)[0], 0)
        locked = json.loads(lock.read_text())
        self.assertEqual(locked["versions"]["seqto"], "0.1.0")
        self.assertEqual(len(locked["model_sha256"]), 64)
        code, found, said = check(*self.words, "--against", lock)
        self.assertEqual((code, found["notes"]), (0, []), said)
        self.assertEqual(set(self.limits(found)), set(locked["figures"]))
        # A worse model: what it lost is named.
        worse = self.dir / "worse.onnx"
        done = models.seqto("quantize", models.DIGITS, "-o", worse, "--data", models.DIGITS_DATA, "--samples", 50,
                            "--activation-type", "uint4", "--weight-type", "uint4")
        self.assertEqual(done.returncode, 0, done.stderr)
        code, found, said = check(worse, *self.words[1:], "--against", lock)
        self.assertEqual(code, GATE)
        self.assertFalse(self.limits(found)["kl"]["met"])
        self.assertIn("allowed by seqto.lock.json", said)
        self.assertIn("the model's bytes changed", found["notes"])
        # The other way round: what is better passes.
        self.assertEqual(check(worse, *self.words[1:], "--lock", lock)[0], 0)
        code, found, said = check(*self.words, "--against", lock)
        self.assertEqual({n for n, l in self.limits(found).items() if not l["met"]} - {"size_bytes", "size_ratio"}, set(), said)
        # Other samples are not comparable.
        code, found, said = check(*self.words, "--samples", 30, "--against", lock)
        self.assertEqual((code, found), (INVALID, None))
        self.assertIn("the data", said)
        lock.write_text("{}")
        self.assertEqual(check(*self.words, "--against", lock)[0], INVALID)

    def test_random_inputs_are_marked(self):
        done = models.seqto("check", self.model, "--reference", models.DIGITS, "--data", "random", "--samples", 3, "--max-loss", 1e9)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("RANDOM inputs", done.stdout)

    def test_a_size_needs_nothing_else(self):
        size = self.model.stat().st_size
        self.assertEqual(check(self.model, "--max-size", size)[0], 0)
        code, found, _ = check(self.model, "--max-size", size - 1)
        self.assertEqual((code, set(found["figures"])), (GATE, {"size_bytes"}))

    def test_wrong_use(self):
        self.assertEqual(check(*self.words)[0], USAGE)
        self.assertEqual(check(self.model, "--max-size", "30%")[0], USAGE)
        self.assertEqual(check(self.model, "--max-size", "1MB", "--max-loss", 1)[0], USAGE)
        for flag, value in (("--max-size", "ten"), ("--max-size", "5 parsecs"), ("--max-latency", "5"), ("--max-loss", "kl="), ("--max-loss", "nan"),
                            ("--min-accuracy", "=1")):
            code, _, said = check(*self.words, flag, value)
            self.assertEqual(code, USAGE, (flag, value))
            self.assertIn(value, said)
        for flag, value, expected in (("--min-accuracy", "77", "0.77 or 77%"), ("--min-accuracy", "f1=120%", "0.9 or 90%"),
                                      ("--max-accuracy-drop", "2", "0.02 or 2%")):
            code, _, said = check(*self.words, flag, value)
            self.assertEqual(code, USAGE, (flag, value))
            self.assertIn(f"{value} found; a share from 0 to 1 expected, as {expected}", said)
        for flag, value, right in (("--min-accuracy", "mae=2", "--max-loss"), ("--min-accuracy", "kl=1", "--max-loss"),
                                   ("--max-loss", "top1=0.9", "--min-accuracy")):
            code, _, said = check(*self.words, flag, value)
            self.assertEqual(code, USAGE, (flag, value))
            self.assertIn(f"{right} {value} expected", said)
        for value in ("1", "f1=1"):
            code, _, said = check(*self.words, "--max-accuracy-drop", value)
            self.assertEqual(code, USAGE, value)
            self.assertIn("1% or 0.01 expected", said)
        code, _, said = check(*self.words, "--max-loss", "nonsense=1")
        self.assertEqual(code, INVALID)
        self.assertIn("a limit of nonsense", said)


class Study(Folder):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.study = cls.dir / "study"
        done = models.seqto("tune", models.DIGITS, "--data", models.DIGITS_DATA, "-o", cls.study, "--calibration-samples", 32,
                            "--evaluation-samples", 100, "--max-evaluations", 6, "--strategy", "incremental")
        assert done.returncode == 0, done.stderr
        cls.summary = json.loads((cls.study / "summary.json").read_text())

    def test_the_selected_candidate(self):
        point = next(p for p in self.summary["front"] if p["id"] == self.summary["selected"])
        code, found, said = check(self.study, "--max-size", point["size_bytes"], "--max-loss", point["losses"]["kl"], "--min-accuracy",
                                  point["metrics"]["top1"], "--max-latency", "1s")
        self.assertEqual(code, 0, said)
        self.assertEqual(found["candidate"], point["id"])
        figures = found["figures"]
        self.assertEqual(figures["kl"]["value"], point["losses"]["kl"])
        self.assertAlmostEqual(figures["size_ratio"]["value"], point["size_bytes"] / self.summary["baseline"]["size_bytes"], delta=1e-12)
        self.assertAlmostEqual(figures["top1_drop"]["value"], self.summary["baseline"]["metrics"]["top1"] - point["metrics"]["top1"],
                               delta=1e-12)
        code, found, said = check(self.study, "--max-size", point["size_bytes"] - 10, "--max-loss", "1e-12")
        self.assertEqual((code, len(found["failures"])), (GATE, 2))
        self.assertIn("10 B too much", said)

    def test_other_points(self):
        full = self.summary["fully_quantized"]
        for name in ("fully_quantized", full["id"]):
            code, found, _ = check(self.study, "--id", name, "--max-size", full["size_bytes"])
            self.assertEqual((code, found["candidate"]), (0, full["id"]))
        code, _, said = check(self.study, "--id", "nobody", "--max-size", "1MB")
        self.assertEqual(code, INVALID)
        self.assertIn(full["name"], said)

    def test_points_by_name_and_by_the_beginning_of_an_id(self):
        point = next(p for p in self.summary["front"] if p["name"] == "1")
        for called in ("1", point["id"], point["id"][:6]):
            code, found, said = check(self.study, "--id", called, "--max-size", point["size_bytes"])
            self.assertEqual((code, found and found["candidate"]), (0, point["id"]), said)
            name = f"{self.study}:{called}"
            code, found, said = check(name, "--max-size", point["size_bytes"])
            self.assertEqual((code, found and found["candidate"]), (0, point["id"]), said)
        pair = ("--reference", models.DIGITS, "--data", models.DIGITS_DATA, "--samples", 20, "--max-loss", 100, "--no-latency")
        code, found, said = check(name, *pair)
        self.assertEqual((code, found and found["candidate"]), (0, name), said)
        self.assertEqual(check(self.study, "--id", point["id"][:3], "--max-size", "1MB")[0], INVALID)  # may be a number

    def test_files_by_the_name_of_their_point(self):
        point = next(p for p in self.summary["front"] if p["name"] == "1")
        done = models.seqto("inspect", f"{self.study}:1", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        layers = json.loads(models.seqto("inspect", self.study / point["file"], "--json").stdout)["layers"]
        self.assertEqual(json.loads(done.stdout)["layers"], layers)
        made = self.dir / "again.onnx"
        done = models.seqto("quantize", models.DIGITS, "--plan", f"{self.study}:{point['id'][:5]}", "-o", made)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(made.read_bytes(), (self.study / point["file"]).read_bytes())
        done = models.seqto("inspect", f"{self.study}:nobody")
        self.assertEqual(done.returncode, INVALID)
        self.assertIn("one of float", done.stderr)

    def test_lock(self):
        lock = self.dir / "study.lock.json"
        self.assertEqual(check(self.study, "--lock", lock)[0], 0)
        recipe = json.loads(lock.read_text())["recipe"]
        self.assertEqual(recipe["options"], self.summary["options"])
        self.assertTrue(recipe["layers"])
        code, found, said = check(self.study, "--against", lock)
        self.assertEqual((code, found["notes"]), (0, []), said)
        # The study judged on some of the samples.
        model = self.study / self.summary["selected_file"]
        code, _, said = check(model, "--reference", models.DIGITS, "--data", models.DIGITS_DATA, "--against", lock)
        self.assertEqual(code, INVALID)
        self.assertIn("the number of samples", said)

    def test_no_study(self):
        code, _, said = check(self.dir, "--max-size", "1MB")
        self.assertEqual(code, INVALID)
        self.assertIn("holds no summary.json", said)

    def test_flags_that_a_study_does_not_read(self):
        for subject in (self.study, f"{self.study}:1"):
            for flag in (("--data", models.DIGITS_DATA), ("--labels", "l.csv"), ("--preprocess", "unit"), ("--metric", "mae"),
                         ("--metric-command", "m:max:true"), ("--task", "classify"), ("--threads", 1), ("--no-latency",),
                         ("--reference", models.DIGITS)):
                if subject != self.study and flag[0] == "--reference": continue  # a model of two
                code, found, said = check(subject, *flag, "--max-size", "1MB")
                self.assertEqual((code, found), (USAGE, None), (flag, said))
                self.assertIn(f"{flag[0]} with the study", said)
        for subject in (f"{self.study}:1", models.DIGITS):
            code, found, said = check(subject, "--id", "2", "--max-size", "1MB")
            self.assertEqual((code, found), (USAGE, None), said)
            self.assertIn("--id with", said)


class Workflow(Folder):
    def test_the_example(self):
        def run(**more):
            env = {**os.environ, "PATH": f"{pathlib.Path(models.BINARY).parent}:{os.environ['PATH']}", "MODEL": str(models.DIGITS),
                   "DATA": str(models.DIGITS_DATA), **more}
            return subprocess.run(["sh", str(models.SOURCE / "examples/ci/gate.sh")], cwd=self.dir, env=env, capture_output=True, text=True)

        done = run()
        self.assertEqual(done.returncode, 0, done.stderr)
        suite = xml.etree.ElementTree.parse(self.dir / "check.xml").getroot().find("testsuite")
        self.assertEqual((suite.get("tests"), suite.get("failures")), ("3", "0"))
        self.assertIn("PASSED", (self.dir / "check.md").read_text())
        self.assertEqual(run(LIMITS="--lock seqto.lock.json").returncode, 0)
        done = run(LIMITS="--max-loss 0")
        self.assertEqual(done.returncode, GATE)
        suite = xml.etree.ElementTree.parse(self.dir / "check.xml").getroot().find("testsuite")
        self.assertEqual(suite.get("failures"), "1")
        self.assertGreater(int(suite.get("tests")), 5)


if __name__ == "__main__":
    unittest.main()
