"""`validate --invariance`: the first node whose values change, and padding in front, against onnxruntime's own runs."""

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

try:
    import jsonschema
except ImportError:
    jsonschema = None
SCHEMA = json.loads((models.SOURCE / "docs/reference/schemas/invariance.schema.json").read_text(encoding="utf-8"))
WORDS, WIDTH, LENGTH, SAMPLES = 40, 32, 24, 12
GATE = 5
NAMES = ("input_ids", "attention_mask", "position_ids")


class Oracle:
    """All float tensors between the nodes of a model, the runtime's optimizations off."""

    def __init__(self, path):
        model = onnx.shape_inference.infer_shapes(onnx.load(path))
        self.made = {name: node for node in model.graph.node for name in node.output}
        own = {o.name for o in model.graph.output}
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in self.made if name not in own)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        self.session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def run(self, feed):
        feed = {i.name: feed[i.name] for i in self.session.get_inputs()}
        values = dict(zip((o.name for o in self.session.get_outputs()), self.session.run(None, feed)))
        return {name: values[name] for name in self.made if values[name].dtype == np.float32}  # in graph order

    def first(self, alone, together, place, begin=0):
        """Of a sample alone and together with others: the first tensor that differs."""
        wanted, found = self.run(alone), self.run(together)
        length = alone["input_ids"].shape[1]
        for name, x in wanted.items():
            y = found[name]
            if y.shape != x.shape:
                # What has positions has them on the axes that are longer.
                cut = [slice(begin, begin + length) if a > b else slice(None) for a, b in zip(y.shape[1:], x.shape[1:])]
                y = y[(slice(place, place + 1), *cut)]
            if x.tobytes() != y.tobytes():
                return self.made[name], name, np.abs(np.float64(x) - y).max(), np.abs(x).max()
        return None


class FirstDifference(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-first-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        random = np.random.default_rng(3)
        cls.lengths = random.integers(4, LENGTH, SAMPLES)
        mask = (np.arange(LENGTH) < cls.lengths[:, None]).astype(np.int64)
        cls.arrays = {"input_ids": random.integers(1, WORDS, (SAMPLES, LENGTH)) * mask, "attention_mask": mask,
                      "position_ids": np.arange(LENGTH) * mask}
        cls.data = {}
        for side, shift in (("behind", 0), ("front", 1)):
            cls.data[side] = cls.dir / f"{side}.npz"
            np.savez(cls.data[side], **{name: np.stack([np.roll(row, shift * (LENGTH - n)) for row, n in zip(a, cls.lengths)])
                                        for name, a in cls.arrays.items()})
        cls.data["unpositioned"] = cls.dir / "unpositioned.npz"
        np.savez(cls.data["unpositioned"], **{name: cls.arrays[name] for name in NAMES[:2]})

    def decoder(self, name, positions="input"):
        """Causal attention over embeddings of tokens and of positions, which are an input or counted from the mask."""
        inputs, nodes = NAMES, []
        if positions == "counted":
            inputs = NAMES[:2]
            nodes = [models.node("CumSum", ["attention_mask", "one"], ["sum"]), models.node("Sub", ["sum", "one"], ["less"]),
                     models.node("Max", ["less", "zero"], ["position_ids"])]
        nodes += [models.node("Gather", ["table", "input_ids"], ["t"]), models.node("Gather", ["places", "position_ids"], ["p"]),
                  models.node("Add", ["t", "p"], ["e"]), models.node("MatMul", ["e", "v"], ["q"]),
                  models.node("Transpose", ["e"], ["k"], perm=[0, 2, 1]), models.node("MatMul", ["q", "k"], ["s"]),
                  models.node("Cast", ["attention_mask"], ["c"], to=TensorProto.FLOAT),
                  models.node("Unsqueeze", ["c", "axes"], ["u"]), models.node("Sub", ["u", "real"], ["hidden"]),
                  models.node("Mul", ["hidden", "much"], ["far"]), models.node("Add", ["s", "far"], ["masked"]),
                  models.node("Shape", ["masked"], ["shape"]), models.node("ConstantOfShape", ["shape"], ["zeros"]),
                  models.node("Add", ["zeros", "much"], ["full"]), models.node("Trilu", ["full", "one"], ["later"], upper=1),
                  models.node("Sub", ["masked", "later"], ["causal"]), models.node("Softmax", ["causal"], ["a"]),
                  models.node("MatMul", ["a", "e"], ["m"]), models.node("MatMul", ["m", "w"], ["y"])]
        table = models.weight(WORDS, WIDTH, seed=1)
        table[0] *= 9  # the padding is larger than any token
        return models.save(self.dir / name, nodes, [(n, ["batch", "tokens"], TensorProto.INT64) for n in inputs],
                           [("y", ["batch", "tokens", WIDTH])],
                           [("table", table), ("places", models.weight(LENGTH, WIDTH, seed=3)),
                            ("v", models.weight(WIDTH, WIDTH, seed=4) / 99), ("w", models.weight(WIDTH, WIDTH, seed=5)),
                            ("one", np.array(1, np.int64)), ("zero", np.array(0, np.int64)), ("axes", np.array([1], np.int64)),
                            ("real", np.float32(1)), ("much", np.float32(30000))])

    def dynamic(self, model, *words):
        path = self.dir / ("q" + "".join(words) + model.name)
        done = models.seqto("quantize", model, "-o", path, "--mode", "dynamic", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def varied(self, model, data="behind"):
        done = models.seqto("validate", model, "--invariance", "--data", self.data[data], "--json")
        self.assertIn(done.returncode, (0, GATE), done.stderr)
        found = json.loads(done.stdout)
        if jsonschema:
            jsonschema.validate(found, SCHEMA)
        return {(v["kind"], v["size"]): v for v in found["variations"]}

    def feed(self, rows, length, front=False):
        """Those samples, filled up to a length."""
        result = {}
        for name in NAMES:
            result[name] = np.zeros((len(rows), length), np.int64)
            for place, row in enumerate(rows):
                n = self.lengths[row]
                result[name][place, length - n if front else 0:][:n] = self.arrays[name][row, :n]
        return result

    def check_first(self, variation, oracle, together, place, begin=0):
        row = int(variation["first_difference"]["sample"])
        node, tensor, off, largest = oracle.first(self.feed([row], self.lengths[row]), together, place, begin)
        found = variation["first_difference"]
        self.assertEqual((found["node"], found["op_type"], found["tensor"]), (node.name, node.op_type, tensor))
        self.assertAlmostEqual(found["max_abs"], off, delta=1e-12)
        self.assertAlmostEqual(found["largest_abs"], largest, delta=1e-12)
        return node

    def check_all(self, path, op_type=None):
        variations, oracle, checked = self.varied(path), Oracle(path), 0
        for (kind, size), v in variations.items():
            if v.get("changed", 0) == 0:
                self.assertNotIn("first_difference", v)
                continue
            row = int(v["worst_sample"])
            self.assertEqual(v["first_difference"]["sample"], v["worst_sample"])
            place, begin = 0, 0
            if kind in ("batch", "order"):
                rows = list(range(row // size * size, min((row // size + 1) * size, SAMPLES)))
                rows = rows[::-1] if kind == "order" else rows
                place, together = rows.index(row), self.feed(rows, self.lengths[rows].max())
            else:
                front = kind == "padding_in_front"
                begin = size - self.lengths[row] if front else 0
                together = self.feed([row], size, front)
            node = self.check_first(v, oracle, together, place, begin)
            self.assertIn(op_type, (None, node.op_type), kind)
            checked += 1
        return variations, checked

    def test_dynamic_int8(self):
        variations, checked = self.check_all(self.dynamic(self.decoder("decoder.onnx")), "DynamicQuantizeLinear")
        self.assertEqual(checked, 6)
        self.assertGreater(variations["padding_in_front", LENGTH]["changed"], SAMPLES // 2)

    def test_one_operator_for_the_layer(self):
        """onnxruntime's DynamicQuantizeMatMul, in the file and without a name, behind a layer that is as good as float."""
        w, seed = models.weight(WIDTH, WIDTH, seed=5), 4
        scale = np.float32(np.abs(w).max() / 127)
        nodes = [models.node("Gather", ["table", "input_ids"], ["e"]), models.node("MatMul", ["e", "v"], ["m"]),
                 onnx.helper.make_node("DynamicQuantizeMatMul", ["m", "w", "scale", "zero"], ["f"], domain="com.microsoft"),
                 models.node("Cast", ["attention_mask"], ["c"], to=TensorProto.FLOAT),
                 models.node("Unsqueeze", ["c", "axes"], ["u"]), models.node("Mul", ["f", "u"], ["y"])]
        path = models.save(self.dir / "fused.onnx", nodes, [(n, ["batch", "tokens"], TensorProto.INT64) for n in NAMES[:2]],
                           [("y", ["batch", "tokens", WIDTH])],
                           [("table", models.weight(WORDS, WIDTH, seed=1)), ("v", models.weight(WIDTH, WIDTH, seed=seed)),
                            ("w", np.uint8(np.rint(w / scale) + 128)), ("scale", scale), ("zero", np.uint8(128)),
                            ("axes", np.array([2], np.int64))])
        model = onnx.load(path)
        model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
        onnx.save(model, path)
        first = self.varied(path, "unpositioned")["batch", 8]["first_difference"]
        self.assertEqual((first["op_type"], first["tensor"]), ("DynamicQuantizeMatMul", "f"))
        self.assertNotEqual(first["node"], "")

    def test_in_front_kernels_add_in_another_order(self):
        """A softmax over more positions, in float as well: not more than that."""
        decoder = self.decoder("decoder.onnx")
        for model in (decoder, self.dynamic(decoder, "--per-token")):
            with self.subTest(model=model.name):
                v = self.check_all(model)[0]["padding_in_front", LENGTH]
                self.assertLess(v["max_abs"], 1e-4)
        done = models.seqto("validate", decoder, "--invariance", "--data", self.data["behind"])
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_samples_that_come_filled_up_in_front(self):
        path = self.dynamic(self.decoder("decoder.onnx"))
        front, behind = self.varied(path, "front"), self.varied(path)
        for kind in ("batch", "order"):
            for size in (2, 8, 64):
                self.assertEqual(front.get((kind, size)), behind.get((kind, size)))

    def test_positions_counted_from_the_mask(self):
        v = self.varied(self.decoder("counted.onnx", "counted"), "unpositioned")["padding_in_front", LENGTH]
        self.assertLess(v["max_abs"], 1e-4)

    def test_positions_that_the_model_counts_itself(self):
        """There padding in front is other tokens' positions: not asked."""
        path = models.save(self.dir / "places.onnx",
                           [models.node("Gather", ["table", "input_ids"], ["t"]),
                            models.node("Cast", ["attention_mask"], ["c"], to=TensorProto.FLOAT),
                            models.node("CumSum", ["input_ids", "one"], ["sum"]), models.node("Unsqueeze", ["c", "axes"], ["u"]),
                            models.node("Mul", ["t", "u"], ["y"])],
                           [(n, ["batch", "tokens"], TensorProto.INT64) for n in NAMES[:2]], [("y", ["batch", "tokens", WIDTH])],
                           [("table", models.weight(WORDS, WIDTH, seed=1)), ("one", np.array(1, np.int64)),
                            ("axes", np.array([2], np.int64))])
        v = self.varied(path, "unpositioned")["padding_in_front", LENGTH]
        self.assertIn("position_ids", v["left_out"])


if __name__ == "__main__":
    unittest.main()
