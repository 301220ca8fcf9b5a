"""A file whose weights are codes already is refused with what was found and what to do, also where its biases are floats."""
import pathlib
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing.models import arrays, node, save, seqto, weight  # noqa: E402

LAYERS = [node("Conv", ["x", "w", "b"], ["c"]), node("Relu", ["c"], ["r"]), node("Flatten", ["r"], ["f"]), node("Gemm", ["f", "v", "d"], ["y"])]
SHAPES = {"w": (4, 3, 3, 3), "v": (144, 5), "b": (4,), "d": (5,)}


class Coded(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        self.data = arrays(self.dir / "x.npz")

    def model(self, coded):
        """With codes and DequantizeLinear in place of these weights."""
        nodes, constants = [], []
        for name, shape in SHAPES.items():
            if name not in coded:
                constants.append((name, weight(*shape)))
                continue
            nodes.append(node("DequantizeLinear", [f"{name}_codes", f"{name}_scale"], [name]))
            constants += [(f"{name}_codes", (40 * weight(*shape)).clip(-127, 127).astype(np.int8)), (f"{name}_scale", np.float32(0.025))]
        return save(self.dir / "model.onnx", nodes + LAYERS, [("x", [1, 3, 8, 8])], [("y", [1, 5])], constants)

    def quantize(self, model, *flags):
        return seqto("quantize", model, "--data", self.data, "--quick", "-o", self.dir / "out.onnx", *flags)

    def refuses(self, model):
        for mode in ("weights", "static", "dynamic"):
            with self.subTest(mode):
                done = self.quantize(model, "--mode", mode)
                self.assertEqual(done.returncode, 3, done.stderr)
                for words in ("quantized already", "whose weights are codes", "seqto prepare MODEL --dequantize -o FLOAT"):
                    self.assertIn(words, done.stderr)

    def test_pairs_of_another_tool(self):
        self.refuses(self.model(coded="wv"))

    def test_a_file_of_ours_and_the_way_back(self):
        stored, back = self.dir / "stored.onnx", self.dir / "float.onnx"
        done = seqto("quantize", self.model(coded=""), "--mode", "weights", "-o", stored)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.refuses(stored)
        self.assertEqual(seqto("prepare", stored, "--dequantize", "-o", back).returncode, 0)
        self.assertEqual(self.quantize(back, "--mode", "weights").returncode, 0)

    def test_what_is_left_in_float_is_quantized(self):
        for mode in ("weights", "static"):
            done = self.quantize(self.model(coded="w"), "--mode", mode)
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
