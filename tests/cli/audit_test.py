"""`seqto audit` against an emulation in numpy: which sums of pairs vpmaddubsw cuts off, layer after layer, and what comes out."""

import json
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models, unit  # noqa: E402

USAGE, INVALID = 2, 3
SAMPLES = 6
CASES = pathlib.Path(os.environ.get("SEQTO_CASES_DIR", models.SOURCE.parent / "shared/cases"))


def exact_processor():
    with open("/proc/cpuinfo") as file:
        flags = file.read()
    return any(flag in flags for flag in ("avx512_vnni", "avx_vnni", "asimddp"))


class Emulation:
    """The chain of layers that `Audit.build` makes, from the numbers in the file."""

    def __init__(self, path, saturate):
        graph = onnx.load(str(path)).graph
        self.saturate, self.graph = saturate, graph
        self.constants = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
        self.makers = {name: n for n in graph.node for name in n.output}
        self.readers = {name: n for n in graph.node for name in n.input}
        self.counts = {}

    def parameters(self, node):
        zero = self.constants[node.input[2]]
        return self.constants[node.input[1]], zero.astype(np.int64), zero.dtype

    def codes(self, node, x):
        scale, zero, dtype = self.parameters(node)
        info = np.iinfo(dtype)
        return np.clip(np.rint(x / scale).astype(np.int64) + zero, info.min, info.max), dtype

    def __call__(self, x):
        values = {"x": x}
        for node in self.graph.node:
            name = node.output[0]
            if node.op_type == "QuantizeLinear":
                if node.input[0] in self.constants:
                    continue
                if node.input[0] not in values:  # a layer has given codes already
                    continue
                values[name] = self.codes(node, values[node.input[0]])[0]
            elif node.op_type == "DequantizeLinear":
                if node.input[0] in self.constants:
                    continue
                scale, zero, _ = self.parameters(node)
                values[name] = ((values[node.input[0]] - zero) * scale).astype(np.float32)
            elif node.op_type in ("Conv", "Gemm", "MatMul"):
                self.layer(node, values)
            elif node.op_type == "Relu":
                values[name] = np.maximum(values[node.input[0]], 0)
            elif node.op_type == "GlobalAveragePool":
                values[name] = values[node.input[0]].mean((2, 3), keepdims=True)
            elif node.op_type == "Flatten":
                values[name] = values[node.input[0]].reshape(len(values[node.input[0]]), -1)
            else:
                raise NotImplementedError(node.op_type)
        return values[self.graph.output[0].name]

    def layer(self, node, values):
        x_node, w_node = self.makers[node.input[0]], self.makers[node.input[1]]
        x_scale, x_zero, dtype = self.parameters(x_node)
        x = values[x_node.input[0]]
        if dtype == np.int8:
            x, x_zero = x + 128, x_zero + 128
        w = self.constants[w_node.input[0]].astype(np.int64)
        w_scale = self.constants[w_node.input[1]]
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "Conv":
            assert attributes.get("group", 1) == 1
            top, left, bottom, right = attributes.get("pads", [0] * 4)
            step = attributes.get("strides", [1, 1])[0]
            x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=int(x_zero))
            kh, kw = w.shape[2:]
            rows, columns = (x.shape[2] - kh) // step + 1, (x.shape[3] - kw) // step + 1
            patches = np.stack([x[:, :, i:i + step * rows:step, j:j + step * columns:step]
                                for i in range(kh) for j in range(kw)], 1)  # [n, place, channel, rows, columns]
            patches = patches.reshape(len(x), -1, rows, columns).transpose(0, 2, 3, 1)
            matrix = w.transpose(2, 3, 1, 0).reshape(-1, w.shape[0])
        else:
            patches, matrix = x, w.T if attributes.get("transB", 0) else w
        acc = self.multiply(node.name, patches, matrix) - int(x_zero) * matrix.sum(0)
        if len(node.input) > 2:
            acc = acc + self.constants[self.makers[node.input[2]].input[0]].astype(np.int64)
        if node.op_type == "Conv":
            acc, w_scale = acc.transpose(0, 3, 1, 2), np.reshape(w_scale, (-1, 1, 1)) if np.ndim(w_scale) else w_scale
        reader = self.readers.get(node.output[0])
        if reader is not None and reader.op_type == "QuantizeLinear":
            scale, zero, y_type = self.parameters(reader)
            factor = (x_scale * w_scale / scale).astype(np.float32)
            info = np.iinfo(y_type)
            values[reader.output[0]] = np.clip(np.rint(acc.astype(np.float32) * factor).astype(np.int64) + zero,
                                               info.min, info.max)
        else:
            values[node.output[0]] = acc.astype(np.float32) * (x_scale * w_scale).astype(np.float32)

    def multiply(self, name, x, w):
        if x.shape[-1] % 2:
            x = np.concatenate([x, np.zeros_like(x[..., :1])], -1)
            w = np.concatenate([w, np.zeros_like(w[:1])])
        pairs = x[..., 0::2, None] * w[0::2] + x[..., 1::2, None] * w[1::2]
        if not self.saturate:
            return pairs.sum(-2)
        kept = np.clip(pairs, -32768, 32767)
        cut = kept != pairs
        old = self.counts.get(name, np.zeros(4, np.int64))
        self.counts[name] = old + [cut.size, cut.sum(), cut[..., 0, :].size, cut.any(-2).sum()]
        return kept.sum(-2)


class Audit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-audit-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        random = np.random.default_rng(3)
        # Weights of one size and inputs of one sign: many sums of pairs are near 2 * 255 * 127.
        def weights(*shape):
            return (random.choice([-1, 1], shape, p=[0.3, 0.7]) * random.uniform(0.5, 1, shape)).astype(np.float32)

        nodes = [models.node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]), models.node("Relu", ["c1"], ["r1"]),
                 models.node("Conv", ["r1", "w2"], ["c2"], strides=[2, 2]), models.node("Relu", ["c2"], ["r2"]),
                 models.node("GlobalAveragePool", ["r2"], ["p"]), models.node("Flatten", ["p"], ["f"]),
                 models.node("Gemm", ["f", "w3", "b3"], ["y"], transB=1)]
        cls.float = models.save(cls.dir / "float.onnx", nodes, [("x", [1, 3, 10, 10])], [("y", [1, 5])],
                                [("w1", weights(6, 3, 3, 3)), ("b1", weights(6)), ("w2", weights(8, 6, 3, 3)),
                                 ("w3", weights(5, 8)), ("b3", weights(5))])
        cls.x = np.abs(random.normal(1.5, 0.5, (SAMPLES, 3, 10, 10))).astype(np.float32)
        cls.data = cls.dir / "x.npz"
        np.savez(cls.data, x=cls.x)

    def build(self, *flags):
        path = self.dir / "q.onnx"
        done = models.seqto("quantize", self.float, "-o", path, "--data", self.data, *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def audit(self, model, *words):
        done = models.seqto("audit", model, "--data", self.data, *words, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def compare(self, model, found):
        exact, saturating = Emulation(model, False), Emulation(model, True)
        a = np.array([exact(x[None])[0] for x in self.x], np.float64)
        b = np.array([saturating(x[None])[0] for x in self.x], np.float64)
        layers = {layer["name"]: layer for layer in found["layers"]}
        self.assertEqual(len(layers), 3)
        for name, (pairs, cut, outputs, in_outputs) in saturating.counts.items():
            if layers[name]["can_saturate"]:
                self.assertEqual([layers[name][k] for k in ("pairs", "saturated_pairs", "outputs", "saturated_outputs")],
                                 [pairs, cut, outputs, in_outputs], name)
            else:
                self.assertEqual(cut, 0)
        return a, b, layers

    def test_numpy_says_the_same(self):
        for flags in (("--activation-type", "uint8"), ("--activation-type", "uint8", "--per-channel"),
                      ("--activation-type", "int8")):
            with self.subTest(flags):
                model = self.build(*flags)
                found = self.audit(model, "--reference", self.float)
                a, b, layers = self.compare(model, found)
                float_outputs = self.outputs(self.float)
                for name, expected in (("exact", a), ("saturating", b)):
                    mse = ((expected - float_outputs)**2).mean()
                    self.assertAlmostEqual(found["arithmetic"][name]["losses"]["mse"], mse, delta=1e-3 * mse + 1e-9)
                self.assertGreater(found["arithmetic"]["saturating"]["losses"]["mse"],
                                   2 * found["arithmetic"]["exact"]["losses"]["mse"])
                self.assertEqual(found["proposed"], [n for n, l in layers.items() if l.get("saturated_pairs")])
                self.assertTrue(found["proposed"])

    # The emulated values are the answer: nothing of the model is left to run behind them.
    def test_a_layer_that_gives_the_answer(self):
        random = np.random.default_rng(5)
        weights = (random.choice([-1, 1], (400, 64), p=[0.3, 0.7]) * random.uniform(0.5, 1, (400, 64))).astype(np.float32)
        path = models.save(self.dir / "last.onnx", [models.node("Gemm", ["x", "w"], ["y"], transB=1)], [("x", [1, 64])],
                           [("y", [1, 400])], [("w", weights)])
        data, quantized = self.dir / "last.npz", self.dir / "last_q.onnx"
        x = np.abs(random.normal(1.5, 0.5, (20, 64))).astype(np.float32)
        np.savez(data, x=x)
        done = models.seqto("quantize", path, "-o", quantized, "--data", data, "--activation-type", "uint8")
        self.assertEqual(done.returncode, 0, done.stderr)
        model = onnx.load(str(quantized))
        del model.graph.node[-2:]  # the pair behind the layer
        model.graph.node[-1].output[0] = "y"
        onnx.save(model, str(quantized))
        done = models.seqto("audit", quantized, "--data", data, "--reference", path, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)["arithmetic"]
        for name in ("exact", "saturating"):
            emulated = Emulation(quantized, name == "saturating")
            mse = np.mean([(emulated(row[None]).astype(np.float64) - row[None] @ weights.T)**2 for row in x])
            self.assertAlmostEqual(found[name]["losses"]["mse"], mse, delta=1e-3 * mse + 1e-9)
        self.assertGreater(found["saturating"]["losses"]["mse"], 2 * found["exact"]["losses"]["mse"])

    def small(self, nodes, shape, weights):
        """The audit of these nodes in int8, as JSON and as text."""
        path, data, quantized = self.dir / "small.onnx", self.dir / "small.npz", self.dir / "small_q.onnx"
        models.save(path, nodes, [("x", shape)], [("y", None)], weights)
        np.savez(data, x=np.abs(np.random.default_rng(7).normal(1.5, 0.5, (5, *shape[1:]))).astype(np.float32))
        done = models.seqto("quantize", path, "-o", quantized, "--data", data, "--activation-type", "uint8", "--per-channel")
        self.assertEqual(done.returncode, 0, done.stderr)
        return models.seqto("audit", quantized, "--data", data, "--json"), models.seqto("audit", quantized, "--data", data)

    @unittest.skipUnless(exact_processor(), "this processor's own arithmetic saturates, or is not known")
    def test_convolutions_of_any_axes(self):
        random = np.random.default_rng(4)
        for axes, more in ((1, {"pads": [2, 1], "dilations": [2]}), (1, {"auto_pad": "SAME_UPPER", "strides": [2]}),
                           (2, {"auto_pad": "SAME_UPPER", "strides": [2, 3]}), (2, {"auto_pad": "SAME_LOWER"}),
                           (2, {"auto_pad": "VALID", "group": 2}), (3, {"pads": [1, 0, 1, 0, 1, 1], "strides": [1, 2, 1]})):
            with self.subTest(axes=axes, **more):
                shape = (6, 4 // more.get("group", 1), *[3, 4, 2][:axes])
                w = (random.choice([-1, 1], shape, p=[0.3, 0.7]) * random.uniform(0.5, 1, shape)).astype(np.float32)
                nodes = [models.node("Conv", ["x", "w"], ["c"], **more), models.node("Relu", ["c"], ["y"])]
                done, _ = self.small(nodes, [1, 4, *[9, 8, 7][:axes]], [("w", w)])
                self.assertEqual(done.returncode, 0, done.stderr)
                layer, = json.loads(done.stdout)["layers"]
                self.assertEqual((layer["can_saturate"], layer["equal_to_runtime"]), (True, 1))
                self.assertGreater(layer["saturated_pairs"], 0)

    def test_the_loss_is_that_of_the_float_models_task(self):
        path, data, quantized = self.dir / "tokens.onnx", self.dir / "tokens.npz", self.dir / "tokens_q.onnx"
        nodes = [models.node("Gather", ["table", "ids"], ["e"]), models.node("MatMul", ["e", "w"], ["m"]),
                 models.node("Add", ["m", "b"], ["y"])]
        models.save(path, nodes, [("ids", [1, 6], onnx.TensorProto.INT64)], [("y", [1, 6, 5])],
                    [("table", models.weight(20, 8)), ("w", models.weight(8, 5)), ("b", models.weight(5))])
        np.savez(data, ids=np.random.default_rng(1).integers(0, 20, (12, 6)))
        done = models.seqto("quantize", path, "-o", quantized, "--data", data)
        self.assertEqual(done.returncode, 0, done.stderr)
        for more in ([], ["--reference", path]):
            done = models.seqto("audit", quantized, "--data", data, *more, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["loss"], "kl", "scores of classes for each position, no embedding")

    def test_labels_are_not_held_against_embeddings(self):
        path, data, quantized = self.dir / "encoder.onnx", self.dir / "labelled.npz", self.dir / "encoder_q.onnx"
        nodes = [models.node("Gather", ["table", "input_ids"], ["e"]), models.node("MatMul", ["e", "w"], ["m"]),
                 models.node("LayerNormalization", ["m", "g"], ["last_hidden_state"])]
        models.save(path, nodes, [("input_ids", [1, 6], onnx.TensorProto.INT64)], [("last_hidden_state", [1, 6, 8])],
                    [("table", models.weight(20, 8)), ("w", models.weight(8, 8)), ("g", models.weight(8))])
        np.savez(data, input_ids=np.random.default_rng(1).integers(0, 20, (12, 6)), y=np.arange(12) % 3)
        done = models.seqto("quantize", path, "-o", quantized, "--data", data)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = models.seqto("audit", quantized, "--data", data, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual(found["loss"], "cosine")
        self.assertEqual([of["metrics"] for of in found["arithmetic"].values()], [{}] * len(found["arithmetic"]))

    def test_what_is_not_emulated_is_said(self):
        w = np.random.default_rng(4).normal(0, 1, (1, 8, 8)).astype(np.float32)
        nodes = [models.node("MatMul", ["x", "v"], ["m"]), models.node("MatMul", ["m", "w"], ["y"])]
        done, text = self.small(nodes, [1, 3, 8], [("v", w[0]), ("w", w)])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([l.get("not_emulated_because") for l in json.loads(done.stdout)["layers"]],
                         [None, "weights of 3 dimensions"])
        self.assertIn("1 not emulated, in every row as computed here (MatMul: weights of 3 dimensions)", text.stdout)
        done, _ = self.small([models.node("MatMul", ["x", "w"], ["y"])], [1, 3, 8], [("w", w)])
        self.assertEqual(done.returncode, INVALID)
        self.assertIn("1 layers in int8, none of which is emulated (the first, MatMul: weights of 3", done.stderr)

    def test_the_target_without_vnni_is_emulated_so(self):
        avx2 = ("--target", "onnxruntime-cpu-x86-avx2")
        model = self.build("--activation-type", "uint8", "--per-channel")
        plain, named = self.audit(model), self.audit(model, *avx2)
        self.assertEqual(named["arithmetic"], plain["arithmetic"])
        self.assertEqual(named["proposed"], plain["proposed"])
        self.assertTrue(plain["proposed"])
        self.assertFalse(self.audit(model, "--target", "onnxruntime-cpu-x86-vnni")["proposed"])
        self.assertFalse(self.audit(self.build(*avx2), *avx2)["proposed"], "seven bits")

    def outputs(self, model):
        done = models.seqto("run", model, "--data", self.data, "-o", self.dir / "o.npz")
        self.assertEqual(done.returncode, 0, done.stderr)
        return np.load(self.dir / "o.npz")["y"].astype(np.float64)

    @unittest.skipUnless(exact_processor(), "this processor's own arithmetic saturates, or is not known")
    def test_the_runtime_here_is_exact(self):
        for flags in (("--activation-type", "uint8", "--per-channel"), ("--activation-type", "uint8"),
                      ("--activation-type", "int8")):
            model = self.build(*flags)
            found = self.audit(model)
            for layer in found["layers"]:
                self.assertEqual(layer.get("equal_to_runtime", 1), 1, (flags, layer))
            # Against the runtime itself: nothing but the rounding of floats.
            self.assertLess(found["arithmetic"]["exact"]["losses"]["mse"], 1e-9)
            self.assertEqual(found["arithmetic"]["here"]["losses"]["mse"], 0)

    def test_the_plan_saturates_no_more(self):
        model = self.build("--activation-type", "uint8", "--per-channel")
        plan = self.dir / "plan.json"
        before = self.audit(model, "--plan-out", plan)
        shares = {l["name"]: l["saturated_outputs"] / l["outputs"] for l in before["layers"] if l.get("saturated_pairs")}
        most = max(shares.values())
        some = self.audit(model, "--min-saturated", 0.999 * most)
        self.assertEqual(some["proposed"], [name for name, share in shares.items() if share >= 0.999 * most])
        again = self.build("--activation-type", "uint8", "--per-channel", "--plan", plan)
        after = self.audit(again)
        fields = json.loads(plan.read_text())["schemes"]
        self.assertEqual({n for n, s in fields.items() if isinstance(s, dict) and s.get("reduce_range")},
                         set(before["proposed"]))
        for layer in after["layers"]:
            if layer["name"] in before["proposed"]:
                self.assertFalse(layer["can_saturate"])
                self.assertLessEqual(layer["largest_sum"], 32767)
        # Reduced everywhere: nothing to emulate, the same everywhere.
        reduced = self.audit(self.build("--activation-type", "uint8", "--reduce-range"))
        self.assertEqual(reduced["proposed"], [])
        self.assertEqual(reduced["arithmetic"]["saturating"], reduced["arithmetic"]["here"])

    def test_uint8_weights_are_exact(self):
        found = self.audit(self.build("--activation-type", "uint8", "--weight-type", "uint8"))
        self.assertEqual({layer.get("exact_because") for layer in found["layers"]}, {"weights uint8"})

    def test_errors(self):
        for code, part, *words in ((INVALID, "QDQ form", self.float),
                                   (USAGE, "cpu expected", self.float, "--device", "tvm:llvm"),
                                   (INVALID, "nowhere.onnx", self.dir / "nowhere.onnx")):
            done = models.seqto("audit", *words, "--data", self.data)
            self.assertEqual((done.returncode, part in done.stderr), (code, True), done.stderr)

    @unittest.skipUnless((CASES / "resnet8").is_dir(), "the case resnet8 is not there")
    def test_a_trained_model(self):
        case, images = CASES / "resnet8", CASES / "data/cifar10/images"
        words = ["--data", images, "--preprocess", case / "preprocess.json"]
        model = self.dir / "resnet8.onnx"
        done = models.seqto("quantize", case / "model.onnx", "-o", model, *words, "--samples", 20, "--activation-type", "uint8",
                            "--per-channel")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = models.seqto("audit", model, *words, "--samples", 4, "--reference", case / "model.onnx", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual(len(found["layers"]), 10)
        if exact_processor():
            self.assertEqual({layer.get("equal_to_runtime", 1) for layer in found["layers"]}, {1})


if __name__ == "__main__":
    unit.main()
