"""A model whose own tensors have the names that quantizing gives to new ones: the same answers as under other names."""
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import helper

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402

MODES = {
    "qdq": ("--mode", "static"),
    "dedicated": ("--mode", "static", "--dedicated-qdq-pair"),
    "qdq weights": ("--mode", "static", "--add-qdq-pair-to-weight"),
    "operators": ("--mode", "static", "--format", "qoperator"),
    "dynamic": ("--mode", "dynamic"),
    "int8 weights": ("--mode", "weights"),
    "int4 weights": ("--mode", "weights", "--weight-bits", "4"),
}


def save(path, first, second):
    """Two products with a Relu and a bias between; `first` and `second` are tensors inside."""
    return models.save(
        path,
        [helper.make_node("MatMul", ["x", "w"], [first], name="m1"), helper.make_node("Relu", [first], [second], name="r"),
         helper.make_node("MatMul", [second, "v"], ["c"], name="m2"), helper.make_node("Add", [second, "k"], ["d"], name="ad"),
         helper.make_node("MatMul", ["d", "v"], ["e"], name="m3"), helper.make_node("Add", ["c", "e"], ["y"], name="sum")],
        [("x", ["n", 32])], [("y", ["n", 8])],
        [("w", models.weight(32, 32, seed=1)), ("v", models.weight(32, 8, seed=2)), ("k", models.weight(32, seed=3))])


def tensors(path):
    graph = onnx.load(path).graph
    return {i.name for i in graph.initializer} | {o for n in graph.node for o in n.output}


class TakenNames(unittest.TestCase):
    def test_names_do_not_matter(self):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(16, 32)).astype(np.float32)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            np.savez(folder / "x.npz", x=x)

            def quantized(first, second, how):
                model = save(folder / "model.onnx", first, second)
                done = models.seqto("quantize", model, *how, "--data", folder / "x.npz", "--no-improve", "-o", folder / "out.onnx")
                self.assertEqual(done.returncode, 0, done.stderr)
                session = onnxruntime.InferenceSession(folder / "out.onnx", providers=["CPUExecutionProvider"])
                return session.run(None, {"x": x})[0], tensors(folder / "out.onnx") - tensors(model)

            for mode, how in MODES.items():
                wanted, names = quantized("a", "b", how)
                names = sorted(names)
                self.assertGreaterEqual(len(names), 6)
                for first, second in zip(names[::2], names[1::2]):
                    with self.subTest(mode=mode, names=(first, second)):
                        np.testing.assert_array_equal(quantized(first, second, how)[0], wanted)


if __name__ == "__main__":
    unittest.main()
