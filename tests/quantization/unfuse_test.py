"""Files that ONNX Runtime optimized: the layers that it fused are quantized like those of the file before."""

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

CONTRIB = "com.microsoft"


def run(path, feeds):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)[0].astype(np.float64)


class UnfuseTest(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.dir)
        draw = np.random.default_rng(0)
        self.x = np.load(models.arrays(self.dir / "x.npz", samples=8, shape=(4, 8, 8)))["x"]

        def weight(name, *shape):
            return onnx.numpy_helper.from_array((draw.normal(size=shape) * 0.2).astype("f"), name)

        def fused(op, inputs, output, **attributes):
            return helper.make_node(op, inputs, [output], name=f"{op}_{output}", domain=CONTRIB, **attributes)

        nodes = [
            fused("FusedConv", ["x", "w1"], "c1", activation="Relu", pads=[1, 1, 1, 1]),
            fused("FusedConv", ["c1", "w2", "b2"], "c2", activation="LeakyRelu", activation_params=[0.1], pads=[1, 1, 1, 1]),
            fused("FusedConv", ["c2", "w2", "b2", "c1"], "c3", activation="Clip", activation_params=[-1.0, 1.5],
                  pads=[1, 1, 1, 1]),
            helper.make_node("GlobalAveragePool", ["c3"], ["g"], name="pool"),
            helper.make_node("Flatten", ["g"], ["f"], name="flat"),
            fused("FusedGemm", ["f", "w3", "b3"], "h", activation="HardSigmoid", activation_alpha=0.3, activation_beta=0.4),
            fused("FusedMatMul", ["h", "w4"], "p", transB=1, alpha=0.25),
            fused("FusedMatMul", ["p", "w5"], "q", alpha=3.0),
            fused("FusedMatMul", ["q", "w5"], "r", transB=1, alpha=2.0),
            helper.make_node("MatMul", ["f", "w3"], ["s"], name="other"),
            fused("FusedMatMul", ["r", "s"], "y", transA=1)]
        graph = helper.make_graph(
            nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", 4, 8, 8])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [weight("w1", 32, 4, 3, 3), weight("w2", 32, 32, 3, 3), weight("b2", 32), weight("w3", 32, 64), weight("b3", 64),
             weight("w4", 48, 64), weight("w5", 48, 48)])
        model = helper.make_model(graph, ir_version=8,
                                  opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(CONTRIB, 1)])
        onnx.save(model, self.dir / "m.onnx")

    def quantized(self, *flags):
        done = models.seqto("quantize", self.dir / "m.onnx", *flags, "-o", self.dir / "q.onnx", "-q")
        self.assertEqual(done.returncode, 0, done.stderr)
        was, now = run(self.dir / "m.onnx", {"x": self.x}), run(self.dir / "q.onnx", {"x": self.x})
        return onnx.load(self.dir / "q.onnx").graph, np.square(was - now).sum() / np.square(was).sum()

    def test_all_weights_are_quantized_and_the_answers_stay(self):
        for flags, most in ((["--mode", "weights"], 1e-3), (["--mode", "dynamic"], 1e-2),
                            (["--data", self.dir / "x.npz", "--quick"], 2e-2)):
            graph, lost = self.quantized(*flags)
            self.assertLess(lost, most, flags)
            large = [i.name for i in graph.initializer if i.data_type == TensorProto.FLOAT and np.prod(i.dims) > 500]
            self.assertEqual(large, [], flags)
            # The product of two activations, turned, has no weight to gain from.
            self.assertEqual([n.output[0] for n in graph.node if n.op_type.startswith("Fused")], ["y"], flags)

    def test_a_convolution_that_adds_alone(self):
        model = onnx.load(self.dir / "m.onnx")
        adds = next(n for n in model.graph.node if len(n.input) == 4)
        for name in ("activation", "activation_params"):
            adds.attribute.remove(next(a for a in adds.attribute if a.name == name))
        onnx.save(model, self.dir / "m.onnx")
        graph, lost = self.quantized("--mode", "weights")
        self.assertLess(lost, 1e-3)
        self.assertNotIn("FusedConv", [n.op_type for n in graph.node])

    def test_onnxruntimes_own_model_has_them_as_they_are(self):
        graph, _ = self.quantized("--mode", "dynamic", "--compat", "onnxruntime")
        self.assertEqual(sum(n.op_type.startswith("Fused") for n in graph.node), 8)


if __name__ == "__main__":
    unittest.main()
