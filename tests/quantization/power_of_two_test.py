"""--power-of-two-scales against numpy: each scale is a power of two, that with the smallest squared error (weights, and activations
unless another method than mse is named), or the least that the range fits; biases fit their int32."""
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


def powers_for(largest, highest=127):
    """The least that `largest` fits, and those below."""
    return 2.0 ** (np.ceil(np.log2(np.float64(np.float32(largest / highest)))) - np.arange(12))


def error(values, scale):
    return np.square(np.clip(np.rint(values / scale), -128, 127) * scale - values).sum()


class PowerOfTwo(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.dir = pathlib.Path(folder.name)
        rng = np.random.default_rng(0)
        cls.w = rng.laplace(size=(8, 4, 3, 3)).astype(np.float32)
        cls.w[1] *= 0.01
        cls.w[2] = 0
        cls.w[3] = rng.uniform(-1, 1, cls.w[3].shape)
        cls.w[4] = 0.25  # a power itself, over 127: rounding is up
        cls.model, cls.biased = (
            models.save(cls.dir / f"{largest}.onnx", [models.node("Conv", ["x", "w", "b"], ["y"])], [("x", [1, 4, 8, 8])],
                        [("y", [1, 8, 6, 6])], [("w", cls.w), ("b", np.array([0, 1, 2, 3, 4, 5, 6, largest], np.float32))])
            for largest in (7, 1e9))
        cls.x = rng.laplace(size=(3, 4, 8, 8)).astype(np.float32)
        cls.x[0, 0, 0, 0] = 8.5  # far out
        cls.data = cls.dir / "x.npz"
        np.savez(cls.data, x=cls.x)

    def quantize(self, *flags, model=None, data=None):
        out = self.dir / "out.onnx"
        done = models.seqto("quantize", model or self.model, "--data", data or self.data, "--no-improve", "--activation-type", "int8", "--weight-type", "int8",
                            "--power-of-two-scales", "-o", out, *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        onnxruntime.InferenceSession(out).run(None, {"x": self.x[:1]})
        constants = {i.name: numpy_helper.to_array(i) for i in onnx.load(out).graph.initializer}
        for name, value in constants.items():
            if "scale" in name:
                self.assertTrue((np.frexp(value)[0] == 0.5).all(), f"{name} {value}")
        return constants

    def test_scales(self):
        for per_channel in ([], ["--per-channel"]):
            for form in ([], ["--format", "qoperator"]):
                made = self.quantize("--symmetric-activations", "--method", "minmax", *per_channel, *form)
                self.assertEqual(made["x_scale"], powers_for(8.5)[0])
                self.assertEqual(made["x_zero_point"], 0)
                channels = self.w if per_channel else [self.w]
                for channel, scale in zip(channels, np.atleast_1d(made["w_scale"])):
                    values = np.float64(channel)
                    best = min(powers_for(np.abs(values).max()), key=lambda s: error(values, s)) if values.any() else 1
                    self.assertEqual(scale, best)

    def test_a_large_bias_fits(self):
        made = self.quantize("--symmetric-activations", "--per-channel", model=self.biased)
        scale, bias = made["x_scale"] * made["w_scale"][7], 1e9
        self.assertLess(bias / scale, 2**31)
        self.assertGreaterEqual(bias / scale, 2**29, "no more than it needs")

    def test_mse(self):
        made = self.quantize("--symmetric-activations")
        best = min(powers_for(8.5), key=lambda s: error(np.float64(self.x), s))
        self.assertEqual(made["x_scale"], best)
        self.assertLess(best, powers_for(8.5)[0])

    def test_zero_points(self):
        made = self.quantize("--method", "minmax")
        low, high = self.x.min(), self.x.max()
        scale = powers_for(high - low, 255)[0]
        self.assertEqual(made["x_scale"], scale)
        self.assertEqual(made["x_zero_point"], np.rint(-128 - low / scale))

    def test_refined_ranges_are_halved(self):
        # One sample for each half of the judge, either with a value far out.
        data, out = self.dir / "outliers.npz", {}
        x = np.repeat(self.x[1:2], 2, axis=0)
        x[:, 0, 0, 0] = 8.5
        np.savez(data, x=x)
        for refine in ([], ["--refine-ranges"]):
            made = self.quantize("--symmetric-activations", "--method", "minmax", *refine, data=data)
            out[bool(refine)] = made["x_scale"]
        self.assertEqual(out[False], powers_for(8.5)[0])
        self.assertEqual(out[True], powers_for(8.5)[1])

    def test_layers_without_static_scales_are_refused(self):
        for mode in ("dynamic", "weights", "float16"):
            done = models.seqto("quantize", self.model, "--mode", mode, "--power-of-two-scales", "-o", self.dir / "no.onnx")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("--power-of-two-scales with layers in", done.stderr)

    def test_blocks_are_refused(self):
        done = models.seqto("quantize", self.model, "--data", self.data, "--power-of-two-scales", "--block-size", 16, "-o", self.dir / "no.onnx")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("one of them expected", done.stderr)


if __name__ == "__main__":
    unittest.main()
