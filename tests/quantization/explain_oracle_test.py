"""`seqto quantize --explain` and `seqto inspect`: each node once, a reason for each in float, and schemes that are true
also for models that onnxruntime quantized, in each of its forms."""

import json
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import quantization as q

os.environ["TQDM_DISABLE"] = "1"
HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "differential")]
import graphs  # noqa: E402
import oracle  # noqa: E402
from testing import models  # noqa: E402
from testing.models import node  # noqa: E402
from testing.samples import Samples  # noqa: E402

GRAPHS = 25


def mixed(path, opset=17):
    """A convolution, its Relu, a product with constant weights and one with none, and ops that no rule knows."""
    nodes = [node("Conv", ["x", "w", "b"], ["c"]), node("Relu", ["c"], ["r"]),
             node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]), node("Flatten", ["p"], ["f"]),
             node("MatMul", ["f", "m"], ["h"]), node("Erf", ["h"], ["e"]), node("Reshape", ["e", "s"], ["g"]),
             node("Transpose", ["g"], ["t"], perm=[1, 0]), node("MatMul", ["e", "t"], ["y"])]
    weights = [("w", models.weight(4, 3, 3, 3)), ("b", models.weight(4, seed=2)), ("m", models.weight(36, 8, seed=3)),
               ("s", np.array([1, 8], np.int64))]
    return models.save(path, nodes, [("x", [1, 3, 8, 8])], [("y", [1, 1])], weights, opset=opset)


class Explain(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-explain-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.data = models.arrays(self.dir / "d.npz", samples=4)
        self.samples = [{"x": x[None]} for x in np.load(self.data)["x"]]

    def explain(self, model, *words):
        done = models.seqto("quantize", model, "-o", self.dir / "out.onnx", "--explain", "--json", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        layers = json.loads(done.stdout)["layers"]
        self.assertEqual([l["name"] for l in layers], [n.name for n in onnx.load(str(model)).graph.node])
        for l in layers:
            self.assertTrue(l["reason"], l)
        return {l["name"]: l for l in layers}

    def inspect(self, model):
        done = models.seqto("inspect", model, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_reasons(self):
        layers = self.explain(mixed(self.dir / "m.onnx"), "--data", self.data)
        schemes = {name[:-5]: l["scheme"] for name, l in layers.items()}
        self.assertEqual(schemes, {"c": "int8", "r": "int8", "p": "int8", "f": "int8", "h": "int8", "e": "float32",
                                   "g": "float32", "t": "float32", "y": "int8"})
        self.assertIn("removed", layers["r_node"]["reason"])
        self.assertIn("Erf is not in the quantizer's list", layers["e_node"]["reason"])
        self.assertIn("not quantized: 'e'", layers["g_node"]["reason"])  # the last product alone reads codes of it
        self.assertIn("Reshape 'g_node'", layers["t_node"]["reason"])

        layers = self.explain(self.dir / "m.onnx", "--data", self.data, "--compat", "onnxruntime")
        self.assertIn("for a later layer", layers["g_node"]["reason"])  # it reads the last product's codes

    def test_what_was_asked_for(self):
        model = mixed(self.dir / "m.onnx")
        out = self.explain(model, "--data", self.data, "--exclude", "c_node,h_node")
        self.assertEqual((out["c_node"]["scheme"], out["c_node"]["reason"]), ("float32", "excluded by name"))
        self.assertEqual(out["r_node"]["scheme"], "float32")
        self.assertIn("not quantized: 'c' (Conv 'c_node')", out["r_node"]["reason"])
        out = self.explain(model, "--data", self.data, "--op-types", "Conv")
        self.assertEqual(out["h_node"]["reason"], "op type MatMul is not among the chosen")
        out = self.explain(model, "--data", self.data, "--include", "c_node")
        self.assertEqual(out["h_node"]["reason"], "not among the included")
        plan = self.dir / "plan.json"
        plan.write_text(json.dumps({"schemes": {"c_node": "int8"}}))
        out = self.explain(model, "--data", self.data, "--plan", plan)
        self.assertEqual(out["h_node"]["reason"], "float32 in the plan")
        self.assertEqual(out["c_node"]["scheme"], "int8")

    def test_opset(self):
        out = self.explain(mixed(self.dir / "m.onnx", opset=11), "--data", self.data, "--activation-type", "int8")
        self.assertIn("would be invalid at opset 11", out["p_node"]["reason"])

    def test_unknown_names(self):
        model = mixed(self.dir / "m.onnx")
        for flag in ("--exclude", "--include"):
            done = models.seqto("quantize", model, "--data", self.data, "-o", self.dir / "o.onnx", flag, "c_mode")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("the nearest are: c_node", done.stderr)

    def test_generated_graphs(self):
        """Every node exactly once, whatever the graph and the options; int8 exactly where the inputs say so."""
        for seed in range(GRAPHS):
            case = graphs.generate(seed)
            for i, n in enumerate(case.model.graph.node):
                n.name = f"n{i}"
            path, ranges = self.dir / "g.onnx", self.dir / "r.json"
            onnx.save(case.model, str(path))
            oracle.save_ranges(oracle.observe(case.model, case.inputs, oracle.float_tensors(case.model, [])), ranges)
            done = models.seqto("quantize", path, "--ranges", ranges, "-o", self.dir / "out.onnx", "--explain", "--json")
            if done.returncode == 3:  # refused with a message: nothing to quantize, or the opset
                continue
            self.assertEqual(done.returncode, 0, f"{seed}: {done.stderr}")
            layers = json.loads(done.stdout)["layers"]
            # Constant nodes that hold weights become initializers, and the others with them.
            lifted = all(l["op_type"] != "Constant" for l in layers)
            kept = [n.name for n in case.model.graph.node if not (lifted and n.op_type == "Constant")]
            self.assertEqual(sorted(l["name"] for l in layers), sorted(kept), seed)
            after = onnx.load(str(self.dir / "out.onnx")).graph
            dequantized = {n.output[0] for n in after.node if n.op_type == "DequantizeLinear"}
            nodes = {n.name: n for n in after.node}
            for l in layers:
                self.assertTrue(l["reason"], (seed, l))
                if l["op_type"] in ("Conv", "ConvTranspose", "Gemm", "MatMul", "Add", "Mul"):
                    inputs = list(nodes[l["name"]].input)[: 2]
                    self.assertEqual(l["scheme"] == "int8", all(i in dequantized for i in inputs), (seed, l))

    def check_form(self, path, form, schemes):
        found = self.inspect(path)
        self.assertEqual(found["form"], form)
        layers = {l["name"].removesuffix("_quant"): l for l in found["layers"]}
        for name, scheme in schemes.items():
            self.assertEqual(layers[name]["scheme"], scheme, layers[name])
            if scheme != "float32":
                self.assertFalse(layers[name]["quantizable"], layers[name])

    def test_forms_of_onnxruntime(self):
        model, out = mixed(self.dir / "m.onnx"), self.dir / "q.onnx"
        for activation, per_channel in ((q.QuantType.QInt8, False), (q.QuantType.QUInt8, True)):
            for fmt, form in ((q.QuantFormat.QDQ, "qdq"), (q.QuantFormat.QOperator, "qoperator")):
                q.quantize_static(str(model), str(out), Samples(self.samples), quant_format=fmt,
                                  activation_type=activation, weight_type=q.QuantType.QInt8, per_channel=per_channel)
                self.check_form(out, form, {"c_node": "int8", "p_node": "int8", "h_node": "int8", "e_node": "float32",
                                            "g_node": "float32", "t_node": "float32", "y_node": "int8"})
        q.quantize_static(str(model), str(out), Samples(self.samples), activation_type=q.QuantType.QUInt16,
                          weight_type=q.QuantType.QInt8, extra_options={"UseQDQContribOps": True})
        self.check_form(out, "qdq", {"c_node": "int8w_int16a", "h_node": "int8w_int16a", "e_node": "float32"})

    def test_dynamic_of_onnxruntime(self):
        model, out = mixed(self.dir / "m.onnx"), self.dir / "q.onnx"
        q.quantize_dynamic(str(model), str(out), op_types_to_quantize=["MatMul", "Conv"])
        self.check_form(out, "dynamic", {"c_node": "int8_dynamic", "h_node": "int8_dynamic", "r_node": "float32",
                                         "e_node": "float32"})
        listed = {l["name"]: l for l in self.inspect(out)["layers"]}
        for n in onnx.load(str(out)).graph.node:  # what carries an integer product is no layer
            if n.op_type in ("Cast", "Mul", "DynamicQuantizeLinear"):
                self.assertEqual(listed[n.name]["reason"], "is quantization itself", n.name)

    def test_weights_in_four_bits(self):
        packed = np.zeros((8, 2, 16), np.uint8)
        nbits = node("MatMulNBits", ["x", "m", "s"], ["y"], domain="com.microsoft", K=64, N=8, bits=4, block_size=32)
        blocks = [helper.make_node("DequantizeLinear", ["q", "s"], ["d"], name="dq", axis=0, block_size=32),
                  node("MatMul", ["x", "d"], ["y"])]
        four = helper.make_tensor("q", TensorProto.INT4, [64, 8], bytes(256), raw=True)
        for nodes, weights in (([nbits], [numpy_helper.from_array(packed, "m"),
                                          numpy_helper.from_array(np.ones(16, np.float32), "s")]),
                               (blocks, [four, numpy_helper.from_array(np.ones((2, 8), np.float32), "s")])):
            infos = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, s)] for n, s in (("x", [1, 64]), ("y", [1, 8]))]
            model = helper.make_model(helper.make_graph(nodes, "g", *infos, weights), ir_version=10, opset_imports=[
                helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)])
            onnx.save(model, str(self.dir / "q4.onnx"))
            found = self.inspect(self.dir / "q4.onnx")
            self.assertEqual((found["form"], found["schemes"]), ("weights", {"int4_weights": 1}))


if __name__ == "__main__":
    unittest.main()
