"""`seqto audit --target` against an emulation in numpy: where sums leave the accumulator, how halves are rounded, what comes out."""

import json
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402

SAMPLES = 4


class Device:
    """The network that `OnTarget` makes, in int64."""

    def __init__(self, path, bits, half_up):
        self.graph, self.half_up = onnx.load(str(path)).graph, half_up
        self.constants = {i.name: numpy_helper.to_array(i) for i in self.graph.initializer}
        self.ends = {name: (np.iinfo(v.dtype).min, np.iinfo(v.dtype).max) for name, v in self.constants.items() if v.dtype.kind == "i"}
        self.limit = 2**(bits - 1) - 1
        self.counts = {}

    def __call__(self, x):
        values = {**self.constants, "x": x}  # floats, and codes as int64
        scales = {}  # of what DequantizeLinear gives
        for node in self.graph.node:
            a, out = [values[name] for name in node.input], node.output[0]
            if node.op_type == "QuantizeLinear":
                code = a[0] / a[1]
                code = np.floor(code + 0.5) if self.half_up else np.rint(code)
                values[out] = np.clip(code + a[2], *self.ends[node.input[2]]).astype(np.int64)
            elif node.op_type == "DequantizeLinear":
                scales[out] = np.float64(a[1])
                values[out] = a[0] * (scales[out].reshape(-1, *[1] * (a[0].ndim - 1)) if scales[out].size > 1 else scales[out])
                if len(a) > 2:
                    assert not np.any(a[2])
            elif node.op_type in ("Conv", "Gemm"):
                scale = scales[node.input[0]] * scales[node.input[1]]
                maker = {n.output[0]: n.input[0] for n in self.graph.node}
                codes = [values[maker[name]].astype(np.int64) for name in node.input]
                sums = self.sums(node, codes[0], codes[1], codes[2] if len(codes) > 2 else np.zeros(len(codes[1]), np.int64))
                values[out] = sums * (scale.reshape(1, -1, *[1] * (sums.ndim - 2)) if scale.size > 1 else scale)
            elif node.op_type == "Relu":
                values[out] = np.maximum(a[0], 0)
            elif node.op_type == "Add":
                values[out] = a[0] + a[1]
            elif node.op_type == "GlobalAveragePool":
                values[out] = a[0].mean((2, 3), keepdims=True)
            elif node.op_type == "Flatten":
                values[out] = a[0].reshape(len(a[0]), -1)
            else:
                raise NotImplementedError(node.op_type)
        return values[self.graph.output[0].name]

    def sums(self, node, x, w, bias):
        """Product after product, those of a place of the kernel together."""
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        groups = attributes.get("group", 1)
        if node.op_type == "Gemm":
            x, w = x[:, :, None, None], (w if attributes.get("transB", 0) else w.T)[:, :, None, None]
        else:
            pads = attributes.get("pads", [0] * 4)
            x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
        height, width = x.shape[2] - w.shape[2] + 1, x.shape[3] - w.shape[3] + 1
        each = w.shape[0] // groups
        acc = np.broadcast_to(bias[None, :, None, None], (len(x), len(w), height, width)).copy()
        cut = np.zeros_like(acc)
        for i in range(w.shape[2]):
            for j in range(w.shape[3]):
                for c in range(w.shape[1]):
                    for m in range(len(w)):
                        patch = x[:, m // each * w.shape[1] + c, i:i + height, j:j + width]
                        new = acc[:, m] + patch * w[m, c, i, j]
                        acc[:, m] = np.clip(new, -self.limit - 1, self.limit)
                        cut[:, m] += acc[:, m] != new
        old = self.counts.get(node.name, np.zeros(4, np.int64))
        self.counts[node.name] = old + [acc.size * w[0].size, cut.sum(), acc.size, (cut > 0).sum()]
        return acc[:, :, 0, 0] if node.op_type == "Gemm" else acc


class OnTarget(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.dir = pathlib.Path(folder.name)
        random = np.random.default_rng(4)

        def weights(*shape):  # of one size and mostly one sign, so that sums grow
            return (random.choice([-1, 1], shape, p=[0.1, 0.9]) * random.uniform(0.5, 1, shape)).astype(np.float32)

        nodes = [models.node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]), models.node("Relu", ["c1"], ["r1"]),
                 models.node("Conv", ["r1", "w2"], ["c2"], pads=[1, 1, 1, 1]), models.node("Relu", ["c2"], ["r2"]),
                 models.node("Conv", ["r2", "w3"], ["c3"], pads=[1, 1, 1, 1], group=24), models.node("Add", ["c3", "r1"], ["s"]),
                 models.node("GlobalAveragePool", ["s"], ["p"]), models.node("Flatten", ["p"], ["f"]),
                 models.node("Gemm", ["f", "w4", "b4"], ["y"], transB=1)]
        cls.float = models.save(cls.dir / "float.onnx", nodes, [("x", [1, 3, 6, 6])], [("y", [1, 5])],
                                [("w1", weights(24, 3, 3, 3)), ("b1", weights(24)), ("w2", weights(24, 24, 3, 3)),
                                 ("w3", weights(24, 1, 3, 3)), ("w4", random.normal(size=(5, 24)).astype(np.float32)),
                                 ("b4", weights(5))])
        cls.x = np.abs(random.normal(1.5, 0.5, (SAMPLES, 3, 6, 6))).astype(np.float32)
        cls.data = cls.dir / "x.npz"
        np.savez(cls.data, x=cls.x)

    def build(self, target, *flags):
        path = self.dir / "q.onnx"
        done = models.seqto("quantize", self.float, "-o", path, "--data", self.data, "--target", target, "--no-improve", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def audit(self, model, *words, code=0):
        done = models.seqto("audit", model, "--data", self.data, *words, "--json")
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(done.stdout) if code == 0 else done.stderr

    def table(self, text):
        path = self.dir / "table.toml"
        path.write_text(text)
        return path

    def same_as_numpy(self, model, target, bits, half_up, saturates):
        def outputs_of(bits):
            device = Device(model, bits, half_up)
            found = np.array([device(x[None])[0] for x in self.x])
            return found, device.counts

        found = self.audit(model, "--target", target, "--reference", self.float)
        done = models.seqto("run", self.float, "--data", self.data, "-o", self.dir / "o.npz")
        self.assertEqual(done.returncode, 0, done.stderr)
        reference = np.load(self.dir / "o.npz")["y"].astype(np.float64)
        wide, _ = outputs_of(62)
        cut, counts = outputs_of(bits)
        for name, outputs in (("exact", wide), ("saturating", cut)):
            expected = ((outputs - reference)**2).mean()
            self.assertAlmostEqual(found["arithmetic"][name]["losses"]["mse"], expected, delta=1e-5 * expected)
        layers = {layer["name"]: layer for layer in found["layers"]}
        self.assertEqual(len(layers), 4)
        for name, numbers in counts.items():
            if layers[name]["can_saturate"]:
                keys = ("pairs", "saturated_pairs", "outputs", "saturated_outputs")
                self.assertEqual([layers[name][k] for k in keys], list(numbers), name)
            else:
                self.assertEqual(numbers[1], 0)
        self.assertEqual(any(layer.get("saturated_pairs") for layer in layers.values()), saturates)
        self.assertEqual(found["proposed"], [n for n, l in layers.items() if l.get("saturated_pairs")])
        return found

    def test_numpy_says_the_same(self):
        for target, bits, half_up in (("esp-dl", 20, True), ("esp-dl-p4", 32, False), ("vitis-xint8", 32, True)):
            with self.subTest(target):
                found = self.same_as_numpy(self.build(target), target, bits, half_up, bits == 20)
                self.assertEqual(found["target"], target)

    def test_numpy_says_the_same_of_16_bits(self):
        """Accumulators are twice as wide: 40 bits hold all sums, 24 do not."""
        model = self.build("esp-dl", "--activation-type", "int16")
        self.same_as_numpy(model, "esp-dl", 40, True, False)
        text = (models.SOURCE / "targets/esp-dl.toml").read_text()
        self.same_as_numpy(model, self.table(text.replace("accumulator_bits = 20", "accumulator_bits = 12")), 24, True, True)

    def test_a_file_for_another_target_is_said_to_be_one(self):
        for target, warned in (("onnxruntime-cpu-x86", True), ("esp-dl", False)):
            done = models.seqto("audit", self.build(target), "--data", self.data, "--target", "esp-dl")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual("[audit] esp-dl refuses" in done.stderr, warned, done.stderr)
            self.assertEqual("q.onnx --target esp-dl` tells all" in done.stderr, warned, done.stderr)

    def test_rounding_alone(self):
        model = self.build("vitis-xint8")
        even = self.audit(model, "--target", self.table('name = "even"\nknown = "documented"\nfloats = []\n[arithmetic]\nrounding = "half_even"\n'))
        up = self.audit(model, "--target", "vitis-xint8")
        # Sums of powers of two are exact in the runtime's floats too, so that it rounds as half_even says.
        self.assertLess(even["arithmetic"]["saturating"]["losses"]["mse"], 1e-9)
        self.assertGreater(up["arithmetic"]["saturating"]["losses"]["mse"], 1e-7)

    def rewritten(self, model, change):
        """With another list of nodes."""
        proto = onnx.load(str(model))
        nodes = change(list(proto.graph.node))
        del proto.graph.node[:]
        proto.graph.node.extend(nodes)
        onnx.save(proto, str(self.dir / "rewritten.onnx"))
        return self.dir / "rewritten.onnx"

    def test_nodes_in_any_order(self):
        model = self.build("esp-dl")
        reverse = self.rewritten(model, lambda nodes: nodes[::-1])
        for words in (["--target", "esp-dl"], []):
            self.assertEqual(*(sorted(self.audit(m, *words)["layers"], key=lambda l: l["name"]) for m in (model, reverse)))

    def test_a_plan_needs_names(self):
        def without_names(nodes):
            for node in nodes:
                node.ClearField("name")
            return nodes
        said = self.audit(self.rewritten(self.build("esp-dl"), without_names), "--target", "esp-dl", "--plan-out", self.dir / "no.json", code=3)
        self.assertIn("a Conv without a name found", said)
        self.assertFalse((self.dir / "no.json").exists())

    def test_the_plan_saturates_less(self):
        plan = self.dir / "plan.json"
        before = self.audit(self.build("esp-dl"), "--target", "esp-dl", "--plan-out", plan)
        after = self.audit(self.build("esp-dl", "--plan", plan), "--target", "esp-dl")
        cut = [sum(layer.get("saturated_pairs", 0) for layer in found["layers"]) for found in (before, after)]
        self.assertLess(cut[1], cut[0] / 2)

    def test_tune_audits_what_it_selects(self):
        # Table with the least accumulator, so that some sums of the network are cut off.
        table = self.table((models.SOURCE / "targets/esp-dl.toml").read_text().replace("accumulator_bits = 20", "accumulator_bits = 16"))
        for target, cut in (("esp-dl", False), (table, True)):
            out = self.dir / f"study{cut}"
            done = models.seqto("tune", models.DIGITS, "--data", models.DIGITS_DATA, "--target", target, "-o", out, "--max-evaluations", 12)
            self.assertEqual(done.returncode, 0, done.stderr)
            summary = json.loads((out / "summary.json").read_text())
            self.assertNotEqual(summary["selected"], "float")
            note = next(n for n in summary["notes"] if n.startswith("audit of"))
            self.assertIn("on 8 samples", note)
            self.assertIn("as esp-dl adds and rounds", note)
            self.assertEqual(cut, "reduce_range" in note, note)

    def test_products_of_activations_are_not_told_to_be_exact(self):
        model = self.dir / "attention.onnx"
        models.save(model, [models.node("MatMul", ["a", "w"], ["q"]), models.node("MatMul", ["q", "b"], ["y"])],
                    [("a", [1, 4, 64]), ("b", [1, 64, 4])], [("y", [1, 4, 4])], [("w", models.weight(64, 64))])
        data, out = self.dir / "ab.npz", self.dir / "attention.q.onnx"
        np.savez(data, a=models.weight(SAMPLES, 4, 64), b=models.weight(SAMPLES, 64, 4, seed=1))
        done = models.seqto("quantize", model, "-o", out, "--data", data, "--target", "esp-dl", "--no-improve")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = models.seqto("audit", out, "--data", data, "--target", "esp-dl", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        layer, = [layer for layer in json.loads(done.stdout)["layers"] if layer["name"] == "y_node"]
        self.assertNotIn("exact_because", layer)
        self.assertEqual(layer["not_emulated_because"], "of two activations")

    def test_a_relu_that_the_codes_do_not_imply_is_no_hindrance(self):
        """As symmetric tools write it: zero point 0 behind a Relu."""
        model = self.build("esp-dl")
        kept = onnx.load(str(model))
        layers = {layer["name"] for layer in self.audit(model, "--target", "esp-dl")["layers"]}
        of_relu = {n.input[0] for n in kept.graph.node if n.op_type == "Relu"}
        pair = {n.input[0]: n for n in kept.graph.node if n.op_type == "QuantizeLinear"}
        for tensor in of_relu & set(pair):  # the pair before a Relu goes: Conv, Relu, QuantizeLinear
            quantize = pair[tensor]
            dequantize = next(n for n in kept.graph.node if n.op_type == "DequantizeLinear" and n.input[0] == quantize.output[0])
            for node in kept.graph.node:
                node.input[:] = [tensor if name == dequantize.output[0] else name for name in node.input]
            kept.graph.node.remove(quantize), kept.graph.node.remove(dequantize)
        onnx.save(kept, str(model))
        found = self.audit(model, "--target", "esp-dl")["layers"]
        self.assertEqual({layer["name"] for layer in found}, layers)
        self.assertFalse(any("not_emulated_because" in layer for layer in found))

    def test_errors(self):
        model = self.build("esp-dl")
        self.assertIn("esp-dl-p4, esp-dl, onnxruntime-cpu-arm64, onnxruntime-cpu-x86-avx2, onnxruntime-cpu-x86-vnni, vitis-xint8", self.audit(model, "--target", "tensorrt", code=2))
        self.assertIn("`seqto lint MODEL --target qnn-htp` says what qnn-htp computes on codes, and `seqto validate FLOAT MODEL --device qnn`",
                      self.audit(model, "--target", "qnn-htp", code=2))
        head = 'name = "t"\nknown = "documented"\nfloats = []\n'
        for wrong, part in (("arithmetic = 3\n", "a table [arithmetic]"), ('[arithmetic]\nrounding = "up"\n', "half_even or half_up"),
                            ("[arithmetic]\naccumulator_bits = 4\n", "8 to 64"),
                            ("[arithmetic]\npairs_saturate = true\naccumulator_bits = 16\n", "either it or these"), ("[arithmetic]\nbits = 4\n", "accumulator_bits")):
            self.assertIn(part, self.audit(model, "--target", self.table(head + wrong), code=3))


if __name__ == "__main__":
    unittest.main()
