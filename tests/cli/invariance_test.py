"""`validate --invariance`, and dynamic layers with a scale for each token: the same bits in any batch, numpy's values."""

import json
import pathlib
import shutil
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402

WORDS, WIDTH, LENGTH, SAMPLES, POOLED = 40, 32, 24, 20, 512
GATE = 5


class Invariance(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-invariance-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        random = np.random.default_rng(3)
        lengths = random.integers(4, LENGTH, SAMPLES)
        mask = (np.arange(LENGTH) < lengths[:, None]).astype(np.int64)
        cls.data = cls.dir / "tokens.npz"
        np.savez(cls.data, input_ids=random.integers(1, WORDS, (SAMPLES, LENGTH)) * mask, attention_mask=mask)
        table = models.weight(WORDS, WIDTH, seed=1) * np.exp(models.weight(WORDS, 1, seed=2))  # tokens of unlike size
        cls.encoder = cls.model("encoder.onnx", table)
        cls.opset18 = cls.model("encoder18.onnx", table, opset=18)
        cls.x = models.weight(3, 5, WIDTH, seed=6) * np.float32([[[0.01]], [[1]], [[0]]])
        cls.w = models.weight(WIDTH, 7, seed=7)
        cls.product = models.save(cls.dir / "product.onnx", [models.node("MatMul", ["x", "w"], ["y"])],
                                  [("x", ["a", "b", WIDTH])], [("y", ["a", "b", 7])], [("w", cls.w)])
        cls.gemm = models.save(cls.dir / "gemm.onnx",
                               [models.node("Gemm", ["x", "w", "c"], ["y"], transB=1)],
                               [("x", ["a", WIDTH])], [("y", ["a", 7])],
                               [("w", np.ascontiguousarray(cls.w.T)), ("c", models.weight(7, seed=8))])

    @classmethod
    def model(cls, name, table, opset=17, head=()):
        nodes = [models.node("Gather", ["table", "input_ids"], ["e"]), models.node("MatMul", ["e", "v"], ["m"]),
                 models.node("Relu", ["m"], ["r"]), models.node("MatMul", ["r", "w"], ["f"]),
                 models.node("Cast", ["attention_mask"], ["c"], to=TensorProto.FLOAT),
                 models.node("Unsqueeze", ["c", "axis"], ["u"]), models.node("Mul", ["f", "u"], ["y"]), *head]
        output = ("z", ["batch", POOLED]) if head else ("y", ["batch", "tokens", WIDTH])
        return models.save(cls.dir / name, nodes,
                           [(n, ["batch", "tokens"], TensorProto.INT64) for n in ("input_ids", "attention_mask")],
                           [output],
                           [("table", table), ("v", models.weight(WIDTH, WIDTH, seed=4)),
                            ("w", models.weight(WIDTH, WIDTH, seed=5)), ("axis", np.array([2], np.int64)),
                            *([("first", np.array(0, np.int64)), ("p", models.weight(WIDTH, POOLED, seed=9))] if head else [])],
                           opset=opset)

    def quantized(self, model, *words):
        path = self.dir / ("q" + "".join(map(str, words)).replace("/", "") + model.name)
        done = models.seqto("quantize", model, "-o", path, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def varied(self, model, *words):
        done = models.seqto("validate", model, "--invariance", "--data", self.data, "--json", *words)
        self.assertIn(done.returncode, (0, GATE), done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual(found["passed"], done.returncode == 0)
        return found, {(v["kind"], v["size"]): v for v in found["variations"]}

    def test_a_scale_for_the_whole_batch_is_found_out(self):
        found, variations = self.varied(self.quantized(self.encoder, "--mode", "dynamic"))
        self.assertFalse(found["passed"])
        self.assertEqual(found["samples"], SAMPLES)
        for size in (2, 8, SAMPLES):  # of 64 there are no more
            v = variations["batch", size]
            self.assertGreater(v["changed"], SAMPLES // 4)
            self.assertLess(v["worst_cosine"], 1)
            self.assertGreater(v["max_abs"], 0)
        self.assertGreater(variations["order", 8]["changed"], 0)
        self.assertEqual(variations["threads", 2]["changed"], 0)

    def test_float_static_weights_and_tokens_give_the_same_bits(self):
        static = self.quantized(self.encoder, "--data", self.data, "--activation-type", "uint8")
        for model in (self.encoder, static, self.quantized(self.encoder, "--mode", "weights"),
                      self.quantized(self.encoder, "--mode", "dynamic", "--per-token"),
                      self.quantized(self.opset18, "--mode", "dynamic", "--per-token")):
            with self.subTest(model=model.name):
                found, variations = self.varied(model)
                self.assertTrue(found["passed"], variations)
                self.assertEqual(len([v for v in found["variations"] if "left_out" not in v]), 6)
        _, variations = self.varied(self.encoder, "--pad-to", 300)
        self.assertEqual(variations["padding", 300]["changed"], 0)

    def test_values_are_numpys(self):
        for model, x in ((self.product, self.x), (self.gemm, self.x[0])):
            quantized = self.quantized(model, "--mode", "dynamic", "--per-token", "--per-channel")
            y = onnxruntime.InferenceSession(str(quantized)).run(None, {"x": x})[0]
            bias = models.weight(7, seed=8) if model is self.gemm else 0
            scale = np.maximum(np.abs(x).max(-1, keepdims=True) / np.float32(127), np.float32(1e-30))
            codes = np.rint(x / scale)
            columns = np.abs(self.w).max(0) / 127.5  # as onnxruntime has them for symmetric int8
            off = np.abs(y - (codes * scale) @ self.w - bias)
            most = (np.abs(codes * scale).sum(-1, keepdims=True) * columns * 0.51) + 1e-6
            self.assertTrue((off <= most).all())
            self.assertFalse(np.isnan(y).any())

    def test_the_float_twin_has_the_same_sense(self):
        quantized = self.quantized(self.product, "--mode", "dynamic", "--per-token")
        twin = self.dir / "twin.onnx"
        done = models.seqto("prepare", quantized, "--dequantize", "-o", twin)
        self.assertEqual(done.returncode, 0, done.stderr)
        y, z = (onnxruntime.InferenceSession(str(m)).run(None, {"x": self.x})[0] for m in (self.product, twin))
        self.assertLess(np.abs(y - z).max(), 0.05 * np.abs(y).max())
        self.assertEqual([n.op_type for n in onnx.load(twin).graph.node], ["MatMul"])

    def test_tune_takes_only_what_is_invariant(self):
        done = models.seqto("tune", self.encoder, "--data", self.data, "-o", self.dir / "tuned", "--invariant", "--quick",
                            "--max-evaluations", 8)
        self.assertEqual(done.returncode, 0, done.stderr)
        summary = json.loads((self.dir / "tuned/summary.json").read_text())
        self.assertIn("int8_dynamic+per_token=true", summary["options"]["schemes"])
        for point in summary["front"]:
            if point["file"]:
                self.assertTrue(self.varied(self.dir / "tuned" / point["file"])[0]["passed"])
        done = models.seqto("tune", self.encoder, "--data", self.data, "-o", self.dir / "no", "--invariant", "--schemes",
                            "int8_dynamic,float32")
        self.assertEqual(done.returncode, 2)
        self.assertIn("int8_dynamic+per_token=true expected", done.stderr)
        for scheme in ("int8w_int16a", "int8+activation_type=uint16", "int4_weights+bits=2", "int4_weights+accuracy_level=1"):
            done = models.seqto("tune", self.encoder, "--data", self.data, "-o", self.dir / "no", "--invariant", "--schemes", scheme)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"{scheme} among the schemes and --invariant found", done.stderr)

    def test_tune_of_an_encoder_with_a_pooler(self):
        """Of one sample alone the pooler multiplies one row, for which MatMulNBits has another kernel; in a batch several."""
        head = [models.node("Gather", ["y", "first"], ["token"], axis=1), models.node("MatMul", ["token", "p"], ["pooled"]),
                models.node("Tanh", ["pooled"], ["z"])]
        table = models.weight(WORDS, WIDTH, seed=1)
        pooler = self.model("pooler.onnx", table, head=head)
        nbits = self.quantized(pooler, "--mode", "weights", "--weight-bits", "4")
        self.assertFalse(self.varied(nbits)[0]["passed"])
        done = models.seqto("validate", nbits, "--invariance", "--data", self.data)
        self.assertIn("4-bit weights with --int4-format folded give them", done.stderr)
        done = models.seqto("tune", pooler, "--data", self.data, "-o", self.dir / "pooler", "--invariant", "--quick",
                            "--objectives", "kl,size", "--max-evaluations", 8)
        self.assertEqual(done.returncode, 0, done.stderr)
        summary = json.loads((self.dir / "pooler/summary.json").read_text())
        files = [p["file"] for p in summary["front"] if p["file"]]
        schemes = {s for p in summary["front"] for s in p["schemes"]}
        self.assertIn("int4_weights", schemes)
        for file in files:
            self.assertTrue(self.varied(self.dir / "pooler" / file)[0]["passed"], file)

    def test_batches_are_as_large_as_there_are_samples(self):
        _, variations = self.varied(self.encoder, "--samples", 3)
        tried = {key for key, v in variations.items() if "left_out" not in v and key[0] in ("batch", "order")}
        self.assertEqual(tried, {("batch", 2), ("batch", 3), ("order", 3)})
        self.assertIn("no more than 3 samples share one", variations["batch", 64]["left_out"])

    def test_a_pooled_output_as_wide_as_the_padding(self):
        path = models.save(
            self.dir / "pooled.onnx",
            [models.node("Gather", ["table", "input_ids"], ["e"]), models.node("Cast", ["attention_mask"], ["c"], to=TensorProto.FLOAT),
             models.node("Unsqueeze", ["c", "axis"], ["u"]), models.node("Mul", ["e", "u"], ["m"]),
             models.node("ReduceMax", ["m"], ["y"], axes=[1], keepdims=0)],
            [(n, ["batch", "tokens"], TensorProto.INT64) for n in ("input_ids", "attention_mask")],
            [("y", ["batch", LENGTH])],
            [("table", np.abs(models.weight(WORDS, LENGTH, seed=1))), ("axis", np.array([2], np.int64))])
        found, _ = self.varied(path, "--pad-to", LENGTH)
        self.assertTrue(found["passed"])

    def test_own_part_of_every_axis(self):
        """Attention scores [batch, heads, tokens, tokens]; an output that holds the samples along its second axis is named."""
        path = models.save(
            self.dir / "scores.onnx",
            [models.node("Gather", ["table", "input_ids"], ["e"]), models.node("Cast", ["attention_mask"], ["c"], to=TensorProto.FLOAT),
             models.node("Unsqueeze", ["c", "axis"], ["u"]), models.node("Mul", ["e", "u"], ["m"]),
             models.node("Reshape", ["m", "heads"], ["h"]), models.node("Transpose", ["h"], ["q"], perm=[0, 2, 1, 3]),
             models.node("Transpose", ["h"], ["k"], perm=[0, 2, 3, 1]), models.node("MatMul", ["q", "k"], ["y"]),
             models.node("Transpose", ["m"], ["turned"], perm=[1, 0, 2])],
            [(n, ["batch", "tokens"], TensorProto.INT64) for n in ("input_ids", "attention_mask")],
            [("y", ["batch", 2, "tokens", "tokens"]), ("turned", ["tokens", "batch", WIDTH])],
            [("table", np.round(9 * models.weight(WORDS, WIDTH, seed=1))), ("axis", np.array([2], np.int64)),
             ("heads", np.array([0, 0, 2, -1], np.int64))])
        found, variations = self.varied(path, "--pad-to", 60)
        self.assertTrue(found["passed"], variations)
        self.assertEqual(variations["batch", 2]["not_compared"], ["turned"])
        self.assertNotIn("not_compared", variations["threads", 2])
        text = models.seqto("validate", path, "--invariance", "--data", self.data).stdout
        self.assertIn("not compared in batches of 2: turned", text)

    def test_a_model_of_one_length(self):
        path = models.save(
            self.dir / "fixed.onnx",
            [models.node("Gather", ["table", "input_ids"], ["e"]), models.node("Cast", ["attention_mask"], ["c"], to=TensorProto.FLOAT),
             models.node("Unsqueeze", ["c", "axis"], ["u"]), models.node("Mul", ["e", "u"], ["y"])],
            [(n, ["batch", LENGTH], TensorProto.INT64) for n in ("input_ids", "attention_mask")],
            [("y", ["batch", LENGTH, WIDTH])],
            [("table", models.weight(WORDS, WIDTH, seed=1)), ("axis", np.array([2], np.int64))])
        found, variations = self.varied(path)
        self.assertTrue(found["passed"])
        self.assertIn("left_out", variations["padding", 0])

    def test_what_does_not_fit_is_refused(self):
        for words in (["--max-loss", "0.1"], [self.encoder]):
            done = models.seqto("validate", self.encoder, *words, "--invariance", "--data", self.data)
            self.assertEqual(done.returncode, 2, done.stderr)
        done = models.seqto("validate", self.encoder, self.encoder, "--pad-to", 9, "--data", self.data)
        self.assertEqual(done.returncode, 2)
        path = models.save(
            self.dir / "places.onnx",
            [models.node("Gather", ["table", "input_ids"], ["e"]), models.node("Shape", ["input_ids"], ["s"]),
             models.node("Gather", ["s", "one"], ["n"]), models.node("Range", ["zero", "n", "one"], ["r"]),
             models.node("Gather", ["places", "r"], ["p"]), models.node("Add", ["e", "p"], ["a"]),
             models.node("Cast", ["attention_mask"], ["c"], to=TensorProto.FLOAT),
             models.node("Unsqueeze", ["c", "axis"], ["u"]), models.node("Mul", ["a", "u"], ["y"])],
            [(n, ["batch", "tokens"], TensorProto.INT64) for n in ("input_ids", "attention_mask")],
            [("y", ["batch", "tokens", WIDTH])],
            [("table", models.weight(WORDS, WIDTH, seed=1)), ("places", models.weight(LENGTH + 6, WIDTH, seed=2)),
             ("zero", np.array(0, np.int64)), ("one", np.array(1, np.int64)), ("axis", np.array([2], np.int64))])
        self.assertTrue(self.varied(path, "--pad-to", LENGTH + 6)[0]["passed"])
        done = models.seqto("validate", path, "--invariance", "--data", self.data, "--pad-to", LENGTH + 7)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(f"--pad-to {LENGTH + 7} found, and a model that does not run so many positions", done.stderr)
        self.assertNotIn("--length", done.stderr)


if __name__ == "__main__":
    unittest.main()
