"""lint: what targets say of files: a usual int8 model, int8 activations with two readers, foreign targets, tables of one's own."""
import json
import os
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402
from testing.models import seqto  # noqa: E402

# Bodies of graphs from x and u to y, with codes of scale s and zero point z (uint8) or i (int8), and what becomes of nodes.
PAIR = "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) "
PAIRS = PAIR + "v = QuantizeLinear(u, s, z) w = DequantizeLinear(v, s, z) "
OPTIMIZED = {
    "a Relu that the QuantizeLinear repeats": (
        PAIRS + "m = MatMul(d, w) r = Relu(m) p = QuantizeLinear(r, s, z) y = DequantizeLinear(p, s, z)", {"Relu": "fused", "MatMul": "integers"}),
    "a Clip that it does not repeat": (
        PAIRS + "m = MatMul(d, w) r = Clip(m, , s) p = QuantizeLinear(r, s, z) y = DequantizeLinear(p, s, z)", {"Clip": "float", "MatMul": "float"}),
    "a QuantizeLinear that undoes what stands in front": (
        PAIR + "r = Relu(d) p = QuantizeLinear(r, s, z) e = DequantizeLinear(p, s, z) y = Exp(e)", {"Relu": "fused", "Exp": "float"}),
    "two of one tensor": (
        "q = QuantizeLinear(x, s, i) d = DequantizeLinear(q, s, i) p = QuantizeLinear(x, s, i) e = DequantizeLinear(p, s, i) "
        "m = MatMul(d, e) t = QuantizeLinear(m, s, i) y = DequantizeLinear(t, s, i)", {"MatMul": "float"}),
    "a bias in float": (
        PAIR + "w = DequantizeLinear(c, s, i) g = Gemm(d, w, b) p = QuantizeLinear(g, s, z) y = DequantizeLinear(p, s, z)", {"Gemm": "integers"}),
    "a bias added behind a product, of which it makes a Gemm": (
        PAIR + "w = DequantizeLinear(c, s, i) m = MatMul(d, w) y = Add(m, b)", {"MatMul": "float", "Add": "float"}),
    "the same in front of a QuantizeLinear": (
        PAIR + "w = DequantizeLinear(c, s, i) m = MatMul(d, w) a = Add(b, m) p = QuantizeLinear(a, s, z) y = DequantizeLinear(p, s, z)",
        {"MatMul": "integers", "Add": "integers"}),
    "another number for each value": (
        PAIRS + "w2 = DequantizeLinear(c, s, i) m = MatMul(d, w2) n = Exp(m) a = Add(m, n) y = Relu(a)", {"MatMul": "integers", "Add": "float"}),
    "a weight in codes alone": ("w = DequantizeLinear(c, s, i) y = MatMul(x, w)", {"MatMul": "integers"}),
    "an activation behind it": ("w = DequantizeLinear(c, s, i) m = MatMul(x, w) r = Relu(m) y = Exp(r)", {"MatMul": "float"}),
}

# Bodies with codes of zero point f (4 bits) or z (8 bits) and weights of 4 outputs and 2 inputs: what ONNX Runtime makes operators of
# that it refuses, the node that lint names, and what it takes in its place.
MADE_AND_REFUSED = {
    "a Clip in front of 4 bits": ("Clip", 21, PAIR + "r = Clip(d, low, high) p = QuantizeLinear(r, s, f) y = DequantizeLinear(p, s, f)", (", f)", ", z)")),
    "a convolution between 4 bits": (
        "Conv", 21, PAIR.replace(", z)", ", f)") + "w = DequantizeLinear(c, s, n) m = Conv(d, w) p = QuantizeLinear(m, s, f) y = DequantizeLinear(p, s, f)",
        (", f)", ", z)")),
    "scales of inputs": (
        "Conv", 17, PAIR + "w = DequantizeLinear<axis: int = 1>(c, s2, n2) m = Conv(d, w) p = QuantizeLinear(m, s, z) y = DequantizeLinear(p, s, z)",
        ("1>(c, s2, n2)", "0>(c, s4, n4)")),
    "scales of a factor": (
        "Mul", 17, PAIR + "w = DequantizeLinear<axis: int = 1>(k, s2, z2) m = Mul(d, w) p = QuantizeLinear(m, s, z) y = DequantizeLinear(p, s, z)",
        ("s2, z2", "s, z")),
    "int8 that moves": ("Reshape", 21, PAIR.replace(", z)", ", i)") + "r = Reshape(d, shape) y = Exp(r)", (", i)", ", z)")),
}

TARGETS = sorted(p.stem for p in (models.SOURCE / "targets").glob("*.toml"))


def residual(path, kind):
    """Two convolutions and an addition around the second, all in codes of that type."""
    constants, nodes = [], []

    def constant(name, value):
        constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def paired(tensor):
        parameters = [constant(f"{tensor}_scale", np.float32(0.1)), constant(f"{tensor}_zero", kind(3))]
        nodes.append(h.make_node("QuantizeLinear", [tensor, *parameters], [f"{tensor}_q"], name=f"{tensor}_quantize"))
        nodes.append(h.make_node("DequantizeLinear", [f"{tensor}_q", *parameters], [f"{tensor}_d"], name=f"{tensor}_dequantize"))
        return f"{tensor}_d"

    def conv(tensor, output):
        weight = constant(f"{output}_w", np.ones((4, 4, 1, 1), np.int8))
        nodes.append(h.make_node("DequantizeLinear", [weight, constant(f"{weight}_scale", np.float32(0.01)),
                                                      constant(f"{weight}_zero", np.int8(0))], [f"{weight}_d"], name=f"{weight}_dequantize"))
        nodes.append(h.make_node("Conv", [tensor, f"{weight}_d"], [output], name=f"conv_{output}"))
        return paired(output)
    a = conv(paired("x"), "a")
    nodes.append(h.make_node("Add", [a, conv(a, "b")], ["s"], name="add"))
    paired("s")
    nodes[-1].output[0] = "y"
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, [1, 4, 4, 4])],
                         [h.make_tensor_value_info("y", T.FLOAT, [1, 4, 4, 4])], constants)
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
    return path


class Lint(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.dir = pathlib.Path(folder.name)
        cls.unsigned = residual(cls.dir / "u8.onnx", np.uint8)
        cls.signed = residual(cls.dir / "s8.onnx", np.int8)

    def lint(self, model, *flags, code=0):
        done = seqto("--json", "lint", model, *flags)
        self.assertEqual(done.returncode, code, done.stderr)
        found = json.loads(done.stdout)
        return found["counts"], {n["node"]: n for n in found["nodes"]}

    def test_unsigned_codes_stay_codes(self):
        counts, nodes = self.lint(self.unsigned, "--strict")
        self.assertEqual([nodes[n]["verdict"] for n in ("conv_a", "conv_b", "add")], ["integers"] * 3)
        self.assertEqual((counts["conversion"], counts["wasted"]), (2, 0), "at the model's ends")

    def test_signed_codes_with_two_readers_are_wasted(self):
        counts, nodes = self.lint(self.signed)
        self.assertEqual([nodes[n]["verdict"] for n in ("conv_a", "conv_b")], ["float"] * 2)
        self.assertGreaterEqual(counts["wasted"], 2)
        self.lint(self.signed, "--strict", code=5)
        self.assertEqual(self.lint(self.signed, "--target", "onnxruntime-cpu-arm64", "--strict")[0]["wasted"], 0)

    def test_what_the_runtime_does_is_what_was_said(self):
        import onnxruntime
        for model in (self.unsigned, self.signed):
            options = onnxruntime.SessionOptions()
            options.optimized_model_filepath = str(self.dir / "optimized.onnx")
            options.log_severity_level = 3
            onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            made = [n.op_type for n in onnx.load(options.optimized_model_filepath).graph.node]
            _, nodes = self.lint(model)
            integers = sum(n["verdict"] == "integers" for n in nodes.values())
            self.assertEqual(sum(op.startswith("QLinear") for op in made), integers, (model, made))

    def test_what_the_optimizer_does_first(self):
        import onnxruntime
        constants = [numpy_helper.from_array(np.asarray(v), n) for n, v in (
            ("s", np.float32(0.1)), ("z", np.uint8(0)), ("i", np.int8(3)), ("c", np.ones((4, 4), np.int8)), ("b", np.ones(4, np.float32)))]
        for case, (body, expected) in OPTIMIZED.items():
            with self.subTest(case):
                model = onnx.parser.parse_model(
                    f'<ir_version: 8, opset_import: ["": 17]> g (float[4,4] x, float[4,4] u) => (float[4,4] y) {{ {body} }}')
                model.graph.initializer.extend(constants)
                path = self.dir / "optimizes.onnx"
                onnx.save(model, path)
                _, nodes = self.lint(path)
                self.assertEqual({n["op_type"]: n["verdict"] for n in nodes.values() if n["op_type"] in expected}, expected)
                options = onnxruntime.SessionOptions()
                options.optimized_model_filepath = str(self.dir / "optimized.onnx")
                options.log_severity_level = 3
                onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
                made = [n.op_type for n in onnx.load(options.optimized_model_filepath).graph.node]
                for op, verdict in expected.items():
                    as_float = {op, "Gemm"} if op in ("MatMul", "Add") else {op}
                    self.assertEqual(bool(as_float & set(made)), verdict == "float", (op, made))

    def test_what_no_runtime_loads_is_refused(self):
        """The same files are given to the runtime, which has to end on those that lint refuses and on no other."""
        import onnxruntime

        def weighted(opset, codes, scales):
            values = numpy_helper.from_array(np.zeros((3, 2), np.int8), "c")
            if codes == T.INT4: values = h.make_tensor("c", T.INT4, [3, 2], [1, 2, 3, 4, 5, 6])
            nodes = [h.make_node("DequantizeLinear", ["c", "s"], ["w"], name="dequantize", axis=1), h.make_node("MatMul", ["x", "w"], ["y"], name="product")]
            graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, [1, 3])], [h.make_tensor_value_info("y", T.FLOAT, [1, 2])],
                                 [values, numpy_helper.from_array(np.full(scales, 0.1, np.float32), "s")])
            return h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=10)
        for opset, codes, scales, why in ((17, T.INT8, 2, ""), (21, T.INT4, 2, ""), (17, T.INT4, 2, "int4 of 'c' found; opset 17 takes int8, uint8, int32"),
                                          (17, T.INT8, 3, "3 scales for the 2 channels of 'c' found")):
            path = self.dir / "weighted.onnx"
            onnx.save(weighted(opset, codes, scales), path)
            with self.subTest(opset=opset, codes=codes, scales=scales):
                _, nodes = self.lint(path, code=5 if why else 0)
                self.assertEqual((nodes["dequantize"]["verdict"] == "refused", nodes["dequantize"]["reason"] if why else why), (bool(why), why))
                options = onnxruntime.SessionOptions()
                options.log_severity_level = 4
                try:
                    onnxruntime.InferenceSession(str(path), options).run(None, {"x": np.zeros((1, 3), np.float32)})
                    ran = True
                except Exception:
                    ran = False
                self.assertEqual(ran, not why)

    def test_a_product_with_scales_along_its_sum_is_refused(self):
        """ONNX Runtime makes a QLinearMatMul of it, and ends when it runs."""
        import onnxruntime
        body = PAIR + "w = DequantizeLinear<axis: int = AXIS>(c, v, n) m = MatMul(d, w) p = QuantizeLinear(m, s, z) y = DequantizeLinear(p, s, z)"
        for axis, size in ((1, 2), (0, 4)):
            model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float[4,4] x) => (float[4,2] y) { '
                                            + body.replace("AXIS", str(axis)) + " }")
            model.graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in (
                ("s", np.asarray(0.1, np.float32)), ("z", np.asarray(3, np.uint8)), ("c", np.ones((4, 2), np.uint8)),
                ("v", np.full(size, 0.1, np.float32)), ("n", np.zeros(size, np.uint8))))
            path = self.dir / "summed.onnx"
            onnx.save(model, path)
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            session = onnxruntime.InferenceSession(str(path), options)
            with self.subTest(axis=axis):
                if axis == 1: session.run(None, {"x": np.zeros((4, 4), np.float32)})
                else: self.assertRaises(Exception, session.run, None, {"x": np.zeros((4, 4), np.float32)})
                _, nodes = self.lint(path, code=5 if axis == 0 else 0)
                self.assertEqual([n["verdict"] for n in nodes.values() if n["op_type"] == "MatMul"], ["refused" if axis == 0 else "integers"])

    def test_what_the_runtime_makes_and_refuses(self):
        import onnxruntime
        constants = [("s", np.float32(0.1)), ("s2", np.full(2, 0.1, np.float32)), ("s4", np.full(4, 0.1, np.float32)), ("z", np.uint8(3)),
                     ("z2", np.full(2, 3, np.uint8)), ("i", np.int8(3)), ("n", np.int8(0)), ("n2", np.zeros(2, np.int8)), ("n4", np.zeros(4, np.int8)),
                     ("c", np.ones((4, 2, 1, 1), np.int8)), ("k", np.ones((1, 2, 1, 1), np.uint8)), ("low", np.float32(-1)), ("high", np.float32(1)),
                     ("shape", np.array([1, -1], np.int64))]
        for name, (op, opset, body, (old, new)) in MADE_AND_REFUSED.items():
            for text, refused in ((body, True), (body.replace(old, new), False)):
                model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> g (float[1,2,3,3] x) => (float y) {{ {text} }}')
                model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), n) for n, v in constants if f" {n}," in text or f" {n})" in text
                                               or f"({n}," in text)
                if ", f)" in text: model.graph.initializer.append(h.make_tensor("f", T.UINT4, [], [3]))
                del model.graph.output[0].type.tensor_type.shape.dim[:]
                model.graph.output[0].type.tensor_type.ClearField("shape")
                path = self.dir / "made.onnx"
                onnx.save(model, path)
                options = onnxruntime.SessionOptions()
                options.log_severity_level = 4
                try:
                    onnxruntime.InferenceSession(str(path), options).run(None, {"x": np.zeros((1, 2, 3, 3), np.float32)})
                    ran = True
                except Exception:
                    ran = False
                with self.subTest(name, refused=refused):
                    self.assertEqual(ran, not refused)
                    _, nodes = self.lint(path, code=5 if refused else 0)
                    self.assertEqual([n["op_type"] for n in nodes.values() if n["verdict"] == "refused"], [op] if refused else [])

    def test_open_dimensions(self):
        model = onnx.load(self.unsigned)
        for value in (*model.graph.input, *model.graph.output): value.type.tensor_type.shape.dim[0].dim_param = "N"
        path = self.dir / "open.onnx"
        onnx.save(model, path)
        self.assertEqual(self.lint(path)[0]["refused"], 0)
        _, nodes = self.lint(path, "--target", "qnn-htp", code=5)
        self.assertIn("open dimensions of the inputs found (N)", nodes["conv_a"]["reason"])
        fixed = self.dir / "fixed.onnx"
        self.assertEqual(seqto("prepare", path, "--dim", "N=1", "-o", fixed).returncode, 0)
        self.assertEqual(self.lint(fixed, "--target", "qnn-htp")[0]["refused"], 0)
        model = onnx.load(models.DIGITS)
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
        onnx.save(model, path)
        for word in ("quantize", "tune"):
            done = seqto(word, path, "--data", "random", "--target", "qnn-htp", "-o", self.dir / "htp.onnx")
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn("--dim N=SIZE", done.stderr)

    def test_foreign_targets(self):
        for target in TARGETS:
            with self.subTest(target):
                done = seqto("lint", self.unsigned, "--target", target)
                self.assertIn(done.returncode, (0, 5), done.stderr)
                self.assertIn(target, done.stdout)
        _, nodes = self.lint(self.unsigned, "--target", "tensorrt")
        self.assertIn("uint8 activations found; int8 taken", nodes["conv_a"]["reason"])
        _, nodes = self.lint(self.signed, "--target", "tensorrt")
        self.assertIn("zero point", nodes["conv_a"]["reason"])
        _, nodes = self.lint(self.signed, "--target", "esp-dl", code=5)
        self.assertEqual(nodes["conv_a"]["verdict"], "refused")
        self.assertEqual(self.lint(self.unsigned, "--target", "qnn-htp")[1]["conv_a"]["verdict"], "integers")

    def test_a_bias_in_codes_is_refused_where_biases_are_floats(self):
        output = self.dir / "biased.onnx"
        for flag, code in (("--quantize-bias", 5), ("--no-quantize-bias", 0)):
            self.assertEqual(seqto("quantize", models.DIGITS, "--data", models.DIGITS_DATA, "--quick", flag, "-o", output).returncode, 0)
            _, nodes = self.lint(output, "--target", "tensorrt", code=code)
            refused = {n["op_type"]: n["reason"] for n in nodes.values() if n["verdict"] == "refused"}
            self.assertEqual(list(refused), ["DequantizeLinear"] if code else [])
            if code: self.assertIn("int32 codes found; floats needed", refused["DequantizeLinear"])

    def test_operators_on_codes(self):
        output = self.dir / "qop.onnx"
        self.assertEqual(seqto("quantize", models.DIGITS, "--data", models.DIGITS_DATA, "--format", "qoperator", "-o", output).returncode, 0)
        self.assertEqual(self.lint(output)[0]["refused"], 0)
        _, nodes = self.lint(output, "--target", "tensorrt", code=5)
        self.assertTrue(any("--format qdq" in n["reason"] for n in nodes.values()))

    def test_tables_of_ones_own(self):
        table = self.dir / "own.toml"
        table.write_text('name = "own"\nknown = "documented"\nfloats = []\n[[rule]]\nops = ["Conv"]\nactivations = ["uint8"]\n')
        _, nodes = self.lint(self.unsigned, "--target", table, code=5)
        self.assertEqual((nodes["conv_a"]["verdict"], nodes["add"]["verdict"]), ("integers", "refused"))
        for text, code, said in (("name = 1", 3, "own.toml:1: another value of name"), ("x = [", 3, "no TOML"),
                                 ('name = "a"\nknown = "guessed"\nfloats = []', 3, "run, compiled or documented"),
                                 ('name = "a"\nknown = "run"\nfloats = []\n[[rule]]\nops = ["Conv"]\nactivation = ["int8"]', 3, "activations"),
                                 ('name = "a"\nknown = "run"\nfloats = []\n[[rule]]\nops = ["Conv"]\nweights = ["int9"]', 3, "own.toml:6: 'int9' in weights found"),
                                 ('name = "a"\nknown = "run"\nfloats = []\n[[rule]]\nops = ["Convv"]', 3, "own.toml:5: 'Convv' in ops found; an operator of ai.onnx"),
                                 ('name = "a"\nknown = "run"\nfloats = []\ndevice = "foo"', 3, 'own.toml:4: device = "foo"'),
                                 ('name = "a"\nknown = "run"\nfloats = ["float17"]', 3, "own.toml:3: 'float17' in floats found; some of float32"),
                                 ('name = "a"\nknown = "run"', 3, "floats = a list of some of float32, float16"),
                                 ('name = "a"\nfloats = []', 3, 'known = "run", "compiled" or "documented"'),
                                 ("a." * 2000 + "b = 1", 3, "1,000 parts")):
            table.write_text(text)
            done = seqto("lint", self.unsigned, "--target", table)
            self.assertEqual(done.returncode, code, (text, done.stderr)), self.assertIn(said, done.stderr)
        done = seqto("lint", self.unsigned, "--target", "tensorr")
        self.assertEqual(done.returncode, 2), self.assertIn("tensorrt", done.stderr)

    def test_a_table_that_extends_another(self):
        table = self.dir / "own.toml"
        nodes = lambda: {n: (v["verdict"], v["reason"]) for n, v in self.lint(self.unsigned, "--target", table)[1].items()}
        head = 'name = "own"\nextends = "onnxruntime-cpu-x86"\nknown = "documented"\n'
        table.write_text(head)
        self.assertEqual(nodes(), {n: (v["verdict"], v["reason"]) for n, v in self.lint(self.unsigned)[1].items()})
        table.write_text(head + '[[rule]]\nops = ["Add"]\nactivations = ["int8"]\nwhy = "mine"\n')
        self.assertEqual(nodes()["add"], ("float", "uint8 activations found; int8 taken (mine)"))
        self.assertRegex(seqto("lint", self.unsigned, "--target", table).stdout, r"add +Add +float +uint8 activations found")
        self.assertEqual(nodes()["conv_a"][0], "integers")
        table.write_text(head + 'without = ["Add", "Conv"]\n')
        self.assertEqual((nodes()["add"][0], nodes()["conv_a"][0]), ("float", "float"))
        table.write_text(head.replace("cpu-x86", "cpu-x87"))
        done = seqto("lint", self.unsigned, "--target", table)
        self.assertEqual(done.returncode, 2), self.assertIn("did you mean 'onnxruntime-cpu-x86'", done.stderr)

    def test_releases_differ(self):
        """A bias in float: 1.31 makes codes of it, 1.20 leaves the convolution in float."""
        model = self.dir / "floats.onnx"
        nodes = [models.node("QuantizeLinear", ["x", "s", "z"], ["q"]), models.node("DequantizeLinear", ["q", "s", "z"], ["d"]),
                 models.node("DequantizeLinear", ["w", "s"], ["v"]), models.node("Conv", ["d", "v", "b"], ["c"]),
                 models.node("QuantizeLinear", ["c", "s", "z"], ["r"]), models.node("DequantizeLinear", ["r", "s", "z"], ["y"])]
        models.save(model, nodes, [("x", [1, 3, 8, 8])], [("y", [1, 4, 6, 6])],
                    [("w", np.ones((4, 3, 3, 3), np.int8)), ("b", np.ones(4, np.float32)), ("s", np.float32(0.1)), ("z", np.uint8(128))])
        verdicts = {t: self.lint(model, "--target", t)[1]["c_node"]["verdict"]
                    for t in ("onnxruntime-cpu-x86", "onnxruntime-cpu-x86-1.24", "onnxruntime-cpu-x86-1.20")}
        self.assertEqual(list(verdicts.values()), ["integers", "integers", "float"])

    def test_weights_in_blocks_that_a_release_does_not_take(self):
        """1.20 has no kernel for 2 and 8 bits, nor for tables of bytes, as a head shares them."""
        model, out, plan = self.dir / "tied.onnx", self.dir / "blocks.onnx", self.dir / "plan.json"
        nodes = [models.node("Gather", ["table", "ids"], ["e"]), models.node("MatMul", ["e", "w"], ["h"]),
                 models.node("Transpose", ["table"], ["t"], perm=[1, 0]), models.node("MatMul", ["h", "t"], ["y"])]
        models.save(model, nodes, [("ids", [1, 4], T.INT64)], [("y", [1, 4, 64])], [("table", models.weight(64, 64)), ("w", models.weight(64, 64, seed=1))])
        for layers, bits, refused in (["h_node"], 4, []), (["h_node"], 8, ["h_node"]), (["e_node", "y_node"], 4, ["e_node"]):
            plan.write_text(json.dumps({"schemes": dict.fromkeys(layers, {"scheme": "int4_weights", "bits": bits})}))
            done = seqto("quantize", model, "--plan", plan, "-o", out)
            self.assertEqual(done.returncode, 0, done.stderr)
            _, nodes = self.lint(out, "--target", "onnxruntime-cpu-x86-1.20", code=5 if refused else 0)
            self.assertEqual([n for n in nodes if nodes[n]["verdict"] == "refused"], refused, layers)
            self.lint(out, "--target", "onnxruntime-cpu-x86-1.24")

    def test_versions_beyond_a_release_are_refused(self):
        """What the releases say: opset 21 and IR version 10 are the last that 1.20 loads, opset 25 the last of 1.24."""
        nodes = [models.node("Conv", ["x", "w"], ["c"]), models.node("Relu", ["c"], ["y"])]
        for target, most, ir_version, said in (("1.20", 21, 10, "opset 22 found"), ("1.24", 25, 13, "opset 26 found"), ("1.20", 21, 11, "set ir_version=10")):
            for opset in (most, most + 1) if ir_version != 11 else (most,):
                model, refused = self.dir / "versions.onnx", opset > most or ir_version == 11
                models.save(model, nodes, [("x", [1, 3, 8, 8])], [("y", [1, 8, 6, 6])], [("w", models.weight(8, 3, 3, 3))], opset, ir_version)
                with self.subTest(target=target, opset=opset, ir_version=ir_version):
                    _, found = self.lint(model, "--target", f"onnxruntime-cpu-x86-{target}", code=5 if refused else 0)
                    self.assertEqual(found["c_node"]["verdict"], "refused" if refused else "float")
                    for words in (("quantize", "--quick"), ("tune", "--quick", "--max-evaluations", 6), ("quantize", "--mode", "weights")):
                        done = seqto(words[0], model, *words[1:], *([] if "weights" in words else ["--data", "random"]), "--target", f"onnxruntime-cpu-x86-{target}",
                                     "-o", self.dir / f"versions_{target}_{words[0]}")
                        self.assertEqual(done.returncode, 3 if refused else 0, (words, done.stderr))
                        if refused: self.assertIn(said, done.stderr)
                    self.assertEqual(self.is_refused_by(target, model), refused)

    def is_refused_by(self, release, model):
        """By that release, where it is installed; nothing where it is not."""
        done = seqto("--json", "validate", model, "--data", "random", "--samples", 1, "--runtimes", f"cpu,cpu@{release}",
                     env={"SEQTO_RUNTIMES": str(models.SOURCE / ".deps/runtimes")})
        if done.returncode == 4: return unittest.mock.ANY
        found = {r["name"]: r for r in json.loads(done.stdout)["runtimes"]}
        return found[f"cpu@{release}"]["comparisons"][0]["refusal"] is not None

    def test_a_clip_of_an_input_ends_a_release(self):
        """1.20 cannot take a Clip of an input out of its graph, and ends; where the QuantizeLinear does more, it leaves it."""
        x86 = "onnxruntime-cpu-x86"
        for low, before, refused in ((-1.28, "", True), (0.0, "", False), (-1.28, "Exp", False)):
            nodes = ([models.node(before, ["x"], ["a"])] if before else []) + [
                models.node("Clip", ["a" if before else "x", "low", "high"], ["c"]), models.node("QuantizeLinear", ["c", "s", "z"], ["q"]),
                models.node("DequantizeLinear", ["q", "s", "z"], ["y"])]
            model = models.save(self.dir / "clip.onnx", nodes, [("x", [1, 4])], [("y", [1, 4])],
                                [("low", np.float32(low)), ("high", np.float32(9)), ("s", np.float32(0.01)), ("z", np.uint8(128))])
            with self.subTest(low=low, before=before):
                _, found = self.lint(model, "--target", f"{x86}-1.20", code=5 if refused else 0)
                self.assertEqual(found["c_node"]["verdict"] == "refused", refused)
                self.assertEqual(self.is_refused_by("1.20", model), refused)
                self.lint(model, "--target", f"{x86}-1.24"), self.lint(model)
        # The convolution behind it stays in float, so that there is no such pair.
        nodes = [models.node("Clip", ["x", "low", "high"], ["c"]), models.node("Conv", ["c", "w"], ["d"]), models.node("Conv", ["d", "v"], ["y"])]
        model = models.save(self.dir / "clipped.onnx", nodes, [("x", [1, 3, 8, 8])], [("y", [1, 8, 4, 4])],
                            [("low", np.float32(0)), ("high", np.float32(0.5)), ("w", models.weight(8, 3, 3, 3)), ("v", models.weight(8, 8, 3, 3))])
        out, data = self.dir / "clipped.int8.onnx", models.arrays(self.dir / "clipped.npz", samples=32)
        done = seqto("quantize", model, "--data", data, "--quick", "--target", f"{x86}-1.20", "-o", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        _, found = self.lint(out, "--target", f"{x86}-1.20", "--strict")
        self.assertEqual([found[n]["verdict"] for n in ("d_node", "y_node")], ["float", "integers"])
        self.assertEqual(self.is_refused_by("1.20", out), False)

    def test_a_relu_runs_in_the_kernel_in_front(self):
        nodes = [models.node("Conv", ["x", "w"], ["a"]), models.node("Relu", ["a"], ["b"]), models.node("Conv", ["b", "v"], ["c"], pads=[1] * 4),
                 models.node("Add", ["c", "b"], ["d"]), models.node("Relu", ["d"], ["e"]), models.node("Conv", ["e", "u"], ["y"])]
        model = models.save(self.dir / "residual.onnx", nodes, [("x", [1, 3, 8, 8])], [("y", [1, 16, 4, 4])],
                            [(name, models.weight(16, channels, 3, 3, seed=channels)) for name, channels in (("w", 3), ("v", 16), ("u", 16))])
        for target in ("tensorrt", "openvino-cpu"):
            out = self.dir / f"residual.{target}.onnx"
            self.assertEqual(seqto("quantize", model, "--data", models.arrays(self.dir / "residual.npz"), "--quick", "--target", target, "-o", out).returncode, 0)
            with self.subTest(target):
                _, nodes = self.lint(out, "--target", target)
                graph = onnx.load(out).graph
                before = {o: n.op_type for n in graph.node for o in n.output}
                clips = [n for n in graph.node if n.op_type in ("Relu", "Clip") and before[n.input[0]] in ("Conv", "Add")]
                self.assertTrue(clips)
                self.assertEqual({nodes[n.name]["verdict"] for n in clips}, {"fused"})
                behind = [n.name for n in graph.node if n.op_type == "QuantizeLinear" and n.input[0] in {c.output[0] for c in clips}]
                self.assertEqual({nodes[n]["verdict"] for n in behind}, {"fused"})

    def test_a_relu_with_another_reader_in_front_does_not(self):
        nodes = [models.node("QuantizeLinear", ["x", "s", "z"], ["q"]), models.node("DequantizeLinear", ["q", "s", "z"], ["d"]),
                 models.node("DequantizeLinear", ["w", "s"], ["v"]), models.node("Conv", ["d", "v"], ["c"]), models.node("Relu", ["c"], ["r"]), models.node("Exp", ["c"], ["e"]),
                 models.node("Relu", ["e"], ["t"]), models.node("Mul", ["r", "t"], ["y"])]
        model = models.save(self.dir / "readers.onnx", nodes, [("x", [1, 3, 8, 8])], [("y", [1, 4, 6, 6])],
                            [("w", np.ones((4, 3, 3, 3), np.int8)), ("s", np.float32(0.1)), ("z", np.int8(0))])
        _, found = self.lint(model, "--target", "tensorrt")
        self.assertEqual([found[n]["verdict"] for n in ("c_node", "r_node", "t_node")], ["integers", "float", "float"])

    def test_openvino_moves_codes_with_no_pair_behind(self):
        """As its compiled graph has them: Slice and Pad in u8, and a pair with other parameters behind that converts."""
        starts = [("b", np.array([0, 0, 1, 1])), ("e", np.array([1, 3, 7, 7])), ("p", np.array([0, 1, 0, 0, 0, 1, 0, 0]))]
        for scale, zero, pad, verdict in ((0.2, 0, "integers", "conversion"), (0.1, 0, "integers", "fused"), (0.1, 3, "float", "conversion")):
            nodes = [models.node("QuantizeLinear", ["x", "s", "z"], ["q"]), models.node("DequantizeLinear", ["q", "s", "z"], ["d"]),
                     models.node("Slice", ["d", "b", "e"], ["c"]), models.node("Pad", ["c", "p"], ["m"]), models.node("QuantizeLinear", ["m", "t", "z"], ["r"]),
                     models.node("DequantizeLinear", ["r", "t", "z"], ["f"]), models.node("DequantizeLinear", ["w", "s"], ["v"]), models.node("Conv", ["f", "v"], ["y"])]
            model = models.save(self.dir / "moved.onnx", nodes, [("x", [1, 3, 8, 8])], [("y", [1, 4, 4, 4])],
                                [("w", np.ones((4, 5, 3, 3), np.int8)), ("s", np.float32(0.1)), ("t", np.float32(scale)), ("z", np.uint8(zero)), *starts])
            _, found = self.lint(model, "--target", "openvino-cpu")
            self.assertEqual([found[n]["verdict"] for n in ("d_node", "c_node", "m_node", "r_node", "y_node")], ["fused", "integers", pad, verdict, "integers"])

    def test_products_of_few_rows(self):
        """TensorRT multiplies a vector by a matrix in float; rows that are not known are enough."""
        nodes = [models.node("MatMul", ["x", "w"], ["m"]), models.node("Relu", ["m"], ["r"]), models.node("MatMul", ["r", "v"], ["y"])]
        weights = [("w", models.weight(64, 64)), ("v", models.weight(64, 64, seed=1))]
        for shape, verdict in (([1, 64], "float"), ([1, 1, 64], "float"), ([2, 64], "integers"), ([4, 1, 64], "integers"), (["n", 64], "integers")):
            model, out = models.save(self.dir / "rows.onnx", nodes, [("x", shape)], [("y", shape)], weights), self.dir / "rows.int8.onnx"
            done = seqto("quantize", model, "--data", "random", "--quick", "--target", "tensorrt", "-o", out)
            with self.subTest(shape):
                self.assertEqual(done.returncode, 0, done.stderr)
                _, found = self.lint(out, "--target", "tensorrt", "--strict")
                self.assertEqual([found[n]["verdict"] for n in ("m_node", "y_node")], [verdict] * 2)
                codes = [n for n in onnx.load(out).graph.node if n.op_type == "QuantizeLinear"]
                self.assertEqual(bool(codes), verdict == "integers")

    def test_markdown(self):
        seqto("lint", self.signed, "--markdown", self.dir / "lint.md")
        text = (self.dir / "lint.md").read_text()
        self.assertIn("| node | operator | verdict | rule |", text), self.assertIn("float, wasted", text)


if __name__ == "__main__":
    unittest.main()
