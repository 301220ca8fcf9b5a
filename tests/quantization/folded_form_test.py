"""What `quantize` makes of the float model first where nobody named types: channels folded, constants under one name."""

import pathlib
import shutil
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402

NORMS = ("BatchNormalization", "Mul", "Add", "Identity")


class FoldedFormTest(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.dir)
        draw = np.random.default_rng(0)
        self.x = np.load(models.arrays(self.dir / "x.npz", samples=8, shape=(4, 8, 8)))["x"]

        def constant(name, *shape, low=-0.5, high=0.5):
            return onnx.numpy_helper.from_array(draw.uniform(low, high, shape).astype("f"), name)

        nodes = [
            helper.make_node("Conv", ["x", "w1"], ["c1"], name="conv1"),
            helper.make_node("BatchNormalization", ["c1", "s", "t", "m", "v"], ["n1"], name="norm"),
            helper.make_node("Relu", ["n1"], ["r1"], name="relu1"),
            helper.make_node("Conv", ["r1", "w2"], ["c2"], name="conv2"),
            # A frozen one, as PyTorch's exporter writes it where two layers have equal constants.
            helper.make_node("Identity", ["scale"], ["scale2"], name="same"),
            helper.make_node("Mul", ["c2", "scale2"], ["n2"], name="scale_channels"),
            helper.make_node("Add", ["shift", "n2"], ["n3"], name="shift_channels"),
            helper.make_node("Relu", ["n3"], ["y"], name="relu2")]
        graph = helper.make_graph(
            nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", 4, 8, 8])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["b", 16, 8, 8])],
            [constant("w1", 16, 4, 1, 1), constant("w2", 16, 16, 1, 1), constant("scale", 1, 16, 1, 1),
             constant("shift", 1, 16, 1, 1), *(constant(name, 16) for name in "stm"), constant("v", 16, low=0.5, high=2)])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.dir / "m.onnx")

    def norms_left(self, *flags):
        done = models.seqto("quantize", self.dir / "m.onnx", *flags, "-o", self.dir / "q.onnx", "-q")
        self.assertEqual(done.returncode, 0, done.stderr)
        was, now = (onnxruntime.InferenceSession(str(self.dir / name), providers=["CPUExecutionProvider"]).run(
            None, {"x": self.x})[0].astype(np.float64) for name in ("m.onnx", "q.onnx"))
        self.assertLess(np.square(was - now).sum() / np.square(was).sum(), 1e-2, flags)
        # One on constants computes a weight.
        nodes = onnx.load(self.dir / "q.onnx").graph.node
        return sum(n.op_type in NORMS and n.name in ("norm", "same", "scale_channels", "shift_channels") for n in nodes)

    def test_nothing_named(self):
        for flags in (["--data", self.dir / "x.npz", "--quick"], ["--mode", "dynamic"], ["--mode", "weights"],
                      ["--data", self.dir / "x.npz", "--target", "openvino-cpu", "--quick"]):
            self.assertEqual(self.norms_left(*flags), 0, flags)

    def test_types_named(self):
        self.assertEqual(self.norms_left("--data", self.dir / "x.npz", "--per-channel"), 3)  # but not the Identity
        self.assertEqual(self.norms_left("--data", self.dir / "x.npz", "--compat", "onnxruntime"), 4)

    def test_gates_in_another_order(self):
        """An LSTM as PyTorch's newer exporter writes it: Slices of its weights put together again."""
        draw, hidden = np.random.default_rng(1), 32
        sides = {"w": draw.uniform(-0.5, 0.5, (4 * hidden, 8)), "r": draw.uniform(-0.5, 0.5, (4 * hidden, hidden))}
        constants = [(name, value.astype("f")) for name, value in sides.items()]
        constants += [(f"at{i}", np.int64([i * hidden])) for i in range(5)] + [("axis", np.int64([0]))]
        nodes = []
        for name in sides:
            for gate, i in enumerate((0, 3, 1, 2)):
                nodes.append(models.node("Slice", [name, f"at{i}", f"at{i + 1}", "axis"], [f"{name}{gate}"]))
            nodes += [models.node("Concat", [f"{name}{gate}" for gate in range(4)], [name + "_iofc"], axis=0),
                      models.node("Unsqueeze", [name + "_iofc", "axis"], [name + "_one"])]
        nodes.append(models.node("LSTM", ["x", "w_one", "r_one"], ["y"], hidden_size=hidden))
        models.save(self.dir / "lstm.onnx", nodes, [("x", [5, 1, 8])], [("y", [5, 1, 1, hidden])], constants)
        done = models.seqto("quantize", self.dir / "lstm.onnx", "--mode", "dynamic", "-o", self.dir / "q.onnx")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([n.op_type for n in onnx.load(self.dir / "q.onnx").graph.node], ["DynamicQuantizeLSTM"])
        x = draw.standard_normal((5, 1, 8)).astype("f")
        was, now = (onnxruntime.InferenceSession(str(self.dir / name), providers=["CPUExecutionProvider"]).run(
            None, {"x": x})[0] for name in ("lstm.onnx", "q.onnx"))
        self.assertLess(np.square(was - now).sum() / np.square(was).sum(), 1e-3)
        # What another layer reads whole is not stored twice.
        nodes.append(models.node("MatMul", ["x", "t"], ["z"]))
        nodes.insert(0, models.node("Transpose", ["w"], ["t"]))
        models.save(self.dir / "lstm.onnx", nodes, [("x", [5, 1, 8])], [("y", [5, 1, 1, hidden]), ("z", [5, 1, 4 * hidden])], constants)
        done = models.seqto("quantize", self.dir / "lstm.onnx", "--mode", "weights", "-o", self.dir / "q.onnx")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sum(n.op_type == "Slice" for n in onnx.load(self.dir / "q.onnx").graph.node), 4)

    def test_weights_behind_a_split(self):
        """As PyTorch's exporter writes attention: one constant for the matrices of queries, and of keys and values."""
        turned = lambda name: helper.make_node("Transpose", [name], [name + "t"], perm=[1, 0])  # noqa: E731
        weights = [("w", models.weight(48, 16)), ("b", models.weight(48))]
        for opset, inputs, options in ((17, ["sizes"], {}), (12, [], {"split": [16, 32]}), (18, [], {"num_outputs": 2})):
            with self.subTest(opset=opset):
                nodes = [helper.make_node("Split", ["w", *inputs], ["q", "kv"], axis=0, **options), turned("q"), turned("kv"),
                         helper.make_node("Split", ["b", *inputs], ["c", "d"], axis=0, **options),
                         models.node("MatMul", ["x", "qt"], ["m"]), models.node("Add", ["m", "c"], ["y"]),
                         models.node("MatMul", ["x", "kvt"], ["n"]), models.node("Add", ["n", "d"], ["z"])]
                models.save(self.dir / "m.onnx", nodes, [("x", [2, 16])], [("y", [2, None]), ("z", [2, None])],
                            weights + [(name, np.int64([16, 32])) for name in inputs], opset=opset)
                self.x = models.weight(2, 16, seed=1)
                self.norms_left("--mode", "weights")
                self.assertNotIn("Split", [n.op_type for n in onnx.load(self.dir / "q.onnx").graph.node])
                codes = [i for i in onnx.load(self.dir / "q.onnx").graph.initializer if i.data_type in (TensorProto.INT8, TensorProto.UINT8)]
                self.assertEqual(sum(np.prod(i.dims) for i in codes if len(i.dims) == 2), 48 * 16)

    def test_dynamic_convolutions(self):
        self.norms_left("--mode", "dynamic")
        has_integers = lambda: any(n.op_type == "ConvInteger" for n in onnx.load(self.dir / "q.onnx").graph.node)  # noqa: E731
        self.assertFalse(has_integers())
        self.norms_left("--mode", "dynamic", "--per-channel")
        self.assertFalse(has_integers(), "one scale for each channel is nothing to ConvInteger")
        self.norms_left("--mode", "dynamic", "--op-types-to-quantize", "Conv")
        self.assertTrue(has_integers())


if __name__ == "__main__":
    unittest.main()
