"""Models that compute in float16: what is written for the CPU computes in float32, where kernels on codes are, between the same inputs and
outputs. A table that embedding and head share is stored once. Nothing else changes, and files for devices with float16 keep it."""
import json
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402
from testing.models import seqto  # noqa: E402

WORDS, WIDTH = 64, 32


def halves(value): return (value * 0.3).astype(np.float16)


def classifier(path):
    """Two convolutions and a product, all in float16."""
    weights = [("w1", halves(models.weight(8, 3, 3, 3))), ("w2", halves(models.weight(8, 8, 3, 3, seed=1))), ("w3", halves(models.weight(8, 10, seed=2)))]
    nodes = [models.node("Conv", ["x", "w1"], ["a"]), models.node("Relu", ["a"], ["b"]), models.node("Conv", ["b", "w2"], ["c"]),
             models.node("GlobalAveragePool", ["c"], ["p"]), models.node("Flatten", ["p"], ["f"]), models.node("MatMul", ["f", "w3"], ["y"])]
    return in_halves(models.save(path, nodes, [("x", [1, 3, 12, 12])], [("y", [1, 10])], weights))


def language_model(path, words=WORDS):
    """One table for the embedding and the head, which reads it turned."""
    weights = [("table", halves(models.weight(words, WIDTH) * 3)), ("w", halves(models.weight(WIDTH, WIDTH, seed=1)))]
    nodes = [models.node("Gather", ["table", "ids"], ["e"]), models.node("MatMul", ["e", "w"], ["h"]), models.node("Add", ["e", "h"], ["s"]),
             models.node("Transpose", ["table"], ["t"], perm=[1, 0]), models.node("MatMul", ["s", "t"], ["y"])]
    model = onnx.load(models.save(path, nodes, [("ids", [1, "n"])], [("y", [1, "n", words])], weights))
    model.graph.input[0].type.tensor_type.elem_type = T.INT64
    onnx.save(model, path)
    return in_halves(path)


def in_halves(path):
    model = onnx.load(path)
    for value in [*model.graph.input, *model.graph.output]:
        if value.type.tensor_type.elem_type == T.FLOAT: value.type.tensor_type.elem_type = T.FLOAT16
    onnx.save(model, path)
    return path


def types_of(model): return [v.type.tensor_type.elem_type for v in [*model.graph.input, *model.graph.output]]


def half_scales(model):
    constants = {w.name: w for w in model.graph.initializer}
    return [n.name for n in model.graph.node if n.op_type in ("QuantizeLinear", "DequantizeLinear") and constants[n.input[1]].data_type == T.FLOAT16]


def kernels(path):
    """Of the graph as the runtime runs it."""
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.optimized_model_filepath = str(pathlib.Path(folder) / "run.onnx")
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return [n.op_type for n in onnx.load(options.optimized_model_filepath).graph.node]


class Float16Models(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.dir = pathlib.Path(folder.name)
        cls.images = models.arrays(cls.dir / "x.npz", samples=24, shape=(3, 12, 12))
        cls.texts = cls.dir / "ids.npz"
        np.savez(cls.texts, ids=np.random.default_rng(0).integers(0, WORDS, (24, 16)))
        cls.classifier, cls.lm = classifier(cls.dir / "classifier.onnx"), language_model(cls.dir / "lm.onnx")

    def run_word(self, *words, code=0):
        done = seqto(*words)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def quantize(self, model, *flags):
        out = self.dir / "q.onnx"
        said = self.run_word("quantize", model, "-o", out, *flags).stderr
        return out, onnx.load(out), said

    def test_static_layers_run_on_codes_between_the_same_inputs_and_outputs(self):
        out, model, said = self.quantize(self.classifier, "--data", self.images, "--quick")
        self.assertIn("the model is in float16", said)
        self.assertEqual(types_of(model), [T.FLOAT16, T.FLOAT16])
        self.assertEqual(half_scales(model), [])
        self.assertEqual(kernels(out).count("QLinearConv"), 2)
        wide = self.dir / "wide.onnx"
        self.run_word("prepare", self.classifier, "--float32", "--skip-optimization", "-o", wide)
        twin = self.dir / "twin.onnx"
        self.run_word("quantize", wide, "--data", self.images, "--quick", "-o", twin)
        x = np.load(self.images)["x"][:1].astype(np.float16)
        found = onnxruntime.InferenceSession(str(out)).run(None, {"x": x})[0]
        wanted = onnxruntime.InferenceSession(str(twin)).run(None, {"x": x.astype(np.float32)})[0]
        np.testing.assert_allclose(found, wanted.astype(np.float16), atol=0.02)

    def test_dynamic_layers_are_quantized(self):
        out, model, _ = self.quantize(self.lm, "--mode", "dynamic")
        found = kernels(out)
        self.assertIn("DynamicQuantizeMatMul", found, "the head, of the table that the embedding reads")
        self.assertNotIn("MatMul", found)
        self.assertLess(out.stat().st_size, WORDS * WIDTH * 1.5 + WIDTH * WIDTH * 2 + 3000)
        self.assertEqual(types_of(model), [T.INT64, T.FLOAT16])

    def test_a_tied_head_of_float32_multiplies_the_codes_too(self):
        wide = self.dir / "wide_tied.onnx"
        self.run_word("prepare", self.lm, "--float32", "--skip-optimization", "-o", wide)
        for flags in ((), ("--compat", "onnxruntime")):
            out, _, _ = self.quantize(wide, "--mode", "dynamic", *flags)
            self.assertEqual(bool({"MatMul", "FusedMatMul"} & set(kernels(out))), bool(flags))
            ids = np.load(self.texts)["ids"][:1]
            wanted, found = (onnxruntime.InferenceSession(str(f)).run(None, {"ids": ids})[0] for f in (wide, out))
            self.assertLess(np.square(found - wanted).mean() / np.square(wanted).mean(), 1e-3)

    def test_stored_weights_become_floats_once_and_a_tied_table_is_stored_once(self):
        out, model, _ = self.quantize(self.lm, "--mode", "weights")
        self.assertEqual(half_scales(model), [])
        self.assertLess(out.stat().st_size, WORDS * WIDTH * 1.5 + WIDTH * WIDTH * 2 + 3000)

    def test_in_float16_it_grows_since_it_was_in_float16_already(self):
        _, _, said = self.quantize(self.classifier, "--mode", "float16")
        self.assertIn("the model was in float16 already", said)
        self.assertNotIn("fewer than what quantizing adds", said)

    def test_what_asks_for_the_model_as_it_is_gets_it(self):
        for flags in (("--compat", "onnxruntime"), ("--activation-type", "uint8"), ("--target", "tensorrt")):
            with self.subTest(flags):
                _, model, said = self.quantize(self.classifier, "--data", self.images, "--quick", *flags)
                self.assertNotIn("the model is in float16", said)
                self.assertNotEqual(half_scales(model), [])
        ranges = self.dir / "ranges.json"
        self.run_word("calibrate", self.classifier, "--data", self.images, "-o", ranges)
        _, model, _ = self.quantize(self.classifier, "--ranges", ranges)
        self.assertNotEqual(half_scales(model), [])

    def test_no_bias_of_float32_is_added_to_layers_in_float16(self):
        weights = [("w1", halves(models.weight(32, 3, 3, 3))), ("w2", halves(models.weight(32, 32, 3, 3, seed=1)))]
        nodes = [models.node("Conv", ["x", "w1"], ["a"]), models.node("Conv", ["a", "w2"], ["y"])]
        model = in_halves(models.save(self.dir / "convs.onnx", nodes, [("x", [1, 3, 12, 12])], [("y", [1, 32, 8, 8])], weights))
        out, written, _ = self.quantize(model, "--mode", "weights", "--target", "onnxruntime-web-webgpu", "--data", self.images,
                                        "--bias-correction", "fast")
        self.assertTrue([w for w in written.graph.initializer if w.data_type == T.INT8])
        self.assertEqual(kernels(out).count("Conv"), 2)

    def test_small_channels_and_their_biases_keep_their_values(self):
        weight, bias = halves(models.weight(8, 3, 3, 3)), halves(models.weight(8, seed=1))
        weight[0] *= np.float16(1e-3)
        weight[1] *= np.float16(1e-5)  # its bias has a scale that is 0 in float16
        bias[:2] = np.float16([1e-3, 1e-4])
        model = in_halves(models.save(self.dir / "small.onnx", [models.node("Conv", ["x", "w", "b"], ["y"])], [("x", [1, 3, 12, 12])],
                                      [("y", [1, 8, 10, 10])], [("w", weight), ("b", bias)]))
        x = np.load(self.images)["x"][:4].astype(np.float16)
        run = lambda path: np.concatenate([onnxruntime.InferenceSession(str(path)).run(None, {"x": v[None]})[0] for v in x]).astype(np.float64)
        out, _, said = self.quantize(model, "--data", self.images, "--quick", "--per-channel", "--activation-type", "uint8",
                                     "--exclude-output-op-types", "Conv")
        wanted, found = run(model), run(out)
        for c in range(8):
            self.assertLess(np.square(found[:, c] - wanted[:, c]).mean(), 1e-2 * np.square(wanted[:, c]).mean(), c)
        self.assertIn("at D66", said)

    def test_halves_that_are_cast_where_they_are_read_stay(self):
        stored = self.dir / "stored.onnx"
        self.run_word("quantize", models.DIGITS, "--mode", "float16", "-o", stored)
        _, _, said = self.quantize(stored, "--data", models.DIGITS_DATA, "--quick")
        self.assertNotIn("the model is in float16", said)

    def test_prepare_leaves_float16_and_a_tied_table_as_they_are(self):
        out = self.dir / "prepared.onnx"
        said = self.run_word("prepare", self.classifier, "-o", out).stdout
        self.assertIn("not optimized: it computes in float16", said)
        self.assertNotIn("Cast", [n.op_type for n in onnx.load(out).graph.node])
        words = 1 << 14
        said = self.run_word("prepare", language_model(self.dir / "wide_lm.onnx", words), "--float32", "-o", out).stdout
        self.assertEqual([w.name for w in onnx.load(out).graph.initializer if numpy_helper.to_array(w).size == words * WIDTH], ["table"], said)

    def test_a_graph_that_ends_the_runtime_ends_with_an_error(self):
        nodes = [models.node("Transpose", ["x"], ["t"], perm=[1, 0, 2]), models.node("MatMul", ["t", "w"], ["y"])]
        model = in_halves(models.save(self.dir / "turned.onnx", nodes, [("x", [1, 2, 8])], [("y", [2, 1, 4])], [("w", halves(models.weight(8, 4)))]))
        data = models.arrays(self.dir / "turned.npz", samples=4, shape=(2, 8))
        for words in (("run", model, "--data", data, "-o", self.dir / "out.npz"), ("check", model, "--reference", model, "--data", data, "--max-loss", "nmse=1")):
            self.assertIn(seqto(*words).returncode, (0, 4))
        # A product that stays in float16 in what is written, and in what others wrote.
        nodes = [*nodes[:1], models.node("MatMul", ["t", "w"], ["h"]), models.node("MatMul", ["h", "w2"], ["y"])]
        model = in_halves(models.save(self.dir / "turned_twice.onnx", nodes, [("x", [1, 2, 8])], [("y", [2, 1, 4])],
                                      [("w", halves(models.weight(8, 4))), ("w2", halves(models.weight(4, 4)))]))
        out = self.dir / "turned_q.onnx"
        quantize = ("quantize", model, "--data", data, "--compat", "onnxruntime", "--exclude", "h_node", "-o", out)
        for words in ((*quantize, "--verify"), ("audit", out, "--data", data), ("audit", out, "--data", data, "--reference", model),
                      ("validate", model, "--data", data, "--invariance")):
            done = seqto(*words)
            self.assertIn(done.returncode, (0, 4), (words, done.stderr))

    def test_tune_measures_the_file_that_it_got_and_finds_layers_on_codes(self):
        out = self.dir / "study"
        self.run_word("tune", self.classifier, "--data", self.images, "-o", out, "--quick")
        summary = json.loads((out / "summary.json").read_text())
        self.assertTrue(any("made a float32 model" in note for note in summary["notes"]), summary["notes"])
        self.assertEqual(summary["baseline"]["size_bytes"], self.classifier.stat().st_size)
        for point in summary["front"]:
            self.assertEqual(types_of(onnx.load(out / point["file"])), [T.FLOAT16, T.FLOAT16])


if __name__ == "__main__":
    unittest.main()
