"""A graph output that is a graph input, which layers read too: the file passes it on as it came."""
import json
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402

MODES = {
    "qdq": (),
    "dedicated": ("--dedicated-qdq-pair",),
    "16 bits": ("--activation-type", "int16"),
    "onnxruntime": ("--compat", "onnxruntime"),
    "operators": ("--format", "qoperator"),
    "dynamic": ("--mode", "dynamic"),
    "float16": ("--mode", "float16"),
    "float16 throughout": ("--mode", "float16", "--float16-compute", "--float16-io"),
}


class PassedOnInput(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        self.x = models.weight(40, 16)
        np.savez(self.dir / "x.npz", x=self.x)

    def model(self, outputs):
        shapes = {"x": ("x", ["n", 16]), "y": ("y", ["n", 8])}
        nodes = [models.node("MatMul", ["x", "w"], ["a"]), models.node("Relu", ["a"], ["r"]),
                 models.node("MatMul", ["r", "v"], ["b"]), models.node("MatMul", ["x", "v"], ["c"]),
                 models.node("Add", ["b", "c"], ["y"])]
        return models.save(self.dir / "model.onnx", nodes, [shapes["x"]], [shapes[name] for name in outputs],
                           [("w", models.weight(16, 16, seed=1)), ("v", models.weight(16, 8, seed=2))])

    def run_it(self, *words):
        done = models.seqto(*words, "--data", self.dir / "x.npz", "-q")
        self.assertEqual(done.returncode, 0, done.stderr)

    def answers(self, file):
        session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        kind = np.float16 if "16" in session.get_inputs()[0].type else np.float32
        names = [o.name for o in session.get_outputs()]
        return dict(zip(names, session.run(None, {"x": self.x.astype(kind)}))), kind

    def test_quantize(self):
        for outputs in (["y", "x"], ["x", "y"]):
            model = self.model(outputs)
            wanted, _ = self.answers(model)
            for mode, how in MODES.items():
                with self.subTest(outputs=outputs, mode=mode):
                    self.run_it("quantize", model, *how, "-o", self.dir / "q.onnx")
                    found, kind = self.answers(self.dir / "q.onnx")
                    self.assertEqual(list(found), outputs)
                    np.testing.assert_array_equal(found["x"], self.x.astype(kind))
                    error = found["y"].astype(np.float32) - wanted["y"]
                    self.assertLess(np.square(error).mean() / np.square(wanted["y"]).mean(), 0.01)

    def test_an_input_in_two_types(self):
        model = self.model(["y", "x"])
        overrides = {"x": [{"quant_type": "QUInt8", "convert": {"quant_type": "QUInt16", "recv_nodes": ["c_node"]}}]}
        (self.dir / "o.json").write_text(json.dumps(overrides))
        self.run_it("quantize", model, "--tensor-overrides", self.dir / "o.json", "-o", self.dir / "q.onnx")
        self.assertIn("x_convert_QuantizeLinear", [n.name for n in onnx.load(self.dir / "q.onnx").graph.node])
        np.testing.assert_array_equal(self.answers(self.dir / "q.onnx")[0]["x"], self.x)

    def test_tune_and_analyze(self):
        model = self.model(["y", "x"])
        self.run_it("analyze", model)
        self.run_it("tune", model, "--schemes", "int8,float32", "--max-evaluations", 6, "-o", self.dir / "out")
        found, _ = self.answers(self.dir / "out/models/full.onnx")
        np.testing.assert_array_equal(found["x"], self.x)


if __name__ == "__main__":
    unittest.main()
