"""run writes an array for each sample where samples differ in shape, along whichever axes: images of several sizes."""
import pathlib
import sys
import tempfile
import unittest

import numpy as np
from PIL import Image

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402

if models.built_with("SEQTO_ONNXRUNTIME:BOOL=OFF"):
    print("skipped: runs models")
    sys.exit(77)
SIZES = [(8, 12), (12, 8), (10, 10)]  # the first two have as many values


def by_pixel(path):
    return models.save(path, [models.node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])], [("x", [1, 3, "h", "w_"])], [("y", [1, 4, "h", "w_"])],
                       [("w", models.weight(4, 3, 3, 3))])


class Shapes(unittest.TestCase):
    def run_on(self, sizes):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "images").mkdir()
            (folder / "pp.json").write_text('{"scale": 0.00392}')
            for i, (rows, columns) in enumerate(sizes):
                pixels = np.random.default_rng(i).integers(0, 255, (rows, columns, 3), np.uint8)
                Image.fromarray(pixels).save(folder / "images" / f"{i}.png")
            done = models.seqto("run", by_pixel(folder / "m.onnx"), "--data", folder / "images", "--preprocess", folder / "pp.json",
                                "-o", folder / "y.npz")
            self.assertEqual(done.returncode, 0, done.stderr)
            with np.load(folder / "y.npz") as arrays:
                return done.stderr, {key: arrays[key].shape for key in arrays}

    def test_types_stay(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            nodes = [models.node("Add", ["x", "big"], ["y"]), models.node("Cast", ["x"], ["h"], to=models.TensorProto.FLOAT16)]
            model = models.save(folder / "m.onnx", nodes, [("x", [1, 2], models.TensorProto.INT64)],
                                [("y", [1, 2], models.TensorProto.INT64), ("h", [1, 2], models.TensorProto.FLOAT16)], [("big", np.int64([2**24 + 1, 2**53 + 1]))])
            x = np.arange(6, dtype=np.int64).reshape(3, 2)
            np.savez(folder / "x.npz", x=x)
            done = models.seqto("run", model, "--data", folder / "x.npz", "-o", folder / "y.npz")
            self.assertEqual(done.returncode, 0, done.stderr)
            with np.load(folder / "y.npz") as arrays:
                self.assertEqual((arrays["y"].dtype, arrays["h"].dtype), (np.int64, np.float16))
                np.testing.assert_array_equal(arrays["y"], x + [2**24 + 1, 2**53 + 1])
                np.testing.assert_array_equal(arrays["h"], x)

    def test_of_several_sizes(self):
        said, shapes = self.run_on(SIZES)
        self.assertEqual(shapes, {f"y.{i}": (1, 4, *size) for i, size in enumerate(SIZES)})
        self.assertIn("'y.0' to 'y.2'", said)

    def test_with_as_many_values(self):
        self.assertEqual(self.run_on(SIZES[:2])[1], {"y.0": (1, 4, 8, 12), "y.1": (1, 4, 12, 8)})

    def test_of_one_size(self):
        self.assertEqual(self.run_on(SIZES[:1] * 3)[1], {"y": (3, 4, 8, 12)})


if __name__ == "__main__":
    unittest.main()
