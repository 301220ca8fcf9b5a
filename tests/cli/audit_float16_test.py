"""`audit --float16`: what float16 cannot hold, held against onnxruntime's own tensors and numpy's float16; a plan without
it; and `prepare --float32`, the way back. The network's residual stream grows beyond 65504."""
import json
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T, helper as h

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402
from testing.models import seqto  # noqa: E402

WIDTH, BLOCKS, GROWTH, SAMPLES = 32, 6, 6.0, 24


def overflowing_stream(path):
    """Blocks of LayerNormalization and MatMul around a residual stream; each adds values six times as large as the one before."""
    nodes, weights, stream = [], [], "x"

    def constant(name, values):
        weights.append((name, np.asarray(values, np.float32)))
        return name
    for b in range(BLOCKS):
        scale, shift = constant(f"scale{b}", np.ones(WIDTH)), constant(f"shift{b}", np.zeros(WIDTH))
        nodes.append(h.make_node("LayerNormalization", [stream, scale, shift], [f"n{b}"], name=f"norm{b}", axis=-1))
        weight = constant(f"w{b}", models.weight(WIDTH, WIDTH, seed=b) * GROWTH**b)
        nodes.append(h.make_node("MatMul", [f"n{b}", weight], [f"m{b}"], name=f"matmul{b}"))
        nodes.append(h.make_node("Add", [stream, f"m{b}"], [f"s{b}"], name=f"add{b}"))
        stream = f"s{b}"
    scale, shift = constant("scale", np.ones(WIDTH)), constant("shift", np.zeros(WIDTH))
    nodes.append(h.make_node("LayerNormalization", [stream, scale, shift], ["n"], name="norm", axis=-1))
    nodes.append(h.make_node("MatMul", ["n", constant("head_w", models.weight(WIDTH, 10, seed=9))], ["y"], name="head"))
    return models.save(path, nodes, [("x", [1, WIDTH])], [("y", [1, 10])], weights)


class Float16(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.dir = pathlib.Path(folder.name)
        cls.model = overflowing_stream(cls.dir / "stream.onnx")
        cls.x = np.random.default_rng(1).normal(size=(SAMPLES, 1, WIDTH)).astype(np.float32)
        np.savez(cls.dir / "x.npz", x=cls.x)

    def audit(self, model, *flags, data="x.npz"):
        done = seqto("--json", "audit", model, "--data", self.dir / data, "--float16", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def tensors(self, names):
        """What onnxruntime gives for them in float32, all samples in a row."""
        model = onnx.load(self.model)
        model.graph.output.extend(h.make_tensor_value_info(name, T.FLOAT, None) for name in names)
        session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        return [np.concatenate(values) for values in zip(*[session.run(names, {"x": x}) for x in self.x])]

    def test_what_overflows_is_what_onnxruntime_gives(self):
        found = self.audit(self.model)
        layers = {layer["name"]: layer for layer in found["layers"]}
        names = [f"{kind}{b}" for b in range(BLOCKS) for kind in "ms"]
        beyond = set()
        for name, values in zip(names, self.tensors(names)):
            layer = layers[("matmul" if name[0] == "m" else "add") + name[1:]]
            self.assertAlmostEqual(layer["largest"] / np.abs(values).max(), 1, places=5)
            self.assertAlmostEqual(layer["overflow"], (np.abs(values) > 65504).mean(), places=12)
            if layer["overflow"]: beyond.add(layer["name"])
        self.assertTrue(beyond)
        self.assertEqual(set(found["in_float32"]), beyond | {"norm"}, "the layers, and what reads them")
        self.assertEqual(layers["norm"]["overflows"], f"s{BLOCKS - 1}")
        self.assertEqual(found["samples"], SAMPLES)

    def test_a_plan_without_it(self):
        plan = self.dir / "plan.json"
        found = self.audit(self.model, "--plan-out", plan)
        self.assertTrue(found["float16"]["losses"]["kl"] is None or found["float16"]["losses"]["kl"] > 1, "not a number, or far off")
        self.assertLess(found["mixed"]["losses"]["kl"], 1e-4)
        self.assertEqual(found["mixed"]["losses"]["top1_disagreement"], 0)
        done = seqto("quantize", self.model, "--plan", plan, "--float16-compute", "-o", self.dir / "mixed.onnx")
        self.assertEqual(done.returncode, 0, done.stderr)
        mixed = onnx.load(self.dir / "mixed.onnx")
        types = {w.name: w.data_type for w in mixed.graph.initializer}
        self.assertEqual(types[f"w{BLOCKS - 1}"], T.FLOAT)
        products = {n.name: types.get(n.input[1]) for n in mixed.graph.node if n.op_type == "MatMul"}
        self.assertEqual({name for name, kind in products.items() if kind == T.FLOAT}, {f"matmul{BLOCKS - 1}"})
        self.assertEqual({kind for name, kind in products.items() if name != f"matmul{BLOCKS - 1}"}, {T.FLOAT16})

    def test_roundings_are_those_of_numpy(self):
        """Two products whose intermediate tensor is rounded: numpy does it by hand, products in float32."""
        first, second = models.weight(16, 16), models.weight(16, 4, seed=1)
        model = models.save(self.dir / "two.onnx", [models.node("MatMul", ["x", "a"], ["t"]), models.node("MatMul", ["t", "b"], ["y"])],
                            [("x", [1, 16])], [("y", [1, 4])], [("a", first), ("b", second)])
        x = np.random.default_rng(2).normal(size=(SAMPLES, 1, 16)).astype(np.float32)
        np.savez(self.dir / "two.npz", x=x)
        half = lambda v: v.astype(np.float16).astype(np.float32)  # noqa: E731
        rounded = half(half(half(x) @ half(first)) @ half(second))
        expected = np.mean((rounded - x @ first @ second) ** 2)
        found = self.audit(model, data="two.npz")["float16"]["losses"]["mse"]
        self.assertAlmostEqual(found / expected, 1, places=2)

    def small_values(self, name, matters):
        """A branch with weights of 1e-9 and factors behind it that bring it back, and a Softmax whose small values do not matter."""
        weights = [("a", models.weight(WIDTH, WIDTH)), ("tiny_w", models.weight(WIDTH, WIDTH, seed=1) * (1e-9 if matters else 1)),
                   ("k", np.float32(3e4 if matters else 1)), ("soft_w", models.weight(WIDTH, WIDTH, seed=2)), ("sharp", np.float32(3)),
                   ("head_w", models.weight(WIDTH, 10, seed=3) / 8)]
        nodes = [h.make_node("MatMul", ["x", "a"], ["f"], name="first"), h.make_node("MatMul", ["f", "tiny_w"], ["t"], name="tiny"),
                 h.make_node("Mul", ["t", "k"], ["t1"], name="up1"), h.make_node("Mul", ["t1", "k"], ["t2"], name="up2"),
                 h.make_node("Mul", ["f", "sharp"], ["s"], name="sharpen"), h.make_node("Softmax", ["s"], ["p"], name="soft"),
                 h.make_node("MatMul", ["p", "soft_w"], ["v"], name="values"), h.make_node("Add", ["t2", "v"], ["sum"], name="add"),
                 h.make_node("MatMul", ["sum", "head_w"], ["y"], name="head")]
        return models.save(self.dir / name, nodes, [("x", [1, WIDTH])], [("y", [1, 10])], weights)

    def test_a_plan_without_values_that_become_0(self):
        model, plan, mixed = self.small_values("small.onnx", True), self.dir / "small.json", self.dir / "small16.onnx"
        found = self.audit(model, "--plan-out", plan)
        self.assertEqual(found["in_float32"], ["tiny", "up1"])
        small = {layer["name"]: layer["underflows"] for layer in found["layers"] if "underflows" in layer}
        self.assertEqual(small, {"tiny": "t", "up1": "t", "soft": "p", "values": "p"})
        self.assertLess(found["mixed"]["losses"]["kl"], 1e-4 * found["float16"]["losses"]["kl"])

        def answers(file):
            session = ort.InferenceSession(str(file), providers=["CPUExecutionProvider"])
            return np.concatenate([session.run(None, {"x": x})[0] for x in self.x])
        expected = answers(model)
        for words, close in ((["--plan", plan], True), ([], False)):
            done = seqto("quantize", model, "--mode", "float16", *words, "--float16-compute", "-o", mixed)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(np.abs(answers(mixed) - expected).max() < 0.02 * np.abs(expected).max(), close)

    def test_values_that_become_0_and_do_not_matter_stay(self):
        found = self.audit(self.small_values("harmless.onnx", False))
        self.assertEqual(found["in_float32"], [])
        self.assertEqual(found["float16"], found["mixed"])
        self.assertTrue([layer for layer in found["layers"] if "underflows" in layer])
        done = seqto("audit", self.dir / "harmless.onnx", "--data", self.dir / "x.npz", "--float16")
        self.assertIn("2 more read or write values that become 0; they are not what the answers lose", done.stdout)

    def test_other_types_are_refused(self):
        made = {"half16.onnx": ["quantize", self.model, "--mode", "float16", "--float16-compute"],
                "codes.onnx": ["quantize", models.DIGITS, "--data", models.DIGITS_DATA, "--samples", "8", "--quick"]}
        for (name, words), data, said in zip(made.items(), (self.dir / "x.npz", models.DIGITS_DATA),
                                             ("computes in float16 found; a float32 model expected; `seqto prepare MODEL --float32",
                                              "a quantized model (qdq) found; a float32 model expected; `seqto prepare MODEL --dequantize")):
            done = seqto(*words, "-o", self.dir / name)
            self.assertEqual(done.returncode, 0, done.stderr)
            done = seqto("audit", self.dir / name, "--data", data, "--float16", "--plan-out", self.dir / "none.json")
            self.assertEqual(done.returncode, 3, done.stdout)
            self.assertIn(said, done.stderr)
            self.assertFalse((self.dir / "none.json").exists())

    def test_the_way_back(self):
        for name, words in (("half.onnx", ["quantize", self.model, "--mode", "float16"]),
                            ("back.onnx", ["prepare", self.dir / "half.onnx", "--float32"])):
            done = seqto(*words, "-o", self.dir / name)
            self.assertEqual(done.returncode, 0, done.stderr)
        back = onnx.load(self.dir / "back.onnx")
        self.assertNotIn(T.FLOAT16, {w.data_type for w in back.graph.initializer})
        self.assertNotIn(T.FLOAT16, {a.i for n in back.graph.node if n.op_type == "Cast" for a in n.attribute})
        half = {w.name: onnx.numpy_helper.to_array(w) for w in onnx.load(self.dir / "half.onnx").graph.initializer}
        for weight in back.graph.initializer:
            if weight.name in half and half[weight.name].dtype == np.float16:
                np.testing.assert_array_equal(onnx.numpy_helper.to_array(weight), half[weight.name].astype(np.float32))
        ort.InferenceSession(str(self.dir / "back.onnx"), providers=["CPUExecutionProvider"]).run(None, {"x": self.x[0]})

    def test_what_would_do_nothing_is_refused(self):
        done = seqto("audit", self.model, "--data", self.dir / "x.npz", "--float16", "--reference", self.model)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--reference", done.stderr)

    def test_the_table_names_them(self):
        done = seqto("audit", self.model, "--data", self.dir / "x.npz", "--float16")
        self.assertEqual(done.returncode, 0, done.stderr)
        for words in ("beyond 65504", "add5", "LayerNormalization", "float16, but float32 below"):
            self.assertIn(words, done.stdout)


if __name__ == "__main__":
    unittest.main()
