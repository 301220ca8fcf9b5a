"""Targets that compute nothing in float: constants of Sub, Div, Max and PRelu have codes, as those of Add and Mul have."""
import json
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing.models import arrays, node, save, seqto, weight  # noqa: E402

CONSTANTS = {"Sub": np.float32(0.3), "Div": np.float32(2.5), "Max": np.float32(0.1), "Add": np.float32(0.3), "Mul": np.float32(0.3),
             "PRelu": np.float32([[[0.1]], [[0.2]], [[0.3]]])}
TARGETS = ("esp-dl", "esp-dl-p4")


def outputs_of(path, x):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


class Constants(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        self.data = arrays(self.dir / "x.npz", samples=32, shape=(3, 8, 8))

    def model(self, *op_types, first=False, in_nodes=False):
        """Two convolutions; these operators with a constant in front of them, or between them."""
        nodes, weights, last = [], [("w", weight(3, 3, 3, 3)), ("v", weight(4, 3, 3, 3, seed=1))], "x"
        if not first: nodes.append(node("Conv", ["x", "w"], ["a"])); last = "a"
        for i, op_type in enumerate(op_types):
            if in_nodes: nodes.append(helper.make_node("Constant", [], [f"k{i}"], f"c{i}", value=numpy_helper.from_array(CONSTANTS[op_type])))
            else: weights.append((f"k{i}", CONSTANTS[op_type]))
            nodes.append(node(op_type, [last, f"k{i}"], [f"o{i}"]))
            last = f"o{i}"
        if first: nodes.append(node("Conv", [last, "w"], ["a"])); last = "a"
        nodes.append(node("Conv", [last, "v"], ["y"]))
        return save(self.dir / "model.onnx", nodes, [("x", [1, 3, 8, 8])], [("y", [1, 4, 4, 4])], weights)

    def lint(self, file, target):
        done = seqto("--json", "lint", file, "--target", target, "--strict")
        self.assertEqual(done.returncode, 0, done.stdout)
        return {n["node"]: n["verdict"] for n in json.loads(done.stdout)["nodes"]}

    def check(self, target, *op_types, **how):
        model, out = self.model(*op_types, **how), self.dir / "out.onnx"
        done = seqto("quantize", model, "--data", self.data, "--quick", "--target", target, "-o", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        verdicts = self.lint(out, target)
        names = {f"o{i}_node" for i in range(len(op_types))} & verdicts.keys()  # a factor may be part of a weight now
        self.assertEqual({verdicts[name] for name in names} - {"integers"}, set())
        graph = onnx.load(out).graph
        constants = {w.name: numpy_helper.to_array(w) for w in graph.initializer}
        scales = [constants[n.input[1]].reshape(-1) for n in graph.node if n.op_type == "DequantizeLinear"]
        self.assertTrue(all(np.log2(s) == np.round(np.log2(s)) for scale in scales for s in scale))
        x = np.load(self.data)["x"][:1]
        expected, found = outputs_of(model, x), outputs_of(out, x)
        self.assertLess(np.square(found - expected).mean(), 0.01 * np.square(expected).mean())

    def test_constants_have_codes(self):
        for target in TARGETS:
            for op_type in CONSTANTS:
                for how in ({}, {"first": True}, {"in_nodes": True}):
                    with self.subTest(target, op_type=op_type, **how): self.check(target, op_type, **how)

    def test_in_a_row(self):
        for target in TARGETS:
            with self.subTest(target): self.check(target, "Sub", "Div", "PRelu", "Max")

    def test_candidates_of_a_search_have_them_too(self):
        out = self.dir / "study"
        for how in ({}, {"first": True}):
            done = seqto("tune", self.model("Sub", "Div", **how), "--data", self.data, "--quick", "--max-evaluations", 6, "--target", "esp-dl",
                         "-o", out / str(len(how)))
            self.assertEqual(done.returncode, 0, done.stderr)
            summary = json.loads((out / str(len(how)) / "summary.json").read_text())
            self.lint(out / str(len(how)) / summary["selected_file"], "esp-dl")


if __name__ == "__main__":
    unittest.main()
