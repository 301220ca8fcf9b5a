"""Files that are made for a target: types, layers and scales that it takes, held against lint and against onnx; what cannot
be had is refused; a study of such files."""
import json
import pathlib
import platform
import sys
import tempfile
import textwrap
import unittest

import numpy as np
import onnx
from onnx import TensorProto as T, numpy_helper, parser

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models, unit  # noqa: E402
from testing.models import DIGITS, DIGITS_DATA, seqto  # noqa: E402

WRITTEN = ("onnxruntime-cpu-x86", "onnxruntime-cpu-x86-vnni", "onnxruntime-cpu-x86-avx2", "onnxruntime-cpu-arm64", "onnxruntime-web-wasm", "openvino-cpu", "tensorrt",
           "qnn-htp", "xnnpack", "esp-dl", "esp-dl-p4", "vitis-xint8")
OPENVINO = models.openvino_libraries()


def sigmoid_after_product(path, width=8, rows=()):
    """x [1, *rows, width] times a weight, Sigmoid, times another."""
    nodes = [models.node("MatMul", ["x", "w"], ["a"]), models.node("Sigmoid", ["a"], ["s"]), models.node("MatMul", ["s", "v"], ["y"])]
    return models.save(path, nodes, [("x", [1, *rows, width])], [("y", [1, *rows, width])],
                       [("w", models.weight(width, width)), ("v", models.weight(width, width, seed=1))], opset=21, ir_version=10)


class Files(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.dir = pathlib.Path(folder.name)

    def quantize(self, target, *flags, model=DIGITS, data=DIGITS_DATA, code=0):
        out = self.dir / f"{target}.onnx"
        out.unlink(missing_ok=True)
        done = seqto("quantize", model, "--data", data, "--quick", "--target", target, "-o", out, *flags)
        self.assertEqual(done.returncode, code, done.stderr)
        return onnx.load(out) if code == 0 else done.stderr

    def lint(self, target):
        done = seqto("--json", "lint", self.dir / f"{target}.onnx", "--target", target, "--strict")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["counts"]

    def test_lint_finds_nothing_refused_or_wasted(self):
        for target in WRITTEN:
            with self.subTest(target=target):
                self.quantize(target)
                self.assertGreaterEqual(self.lint(target)["integers"], 11, "the convolutions")

    def test_xnnpack_gets_one_type_and_zero_points_of_0(self):
        graph = self.quantize("xnnpack").graph
        constants = {w.name: numpy_helper.to_array(w) for w in graph.initializer}
        written = {n.output[0]: n for n in graph.node}
        for conv in (n for n in graph.node if n.op_type == "Conv"):
            scale, zero = (constants[name] for name in written[conv.input[1]].input[1:])
            self.assertEqual((zero.dtype, zero.any(), scale.ndim), (np.int8, False, 1))
            self.assertEqual(constants[written[conv.input[0]].input[2]].dtype, np.int8)
        graph = self.quantize("xnnpack", "--activation-type", "uint8", "--weight-type", "uint8").graph
        constants = {w.name: numpy_helper.to_array(w) for w in graph.initializer}
        written = {n.output[0]: n for n in graph.node}
        for conv in (n for n in graph.node if n.op_type == "Conv"):
            scale, zero = (constants[name] for name in written[conv.input[1]].input[1:])
            self.assertEqual((zero.dtype, scale.size), (np.uint8, 1))
        # What the x86 kernels want is no pair of one type, and uint8 has one scale there.
        for words in (("--activation-type", "uint8", "--weight-type", "int8"), ("--activation-type", "uint8", "--weight-type", "uint8")):
            done = seqto("quantize", DIGITS, "--data", DIGITS_DATA, "--quick", "--per-channel", *words, "-o", self.dir / "mixed.onnx")
            self.assertEqual(done.returncode, 0, done.stderr)
            found = json.loads(seqto("--json", "lint", self.dir / "mixed.onnx", "--target", "xnnpack").stdout)
            verdicts = {n["verdict"] for n in found["nodes"] if n["op_type"] == "Conv"}
            self.assertEqual(verdicts, {"float"}, words)

    def test_tensorrt_gets_symmetric_pairs_in_front_of_layers(self):
        graph = self.quantize("tensorrt").graph
        constants = {w.name: numpy_helper.to_array(w) for w in graph.initializer}
        pairs = [n for n in graph.node if n.op_type == "QuantizeLinear"]
        for pair in pairs:
            self.assertEqual(constants[pair.input[2]].dtype, np.int8)
            self.assertEqual(constants[pair.input[2]].max(), 0)
        written = {n.output[0]: n for n in graph.node}
        # What stands behind a convolution (an activation, an addition) stays beside it.
        self.assertFalse([p.name for p in pairs if p.input[0] in written and written[p.input[0]].op_type == "Conv"
                          and any(n.op_type in ("Relu", "Clip") and p.output[0] in n.input for n in graph.node)])
        for conv in (n for n in graph.node if n.op_type == "Conv"):
            self.assertEqual(written[conv.input[0]].op_type, "DequantizeLinear")
            self.assertEqual(constants[conv.input[2]].dtype, np.float32, "its parser takes no int32 codes")
        small = next(n for n in graph.node if n.op_type == "Gemm")
        self.assertNotIn(small.input[0], [n.output[0] for n in graph.node if n.op_type == "DequantizeLinear"])

    def sums(self, target, file=None):
        """What gives the inputs of each Add, and what lint says of it."""
        path = self.dir / f"{file or target}.onnx"
        graph = onnx.load(path).graph
        written = {n.output[0]: n.op_type for n in graph.node}
        done = seqto("--json", "lint", path, "--target", target)
        verdicts = {n["node"]: n["verdict"] for n in json.loads(done.stdout)["nodes"]}
        return [([written.get(i, "constant") for i in n.input], verdicts[n.name]) for n in graph.node if n.op_type == "Add"]

    def test_tensorrt_adds_in_the_kernel_of_a_convolution(self):
        self.quantize("tensorrt")
        self.assertEqual(self.sums("tensorrt"), [(["Conv", "DequantizeLinear"], "integers")] * 2)
        self.quantize("qnn-htp")
        self.assertEqual({tuple(inputs) for inputs, _ in self.sums("qnn-htp")}, {("DequantizeLinear", "DequantizeLinear")})

    def test_tensorrt_adds_in_one_kernel_of_two_and_behind_a_bias(self):
        nodes = [models.node("MatMul", ["x", "w"], ["a"]), models.node("MatMul", ["x", "v"], ["b"]),
                 models.node("Add", ["a", "b"], ["c"]), models.node("MatMul", ["c", "u"], ["d"]),
                 models.node("Add", ["d", "bias"], ["e"]), models.node("Add", ["c", "e"], ["y"])]
        weights = [(name, models.weight(32, 32, seed=i)) for i, name in enumerate("wvu")] + [("bias", models.weight(32))]
        model = models.save(self.dir / "sums.onnx", nodes, [("x", ["n", 32])], [("y", ["n", 32])], weights)
        self.quantize("tensorrt", model=model, data=models.arrays(self.dir / "sums.npz", samples=8, shape=(32,)))
        inputs = [inputs for inputs, _ in self.sums("tensorrt")]
        self.assertEqual(inputs, [["MatMul", "DequantizeLinear"], ["MatMul", "constant"], ["DequantizeLinear", "Add"]])
        self.assertEqual([verdict for _, verdict in self.sums("tensorrt")], ["integers"] * 3)

    def test_floats_of_what_is_no_product_keep_an_addition_in_float(self):
        graph = """<ir_version: 10, opset_import: ["" : 21]>
          g (float[1,4,8,8] x) => (float[1,4,4,4] y) <float s = {0.1}, int8 z = {0}> {
            q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) m = MaxPool<kernel_shape = [2,2], strides = [2,2]>(d)
            p = AveragePool<kernel_shape = [2,2], strides = [2,2]>(d)
            r = QuantizeLinear(p, s, z) e = DequantizeLinear(r, s, z) y = Add(m, e) }"""
        model = parser.parse_model(graph)
        for i, node in enumerate(model.graph.node): node.name = f"n{i}"
        onnx.save(model, self.dir / "pools.onnx")
        self.assertEqual(self.sums("tensorrt", "pools"), [(["MaxPool", "DequantizeLinear"], "float")])

    def test_qnn_gets_one_scale_for_the_weights_of_products(self):
        graph = self.quantize("qnn-htp").graph
        constants = {w.name: numpy_helper.to_array(w) for w in graph.initializer}
        written = {n.output[0]: n for n in graph.node}
        scales = {n.op_type: constants[written[n.input[1]].input[1]] for n in graph.node if n.op_type in ("Conv", "Gemm")}
        self.assertEqual(scales["Gemm"].size, 1)
        self.assertGreater(scales["Conv"].size, 1)

    def test_qnn_gets_no_narrower_range_than_it_has(self):
        nodes = [models.node("Conv", ["x", "w"], ["c"]), models.node("Conv", ["c", "v"], ["y"])]
        model = models.save(self.dir / "narrow.onnx", nodes, [("x", [1, 3, 8, 8])], [("y", [1, 4, 4, 4])],
                            [("w", models.weight(4, 3, 3, 3) * np.float32(1e-7)), ("v", models.weight(4, 4, 3, 3, seed=1))])
        data = models.arrays(self.dir / "narrow.npz", samples=8)
        for flags, least in (((), 1e-4), (("--min-real-range", 1e-3), 1e-3)):
            graph = self.quantize("qnn-htp", *flags, model=model, data=data).graph
            constants = {w.name: numpy_helper.to_array(w) for w in graph.initializer}
            pair = next(n for n in graph.node if n.op_type == "QuantizeLinear" and n.input[0] == "c")
            self.assertAlmostEqual(float(constants[pair.input[1]]), least / 255, delta=least / 2550)

    def test_qnn_gets_the_fixed_scale_of_a_sigmoid_in_16_bits(self):
        model = sigmoid_after_product(self.dir / "sigmoid.onnx")
        data = models.arrays(self.dir / "x.npz", samples=8, shape=(8,))
        graph = self.quantize("qnn-htp", "--activation-type", "uint16", model=model, data=data).graph
        constants = {w.name: numpy_helper.to_array(w) for w in graph.initializer}
        pair = next(n for n in graph.node if n.op_type == "QuantizeLinear" and n.input[0] == "s")
        self.assertEqual((float(constants[pair.input[1]]), int(constants[pair.input[2]])), (1 / 65536, 0))
        self.assertEqual(constants[pair.input[2]].dtype, np.uint16)

    def test_what_moves_values_in_front_of_all_layers_is_quantized_where_nothing_is_in_float(self):
        nodes = [models.node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]), models.node("Conv", ["t", "w"], ["y"])]
        model = models.save(self.dir / "moved.onnx", nodes, [("x", [1, 8, 8, 3])], [("y", [1, 4, 6, 6])], [("w", models.weight(4, 3, 3, 3))])
        data = models.arrays(self.dir / "moved.npz", samples=8, shape=(8, 8, 3))
        self.quantize("esp-dl", model=model, data=data)
        self.assertEqual(self.lint("esp-dl")["float"], 0)

    def test_where_all_is_codes_a_shape_that_is_open_is_refused_with_its_cure(self):
        nodes = [models.node("Conv", ["x", "w"], ["c"]), models.node("Shape", ["x"], ["s"]), models.node("Slice", ["s", "zero", "one"], ["n"]),
                 models.node("Concat", ["n", "rest"], ["r"], axis=0), models.node("Reshape", ["c", "r"], ["y"])]
        constants = [("w", models.weight(4, 3, 3, 3)), *((name, np.array([value], np.int64)) for name, value in (("zero", 0), ("one", 1), ("rest", -1)))]
        model = models.save(self.dir / "open.onnx", nodes, [("x", ["batch", 3, 8, 8])], [("y", ["batch", 144])], constants)
        data = models.arrays(self.dir / "open.npz", samples=8, shape=(3, 8, 8))
        refused = self.quantize("esp-dl", model=model, data=data, code=3)
        self.assertIn("Shape 's_node'", refused)
        self.assertIn("seqto prepare --dim", refused)
        closed = self.dir / "closed.onnx"
        self.assertEqual(seqto("prepare", model, "--dim", "batch=1", "-o", closed).returncode, 0)
        self.quantize("esp-dl", model=closed, data=data)

    def test_the_readout_of_a_detector_is_on_codes_where_nothing_is_in_float(self):
        nodes = [models.node("Conv", ["x", "u"], ["t"]), models.node("Conv", ["t", "v"], ["a"]), models.node("Conv", ["t", "w"], ["b"]),
                 models.node("Concat", ["a", "b"], ["y"], axis=1)]
        model = models.save(self.dir / "readout.onnx", nodes, [("x", [1, 3, 8, 8])], [("y", [1, 2, 6, 6])],
                            [("u", models.weight(64, 3, 3, 3)), ("v", 30 * models.weight(1, 64, 1, 1, seed=1)),
                             ("w", models.weight(1, 64, 1, 1, seed=2))])
        data = models.arrays(self.dir / "readout.npz", samples=16, shape=(3, 8, 8))
        out = self.dir / "esp-dl.onnx"
        done = seqto("quantize", model, "--data", data, "--target", "esp-dl", "-o", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.lint("esp-dl")["float"], 0)
        done = seqto("quantize", model, "--data", data, "--target", "esp-dl", "--float-unlike-concat", "--quick", "-o", out)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_cannot_be_had_is_refused(self):
        self.assertIn("float16", self.quantize("coreml", code=2))
        self.assertIn("float16", self.quantize("onnxruntime-web-webgpu", code=2))
        self.assertIn("float16", self.quantize("tensorrt", "--mode", "dynamic", code=2))
        self.assertIn("(int4_weights+bits=4)", self.quantize("openvino-cpu", "--mode", "weights", "--weight-type", "uint4", code=2))
        self.assertIn("qnn-htp takes uint8, uint16", self.quantize("qnn-htp", "--activation-type", "int16", code=2))
        self.assertIn("xnnpack takes int8", self.quantize("xnnpack", "--activation-type", "uint16", code=2))
        self.assertIn("TOML", self.quantize("toaster", code=2))
        table = self.dir / "strange.toml"
        table.write_text('name = "mine"\nknown = "documented"\nfloats = []\nschemes = ["int9"]\n')
        self.assertIn("int9", self.quantize(table, code=2))

    def test_weights_of_two_bits_are_weights_of_few_bits(self):
        self.quantize("onnxruntime-cpu-x86", "--mode", "weights", "--weight-bits", "2")
        table = self.dir / "few.toml"
        table.write_text('name = "few"\nknown = "documented"\nextends = "onnxruntime-cpu-x86"\nschemes = ["int4_weights+bits=2", "float32"]\n')
        self.quantize(table, "--mode", "weights", "--weight-bits", "2")
        self.assertIn("int4_weights+bits=4", self.quantize(table, "--mode", "weights", "--weight-bits", "4", code=2))

    def test_outputs_that_were_named_stay_as_named(self):
        pairs = lambda *flags: sum(n.op_type == "QuantizeLinear" for n in self.quantize("tensorrt", *flags).graph.node)
        self.assertGreater(pairs("--exclude-output-op-types", "Gemm"), pairs())

    def test_without_vnni_weights_have_seven_bits(self):
        widest = {}
        for target in ("onnxruntime-cpu-x86-vnni", "onnxruntime-cpu-arm64", "onnxruntime-cpu-x86-avx2"):
            weights = [numpy_helper.to_array(w) for w in self.quantize(target).graph.initializer if len(w.dims) == 4]
            self.assertTrue(all(w.dtype == np.int8 for w in weights))
            widest[target] = max(np.abs(w.astype(int)).max() for w in weights)
        self.assertEqual(list(widest.values()), [127, 127, 64])
        done = seqto("quantize", DIGITS, "--data", DIGITS_DATA, "--quick", "--target", "onnxruntime-cpu-x86-avx2", "-o", self.dir / "q.onnx")
        self.assertIn("7 bits: onnxruntime-cpu-x86-avx2 has no VNNI", done.stderr)

    @unittest.skipUnless(platform.machine() == "x86_64", "what is fast on x86")
    def test_the_processor_here_gets_what_no_target_gets(self):
        self.quantize("onnxruntime-cpu-x86")
        done = seqto("quantize", DIGITS, "--data", DIGITS_DATA, "--quick", "-o", self.dir / "here.onnx")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.dir / "here.onnx").read_bytes(), (self.dir / "onnxruntime-cpu-x86.onnx").read_bytes())

    def test_openvino_npu_gets_one_scale_for_what_is_added_or_joined(self):
        nodes = [models.node("Conv", ["x", "v"], ["a"]), models.node("Relu", ["a"], ["r"]), models.node("Conv", ["x", "w"], ["b"]),
                 models.node("Add", ["r", "b"], ["s"]), models.node("MaxPool", ["s"], ["m"], kernel_shape=[1, 1]),
                 models.node("Concat", ["s", "b"], ["c"], axis=1), models.node("Conv", ["c", "u"], ["y"])]
        model = models.save(self.dir / "joined.onnx", nodes, [("x", [1, 4, 8, 8])], [("y", [1, 4, 8, 8]), ("m", [1, 8, 8, 8])],
                            [("v", models.weight(8, 4, 1, 1)), ("w", 3 * models.weight(8, 4, 1, 1, seed=1)),
                             ("u", models.weight(4, 16, 1, 1, seed=2))])
        graph = self.quantize("openvino-npu", model=model, data=models.arrays(self.dir / "x.npz", shape=(4, 8, 8))).graph
        pairs = {n.output[0]: n for n in graph.node if n.op_type == "DequantizeLinear"}
        constants = {w.name: numpy_helper.to_array(w) for w in graph.initializer}
        for op_type in ("Add", "Concat"):
            read = [pairs[name] for n in graph.node if n.op_type == op_type for name in n.input]
            self.assertEqual(len({constants[p.input[1]].item() for p in read}), 1, op_type)
            self.assertEqual(len({constants[p.input[2]].item() for p in read}), 1, op_type)
        counts = self.lint("openvino-npu")
        self.assertGreaterEqual(counts["integers"], 6)
        self.assertEqual(counts["refused"], 0)
        other = self.dir / "joined_x86.onnx"
        done = seqto("quantize", model, "--data", self.dir / "x.npz", "--quick", "--activation-type", "uint8", "-o", other)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = seqto("lint", other, "--target", "openvino-npu", "--all")
        self.assertIn("inputs of other scales", done.stdout)

    def test_a_table_of_ones_own(self):
        table = self.dir / "mine.toml"
        table.write_text('name = "mine"\nknown = "documented"\nfloats = ["float32"]\nschemes = ["int8", "float32"]\n'
                         '[[rule]]\nops = ["Conv"]\nactivations = ["uint8"]\nweights = ["uint8"]\nper_channel = false\n')
        done = seqto("quantize", DIGITS, "--data", DIGITS_DATA, "--quick", "--target", table, "-o", self.dir / "mine.onnx")
        self.assertEqual(done.returncode, 0, done.stderr)
        weights = [w for w in onnx.load(self.dir / "mine.onnx").graph.initializer if len(w.dims) == 4]
        self.assertEqual({w.data_type for w in weights}, {T.UINT8})

    def test_a_table_that_differs_in_a_name(self):
        table = self.dir / "other.toml"
        table.write_text('name = "other"\nextends = "qnn-htp"\n')
        self.quantize(table)

    def test_the_table_of_the_documentation(self):
        page = (models.SOURCE / "docs/reference/targets.md").read_text()
        begin = page.index('    name = "my-npu"')
        table = self.dir / "mynpu.toml"
        table.write_text(textwrap.dedent(page[begin:page.index("With `extends", begin)]))
        self.quantize(table)
        done = seqto("--json", "lint", self.dir / "mynpu.toml.onnx", "--target", table)
        self.assertGreaterEqual(json.loads(done.stdout)["counts"]["integers"], 11)
        self.assertIn("int8, float16\n", self.quantize(table, "--mode", "dynamic", code=2))
        table.write_text('name = "none"\nknown = "documented"\nfloats = []\n')
        self.assertIn("takes none", self.quantize(table, code=2))


# A runtime that takes no codes in front of these layers.
CHOOSY = """
import onnx

class Own:
    name = "a choosy runtime"
    def __init__(self, threads): pass
    def load(self, file, inputs, outputs):
        model = onnx.load(file)
        codes = {{o for n in model.graph.node if n.op_type == "DequantizeLinear" for o in n.output}}
        for node in model.graph.node:
            if node.name in {names!r} and ({floats} or node.input[0] in codes): raise ValueError("no kernel for " + node.name)
        return lambda tensors: []
"""
OPENVINO_CPU = (models.SOURCE / "targets/openvino-cpu.toml").read_text()


class Refused(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)

    def quantize(self, *names, floats=False, more=()):
        models.own_runtime(self.dir / "runtimes", "choosy", CHOOSY.format(names=names, floats=floats))
        target = self.dir / "target.toml"
        target.write_text(OPENVINO_CPU.replace('device = "openvino"', 'device = "choosy"'))
        out = self.dir / "out.onnx"
        done = seqto("quantize", DIGITS, "--data", DIGITS_DATA, "--quick", "--target", target, "-o", out, *more,
                     env={"SEQTO_RUNTIMES": str(self.dir / "runtimes")})
        self.assertEqual(done.returncode, 0, done.stderr)
        model = onnx.load(out)
        codes = {o for n in model.graph.node if n.op_type == "DequantizeLinear" for o in n.output}
        return {n.name for n in model.graph.node if n.op_type in ("Conv", "Gemm") and n.input[0] in codes}, done.stderr

    def test_layers_that_the_device_refuses_on_codes_stay_float(self):
        everything, said = self.quantize()
        self.assertNotIn("refuses", said)
        for names in (["stem"], ["classifier"], ["block2_pw", "block4_dw", "block5_dw"]):
            found, said = self.quantize(*names)
            self.assertEqual(found, everything - set(names))
            for name in names: self.assertIn(f"'{name}' ([choosy] no kernel for {name})", said)

    def test_of_a_plan_too(self):
        plan = self.dir / "plan.json"
        plan.write_text(json.dumps({"schema_version": 1, "schemes": {"stem": "int8", "block2_pw": "int8"}}))
        self.assertEqual(self.quantize("stem", more=("--plan", plan))[0], {"block2_pw"})

    def test_what_it_refuses_in_float_too_is_written_with_a_warning(self):
        found, said = self.quantize("stem", floats=True)
        self.assertIn("stem", found)
        self.assertIn("warning: choosy does not take the file", said)

    # Its compiler ends at a constant on codes behind a pair and in front of a Transpose or Gather.
    def test_openvino_adds_floats_to_products(self):
        model, out = self.dir / "bias.onnx", self.dir / "out.onnx"
        nodes = [models.node("MatMul", ["x", "w"], ["p"]), models.node("Add", ["b", "p"], ["a"]),
                 models.node("Transpose", ["a"], ["t"], perm=[0, 2, 1]), models.node("MatMul", ["t", "v"], ["y"])]
        models.save(model, nodes, [("x", [1, 16, 64])], [("y", [1, 32, 24])],
                    [("w", models.weight(64, 32)), ("b", models.weight(32)), ("v", models.weight(16, 24))])
        done = seqto("quantize", model, "--data", "random", "--samples", 4, "--quick", "--target", "openvino-cpu", "-o", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("refuses", done.stderr)
        graph = onnx.load(out).graph
        add = next(n for n in graph.node if n.op_type == "Add")
        self.assertIn("b", add.input)
        self.assertIn("p", add.input)
        self.assertEqual(sum(n.op_type == "QuantizeLinear" for n in graph.node), 2)  # in front of the products alone

    @unittest.skipUnless((models.SOURCE / ".deps/runtimes/openvino").is_dir(), "`./dev setup runtimes` brings OpenVINO")
    def test_openvino_takes_what_is_written(self):
        model, out = self.dir / "pad.onnx", self.dir / "out.onnx"
        nodes = [models.node("Conv", ["x", "w"], ["c"]), models.node("Pad", ["c", "pads", "least"], ["p"]),
                 models.node("Conv", ["p", "v"], ["y"])]
        models.save(model, nodes, [("x", [1, 3, 8, 8])], [("y", [1, 4, 6, 7])],
                    [("w", models.weight(16, 3, 3, 3)), ("v", models.weight(4, 16, 1, 1)), ("least", np.float32(-0.25)),
                     ("pads", np.int64([0, 0, 0, 1, 0, 0, 0, 0]))])
        done = seqto("quantize", model, "--data", "random", "--samples", 4, "--quick", "--target", "openvino-cpu", "-o", out)
        self.assertIn("refuses these on codes", done.stderr)
        done = seqto("--json", "validate", out, "--runtimes", "openvino", "--data", "random", "--samples", 2)
        self.assertIn(done.returncode, (0, 5), done.stderr)
        self.assertNotIn("refuses", done.stdout)


class Studies(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.dir = pathlib.Path(folder.name)

    def tune(self, target, *flags, code=0, env=None):
        out = self.dir / target
        done = seqto("tune", DIGITS, "--data", DIGITS_DATA, "--quick", "--max-evaluations", 20, "--target", target, "-o", out,
                     *flags, env=env)
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads((out / "summary.json").read_text()) if code == 0 else done.stderr

    def test_what_cannot_be_timed_is_no_objective(self):
        summary = self.tune("tensorrt")
        self.assertEqual(summary["objectives"], ["kl", "size"])
        self.assertEqual(summary["options"]["target"], "tensorrt")
        for word in ("faster", "slower", "as fast"):
            self.assertNotIn(word, summary["answer"])
        used = {scheme for point in summary["front"] for scheme in point["schemes"]}
        self.assertIn("int8", used)
        self.assertLessEqual(used, {"int8", "float16", "float32"})
        for point in summary["front"]:
            done = seqto("--json", "lint", self.dir / "tensorrt" / point["file"], "--target", "tensorrt")
            self.assertEqual(done.returncode, 0, done.stderr)
            counts = json.loads(done.stdout)["counts"]
            self.assertEqual(counts["refused"], 0)
            if point["schemes"].get("int8"):
                self.assertGreater(counts["integers"], 0)
        again = seqto("tune", DIGITS, "--data", DIGITS_DATA, "--quick", "--max-evaluations", 24, "--target", "tensorrt", "-o",
                      self.dir / "tensorrt")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("latency: of this machine", again.stdout)

    def test_nor_is_another_processors_latency(self):
        self.assertEqual(self.tune("onnxruntime-cpu-arm64")["objectives"], ["kl", "size"])

    def test_candidates_that_the_target_refuses_fail_with_the_reason(self):
        model = sigmoid_after_product(self.dir / "products.onnx", width=64, rows=(4,))
        data = models.arrays(self.dir / "x.npz", samples=32, shape=(4, 64))
        done = seqto("tune", model, "--data", data, "--quick", "--max-evaluations", 12, "--target", "tensorrt", "--schemes",
                     "int8,int4_weights,float32", "-o", self.dir / "refused")
        self.assertEqual(done.returncode, 0, done.stderr)
        study = [json.loads(line) for line in (self.dir / "refused/study.jsonl").read_text().splitlines()]
        failures = [line["trial"]["failure"] for line in study if line.get("trial", {}).get("outcome") == "failed"]
        self.assertTrue(failures)
        for failure in failures:
            self.assertIn("tensorrt refuses MatMulNBits", failure)
        summary = json.loads((self.dir / "refused/summary.json").read_text())
        self.assertNotIn("int4_weights", {s for point in summary["front"] for s in point["schemes"]})

    def lint(self, file, target):
        done = seqto("--json", "lint", file, "--target", target)
        return json.loads(done.stdout)["counts"]

    def test_where_nothing_is_in_float_all_on_codes_is_the_answer(self):
        for table in ("esp-dl", "esp-dl-p4", "xnnpack"):
            with self.subTest(table):
                summary = self.tune(table, "--max-size", "60%")
                for point in summary["front"]:
                    self.assertEqual(self.lint(self.dir / table / point["file"], table)["refused"], 0, point["id"])
                self.assertEqual(self.lint(self.dir / table / summary["selected_file"], table)["refused"], 0)
                self.assertTrue(all(limit["met"] for limit in summary["limits"]))
                if table == "xnnpack": continue
                self.assertEqual([set(point["schemes"]) for point in summary["front"]], [{"int8"}])
                study = [json.loads(line) for line in (self.dir / table / "study.jsonl").read_text().splitlines()]
                trials = [line["trial"] for line in study if "trial" in line]
                self.assertFalse([t["failure"] for t in trials if t["outcome"] == "failed"])
                self.assertIn(f"{table} refuses", next(t["failure"] for t in trials if t["id"] == "float"))

    def test_what_no_file_can_be_made_of_ends_as_in_quantize(self):
        nodes = [models.node("Conv", ["x", "w"], ["c"]), models.node("Erf", ["c"], ["e"]), models.node("Conv", ["e", "v"], ["y"])]
        model = models.save(self.dir / "erf.onnx", nodes, [("x", [1, 3, 8, 8])], [("y", [1, 4, 4, 4])],
                            [("w", models.weight(8, 3, 3, 3)), ("v", models.weight(4, 8, 3, 3, seed=1))])
        data = models.arrays(self.dir / "erf.npz", samples=32, shape=(3, 8, 8))
        for target in ("qnn-htp", "esp-dl"):
            with self.subTest(target):
                said = [seqto(word, model, "--data", data, "--quick", "--target", target, "-o", self.dir / f"erf_{target}_{word}")
                        for word in ("quantize", "tune")]
                self.assertEqual([done.returncode for done in said], [3, 3], said[1].stderr)
                for done in said: self.assertIn(f"{target} refuses Erf 'e_node'", done.stderr)
                self.assertFalse((self.dir / f"erf_{target}_tune/models/selected.onnx").exists())

    def test_what_is_refused_by_a_search_alone_is_not_selected(self):
        """A layer that is to stay in float, where nothing may."""
        done = seqto("tune", DIGITS, "--data", DIGITS_DATA, "--quick", "--max-evaluations", 8, "--target", "esp-dl", "--exclude", "stem",
                     "-o", self.dir / "stem")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("esp-dl refuses Conv 'stem'", done.stderr)
        self.assertFalse((self.dir / "stem/models/selected.onnx").exists())

    def test_tables_without_int8(self):
        for target, schemes in (("coreml", {"float16"}), ("onnxruntime-web-webgpu", {"float16", "int4_weights", "int8_weights"})):
            with self.subTest(target):
                summary = self.tune(target)
                self.assertEqual(set(summary["options"]["schemes"]), schemes | {"float32"})
                used = {scheme for point in summary["front"] for scheme in point["schemes"]}
                self.assertTrue(used)
                self.assertLessEqual(used, schemes | {"float32"})

    def test_powers_of_two_are_calibrated_as_in_quantize(self):
        method = lambda *flags: json.loads(self.options(*flags)).get("calibration", {}).get("method")
        self.assertEqual(method(), "mse")
        self.assertIsNone(method("--method", "minmax"))

    def options(self, *flags):
        out = self.dir / "_".join(("powers", *flags))
        done = seqto("tune", DIGITS, "--data", DIGITS_DATA, "--quick", "--max-evaluations", 3, "--target", "vitis-xint8", "-o", out, *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.dumps(json.loads((out / "summary.json").read_text())["options"])

    def test_a_plan_of_a_study_has_its_own_options(self):
        out = self.dir / "planned"
        done = seqto("tune", DIGITS, "--data", DIGITS_DATA, "--quick", "--max-evaluations", 6, "--target", "vitis-xint8", "-o", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        for more in ((), ("--target", "vitis-xint8")):
            done = seqto("quantize", DIGITS, "--data", DIGITS_DATA, "--plan", out / "plans/full.json", "-o", self.dir / "planned.onnx", *more)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("before the plan's own options", done.stderr)

    def test_the_published_procedure_has_no_target(self):
        self.assertIn("strategy", self.tune("tensorrt", "--strategy", "incremental", code=2))

    @unittest.skipUnless(OPENVINO, "no onnxruntime-openvino in .deps/openvino; `tools/setup.sh test` brings it")
    def test_openvino_is_timed(self):
        summary = self.tune("openvino-cpu", "--device", "openvino", env={"SEQTO_ORT_LIBRARY": str(OPENVINO[0])})
        self.assertIn("latency", summary["objectives"])
        self.assertIn("int8_weights", summary["options"]["schemes"])


if __name__ == "__main__":
    unit.main()
