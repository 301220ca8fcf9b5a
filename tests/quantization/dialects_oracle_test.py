"""Plans in onnxruntime's dialect, as onnxruntime itself takes them: the same layers, the same scales."""

import json
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import numpy_helper
from onnxruntime.quantization import QuantType, quantize_static

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402
from testing.samples import Samples  # noqa: E402


def layers_in_int8(path):
    """Nodes all of whose data comes out of DequantizeLinear."""
    graph = onnx.load(str(path)).graph
    producers = {output: node for node in graph.node for output in node.output}
    return {node.name for node in graph.node
            if node.op_type in ("Conv", "Gemm") and all(producers.get(name) is not None and
                                                        producers[name].op_type == "DequantizeLinear"
                                                        for name in node.input[:2])}


def scales(path):
    """Scale and zero point of every tensor with a QuantizeLinear, and of every stored weight."""
    graph = onnx.load(str(path)).graph
    values = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    return {node.input[0]: (values[node.input[1]].tolist(), values[node.input[2]].tolist())
            for node in graph.node if node.op_type in ("QuantizeLinear", "DequantizeLinear")
            and len(node.input) > 2 and node.input[1] in values and values[node.input[2]].dtype != np.int32}


def as_onnxruntime_wants(recipe):
    """The lines of docs/reference/dialects.md."""
    overrides = recipe.get("extra_options", {}).get("TensorQuantOverrides", {})
    for entry in (e for entries in overrides.values() for e in entries):
        entry["quant_type"] = QuantType.from_string(entry["quant_type"])
        dtype = onnx.helper.tensor_dtype_to_np_dtype(entry["quant_type"].tensor_type)
        entry["scale"], entry["zero_point"] = np.array(entry["scale"], np.float32), np.array(entry["zero_point"], dtype)
    return recipe


class Dialects(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.model = models.save(self.folder / "model.onnx", [
            models.node("Conv", ["x", "w1"], ["a"]), models.node("Relu", ["a"], ["b"]),
            models.node("Conv", ["b", "w2"], ["c"]), models.node("Add", ["c", "a"], ["d"]),
            models.node("GlobalAveragePool", ["d"], ["p"]), models.node("Flatten", ["p"], ["f"]),
            models.node("Gemm", ["f", "w3"], ["y"])],
            [("x", [1, 3, 8, 8])], [("y", [1, 5])],
            [("w1", models.weight(4, 3, 1, 1)), ("w2", models.weight(4, 4, 1, 1, seed=1)),
             ("w3", models.weight(4, 5, seed=2))])
        self.data = models.arrays(self.folder / "data.npz")
        self.plan = self.folder / "plan.json"
        schemes = {name: "int8" for name in ("b_node", "c_node", "d_node", "p_node", "f_node", "y_node")}
        self.plan.write_text(json.dumps({"schema_version": 1, "schemes": schemes}))

    def good(self, *words):
        done = models.seqto(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def convert(self, to, *words):
        return self.good("plan", "convert", *words, "--model", self.model, "--to", to).stdout

    def quantized(self, name, *words):
        self.good("quantize", self.model, "--data", self.data, *words, "-o", self.folder / name)
        return self.folder / name

    def by_onnxruntime(self, name, recipe, shift=0.0):
        samples = np.load(self.data)["x"] + np.float32(shift)
        quantize_static(str(self.model), str(self.folder / name), Samples([{"x": s[None]} for s in samples]), **recipe)
        return self.folder / name

    def test_exclusions_leave_the_same_layers(self):
        recipe = json.loads(self.convert("onnxruntime", self.plan))
        self.assertEqual(recipe, {"nodes_to_exclude": ["a_node"]})
        ours = self.quantized("ours.onnx", "--plan", self.plan)
        theirs = self.by_onnxruntime("theirs.onnx", recipe)
        self.assertEqual(layers_in_int8(ours), {"c_node", "y_node"})
        self.assertEqual(layers_in_int8(theirs), layers_in_int8(ours))
        self.assertEqual(scales(theirs).keys(), scales(ours).keys())

    def test_every_dialect_gives_the_same_model(self):
        ours = self.quantized("ours.onnx", "--plan", self.plan).read_bytes()
        for dialect in ("seqto", "onnxruntime", "nncf", "tensorrt", "quark"):
            file = self.folder / f"{dialect}.txt"
            file.write_text(self.convert(dialect, self.plan))
            self.assertEqual(self.quantized("again.onnx", "--plan", file).read_bytes(), ours, dialect)

    def test_tune_keeps_out_what_the_plan_leaves_in_float(self):
        scope = self.folder / "scope.json"
        scope.write_text(json.dumps({"ignored_scope": {"names": ["a_node"], "types": ["Gemm"]}}))
        out = self.folder / "study"
        self.good("tune", self.model, "--data", self.data, "--calibration-samples", 10, "--max-evaluations", 4,
                  "--exclude-from", scope, "-o", out)
        full = json.loads((out / "plans" / "full.json").read_text())["schemes"]
        self.assertEqual(sorted(full), ["b_node", "c_node", "d_node", "f_node", "p_node"])

    def test_tune_keeps_what_the_plan_stores_in_other_integers(self):
        plan = self.folder / "mixed.json"
        schemes = {"a_node": "int8w_int16a", "b_node": "int8", "c_node": "int8_weights", "d_node": "float32", "p_node": "float16"}
        plan.write_text(json.dumps({"schema_version": 1, "schemes": schemes}))
        out = self.folder / "study"
        self.good("tune", self.model, "--data", self.data, "--calibration-samples", 10, "--max-evaluations", 4,
                  "--exclude-from", plan, "-o", out)
        full = json.loads((out / "plans" / "full.json").read_text())["schemes"]
        self.assertEqual(sorted(full), ["a_node", "b_node", "c_node"])

    def test_overrides_give_onnxruntime_our_scales(self):
        ours = self.quantized("ours.onnx", "--plan", self.plan)
        recipe = json.loads(self.convert("onnxruntime", self.plan, "--quantized", ours))
        # Calibrated with other data: only what is overridden can be equal.
        theirs = self.by_onnxruntime("theirs.onnx", as_onnxruntime_wants(recipe), shift=3)
        self.assertEqual(scales(theirs), scales(ours))

    def test_encodings_of_onnxruntimes_models_come_back(self):
        theirs = self.by_onnxruntime("theirs.onnx", {"nodes_to_exclude": ["a_node"], "activation_type": QuantType.QUInt8})
        for dialect in ("aimet", "onnxruntime"):
            file = self.folder / f"{dialect}.json"
            file.write_text(self.convert(dialect, "--quantized", theirs))
            other = models.arrays(self.folder / "other.npz", shift=3)
            self.good("quantize", self.model, "--data", other, "--plan", file, "--activation-type", "uint8", "-o",
                      self.folder / "again.onnx")
            self.assertEqual(layers_in_int8(self.folder / "again.onnx"), layers_in_int8(theirs), dialect)
            self.assertEqual(scales(self.folder / "again.onnx"), scales(theirs), dialect)

    def test_nodes_without_names_are_known_by_their_outputs(self):
        def encodings():
            theirs = self.by_onnxruntime("theirs.onnx", {"activation_type": QuantType.QUInt8, "per_channel": True})
            errors = json.loads(self.good("--json", "analyze", self.model, "--quantized", theirs, "--data", self.data).stdout)
            return json.loads(self.convert("aimet", "--quantized", theirs))["encodings"], [w["tensor"] for w in errors["weights"]]
        named = encodings()
        self.assertEqual({"w1", "w2", "w3"} - {e["name"] for e in named[0]}, set())
        model = onnx.load(str(self.model))
        for n in model.graph.node:
            n.ClearField("name")
        onnx.save(model, str(self.model))
        self.assertEqual(encodings(), named)

    def test_overrides_without_scales_have_no_encoding(self):
        file = self.folder / "overrides.json"
        whole = {"quant_type": "QUInt8", "scale": 0.5, "zero_point": 3}
        file.write_text(json.dumps({"TensorQuantOverrides": {"a": [whole], "b": [{"quant_type": "QInt8"}], "c": [], "d": [{"scale": 0.5, "zero_point": 0}]}}))
        done = self.good("plan", "convert", file, "--model", self.model, "--to", "aimet")
        self.assertEqual([e["name"] for e in json.loads(done.stdout)["encodings"]], ["a"])
        for name in "bcd":
            self.assertIn(f"'{name}' has no encoding", done.stderr)

    def with_norm(self, opset):
        """A convolution and its BatchNormalization, an input and weights."""
        w = models.weight(4, 3, 3, 3, seed=3)
        weights = [(n, np.abs(models.weight(4, seed=k)) + 1) for k, n in enumerate(("scale", "shift", "mean", "var"))]
        model = models.save(self.folder / f"norm{opset}.onnx", [
            models.node("Conv", ["x", "w"], ["c"]), models.node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["b"]),
            models.node("Relu", ["b"], ["y"])], [("x", [1, 3, 8, 8])], [("y", [1, 4, 6, 6])], [("w", w), *weights], opset=opset)
        return model, w

    def test_scales_of_other_tools_belong_to_the_weights_as_they_came(self):
        for opset in (11, 17):
            model, w = self.with_norm(opset)
            steps = np.abs(w).max((1, 2, 3)) / 127
            tensors = {"x": ([3.5 / 127], None), "c": ([0.2], None), "y": ([0.2], None), "w": (steps.tolist(), 0)}
            aimet = [{"name": n, "output_dtype": "int8", "y_scale": s, "y_zero_point": [0] * len(s),
                      **({} if axis is None else {"axis": axis})} for n, (s, axis) in tensors.items()]
            overrides = {n: [{"quant_type": "QInt8", "scale": step, "zero_point": 0, **({} if axis is None else {"axis": axis})} for step in s]
                         for n, (s, axis) in tensors.items()}
            for plan in ({"version": "2.0.0", "encodings": aimet}, {"extra_options": {"TensorQuantOverrides": overrides}}):
                with self.subTest(opset=opset, plan=[*plan]):
                    file = self.folder / "foreign.json"
                    file.write_text(json.dumps(plan))
                    self.good("quantize", model, "--data", self.data, "--plan", file, "-o", self.folder / "q.onnx")
                    graph = onnx.load(str(self.folder / "q.onnx")).graph
                    self.assertIn("BatchNormalization", {n.op_type for n in graph.node})
                    values = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
                    codes = next(v for v in values.values() if v.dtype == np.int8 and v.shape == w.shape)
                    np.testing.assert_array_equal(codes, np.rint(w / steps[:, None, None, None]))

    def test_errors(self):
        bad = self.folder / "bad.json"
        bad.write_text('{"ignored_scope": {"names": ["convolution"]}}')
        done = models.seqto("plan", "convert", bad, "--model", self.model, "--to", "quark")
        self.assertEqual(done.returncode, 3)
        self.assertIn("node 'convolution' matches nothing", done.stderr)
        for words, expected in ((["--to", "quark"], "neither a file nor --quantized"),
                                ([bad, "--to", "latin"], "dialect 'latin' found; one of seqto"),
                                ([self.plan, "--to", "aimet"], "name the quantized model with --quantized")):
            done = models.seqto("plan", "convert", *words, "--model", self.model)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(expected, done.stderr)


if __name__ == "__main__":
    unittest.main()
