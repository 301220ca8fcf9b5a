"""`seqto prepare --dequantize`: models that onnxruntime quantized, in each of its forms, back to float; the float twin
computes nearly the same, and quantized again with the ranges that it brought it has the same integers and scales."""

import json
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

os.environ["TQDM_DISABLE"] = "1"
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import quantization as q

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parent)]
from testing import models  # noqa: E402
from testing.models import node  # noqa: E402
from testing.samples import Samples  # noqa: E402

U8, S8 = q.QuantType.QUInt8, q.QuantType.QInt8
INTEGER_OPS = {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "ConvInteger", "MatMulInteger", "QGemm",
               "DynamicQuantizeLSTM"}


def network(path):
    """Convolutions with Relu and Clip that quantization removes, a residual sum, pooling, a product and a Gemm."""
    nodes = [node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1] * 4), node("Relu", ["c1"], ["r1"]),
             node("Conv", ["r1", "w2", "b2"], ["c2"], pads=[1] * 4, group=4), node("Clip", ["c2", "lo", "hi"], ["r2"]),
             node("Add", ["r1", "r2"], ["s"]), node("Sigmoid", ["s"], ["g"]), node("Mul", ["s", "g"], ["e"]),
             node("Concat", ["e", "s"], ["k"], axis=1), node("MaxPool", ["k"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
             node("GlobalAveragePool", ["p"], ["a"]), node("Flatten", ["a"], ["f"]), node("MatMul", ["f", "m"], ["h"]),
             node("LeakyRelu", ["h"], ["l"], alpha=0.1), node("Gemm", ["l", "v", "b3"], ["y"], transB=1)]
    w = models.weight
    weights = [("w1", w(4, 3, 3, 3)), ("b1", w(4, seed=2)), ("w2", w(4, 1, 3, 3, seed=3)), ("b2", w(4, seed=4)),
               ("lo", np.float32(0)), ("hi", np.float32(6)), ("m", w(8, 16, seed=5)), ("v", w(5, 16, seed=6)),
               ("b3", w(5, seed=7))]
    return models.save(path, nodes, [("x", [1, 3, 8, 8])], [("y", [1, 5])], weights)


def run(model, samples):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, s)[0].ravel() for s in samples]).astype(np.float64)


def constants(path):
    return {i.name: numpy_helper.to_array(i) for i in onnx.load(str(path)).graph.initializer}


class Dequantize(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-dequantize-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.data = models.arrays(self.dir / "d.npz", samples=8)
        self.samples = [{"x": x[None]} for x in np.load(self.data)["x"]]
        self.model = network(self.dir / "float.onnx")
        self.quantized, self.twin, self.ranges = (self.dir / n for n in ("q.onnx", "twin.onnx", "r.json"))

    def back(self):
        done = models.seqto("prepare", self.quantized, "--dequantize", "--write-ranges", self.ranges, "-o", self.twin,
                            "--min-opset", "0")
        self.assertEqual(done.returncode, 0, done.stderr)
        twin = onnx.load(str(self.twin))
        onnx.checker.check_model(twin, full_check=True)
        left = {n.op_type for n in twin.graph.node}
        self.assertEqual({t for t in left if t in INTEGER_OPS or t.startswith("QLinear")}, set())
        return twin

    def near(self, share):
        """The twin is nearer to the quantized model than `share` of its norm."""
        expected, found = run(self.quantized, self.samples), run(self.twin, self.samples)
        self.assertLess(np.linalg.norm(found - expected), share * np.linalg.norm(expected))

    def test_static_forms(self):
        for fmt in (q.QuantFormat.QDQ, q.QuantFormat.QOperator):
            for activation, weight, per_channel in ((S8, S8, False), (U8, S8, False), (U8, S8, True), (U8, U8, False)):
                what = f"{fmt} {activation} {weight} {per_channel}"
                q.quantize_static(str(self.model), str(self.quantized), Samples(self.samples), quant_format=fmt,
                                  activation_type=activation, weight_type=weight, per_channel=per_channel)
                twin = self.back()
                self.near(0.05)
                ops = [n.op_type for n in twin.graph.node]
                self.assertEqual(sum(o in ("Relu", "Clip") for o in ops), 2, what)  # the removed ones are back
                names = {a: b for a, b in ((S8, "int8"), (U8, "uint8"))}
                words = ["quantize", self.twin, "--ranges", self.ranges, "-o", self.dir / "again.onnx",
                         "--activation-type", names[activation], "--weight-type", names[weight]]
                done = models.seqto(*words, *(["--per-channel"] if per_channel else []))
                self.assertEqual(done.returncode, 0, done.stderr)
                first, again = constants(self.quantized), constants(self.dir / "again.onnx")
                compared = 0
                for name, codes in first.items():
                    if name.endswith("_quantized") and name in again:
                        np.testing.assert_array_equal(codes.ravel(), again[name].ravel(), f"{what} {name}")
                        compared += 1
                    if name.endswith("_scale") and name in again:
                        np.testing.assert_allclose(first[name].ravel(), again[name].ravel(), rtol=1e-5, err_msg=f"{what} {name}")
                    if name.endswith("_zero_point") and name in again:
                        np.testing.assert_array_equal(first[name].ravel(), again[name].ravel(), f"{what} {name}")
                self.assertEqual(compared, 7, what)  # four weights and three biases

    def test_dynamic(self):
        q.quantize_dynamic(str(self.model), str(self.quantized), op_types_to_quantize=["Conv", "MatMul"])
        twin = self.back()
        self.near(0.05)
        self.assertEqual([n.op_type for n in twin.graph.node].count("Mul"), 1)  # no scales are left
        codes, floats = constants(self.quantized), constants(self.twin)
        for name in ("w1", "w2", "m"):
            value = (codes[name + "_quantized"].astype(np.int32) - codes[name + "_zero_point"]) * codes[name + "_scale"]
            np.testing.assert_allclose(floats[name].ravel(), value.ravel(), rtol=1e-6)

    def test_dynamic_lstm(self):
        w = models.weight
        lstm = helper.make_node("LSTM", ["x", "W", "R"], ["y", "h", "c"], name="lstm", hidden_size=6)
        model = models.save(self.dir / "l.onnx", [lstm], [("x", [5, 1, 4])], [("y", [5, 1, 1, 6])],
                            [("W", w(1, 24, 4)), ("R", w(1, 24, 6, seed=1))])
        q.quantize_dynamic(str(model), str(self.quantized), op_types_to_quantize=["LSTM"])
        self.back()
        self.samples = [{"x": w(5, 1, 4, seed=s)} for s in range(4)]
        self.near(0.05)
        was, floats = constants(model), constants(self.twin)
        for name in ("W", "R"):
            self.assertLess(np.abs(was[name] - floats[name]).max(), np.abs(was[name]).max() / 200)

    def test_weights_alone(self):
        """Ours: 8 and 4 bits, folded or not; every weight comes back within its step."""
        for words in ([], ["--weight-bits", "4"]):
            done = models.seqto("quantize", self.model, "--mode", "weights", "-o", self.quantized, *words)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.back()
            expected, found = run(self.quantized, self.samples), run(self.twin, self.samples)
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)

    def test_completed(self):
        """A partly quantized model keeps its pairs with their scales; the rest is quantized, no tensor twice."""
        q.quantize_static(str(self.model), str(self.quantized), Samples(self.samples),
                          nodes_to_quantize=["c1_node", "r1_node", "e_node"])
        out = self.dir / "whole.onnx"
        done = models.seqto("quantize", self.quantized, "--data", self.data, "-o", out, "--explain", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        brought, whole = onnx.load(str(self.quantized)), onnx.load(str(out))
        of = lambda model, op: {n.input[0]: n for n in model.graph.node if n.op_type == op}
        for op in ("QuantizeLinear", "DequantizeLinear"):
            before, after = of(brought, op), of(whole, op)
            for tensor, n in before.items():
                self.assertEqual(list(after[tensor].input), list(n.input))
        first, now = constants(self.quantized), constants(out)
        for name in first:
            if name.endswith(("_scale", "_zero_point", "_quantized")):
                np.testing.assert_array_equal(first[name], now[name], name)
        quantizers = [n.input[0] for n in whole.graph.node if n.op_type == "QuantizeLinear"]
        self.assertEqual(len(quantizers), len(set(quantizers)))
        self.assertFalse({n.output[0] for n in whole.graph.node if n.op_type == "DequantizeLinear"} & set(quantizers))
        layers = {l["name"]: l["scheme"] for l in json.loads(done.stdout)["layers"]}
        for name in ("c1_node", "c2_node", "s_node", "e_node", "h_node", "y_node"):
            self.assertEqual(layers[name], "int8", name)
        expected, found = run(self.model, self.samples), run(out, self.samples)
        self.assertLess(np.linalg.norm(found - expected), 0.1 * np.linalg.norm(expected))

    def test_refused(self):
        q.quantize_static(str(self.model), str(self.quantized), Samples(self.samples))
        for words in (["quantize"], ["tune"]):
            done = models.seqto(*words, self.quantized, "--data", self.data, "-o", self.dir / "out")
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn("quantized already", done.stderr)
            self.assertIn("--dequantize", done.stderr)
        done = models.seqto("prepare", self.model, "--dequantize", "-o", self.twin)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("this one is float already", done.stderr)


if __name__ == "__main__":
    unittest.main()
