"""ONNX Runtime takes longer for SkipLayerNormalization than for Add and LayerNormalization, and makes a Gemm in float of a product
of codes and the Add of its bias: files that compute on codes have a Sum in place of such an Add, and answers stay what they were.
It makes one of a Gemm or MatMul and the Relu or Clip behind it, too, where no codes are wanted behind these."""

import collections
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models, transformers  # noqa: E402
from testing.runtime_types import fused  # noqa: E402


def counts(model):
    return collections.Counter(n.op_type for n in model.graph.node)


def written_out():
    """A layer with the normalization in ONNX's first operators; of opset 13."""
    g = transformers.Graph()
    g.weight("w", 64, 64), g.constant("two", 2, np.float32), g.constant("tiny", 1e-5, np.float32)
    added = g.node("Add", ["x", g.node("MatMul", ["x", "w"], "made")], "sum")
    away = g.node("Sub", [added, g.node("ReduceMean", [added], "mean", axes=[-1])], "away")
    spread = g.node("ReduceMean", [g.node("Pow", [away, "two"], "squares")], "spread", axes=[-1])
    root = g.node("Sqrt", [g.node("Add", [spread, "tiny"], "shifted")], "root")
    g.constant("gamma", np.linspace(0.5, 1.5, 64), np.float32), g.constant("beta", np.zeros(64), np.float32)
    g.node("Add", [g.node("Mul", [g.node("Div", [away, root], "unit"), "gamma"], "scaled"), "beta"], "y")
    model = g.model([("x", TensorProto.FLOAT, [1, 12, 64])], [("y", TensorProto.FLOAT, [1, 12, 64])])
    model.opset_import[0].version = 13
    return model


class SumsForAdds(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        self.encoder = self.dir / "encoder.onnx"
        onnx.save(transformers.encoder(fused=False), self.encoder)
        rng = np.random.default_rng(0)
        self.ids = rng.integers(0, transformers.WORDS, (20, transformers.TOKENS))
        np.savez(self.dir / "ids.npz", input_ids=self.ids)
        np.savez(self.dir / "x.npz", x=rng.normal(size=(20, 12, 64)).astype(np.float32))

    def quantized(self, *words, model=None):
        path = self.dir / "quantized.onnx"
        done = models.seqto("quantize", model or self.encoder, *words, "-o", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        onnx.checker.check_model(str(path))
        return onnx.load(path)

    def outputs(self, model):
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        return np.concatenate([session.run(None, {"input_ids": row[None]})[0] for row in self.ids])

    def test_the_runtime_makes_one_of_both_and_none_of_a_sum(self):
        norms = 2 * transformers.LAYERS
        self.assertEqual(counts(fused(onnx.load(self.encoder)))["SkipLayerNormalization"], norms)
        for words, biases in ((["--mode", "dynamic"], 0), (["--data", self.dir / "ids.npz"], 6 * transformers.LAYERS),
                              (["--mode", "dynamic", "--per-token"], 0)):
            model = self.quantized(*words)
            self.assertEqual((counts(model)["Sum"], counts(fused(model))["SkipLayerNormalization"]), (norms + biases, 0), words)

    def test_products_stay_on_codes(self):
        """All shapes of this encoder are known, which is where the runtime would make Gemms."""
        model = self.quantized("--data", self.dir / "ids.npz")
        made = counts(fused(model))
        self.assertEqual((made["Gemm"], made["MatMul"]), (0, 0), made)
        for node in model.graph.node:
            if node.op_type == "Sum": node.op_type = "Add"
        self.assertGreater(counts(fused(model))["Gemm"], 0, "with Adds it does")

    def test_answers_are_those_of_onnxruntimes_form(self):
        ours, theirs = (self.quantized("--mode", "dynamic", *more) for more in ([], ["--compat", "onnxruntime"]))
        self.assertEqual(counts(theirs)["Sum"], 0)
        for model in (ours, theirs):  # the one thing that differs
            for node in model.graph.node:
                if node.op_type == "Sum": node.op_type = "Add"
        self.assertEqual([(n.op_type, n.input, n.output) for n in ours.graph.node], [(n.op_type, n.input, n.output) for n in theirs.graph.node])
        a, b = self.outputs(self.quantized("--mode", "dynamic")), self.outputs(theirs)
        self.assertLess(np.square(a - b).mean(), 1e-4 * np.square(b).mean())

    def test_a_normalization_that_is_written_out(self):
        path = self.dir / "written_out.onnx"
        onnx.save(written_out(), path)
        self.assertEqual(counts(fused(onnx.load(path)))["SkipLayerNormalization"], 1)
        model = self.quantized("--mode", "dynamic", model=path)
        self.assertEqual([n.output[0] for n in model.graph.node if n.op_type == "Sum"], ["sum"])
        self.assertEqual(counts(fused(model))["SkipLayerNormalization"], 0)

    def test_other_files_keep_their_additions(self):
        for words in (["--mode", "weights"], ["--mode", "float16"], ["--mode", "dynamic", "--compat", "onnxruntime"],
                      ["--data", self.dir / "ids.npz", "--activation-type", "uint8"]):
            self.assertEqual(counts(self.quantized(*words))["Sum"], 0, words)

    def test_a_plan_and_a_target_of_the_runtime_have_sums_too(self):
        plan = self.dir / "plan.json"
        plan.write_text('{"schema_version": 1, "schemes": {"up_product0_node": "int8_dynamic"}}')
        for words in (["--plan", plan], ["--target", "onnxruntime-cpu-x86", "--data", self.dir / "ids.npz"],
                      ["--mode", "dynamic", "--target", "onnxruntime-cpu-x86"], ["--mode", "dynamic", "--target", "onnxruntime-web-wasm"]):
            self.assertGreaterEqual(counts(self.quantized(*words))["Sum"], 2 * transformers.LAYERS, words)

    def test_a_product_with_a_relu_computes_on_codes_whoever_reads_that(self):
        for product in ("Gemm", "MatMul"):
            for clip in ("Relu", "Clip"):
                g = transformers.Graph()
                g.weight("w", 64, 64), g.weight("v", 64, 64), g.constant("low", 0, np.float32), g.constant("high", 3, np.float32)
                g.constant("gamma", np.ones(64), np.float32)
                made = g.node(product, ["x", "w"], "made")
                clipped = g.node(clip, [made, "low", "high"] if clip == "Clip" else [made], "clipped")
                g.node(product, [g.node("LayerNormalization", [clipped, "gamma"], "normalized"), "v"], "y")
                model = g.model([("x", TensorProto.FLOAT, [12, 64])], [("y", TensorProto.FLOAT, [12, 64])])
                onnx.save(model, self.dir / "clipped.onnx")
                quantized = self.quantized("--mode", "static", "--data", self.dir / "x.npz", model=self.dir / "clipped.onnx")
                kinds = counts(fused(quantized))
                on_codes = sum(kinds[kind] for kind in ("QGemm", "QLinearMatMul", "MatMulIntegerToFloat"))
                self.assertEqual((on_codes, kinds["FusedGemm"], kinds["LayerNormalization"]), (2, 0, 1), (product, clip, kinds))

    def test_a_search_offers_such_files(self):
        out = self.dir / "out"
        done = models.seqto("tune", self.encoder, "--data", self.dir / "ids.npz", "--quick", "--schemes", "int8_dynamic,float32", "-o", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        on_codes = [m for m in map(onnx.load, (out / "models").glob("*.onnx")) if counts(m)["DynamicQuantizeLinear"]]
        self.assertTrue(on_codes)
        for model in on_codes: self.assertEqual(counts(model)["Sum"], 2 * transformers.LAYERS)


if __name__ == "__main__":
    unittest.main()
