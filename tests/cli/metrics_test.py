"""Task metrics of `run`, `check` and `tune` against numpy's figures, and their errors."""

import json
import pathlib
import shutil
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402
from testing.samples import bootstrapped  # noqa: E402

USAGE, INVALID, GATE = 2, 3, 5
SAMPLES, VALUES = 60, 6


class Folder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-metrics-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir)

    def run_metrics(self, model, data, *words):
        done = models.seqto("run", model, "--data", data, "-o", self.dir / "out.npz", *words, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def fails(self, code, part, *words):
        done = models.seqto(*words)
        self.assertEqual((done.returncode, part in done.stderr), (code, True), done.stderr)


class Regression(Folder):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        w, b = models.weight(8, VALUES, seed=3), models.weight(VALUES, seed=4)
        cls.model = models.save(cls.dir / "m.onnx", [models.node("Gemm", ["x", "w", "b"], ["out"])],
                                [("x", [1, 8])], [("out", [1, VALUES])], [("w", w), ("b", b)])
        cls.x = models.weight(SAMPLES, 8, seed=5)
        cls.answers = cls.x.astype(np.float64) @ w + b
        cls.y = (cls.answers + models.weight(SAMPLES, VALUES, seed=6)).astype(np.float32)
        cls.data = cls.dir / "data.npz"
        np.savez(cls.data, x=cls.x, y=cls.y)
        np.savez(cls.dir / "x.npz", x=cls.x)
        cls.quantized = cls.dir / "q.onnx"
        done = models.seqto("quantize", cls.model, "-o", cls.quantized, "--data", cls.data, "--samples", 20)
        assert done.returncode == 0, done.stderr

    def test_errors_are_numpys(self):
        found = self.run_metrics(self.model, self.data, "--metric", "mae", "--metric", "rmse", "--metric", "nme")
        off = self.answers - self.y
        self.assertAlmostEqual(found["metrics"]["mae"], np.abs(off).mean(), delta=1e-5)
        self.assertAlmostEqual(found["metrics"]["rmse"], np.sqrt((off**2).mean()), delta=1e-5)
        points = self.y.reshape(SAMPLES, -1, 2)
        far = np.linalg.norm(off.reshape(SAMPLES, -1, 2), axis=2).mean(1)
        box = np.sqrt(np.ptp(points, axis=1).prod(1))
        self.assertAlmostEqual(found["metrics"]["nme"], (far / box).mean(), delta=1e-4)
        self.assertEqual(found["lower_is_better"], ["mae", "nme", "rmse"])
        each = np.abs(off).mean(1)
        low, high = found["intervals"]["mae"]
        error = each.std() / np.sqrt(SAMPLES)
        for found_end, end in zip((low, high), bootstrapped(each)):
            self.assertAlmostEqual(found_end, end, delta=0.1 * error)
        low, high = found["intervals"]["rmse"]
        self.assertTrue(low < found["metrics"]["rmse"] < high)

    def test_what_nme_is_measured_by(self):
        points = self.y.reshape(SAMPLES, -1, 2)
        far = np.linalg.norm((self.answers - self.y).reshape(SAMPLES, -1, 2), axis=2).mean(1)
        for text, by in (({"normalize": [0, 2]}, np.linalg.norm(points[:, 0] - points[:, 2], axis=1)),
                         ({"normalize": "diagonal"}, np.linalg.norm(np.ptp(points, axis=1), axis=1)),
                         ({"normalize": 4}, 4)):
            (self.dir / "nme.json").write_text(json.dumps(text))
            found = self.run_metrics(self.model, self.data, "--metric", f"nme={self.dir / 'nme.json'}")
            self.assertAlmostEqual(found["metrics"]["nme"], (far / by).mean(), delta=2e-4 * (far / by).mean())
        for text in ('{"normalize": "eyes"}', '{"normalise": 4}', "{", '{"normalize": [0, 9]}', '{"dimensions": 4}'):
            (self.dir / "nme.json").write_text(text)
            self.fails(INVALID, "nme", "run", self.model, "--data", self.data, "-o", self.dir / "o.npz", "--metric",
                       f"nme={self.dir / 'nme.json'}")

    def test_targets_beside_the_data(self):
        expected = self.run_metrics(self.model, self.data, "--metric", "mae")["metrics"]
        np.savez(self.dir / "t.npz", targets=self.y)
        np.save(self.dir / "t.npy", self.y)
        rows = ["file," + ",".join(f"target_{i}" for i in range(VALUES))]
        rows += [f"{i}," + ",".join(map(str, self.y[i])) for i in range(SAMPLES)]
        (self.dir / "t.csv").write_text("\n".join(rows))
        for name in ("t.npz", "t.npy", "t.csv"):
            found = self.run_metrics(self.model, self.dir / "x.npz", "--labels", self.dir / name, "--metric", "mae")
            self.assertEqual(found["metrics"], expected, name)

    def test_gate(self):
        words = ["check", self.quantized, "--reference", self.model, "--data", self.data, "--no-latency", "--metric",
                 "mae", "--json"]
        done = models.seqto(*words, "--max-loss", "mae=10", "--max-accuracy-drop", "mae=1")
        self.assertEqual(done.returncode, 0, done.stderr)
        figures = json.loads(done.stdout)["figures"]
        session = self.run_metrics(self.quantized, self.data, "--metric", "mae")["metrics"]["mae"]
        self.assertAlmostEqual(figures["mae"]["value"], session, delta=1e-9)
        self.assertAlmostEqual(figures["mae_drop"]["value"], session - np.abs(self.answers - self.y).mean(), delta=1e-5)
        low, high = figures["mae_drop"]["interval"]
        self.assertTrue(low <= figures["mae_drop"]["value"] <= high)
        self.fails(GATE, "mae", *words, "--max-loss", "mae=0.01")
        lock = self.dir / "lock.json"
        done = models.seqto(*words, "--max-loss", "mae=10", "--lock", lock)
        self.assertEqual(done.returncode, 0, done.stderr)
        kinds = {l["figure"]: l["kind"] for l in json.loads(models.seqto(*words, "--against", lock).stdout)["limits"]}
        self.assertEqual(kinds["mae"], kinds["size_bytes"])

    def test_errors(self):
        words = ["run", self.model, "--data", self.data, "-o", self.dir / "o.npz", "--metric"]
        self.fails(USAGE, "accuracy, cer, keypoint_map50", *words, "mape")
        self.fails(USAGE, "alone", *words, "mae=x.json")
        self.fails(USAGE, "twice", *words, "mae", "--metric", "mae")
        self.fails(INVALID, "no labels found", *words, "accuracy")
        batch = self.dir / "batch.onnx"
        models.save(batch, [models.node("Relu", ["x"], ["y"])], [("x", [2, 4])], [("y", [2, 4])])
        np.savez(self.dir / "labelled.npz", x=models.weight(8, 4), y=np.zeros(8, np.int64))
        self.fails(INVALID, "with a fixed batch above 1", "run", batch, "--data", self.dir / "labelled.npz", "-o",
                   self.dir / "o.npz", "--metric", "accuracy")
        self.fails(INVALID, "no targets found", "run", self.model, "--data", self.dir / "x.npz", "-o",
                   self.dir / "o.npz", "--metric", "mae")
        np.savez(self.dir / "short.npz", y=self.y[:, :4])
        self.fails(INVALID, "6 values and a target of 4", *words, "mae", "--labels", self.dir / "short.npz")
        (self.dir / "bad.csv").write_text("file,target\n0,1.5\n1,high\n")
        self.fails(INVALID, "line 3", *words, "mae", "--labels", self.dir / "bad.csv")

    def test_a_study(self):
        out = self.dir / "study"
        done = models.seqto("tune", self.model, "--data", self.data, "-o", out, "--strategy", "incremental",
                            "--calibration-samples", 10, "--objectives", "mse,size", "--metric", "mae", "--metric", "rmse")
        self.assertEqual(done.returncode, 0, done.stderr)
        summary = json.loads((out / "summary.json").read_text())
        baseline = summary["baseline"]
        self.assertAlmostEqual(baseline["metrics"]["mae"], np.abs(self.answers - self.y)[10:].mean(), delta=1e-5)
        self.assertEqual(baseline["lower_is_better"], ["mae", "rmse"])
        self.assertIn("rmse", baseline["intervals"])
        # What pairs two candidates is in the study: a gate on the drop has an interval as well.
        lines = [json.loads(line) for line in (out / "study.jsonl").read_text().splitlines()]
        trial = next(line["trial"] for line in lines if line.get("trial", {}).get("id") == "full")
        self.assertEqual(len(trial["samples"]["mae"]), SAMPLES - 10)
        self.assertEqual(len(trial["replicates"]["rmse"]), 1000)
        done = models.seqto("check", out, "--id", "full", "--max-loss", "mae=10", "--max-accuracy-drop", "rmse=5", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)


class Command(Folder):
    """A metric of the user's own."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.script = cls.dir / "worst.py"
        cls.script.write_text(
            "import sys, numpy\n"
            "reference, candidate = (numpy.load(path) for path in sys.argv[1:3])\n"
            "assert reference['labels'].shape == (len(candidate['labels']),)\n"
            "print('some words')\n"
            f"print(numpy.abs(reference[{models_output()!r}] - candidate[{models_output()!r}]).max())\n")
        cls.quantized = cls.dir / "q.onnx"
        done = models.seqto("quantize", models.DIGITS, "-o", cls.quantized, "--data", models.DIGITS_DATA, "--samples", 50)
        assert done.returncode == 0, done.stderr
        cls.words = ["check", cls.quantized, "--reference", models.DIGITS, "--data", models.DIGITS_DATA, "--samples", 80,
                     "--no-latency", "--json"]

    def test_the_number_is_a_figure(self):
        done = models.seqto(*self.words, "--max-loss", "worst=1000", "--max-accuracy-drop", "worst=1000", "--metric-command",
                            f"worst:min:{sys.executable} {self.script}")
        self.assertEqual(done.returncode, 0, done.stderr)
        figures = json.loads(done.stdout)["figures"]
        outputs = []
        for model in (models.DIGITS, self.quantized):
            models.seqto("run", model, "--data", models.DIGITS_DATA, "--samples", 80, "-o", self.dir / "o.npz")
            outputs.append(np.load(self.dir / "o.npz")[models_output()])
        self.assertAlmostEqual(figures["worst"]["value"], np.abs(outputs[0] - outputs[1]).max(), delta=1e-5)
        self.assertEqual(figures["worst_drop"]["value"], figures["worst"]["value"])  # the float model's is 0
        self.assertIsNone(figures["worst"]["interval"])
        best = f"best:max:{sys.executable} {self.script}"
        self.fails(GATE, "best", *self.words, "--min-accuracy", "best=1000", "--metric-command", best)
        lock = self.dir / "lock.json"
        done = models.seqto(*self.words, "--min-accuracy", "best=0", "--metric-command", best, "--lock", lock)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = models.seqto(*self.words, "--against", lock, "--metric-command", best)
        limits = {limit["figure"]: limit for limit in json.loads(done.stdout)["limits"]}
        self.assertNotEqual(limits["best"]["kind"], limits["kl"]["kind"])

    def test_resamples_bring_an_interval(self):
        off = self.dir / "off.py"
        off.write_text("import sys, numpy\n"
                       "a, b = (numpy.load(path) for path in sys.argv[1:3])\n"
                       "assert len(a['labels']) == 80\n"
                       f"print(float(abs(a[{models_output()!r}] - b[{models_output()!r}]).mean()))\n")
        done = models.seqto(*self.words, "--max-loss", "off=1000", "--metric-command", f"off:min:{sys.executable} {off}",
                            "--metric-resamples", 12)
        self.assertEqual(done.returncode, 0, done.stderr)
        figures = json.loads(done.stdout)["figures"]
        low, high = figures["off"]["interval"]
        self.assertTrue(0 < low < figures["off"]["value"] < high, figures["off"])
        self.assertEqual(figures["off_drop"]["interval"], [low, high])  # the float model's is 0 on every resample

    def test_errors(self):
        def fails(code, part, command, *more):
            self.fails(code, part, *self.words, "--max-loss", "kl=9", "--metric-command", command, *more)

        fails(INVALID, "exit code 3: out of luck", "own:min:echo out of luck >&2; exit 3")
        fails(INVALID, '"fine"', "own:min:echo fine; true")
        fails(INVALID, '"nan"', "own:min:echo nan; true")
        fails(INVALID, '""', "own:min:true")
        fails(INVALID, "no answer after 0.5 seconds", "own:min:sleep 20; true", "--metric-timeout", "0.5")
        fails(INVALID, "exit code 127", "own:min:/nowhere/metric")
        for text in ("own", "own:min", "own:min:", "own:less:true", ":min:true", "my own:min:true"):
            fails(USAGE, "NAME:max:COMMAND expected", text)
        fails(USAGE, "no figure of seqto has", "mae:min:true")

    def test_a_study(self):
        out = self.dir / "study"
        done = models.seqto("tune", models.DIGITS, "--data", models.DIGITS_DATA, "-o", out, "--strategy", "incremental",
                            "--calibration-samples", 20, "--evaluation-samples", 60, "--max-evaluations", 4,
                            "--metric-command", f"worst:min:{sys.executable} {self.script}")
        self.assertEqual(done.returncode, 0, done.stderr)
        summary = json.loads((out / "summary.json").read_text())
        self.assertEqual(summary["baseline"]["metrics"]["worst"], 0)
        self.assertEqual(summary["baseline"]["lower_is_better"], ["worst"])
        self.assertGreater(summary["fully_quantized"]["metrics"]["worst"], 0)
        done = models.seqto("check", out, "--id", "full", "--max-loss", "worst=0")
        self.assertEqual(done.returncode, GATE, done.stderr)


def models_output():
    import onnx
    return onnx.load(str(models.DIGITS)).graph.output[0].name


class Text(Folder):
    """Token ids through an embedding, a mean and a layer: accuracy on labels y."""

    def test_accuracy_is_top1(self):
        from onnx import TensorProto, helper, numpy_helper
        import onnx
        table, w = models.weight(50, 8, seed=1), models.weight(8, 3, seed=2)
        nodes = [models.node("Gather", ["table", "input_ids"], ["e"]),
                 models.node("ReduceMean", ["e"], ["m"], axes=[1], keepdims=0), models.node("MatMul", ["m", "w"], ["scores"])]
        graph = helper.make_graph(
            nodes, "g", [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "length"])],
            [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 3])],
            [numpy_helper.from_array(table, "table"), numpy_helper.from_array(w, "w")])
        model = self.dir / "text.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
        ids = np.random.default_rng(7).integers(0, 50, (80, 12))
        y = np.random.default_rng(8).integers(0, 3, 80)
        np.savez(self.dir / "tokens.npz", input_ids=ids, y=y)
        found = self.run_metrics(model, self.dir / "tokens.npz", "--metric", "accuracy")
        expected = ((table[ids].mean(1) @ w).argmax(1) == y).mean()
        self.assertAlmostEqual(found["metrics"]["accuracy"], expected, delta=1e-12)
        self.assertEqual(found["lower_is_better"], [])
        done = models.seqto("tune", model, "--data", self.dir / "tokens.npz", "-o", self.dir / "text", "--metric", "accuracy",
                            "--calibration-samples", 20, "--max-time", 20)
        self.assertEqual(done.returncode, 0, done.stderr)
        metrics = json.loads((self.dir / "text/summary.json").read_text())["baseline"]["metrics"]
        self.assertEqual(metrics["accuracy"], metrics["top1"])


if __name__ == "__main__":
    unittest.main()
