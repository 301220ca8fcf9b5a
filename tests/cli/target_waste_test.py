"""Files that `quantize --target` writes have no layer that the target computes in float though it was quantized: what an
operator joins has one scale, also behind what only moves codes; what writes codes for layers in float alone stays in float."""
import json
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import TensorProto

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402
from testing.models import node, seqto, weight  # noqa: E402

PIXELS = [("x", [1, 3, 8, 8])]


class Waste(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)

    def verdicts(self, target, nodes, inputs, outputs, weights, data):
        """By node of the float model, of the file that is made of it."""
        model = models.save(self.dir / "model.onnx", nodes, inputs, outputs, weights, opset=18, ir_version=9)
        out = self.dir / "out.onnx"
        done = seqto("quantize", model, "--data", data, "--quick", "--target", target, "-o", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.said, self.file = done.stderr, onnx.load(out)
        done = seqto("--json", "lint", out, "--target", target, "--strict")
        self.assertEqual(done.returncode, 0, done.stdout)
        return {n["node"]: n["verdict"] for n in json.loads(done.stdout)["nodes"]}

    def of_pixels(self, target, nodes, weights, output):
        return self.verdicts(target, nodes, PIXELS, [(output, None)], weights, models.arrays(self.dir / "x.npz", shape=(3, 8, 8)))

    def of_tokens(self, target):
        nodes = [node("Gather", ["words", "ids"], ["a"]), node("Gather", ["places", "at"], ["b"]), node("Add", ["a", "b"], ["s"]),
                 node("LayerNormalization", ["s", "scale"], ["n"]), node("MatMul", ["n", "w"], ["y"])]
        weights = [("words", weight(50, 32)), ("places", 0.1 * weight(16, 32, seed=1)), ("scale", np.ones(32, np.float32)),
                   ("w", weight(32, 32, seed=2))]
        rng = np.random.default_rng(0)
        np.savez(self.dir / "ids.npz", ids=rng.integers(0, 50, (12, 16)), at=np.tile(np.arange(16), (12, 1)))
        inputs = [(name, [1, 16], TensorProto.INT64) for name in ("ids", "at")]
        return self.verdicts(target, nodes, inputs, [("y", None)], weights, self.dir / "ids.npz")

    def test_one_scale_behind_what_moves_codes(self):
        weights = [("w", weight(8, 3, 3, 3)), ("v", 3 * weight(8, 3, 3, 3, seed=1)), ("shape", np.int64([1, 8, 6, 6]))]
        moves = {"MaxPool": dict(kernel_shape=[3, 3], pads=[1] * 4), "AveragePool": dict(kernel_shape=[3, 3], pads=[1] * 4),
                 "Transpose": dict(perm=[0, 1, 3, 2]), "Reshape": {}}
        for op_type, attributes in moves.items():
            moved = node(op_type, ["a", "shape"] if op_type == "Reshape" else ["a"], ["m"], **attributes)
            for joint in (node("Mul", ["m", "b"], ["y"]), node("Concat", ["b", "m"], ["y"], axis=1)):
                with self.subTest(moved=op_type, joint=joint.op_type):
                    nodes = [node("Conv", ["x", "w"], ["a"]), moved, node("Conv", ["x", "v"], ["b"]), joint]
                    found = self.of_pixels("openvino-npu", nodes, weights, "y")
                    self.assertEqual({found[n.name] for n in nodes}, {"integers"})

    def test_rows_of_two_tables_are_added_under_one_scale(self):
        found = self.of_tokens("openvino-npu")
        self.assertEqual([found[f"{name}_node"] for name in "sny"], ["integers"] * 3)
        tables = [w for w in self.file.graph.initializer if w.data_type in (TensorProto.UINT8, TensorProto.INT8) and len(w.dims) == 2]
        self.assertEqual(len(tables), 3, "the tables are in codes too")

    def test_tensorrt_joins_under_one_scale(self):
        nodes = [node("Conv", ["x", "w"], ["a"]), node("Relu", ["a"], ["r"]), node("Conv", ["x", "v"], ["b"]), node("Relu", ["b"], ["s"]),
                 node("Concat", ["r", "s"], ["c"], axis=1), node("Conv", ["c", "u"], ["y"])]
        weights = [("w", weight(8, 3, 3, 3)), ("v", 3 * weight(8, 3, 3, 3, seed=1)), ("u", weight(4, 16, 1, 1, seed=2))]
        found = self.of_pixels("tensorrt", nodes, weights, "y")
        self.assertEqual([found[f"{name}_node"] for name in "abcy"], ["integers"] * 4)

    def test_what_writes_codes_for_floats_alone_stays_float(self):
        found = self.of_tokens("xnnpack")
        self.assertEqual({verdict for verdict in found.values()} - {"other"}, {"float"})
        self.assertNotIn("QuantizeLinear", [n.op_type for n in self.file.graph.node])

    def test_what_nobody_quantizes_is_not_said_to_stay_float(self):
        nodes = [node("Conv", ["x", "w"], ["a"]), node("Softmax", ["a"], ["p"]), node("Shape", ["p"], ["s"]), node("Reshape", ["x", "s"], ["y"])]
        self.of_pixels("openvino-npu", nodes, [("w", weight(3, 3, 1, 1))], "y")
        self.assertIn("these stay as they are: 1 Softmax\n", self.said)


if __name__ == "__main__":
    unittest.main()
