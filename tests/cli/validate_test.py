"""`seqto validate`: its figures are those of numpy and onnxruntime, its exit codes and reports what docs/reference/validate.md says."""

import html.parser
import json
import pathlib
import shutil
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402

USAGE, INVALID, GATE = 2, 3, 5


def outputs_of(path, feeds):
    """One list of outputs a sample, as the program's default runs them: one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return [session.run(None, feed) for feed in feeds]


class Page(html.parser.HTMLParser):
    """The cells of a page's tables, and whether its elements close."""

    def __init__(self, text):
        super().__init__()
        self.open, self.cells = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "td":
            self.cells.append(data)


class Validate(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-validate-"))
        self.addCleanup(shutil.rmtree, self.dir)

    def validate(self, reference, candidate, data, *words):
        done = models.seqto("validate", reference, candidate, "--data", data, "--json", *words)
        return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr

    def quantized(self, *words):
        path = self.dir / "quantized.onnx"
        done = models.seqto("quantize", models.DIGITS, "-o", path, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def two_headed(self, name, shift=0.0, drop=None, scores=5):
        """Scores, a label and a map; `shift` is added to one value of the map, `drop` renames an output."""
        bias = np.zeros((1, 2, 3), np.float32)
        bias[0, 1, 2] = shift
        nodes = [models.node("MatMul", ["x", "w"], ["scores"]),
                 models.node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0),
                 models.node("MatMul", ["x", "v"], ["flat"]),
                 models.node("Reshape", ["flat", "dims"], ["square"]),
                 models.node("Add", ["square", "b"], [drop or "map"])]
        graph = helper.make_graph(
            nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
            [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, scores]),
             helper.make_tensor_value_info("label", TensorProto.INT64, [1]),
             helper.make_tensor_value_info(drop or "map", TensorProto.FLOAT, [1, 2, 3])],
            [numpy_helper.from_array(models.weight(4, scores), "w"), numpy_helper.from_array(models.weight(4, 6), "v"),
             numpy_helper.from_array(bias, "b"), numpy_helper.from_array(np.array([1, 2, 3]), "dims")])
        path = self.dir / name
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
        return path

    def rows(self, count=7):
        np.savez(self.dir / "rows.npz", x=models.weight(count, 4, seed=2))
        return self.dir / "rows.npz"

    def test_figures_are_numpys(self):
        quantized = self.quantized("--data", models.DIGITS_DATA, "--samples", 50)
        code, found, _ = self.validate(models.DIGITS, quantized, models.DIGITS_DATA, "--samples", 200, "--worst", 4)
        x = np.load(models.DIGITS_DATA)["x"][:200].astype(np.float32)
        feeds = [{"x": row[None]} for row in x]
        a = np.array([o[0][0] for o in outputs_of(models.DIGITS, feeds)], np.float64)
        b = np.array([o[0][0] for o in outputs_of(quantized, feeds)], np.float64)
        difference = np.abs(a - b)
        output = found["outputs"][0]
        self.assertEqual((code, found["passed"], found["samples"], output["name"]), (GATE, False, 200, "logits"))
        self.assertAlmostEqual(output["max_abs"], difference.max(), delta=1e-6)
        self.assertAlmostEqual(output["mean_abs"], difference.mean(), delta=1e-6)
        self.assertEqual(output["top1_agreement"], np.mean(a.argmax(1) == b.argmax(1)))
        row, column = np.unravel_index(difference.argmax(), difference.shape)
        self.assertEqual((output["max_at"]["sample"], output["max_at"]["index"]), (str(row), column))
        self.assertAlmostEqual(output["max_at"]["candidate"], b[row, column], delta=1e-5)
        worst = np.argsort(-difference.max(1), kind="stable")[:4]
        self.assertEqual([s["index"] for s in found["worst"]], worst.tolist())
        for s in found["worst"]:
            self.assertAlmostEqual(s["max_abs"], difference[s["index"]].max(), delta=1e-6)
            self.assertAlmostEqual(s["mean_abs"], difference[s["index"]].mean(), delta=1e-6)

    def test_what_is_hidden_does_not_agree_or_disagree(self):
        def scores(name, hidden):
            nodes = [models.node("Cast", ["input_ids"], ["f"], to=TensorProto.FLOAT),
                     models.node("Cast", ["attention_mask"], ["m"], to=TensorProto.FLOAT),
                     models.node("Sub", ["one", "m"], ["n"]), models.node("Mul", ["n", "hidden"], ["h"]),
                     models.node("Add", ["f", "h"], ["s"]), models.node("Unsqueeze", ["s", "axis"], ["y"])]
            graph = helper.make_graph(
                nodes, "g", [helper.make_tensor_value_info(i, TensorProto.INT64, [1, 4]) for i in ("input_ids", "attention_mask")],
                [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 1])],
                [numpy_helper.from_array(np.array(v, t), n) for n, v, t in (
                    ("one", 1, np.float32), ("hidden", hidden, np.float32), ("axis", [2], np.int64))])
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(self.dir / name))
            return self.dir / name

        np.savez(self.dir / "ids.npz", input_ids=np.array([[1, 9, 3, 4], [5, 1, 1, 1]]), attention_mask=np.array([[1, 1, 1, 0], [1, 1, 0, 0]]))
        code, found, said = self.validate(scores("a.onnx", 0), scores("b.onnx", 100), self.dir / "ids.npz")
        self.assertEqual((code, found["outputs"][0]["top1_agreement"]), (0, 1), said)

    def test_limits(self):
        quantized = self.quantized("--data", models.DIGITS_DATA, "--samples", 50)
        words = [models.DIGITS, quantized, models.DIGITS_DATA, "--samples", 100]
        wide = ["--abs-tol", 100, "--mean-tol", 100]
        self.assertEqual(self.validate(*words, *wide)[0], 0)
        code, found, said = self.validate(*words, "--abs-tol", 100, "--mean-tol", 1e-6)
        self.assertEqual((code, len(found["failures"])), (GATE, 1))
        self.assertIn("mean abs difference", found["failures"][0])
        self.assertNotIn("max abs", found["failures"][0])
        self.assertIn("seqto: [validate] 1 of 1 outputs", said)
        code, found, _ = self.validate(self.two_headed("a.onnx"), self.two_headed("b.onnx", shift=0.0599), self.rows())
        self.assertEqual((code, found["abs_tol"], found["mean_tol"]), (0, 0.06, 0.02))

    def test_task_metrics_of_both(self):
        quantized = self.quantized("--data", models.DIGITS_DATA, "--samples", 50)
        words = [models.DIGITS, quantized, models.DIGITS_DATA, "--samples", 300]
        code, found, _ = self.validate(*words, "--metric", "accuracy", "--abs-tol", 100, "--mean-tol", 100)
        self.assertEqual(code, 0)
        data = np.load(models.DIGITS_DATA)
        feeds = [{"x": row[None].astype(np.float32)} for row in data["x"][:300]]
        right = [np.array([o[0][0].argmax() for o in outputs_of(path, feeds)]) == data["y"][:300]
                 for path in (models.DIGITS, quantized)]
        metric = found["metrics"]["accuracy"]
        self.assertAlmostEqual(metric["reference"], right[0].mean(), delta=1e-12)
        self.assertAlmostEqual(metric["candidate"], right[1].mean(), delta=1e-12)
        self.assertAlmostEqual(metric["drop"], right[0].mean() - right[1].mean(), delta=1e-12)
        low, high = metric["interval"]
        difference = right[0].astype(float) - right[1]
        rng = np.random.default_rng(1)
        means = [rng.choice(difference, 300).mean() for _ in range(4000)]
        self.assertAlmostEqual(low, np.quantile(means, 0.025), delta=0.004)
        # None of so many leaves this share possible.
        self.assertAlmostEqual(high, max(np.quantile(means, 0.975), 1 - 0.025 ** (1 / 300)), delta=0.004)
        only = [int((right[0] & ~right[1]).sum()), int((right[1] & ~right[0]).sum())]
        from scipy.stats import binomtest
        expected = binomtest(only[0], sum(only)).pvalue if sum(only) else 1
        self.assertAlmostEqual(found["mcnemar"], expected, delta=1e-9)
        self.assertEqual(found["metrics"]["f1"]["lower_is_better"], False)
        self.assertIsNotNone(found["metrics"]["f1"]["interval"])

    def test_limits_on_task_metrics(self):
        quantized = self.quantized("--data", models.DIGITS_DATA, "--samples", 50)
        words = [models.DIGITS, quantized, models.DIGITS_DATA, "--samples", 100]
        # Who limits the drop does not ask for equal logits as well, unless he says so.
        code, found, said = self.validate(*words, "--max-accuracy-drop", "5%")
        self.assertEqual((code, found["passed"], found["abs_tol"]), (0, True, None), said)
        self.assertEqual([(l["figure"], l["met"]) for l in found["limits"]], [("top1_drop", True)])
        self.assertEqual(self.validate(*words, "--max-accuracy-drop", "5%", "--abs-tol", 1e-6)[0], GATE)
        code, found, said = self.validate(*words, "--min-accuracy", "0.9", "--min-accuracy", "accuracy=0.999", "--max-loss", "1e-9",
                                          "--metric", "accuracy")
        self.assertEqual((code, [l["met"] for l in found["limits"]]), (GATE, [False, True, False]), said)
        self.assertIn("2 of 3 limits on figures not met", said)
        self.assertEqual(len(found["failures"]), 2)
        done = models.seqto("validate", *words[:2], "--data", *words[2:], "--max-accuracy-drop", "5%", "--report",
                            self.dir / "r.html")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("McNemar", done.stdout)
        self.assertIn("top1_drop", Page((self.dir / "r.html").read_text()).cells)
        self.assertIn("PASSED: 1 output over 100 samples, 0 of 1 limit not met", done.stdout)

    def test_a_command_and_targets(self):
        script = self.dir / "worst.py"
        script.write_text("import sys, numpy\na, b = (numpy.load(path) for path in sys.argv[1:3])\n"
                          "print(float(abs(a['map'] - b['map']).max()))\n")
        np.savez(self.dir / "targets.npz", x=models.weight(7, 4, seed=2), y=models.weight(7, 5, seed=3))
        words = [self.two_headed("a.onnx"), self.two_headed("b.onnx", shift=0.5), self.dir / "targets.npz", "--metric", "mae",
                 "--metric-command", f"worst:min:{sys.executable} {script}"]
        code, found, said = self.validate(*words, "--max-loss", "worst=0.6", "--max-accuracy-drop", "mae=0")
        self.assertEqual(code, 0, said)
        self.assertAlmostEqual(found["metrics"]["worst"]["candidate"], 0.5, delta=1e-6)
        self.assertIsNone(found["metrics"]["worst"]["interval"])
        self.assertEqual(found["metrics"]["mae"]["drop"], 0)
        self.assertIsNone(found["mcnemar"])
        self.assertEqual(self.validate(*words, "--max-loss", "worst=0.4")[0], GATE)
        done = models.seqto("validate", words[0], "--data", words[2], "--metric", "mae")
        self.assertEqual((done.returncode, "two models expected" in done.stderr), (USAGE, True), done.stderr)

    def test_equal_models(self):
        code, found, _ = self.validate(models.DIGITS, models.DIGITS, models.DIGITS_DATA, "--samples", 20)
        self.assertEqual((code, found["passed"], found["failures"], found["worst"]), (0, True, [], []))
        output = found["outputs"][0]
        self.assertEqual((output["max_abs"], output["mean_abs"], output["top1_agreement"]), (0, 0, 1))

    def test_every_output_is_compared(self):
        code, found, _ = self.validate(self.two_headed("a.onnx"), self.two_headed("b.onnx", shift=0.5), self.rows())
        self.assertEqual(code, GATE)
        by_name = {o["name"]: o for o in found["outputs"]}
        self.assertEqual([by_name[n]["passed"] for n in ("scores", "label", "map")], [True, True, False])
        self.assertAlmostEqual(by_name["map"]["max_abs"], 0.5, delta=1e-6)
        self.assertAlmostEqual(by_name["map"]["mean_abs"], 0.5 / 6, delta=1e-6)
        self.assertEqual(by_name["map"]["max_at"]["index"], 5)
        self.assertEqual([by_name[n]["top1_agreement"] for n in ("scores", "label", "map")], [1, 1, None])
        self.assertEqual({s["output"] for s in found["worst"]}, {"map"})

    def test_an_agreement_that_no_output_has_is_no_limit(self):
        model = models.save(self.dir / "map.onnx", [models.node("Neg", ["x"], ["y"])], [("x", [1, 3, 4])], [("y", [1, 3, 4])])
        np.savez(self.dir / "x.npz", x=models.weight(7, 3, 4))
        code, found, said = self.validate(model, model, self.dir / "x.npz", "--min-top1-agreement", 0.9)
        self.assertEqual((code, found), (INVALID, None), said)
        self.assertIn("--max-loss top1_disagreement=", said)
        self.assertEqual(self.validate(model, model, self.dir / "x.npz", "--max-loss", "top1_disagreement=0")[0], 0)
        self.assertEqual(self.validate(model, model, self.dir / "x.npz", "--min-top1-agreement", 0)[0], 0)

    def test_order_of_outputs_and_inputs_does_not_matter(self):
        def difference(path, inputs, outputs):
            nodes = [models.node("Sub", ["a", "b"], ["d"]), models.node("Abs", ["d"], ["e"])]
            return models.save(path, nodes, [(n, [1, 3]) for n in inputs], [(n, [1, 3]) for n in outputs])

        np.savez(self.dir / "two.npz", a=models.weight(5, 3), b=models.weight(5, 3, seed=1))
        code, found, _ = self.validate(difference(self.dir / "p.onnx", "ab", "de"),
                                       difference(self.dir / "q.onnx", "ba", "ed"), self.dir / "two.npz")
        self.assertEqual((code, [o["max_abs"] for o in found["outputs"]]), (0, [0, 0]))

    def test_other_names_and_shapes_are_refused(self):
        a, rows = self.two_headed("a.onnx"), self.rows()
        code, found, said = self.validate(a, self.two_headed("b.onnx", drop="other"), rows)
        self.assertEqual((code, found), (INVALID, None))
        self.assertIn("the candidate's outputs label, other, scores found; label, map, scores expected", said)
        code, _, said = self.validate(a, self.two_headed("c.onnx", scores=6), rows)
        self.assertEqual(code, INVALID)
        self.assertIn("output 'scores' of shape [1, 6] found; [1, 5] expected", said)
        code, _, said = self.validate(models.DIGITS, models.conv(self.dir / "m.onnx"), models.DIGITS_DATA)
        self.assertEqual(code, INVALID)

    def test_values_that_are_not_finite_are_named(self):
        def logarithm(path, inside):
            nodes = [models.node("Add", ["x", "c"], ["s"]), models.node("Log", ["s"], ["y"])]
            return models.save(path, nodes, [("x", [1, 3])], [("y", [1, 3])], [("c", np.array([inside], np.float32))])

        x = np.array([[1, 2, 3], [1, 0, 3], [1, 2, -1]], np.float32)
        np.savez(self.dir / "x.npz", x=x)
        one, two = logarithm(self.dir / "one.onnx", 2.0), logarithm(self.dir / "two.onnx", 0.0)
        code, found, _ = self.validate(one, two, self.dir / "x.npz", "--abs-tol", 10, "--mean-tol", 10)
        output = found["outputs"][0]
        self.assertEqual((code, output["incomparable"], output["first_incomparable"]), (GATE, 2, "1"))
        self.assertEqual(output["candidate"], {"nan": 1, "infinite": 1})
        self.assertEqual(output["reference"], {"nan": 0, "infinite": 0})
        for word in ("1 NaN in the candidate", "1 infinite in the candidate", "sample '1'"):
            self.assertIn(word, found["failures"][0])
        # The same infinity on both sides is no difference; NaN on both sides is nothing that could be compared.
        code, found, _ = self.validate(two, two, self.dir / "x.npz", "--samples", 2)
        self.assertEqual((code, found["outputs"][0]["reference"]["infinite"]), (0, 1))
        self.assertEqual(self.validate(two, two, self.dir / "x.npz")[0], GATE)

    def test_float16_and_dynamic(self):
        half = self.quantized("--mode", "float16", "--float16-compute", "--float16-io")
        self.assertEqual(onnx.load(str(half)).graph.input[0].type.tensor_type.elem_type, TensorProto.FLOAT16)
        code, found, _ = self.validate(models.DIGITS, half, models.DIGITS_DATA, "--samples", 50)
        self.assertEqual(code, 0, found)
        self.assertGreater(found["outputs"][0]["max_abs"], 0)
        code, found, _ = self.validate(models.DIGITS, self.quantized("--mode", "dynamic"), models.DIGITS_DATA, "--abs-tol", 5,
                                       "--mean-tol", 1, "--min-top1-agreement", 0.9)
        self.assertEqual(code, 0, found)

    def test_reports(self):
        a, b, rows = self.two_headed("a<b>.onnx"), self.two_headed("b|c.onnx", shift=0.5), self.rows()
        for ending in ("html", "md", "json"):
            self.assertEqual(self.validate(a, b, rows, "--report", self.dir / f"r.{ending}")[0], GATE)
        page = (self.dir / "r.html").read_text()
        cells = Page(page).cells
        self.assertIn("map", cells)
        self.assertIn("FAILED", cells)
        self.assertNotIn("<b>.onnx", page)
        markdown = (self.dir / "r.md").read_text()
        self.assertIn("| map | FAILED | 0.5 |", markdown)
        self.assertIn("b\\|c.onnx", markdown)
        self.assertFalse(json.loads((self.dir / "r.json").read_text())["passed"])
        done = models.seqto("validate", a, b, "--data", rows, "--report", self.dir / "r.txt")
        self.assertEqual(done.returncode, USAGE)
        self.assertIn(".html, .md or .json", done.stderr)

    def test_text(self):
        done = models.seqto("validate", self.two_headed("a.onnx"), self.two_headed("b.onnx", shift=0.5), "--data", self.rows())
        self.assertEqual(done.returncode, GATE)
        self.assertIn("FAILED: 1 of 3 outputs over 7 samples", done.stdout)
        self.assertIn("output 'map': max abs difference 0.5 at sample", done.stdout)

    def test_against_test_data(self):
        model, x = self.two_headed("a.onnx"), models.weight(3, 1, 4, seed=5)
        for i, row in enumerate(x):
            folder = self.dir / "data" / f"test_data_set_{i}"
            folder.mkdir(parents=True)
            for name, array, n in (("input", row, 0), *(("output", o, n) for n, o in enumerate(outputs_of(model, [{"x": row}])[0]))):
                value = numpy_helper.from_array(array + np.float32(0.5) if (i, name, n) == (1, "output", 2) else array)
                (folder / f"{name}_{n}.pb").write_bytes(value.SerializeToString())
        done = models.seqto("validate", model, "--data", self.dir / "data", "--json")
        self.assertEqual(done.returncode, GATE, done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual((found["samples"], found["reference"]["path"]), (3, "the data"))
        self.assertEqual([o["passed"] for o in found["outputs"]], [True, True, False])
        self.assertAlmostEqual(found["outputs"][2]["mean_abs"], 0.5 / 3, delta=1e-6)
        self.assertEqual([s["index"] for s in found["worst"] if s["max_abs"] > 0.1], [1])
        done = models.seqto("validate", model, "--data", self.rows())
        self.assertEqual(done.returncode, INVALID)
        self.assertIn("no expected output 'scores'", done.stderr)

    def test_random_inputs_are_marked(self):
        for words, marked in (("random", True), (self.rows(), False)):
            code, found, _ = self.validate(self.two_headed("a.onnx"), self.two_headed("b.onnx"), words, "--samples", 3)
            self.assertEqual((code, found["random_inputs"]), (0, marked))

    def test_devices(self):
        code, found, _ = self.validate(models.DIGITS, models.DIGITS, models.DIGITS_DATA, "--samples", 3, "--device", "toaster")
        self.assertEqual((code, found), (4, None))


if __name__ == "__main__":
    unittest.main()
