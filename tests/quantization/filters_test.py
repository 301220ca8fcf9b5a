"""Weights of convolutions by channel have one zero point, whatever was asked for: onnxruntime up to 1.24 runs no others."""
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402
from testing.models import seqto  # noqa: E402


def run(path, x):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {"x": v[None]})[0] for v in x])


class Filters(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        weight = models.weight(4, 3, 3, 3)
        weight[1] = 0
        weight[2] = np.abs(weight[2])  # so that its range is another
        self.model = models.save(self.dir / "model.onnx", [models.node("Conv", ["x", "w", "b"], ["y"])], [("x", [1, 3, 8, 8])],
                                 [("y", [1, 4, 6, 6])], [("w", weight), ("b", models.weight(4))])
        self.data = models.arrays(self.dir / "x.npz")

    def check(self, said, *flags):
        out = self.dir / "q.onnx"
        done = seqto("quantize", self.model, "--data", self.data, "--quick", "--per-channel", "-o", out, *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        zero_points = next(numpy_helper.to_array(i) for i in onnx.load(out).graph.initializer if i.name == "w_zero_point")
        self.assertEqual((zero_points.size, np.unique(zero_points).size), (4, 1), zero_points)
        x = np.load(self.data)["x"]
        wanted, found = run(self.model, x), run(out, x)
        self.assertLess(np.square(found - wanted).mean() / np.square(wanted).mean(), 1e-3)
        self.assertIn(said, done.stderr)

    def test_a_channel_of_zeros(self):
        self.check("at D65", "--activation-type", "uint8", "--weight-type", "uint8")

    def test_operators_on_codes_have_symmetric_channels(self):
        self.check("at D67", "--format", "qoperator", "--activation-type", "uint8", "--symmetric-weights", "false")


if __name__ == "__main__":
    unittest.main()
