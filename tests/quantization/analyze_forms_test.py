"""`seqto analyze --quantized` on models of onnxruntime in every form, against numpy: weights dequantized by hand, tensors
taken from both models; also with names that no rule knows, and channel by channel."""

import json
import os
import sys
import unittest
from pathlib import Path

os.environ["TQDM_DISABLE"] = "1"
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper
from onnxruntime import quantization as q

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
import dequantize_oracle_test as forms  # noqa: E402
from testing import models  # noqa: E402

EPSILON = np.finfo(np.float64).eps


def decibels(x, y):
    x, y = x.astype(np.float64), y.astype(np.float64)
    return 20 * np.log10(max(np.linalg.norm(x), EPSILON) / max(np.linalg.norm(x - y), EPSILON))


def tensors(path, names, samples):
    """The named tensors over the samples, integers dequantized by the scales in the file."""
    model = onnx.load(str(path))
    for name, code in names.items():
        if code:
            model.graph.node.append(helper.make_node("DequantizeLinear", list(code), [name + "_value"]))
        output = helper.make_empty_tensor_value_info(name + "_value" if code else name)
        if output.name not in {o.name for o in model.graph.output}:
            model.graph.output.append(output)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    found = {name: [] for name in names}
    for s in samples:
        for name, code in names.items():
            found[name].append(session.run([name + "_value" if code else name], s)[0])
    return {name: np.concatenate(values) for name, values in found.items()}


class Analyze(forms.Dequantize):
    def analyze(self, *words):
        done = models.seqto("analyze", self.model, "--quantized", self.quantized, "--data", self.data, "--json", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        return ({e["tensor"]: e for e in found["activations"]}, {e["tensor"]: e for e in found["weights"]})

    def check_weights(self, found, values, axes=None):
        was = forms.constants(self.model)
        for name, value in values.items():
            self.assertAlmostEqual(found[name]["sqnr"], decibels(was[name], value), delta=2e-3, msg=name)
            for c, figure in enumerate(found[name].get("channels", [])):
                axis = (axes or {}).get(name, 0)
                self.assertAlmostEqual(figure, decibels(was[name].take(c, axis), value.take(c, axis)), delta=2e-3)

    def codes(self, names):
        c = forms.constants(self.quantized)
        return {n: (c[n + "_quantized"].astype(np.float32) - c[n + "_zero_point"].astype(np.float32)) * c[n + "_scale"]
                for n in names}

    def static(self, fmt):
        q.quantize_static(str(self.model), str(self.quantized), forms.Samples(self.samples), quant_format=fmt,
                          activation_type=forms.U8, weight_type=forms.U8)

    def test_qoperator(self):
        self.static(q.QuantFormat.QOperator)
        activations, weights = self.analyze("--per-channel-detail")
        coded = {t: (t + "_quantized", t + "_scale", t + "_zero_point") for t in ("s", "e", "h", "l")}
        coded["r1"] = ("c1_quantized", "c1_scale", "c1_zero_point")  # the Relu is gone, the range stands for it
        now, was = tensors(self.quantized, coded, self.samples), tensors(self.model, dict.fromkeys(coded), self.samples)
        for t in coded:
            self.assertAlmostEqual(activations[t]["xmodel_err"], decibels(was[t], now[t]), delta=2e-3, msg=t)
            self.assertIsNone(activations[t]["qdq_err"])  # it was never in float
            self.assertEqual(len(activations[t]["channels"]), was[t].shape[1])
            for c, figure in enumerate(activations[t]["channels"]):
                self.assertAlmostEqual(figure, decibels(was[t][:, c], now[t][:, c]), delta=2e-3, msg=t)
        self.check_weights(weights, self.codes(["w1", "w2", "m", "v"]), {"m": 1})
        self.assertEqual({"b1", "b2", "b3"} - set(weights), set())

    def test_dynamic(self):
        q.quantize_dynamic(str(self.model), str(self.quantized), op_types_to_quantize=["Conv", "MatMul"])
        activations, weights = self.analyze()
        self.assertEqual(set(activations), {"c1", "c2", "h"})
        names = dict.fromkeys(activations)
        now, was = tensors(self.quantized, names, self.samples), tensors(self.model, names, self.samples)
        for t in names:
            self.assertAlmostEqual(activations[t]["xmodel_err"], decibels(was[t], now[t]), delta=2e-3, msg=t)
        self.assertEqual(set(weights), {"w1", "w2", "m"})
        self.check_weights(weights, self.codes(weights))

    def test_other_names(self):
        """Every tensor of the quantized model renamed: the nodes' names say what belongs together."""
        self.static(q.QuantFormat.QDQ)
        expected = self.analyze()
        model = onnx.load(str(self.quantized))
        kept = {"x", "y"}
        new = lambda name: name if not name or name in kept else f"t{abs(hash(name))}"
        for n in model.graph.node:
            n.input[:], n.output[:] = map(new, n.input), map(new, n.output)
        for i in model.graph.initializer:
            i.name = new(i.name)
        del model.graph.value_info[:]
        onnx.save(model, str(self.quantized))
        activations, weights = self.analyze()
        self.assertEqual(set(weights), set(expected[1]))
        for t, e in expected[1].items():
            self.assertAlmostEqual(weights[t]["sqnr"], e["sqnr"], delta=1e-6)
        for t in ("r1", "r2", "s", "e", "h", "l", "k"):
            self.assertAlmostEqual(activations[t]["xmodel_err"], expected[0][t]["xmodel_err"], delta=1e-6, msg=t)

    def test_weights_alone(self):
        for words in (["--mode", "weights"], ["--mode", "weights", "--weight-bits", "4"], ["--mode", "float16"]):
            done = models.seqto("quantize", self.model, "-o", self.quantized, *words)
            self.assertEqual(done.returncode, 0, done.stderr)
            activations, weights = self.analyze()
            self.back() if "float16" not in words else None
            self.assertTrue(weights, words)
            self.assertTrue(all(15 < e["sqnr"] < 120 for e in weights.values()), (words, weights))
            if "float16" in words:
                was = forms.constants(self.model)
                self.check_weights(weights, {n: was[n].astype(np.float16) for n in weights})
            for t, e in activations.items():
                now, was_t = (tensors(p, {t: None}, self.samples)[t] for p in (self.quantized, self.model))
                self.assertAlmostEqual(e["xmodel_err"], decibels(was_t, now), delta=0.02, msg=(words, t))

    def test_inputs_alone(self):
        """Nothing but an input of the model is quantized in front of its one layer."""
        model, quantized, data = (self.dir / name for name in ("one.onnx", "one_q.onnx", "one.npz"))
        models.save(model, [models.node("Gemm", ["x", "w"], ["y"])], [("x", [1, 8])], [("y", [1, 4])], [("w", models.weight(8, 4))])
        models.arrays(data, samples=8, shape=(8,))
        for words in (["quantize", model, "-o", quantized], ["analyze", model, "--quantized", quantized],
                      ["tune", model, "--max-evaluations", 4, "-o", self.dir / "study"]):
            done = models.seqto(*words, "--data", data)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_zeros_lose_nothing(self):
        """A bias and a channel of nothing but zeros are exact: no figure, and not the 0 dB of pure noise."""
        model, quantized, data = (self.dir / name for name in ("zeros.onnx", "zeros_q.onnx", "zeros.npz"))
        weight = models.weight(4, 8)
        weight[2] = 0
        models.save(model, [models.node("Gemm", ["x", "w", "b"], ["h"], transB=1), models.node("Relu", ["h"], ["y"])],
                    [("x", [1, 8])], [("y", [1, 4])], [("w", weight), ("b", np.zeros(4, np.float32))])
        models.arrays(data, samples=8, shape=(8,))
        words = [model, "--data", data]
        done = models.seqto("quantize", *words, "--per-channel", "-o", quantized)
        self.assertEqual(done.returncode, 0, done.stderr)
        words += ["--quantized", quantized, "--per-channel-detail"]
        weights = {e["tensor"]: e for e in json.loads(models.seqto("analyze", *words, "--json").stdout)["weights"]}
        self.assertIsNone(weights["b"]["sqnr"])
        self.assertGreater(weights["w"]["sqnr"], 20)
        self.assertEqual([c is None for c in weights["w"]["channels"]], [False, False, True, False])
        self.assertRegex(models.seqto("analyze", *words).stdout, r"(?m)^ *b +-$")

    test_static_forms = test_completed = test_dynamic_lstm = test_refused = None


if __name__ == "__main__":
    unittest.main()
