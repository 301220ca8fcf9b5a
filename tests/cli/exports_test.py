"""Models as exporters write them: weights in Constant nodes, BatchNormalization behind the layers, nodes without names (as
PaddlePaddle's exporter does), and names that look like numbered copies."""

import collections
import json
import pathlib
import shutil
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402

SIDE = 12


def paddle_like(path):
    """Two Conv, each with BatchNormalization and Relu, then a Gemm; every constant in a node."""
    rng = np.random.default_rng(0)
    nodes = []

    def constant(name, value):
        nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value.astype(np.float32))))
        return name

    def block(tensor, index, channels_in, channels):
        weight = constant(f"w{index}", rng.normal(size=(channels, channels_in, 3, 3)) * 0.3)
        nodes.append(helper.make_node("Conv", [tensor, weight], [f"c{index}"], pads=[1, 1, 1, 1], strides=[2, 2]))
        norm = [constant(f"{kind}{index}", value) for kind, value in (
            ("scale", rng.uniform(0.5, 2, channels)), ("shift", rng.normal(size=channels)),
            ("mean", rng.normal(size=channels) * 0.2), ("variance", rng.uniform(0.5, 2, channels)))]
        nodes.append(helper.make_node("BatchNormalization", [f"c{index}", *norm], [f"n{index}"]))
        nodes.append(helper.make_node("Relu", [f"n{index}"], [f"r{index}"]))
        return f"r{index}"

    tensor = block(block("x", 1, 3, 16), 2, 16, 32)
    nodes.append(helper.make_node("Flatten", [tensor], ["flat"]))
    nodes.append(helper.make_node("Gemm", ["flat", constant("w3", rng.normal(size=(32 * 9, 10)) * 0.1),
                                           constant("b3", rng.normal(size=10))], ["y"]))
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def run(path, x):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {"x": v[None]})[0] for v in x])


def ops(path):
    return collections.Counter(n.op_type for n in onnx.load(str(path)).graph.node)


class Exports(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-exports-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.model, self.data, self.out = self.dir / "model.onnx", self.dir / "x.npz", self.dir / "out.onnx"
        self.x = np.random.default_rng(1).normal(size=(90, 3, SIDE, SIDE)).astype(np.float32)
        np.savez(self.data, x=self.x)
        paddle_like(self.model)

    def seqto(self, *words):
        done = models.seqto("-q", *words)
        self.assertEqual(done.returncode, 0, done.stderr)

    def error(self, path):
        expected, found = run(self.model, self.x[60:]), run(path, self.x[60:])
        return np.linalg.norm(found - expected) / np.linalg.norm(expected)

    def test_weights_in_constant_nodes_are_weights(self):
        floats = self.model.stat().st_size
        for flags in ([], ["--format", "qoperator"], ["--mode", "dynamic"], ["--mode", "weights"], ["--mode", "float16"]):
            data = ["--data", self.data, "--samples", "30"] if not flags or flags[0] == "--format" else []
            self.seqto("quantize", self.model, *data, "-o", self.out, *flags)
            onnx.checker.check_model(str(self.out), full_check=True)
            self.assertLess(self.out.stat().st_size, 0.65 * floats, flags)
            self.assertLess(self.error(self.out), 0.1, flags)
            self.assertEqual(ops(self.out)["BatchNormalization"], 2 if "--format" in flags else 0, flags)

    def test_a_size_of_minus_one_is_an_open_one(self):
        model = onnx.load(str(self.model))
        for value in (*model.graph.input, *model.graph.output):
            value.type.tensor_type.shape.dim[0].dim_value = -1
        onnx.save(model, str(self.model))
        for mode in ("weights", "float16", "dynamic"):
            self.seqto("quantize", self.model, "--mode", mode, "-o", self.out)
            graph = onnx.load(str(self.out)).graph
            for v in (*graph.input, *graph.output, *graph.value_info):
                self.assertTrue(all(d.dim_value > 0 or not d.HasField("dim_value") for d in v.type.tensor_type.shape.dim), v)
            self.assertLess(self.error(self.out), 0.1, mode)

    def test_onnxruntimes_way_takes_them_for_activations(self):
        self.seqto("calibrate", self.model, "--data", self.data, "--samples", "30", "--compat", "onnxruntime", "-o", self.dir / "r.json")
        done = models.seqto("quantize", self.model, "--ranges", self.dir / "r.json", "--compat", "onnxruntime", "-o", self.out)
        self.assertEqual(done.returncode, 3)
        self.assertIn("nothing to quantize", done.stderr)

    def test_ranges_from_a_file_are_those_of_the_data(self):
        self.seqto("calibrate", self.model, "--data", self.data, "--samples", "30", "-o", self.dir / "r.json")
        named = ("--activation-type", "int8")  # else samples are held back, and the model improved
        self.seqto("quantize", self.model, "--ranges", self.dir / "r.json", *named, "-o", self.out)
        self.seqto("quantize", self.model, "--data", self.data, "--samples", "30", *named, "-o", self.dir / "direct.onnx")
        self.assertEqual(self.out.read_bytes(), (self.dir / "direct.onnx").read_bytes())

    def test_tune_folds_the_normalizations_and_its_plans_mean_that_model(self):
        study = self.dir / "study"
        self.seqto("tune", self.model, "--data", self.data, "--objectives", "kl,size", "--calibration-samples", "30", "-o", study)
        summary = json.loads((study / "summary.json").read_text())
        self.assertTrue(any("folded 2 nodes" in n for n in summary["notes"]), summary["notes"])
        point = next(p for p in summary["front"] if p["id"] == summary["selected"])
        tuned = study / point["file"]
        self.assertEqual(ops(tuned)["BatchNormalization"], 0)
        self.assertLess(self.error(tuned), 0.1)
        self.seqto("quantize", self.model, "--data", self.data, "--samples", "30", "--plan", study / point["plan"], "-o", self.out)
        self.assertEqual(ops(self.out), ops(tuned))
        self.assertLess(self.error(self.out), 0.1)

    def test_a_folded_normalization_may_be_excluded(self):
        model = onnx.load(str(self.model))
        for node in model.graph.node:
            node.name = node.output[0] + "_node"
        onnx.save(model, str(self.model))
        plan = self.dir / "plan.json"
        plan.write_text(json.dumps({"schemes": {"c1_node": "int8", "n1_node": "int8", "y_node": "int8"}}))
        for flags in (["--exclude", "n1_node,c2_node"], ["--exclude-if-present", "n1_node"], ["--exclude-from", plan]):
            self.seqto("tune", self.model, "--data", self.data, "--objectives", "kl,size", "--calibration-samples", "30",
                       "--max-evaluations", "8", "--no-resume", "-o", self.dir / "study", *flags)
        self.seqto("quantize", self.model, "--data", self.data, "--samples", "30", "--plan", plan, "-o", self.out)
        self.assertEqual(ops(self.out)["BatchNormalization"], 0)
        unknown = models.seqto("tune", self.model, "--data", self.data, "--exclude", "n9_node", "-o", self.dir / "other")
        self.assertEqual(unknown.returncode, 2)
        self.assertIn("matches no node", unknown.stderr)

    def test_the_published_procedure_takes_the_model_as_it_is(self):
        study = self.dir / "study"
        self.seqto("tune", self.model, "--data", self.data, "--strategy", "incremental", "--calibration-samples", "30", "-o", study)
        point = json.loads((study / "summary.json").read_text())["front"][0]
        self.assertEqual(ops(study / point["file"])["BatchNormalization"], 2)

    def test_a_copy_of_a_shared_bias_finds_a_free_name(self):
        """basic-pitch's network: a Conv writes the tensor `bias1`, and `bias` is read by three layers."""
        rng = np.random.default_rng(2)
        weight = lambda name: numpy_helper.from_array((rng.normal(size=(4, 4, 1, 1))).astype(np.float32), name)
        nodes = [helper.make_node("Conv", ["x", "w0", "bias"], ["bias0"], "a"), helper.make_node("Conv", ["bias0", "w1", "bias"], ["bias1"], "b"),
                 helper.make_node("Conv", ["bias1", "w2", "bias"], ["y"], "c")]
        shape = [1, 4, SIDE, SIDE]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
                                  [weight("w0"), weight("w1"), weight("w2"), numpy_helper.from_array(rng.normal(size=4).astype(np.float32), "bias")])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), self.model)
        self.x = self.x[:, :1].repeat(4, 1)
        np.savez(self.data, x=self.x)
        self.seqto("quantize", self.model, "--data", self.data, "-o", self.out)
        onnx.checker.check_model(str(self.out), full_check=True)
        self.assertEqual(ops(self.out)["DequantizeLinear"], 4 + 3 + 3)
        self.assertLess(self.error(self.out), 0.1)

    def test_outputs_of_other_float_types_are_compared_too(self):
        for kind, name in ((TensorProto.DOUBLE, "float64"), (TensorProto.FLOAT16, "float16"), (TensorProto.INT64, "int64")):
            paddle_like(self.model)
            model = onnx.load(str(self.model))
            model.graph.node[-1].output[0] = "raw"
            model.graph.node.append(helper.make_node("Cast", ["raw"], ["y"], to=kind))
            model.graph.output[0].type.tensor_type.elem_type = kind
            onnx.save(model, str(self.model))
            words = ["tune", self.model, "--data", self.data, "--objectives", "kl,size", "--calibration-samples", "30", "--max-evaluations", "8"]
            done = models.seqto("-q", *words, "-o", self.dir / name)
            self.assertEqual(done.returncode, 0, done.stderr)
            summary = json.loads((self.dir / name / "summary.json").read_text())
            self.assertGreater(summary["fully_quantized"]["losses"]["kl"], 0)

    def test_a_conversion_to_float16_whose_nodes_are_not_sorted(self):
        """As onnxconverter-common leaves them: a Cast of the input at the end of the list, opset 13, all else in float16."""
        paddle_like(self.model)
        model = onnx.load(str(self.model))
        constants = {n.output[0]: n for n in model.graph.node if n.op_type == "Constant"}
        nodes = [n for n in model.graph.node if n.op_type != "Constant"]
        for name, node in constants.items():
            value = numpy_helper.to_array(node.attribute[0].t).astype(np.float16)
            model.graph.initializer.append(numpy_helper.from_array(value, name))
        first, last = nodes[0], nodes[-1]
        first.input[0], last.output[0] = "x_half", "y_half"
        nodes += [helper.make_node("Cast", ["y_half"], ["y"], to=TensorProto.FLOAT),
                  helper.make_node("Cast", ["x"], ["x_half"], to=TensorProto.FLOAT16)]
        del model.graph.node[:]
        model.graph.node.extend(nodes)
        onnx.save(model, str(self.model))
        shown = json.loads(models.seqto("--json", "inspect", self.model).stdout)
        self.assertEqual([l["op_type"] for l in shown["layers"]][0], "Cast")
        self.assertIn("sorted the nodes", models.seqto("prepare", self.model, "-o", self.out).stdout)
        onnx.checker.check_model(str(self.out), full_check=True)
        for flags in ([], ["--per-channel", "--activation-type", "uint8"], ["--mode", "weights"], ["--mode", "float16"]):
            self.seqto("quantize", self.model, "--data", self.data, "--samples", "30", "-o", self.out, *flags)
            onnx.checker.check_model(str(self.out), full_check=True)
            self.assertLess(self.error(self.out), 0.1, flags)
            if "--per-channel" in flags:  # scales in float16
                self.assertGreaterEqual({o.domain: o.version for o in onnx.load(str(self.out)).opset_import}[""], 19)
        dynamic = models.seqto("quantize", self.model, "--mode", "dynamic", "-o", self.out)
        self.assertEqual(dynamic.returncode, 0, dynamic.stderr)
        self.assertIn("2 convolutions have weights alone in int8", dynamic.stderr)
        self.assertLess(self.error(self.out), 0.1)
        study = self.dir / "half"
        self.seqto("tune", self.model, "--data", self.data, "--objectives", "kl,size", "--calibration-samples", "30", "-o", study)
        self.assertLess(json.loads((study / "summary.json").read_text())["front"][0]["size_bytes"], self.model.stat().st_size)

    def test_inspect_lists_recurrent_layers_with_their_weights(self):
        shapes = {"GRU": 3, "LSTM": 4}
        for op, gates in shapes.items():
            weights = [("w", models.weight(1, gates * 8, 6)), ("r", models.weight(1, gates * 8, 8))]
            models.save(self.model, [helper.make_node(op, ["x", "w", "r"], ["y"], "layer", hidden_size=8)], [("x", [5, 1, 6])],
                        [("y", [5, 1, 1, 8])], weights)
            shown = models.seqto("inspect", self.model).stdout
            self.assertRegex(shown, rf"layer +{op} .*kB +weights{', dynamic' if op == 'LSTM' else ''}\n")
            self.assertIn("1 of 1 nodes can be quantized, 1 of them have weights", shown)

    def test_a_study_without_corrections_goes_on(self):
        """Weights in float16 without biases: nothing is learned of them, so nothing is there to be read again."""
        rng = np.random.default_rng(6)
        weights = [(n, (rng.normal(size=(32, 32)) * 0.3).astype(np.float16)) for n in ("w1", "w2")]
        nodes = [helper.make_node("Cast", ["x"], ["h"], "in", to=TensorProto.FLOAT16), helper.make_node("MatMul", ["h", "w1"], ["a"], "one"),
                 helper.make_node("Tanh", ["a"], ["b"], "tanh"), helper.make_node("MatMul", ["b", "w2"], ["c"], "two"),
                 helper.make_node("Cast", ["c"], ["y"], "out", to=TensorProto.FLOAT)]
        models.save(self.model, nodes, [("x", [1, 4, 32])], [("y", [1, 4, 32])], weights, opset=19)
        np.savez(self.data, x=rng.normal(size=(90, 4, 32)).astype(np.float32))
        words = ["tune", self.model, "--data", self.data, "--objectives", "mse,size", "--calibration-samples", "30", "--weight-type", "int8", "-o",
                 self.dir / "none"]
        self.seqto(*words)
        found = (self.dir / "none" / "summary.json").read_bytes()
        self.assertEqual(np.load(self.dir / "none" / "corrections.npz").files, [])
        self.seqto(*words)
        again = json.loads((self.dir / "none" / "summary.json").read_bytes())
        self.assertEqual([p["plan"] for p in json.loads(found)["front"]], [p["plan"] for p in again["front"]])

    def test_a_concat_in_float16_stays_float(self):
        """The runtime makes an operator of it that takes no float16 scales (D53), also where values are moved before the Q."""
        rng = np.random.default_rng(5)
        weights = [(n, (rng.normal(size=(4, c, 3, 3)) * 0.3).astype(np.float16)) for n, c in (("w1", 3), ("w2", 3), ("w3", 8), ("w4", 4))]
        node = lambda op, inputs, output, **attributes: helper.make_node(op, inputs, [output], output + "_node", **attributes)
        for between in (["Relu"], ["Transpose", "Relu", "Transpose"], []):
            nodes = [node("Cast", ["x"], "h", to=TensorProto.FLOAT16), node("Conv", ["h", "w1"], "a", pads=[1] * 4),
                     node("Conv", ["h", "w2"], "b", pads=[1] * 4), node("Concat", ["a", "b"], "t0", axis=1)]
            for op in between:
                tensor = f"t{len(nodes)}"
                nodes.append(node(op, [nodes[-1].output[0]], tensor, **({"perm": [0, 1, 3, 2]} if op == "Transpose" else {})))
            nodes += [node("Conv", [nodes[-1].output[0], "w3"], "c", pads=[1] * 4), node("Relu", ["c"], "r"), node("Conv", ["r", "w4"], "d"),
                      node("Cast", ["d"], "y", to=TensorProto.FLOAT)]
            models.save(self.model, nodes, [("x", [1, 3, SIDE, SIDE])], [("y", [1, 4, SIDE - 2, SIDE - 2])], weights, opset=19)
            for flags in (["--weight-type", "int8"], ["--per-channel", "--activation-type", "uint8"]):
                done = models.seqto("--json", "quantize", self.model, "--data", self.data, "--samples", "30", "--explain", "-o", self.out, *flags)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertLess(self.error(self.out), 0.1, (between, flags))
                layers = {l["name"]: l for l in json.loads(done.stdout)["layers"]}
                self.assertEqual([layers[n + "_node"]["scheme"] for n in "abd"], ["int8"] * 3)
                for left in ("t0_node", "c_node"):
                    self.assertIn("D53", layers[left]["reason"])

    def test_what_a_mask_makes_infinite_stays_float(self):
        """Attention with a mask of -inf or of the lowest float: no scale spans the scores behind it."""
        rng = np.random.default_rng(4)
        size, width = 6, 16
        for lowest in (-np.inf, np.finfo(np.float32).min):
            weights = [(n, (rng.normal(size=(width, width)) * 0.3).astype(np.float32)) for n in ("wq", "wk", "wv", "wo")]
            weights.append(("mask", np.triu(np.full((size, size), lowest), 1).astype(np.float32)))
            node = lambda op, inputs, output, **attributes: helper.make_node(op, inputs, [output], output + "_node", **attributes)
            nodes = [node("MatMul", ["x", "wq"], "q"), node("MatMul", ["x", "wk"], "k"), node("MatMul", ["x", "wv"], "v"),
                     node("Transpose", ["k"], "kt", perm=[0, 2, 1]), node("MatMul", ["q", "kt"], "scores"),
                     node("Add", ["scores", "mask"], "masked"), node("Softmax", ["masked"], "weights", axis=-1),
                     node("MatMul", ["weights", "v"], "mixed"), node("MatMul", ["mixed", "wo"], "y")]
            models.save(self.model, nodes, [("x", [1, size, width])], [("y", [1, size, width])], weights)
            self.x = rng.normal(size=(90, size, width)).astype(np.float32)
            np.savez(self.data, x=self.x)
            for flags in ([], ["--format", "qoperator"], ["--method", "percentile"], ["--method", "entropy", "--fast-ranges"]):
                done = models.seqto("--json", "quantize", self.model, "--data", self.data, "--samples", "30", "--explain", "-o", self.out, *flags)
                self.assertEqual(done.returncode, 0, done.stderr)
                onnx.checker.check_model(str(self.out), full_check=True)
                self.assertLess(self.error(self.out), 0.15, (lowest, flags))
                layers = {l["name"]: l for l in json.loads(done.stdout)["layers"]}
                self.assertEqual([layers[n + "_node"]["scheme"] for n in ("q", "scores", "masked", "weights", "mixed", "y")],
                                 ["int8", "int8", "float32", "float32", "int8", "int8"], (lowest, flags))
                self.assertIn("D52", layers["masked_node"]["reason"])
            self.seqto("calibrate", self.model, "--data", self.data, "--samples", "30", "-o", self.dir / "r.json")
            named = ("--activation-type", "int8")
            self.seqto("quantize", self.model, "--ranges", self.dir / "r.json", *named, "-o", self.dir / "again.onnx")
            self.seqto("quantize", self.model, "--data", self.data, "--samples", "30", *named, "-o", self.out)
            self.assertEqual(self.out.read_bytes(), (self.dir / "again.onnx").read_bytes())
            study = self.dir / f"study{np.isinf(lowest)}"
            self.seqto("tune", self.model, "--data", self.data, "--objectives", "mse,size", "--calibration-samples", "30", "-o", study)
            summary = json.loads((study / "summary.json").read_text())
            self.assertGreater(summary["fully_quantized"]["losses"]["mse"], 0.1, "as onnxruntime's quantizer makes it")
            self.assertLess(self.error(study / "models/full.onnx"), 0.15)

    def test_nan_that_the_graph_takes_away_stays_within(self):
        """torch's attention: a row that is masked whole is NaN behind its Softmax, and 0 behind the Where after it."""
        rng = np.random.default_rng(4)
        size, width = 6, 16
        mask = np.triu(np.full((size, size), -np.inf), 1).astype(np.float32)
        mask[0] = -np.inf
        weights = [(n, (rng.normal(size=(width, width)) * 0.3).astype(np.float32)) for n in ("wq", "wk", "wv", "wo")]
        weights += [("mask", mask), ("zero", np.zeros((), np.float32))]
        node = lambda op, inputs, output, **attributes: helper.make_node(op, inputs, [output], output + "_node", **attributes)
        nodes = [node("MatMul", ["x", "wq"], "q"), node("MatMul", ["x", "wk"], "k"), node("MatMul", ["x", "wv"], "v"),
                 node("Transpose", ["k"], "kt", perm=[0, 2, 1]), node("MatMul", ["q", "kt"], "scores"),
                 node("Add", ["scores", "mask"], "masked"), node("Softmax", ["masked"], "soft", axis=-1),
                 node("IsNaN", ["soft"], "whole"), node("Where", ["whole", "zero", "soft"], "weights"),
                 node("MatMul", ["weights", "v"], "mixed"), node("MatMul", ["mixed", "wo"], "y")]
        models.save(self.model, nodes, [("x", [1, size, width])], [("y", [1, size, width])], weights)
        self.x = rng.normal(size=(90, size, width)).astype(np.float32)
        np.savez(self.data, x=self.x)
        for flags in ([], ["--method", "percentile"], ["--method", "entropy", "--fast-ranges"], ["--method", "moving_average"]):
            done = models.seqto("--json", "quantize", self.model, "--data", self.data, "--samples", "30", "--explain", "-o", self.out, *flags)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("NaN in 'soft'", done.stderr)
            self.assertLess(self.error(self.out), 0.2, flags)
            layers = {l["name"]: l for l in json.loads(done.stdout)["layers"]}
            self.assertEqual([layers[n + "_node"]["scheme"] for n in ("q", "scores", "masked", "soft", "mixed", "y")],
                             ["int8", "int8", "float32", "float32", "int8", "int8"], flags)
        self.x[40:] = np.nan
        np.savez(self.data, x=self.x)
        done = models.seqto("quantize", self.model, "--data", self.data, "-o", self.out)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("'x' holds NaN", done.stderr)

    def test_nan_in_front_of_a_relu_stays_within(self):
        """Values in front of a Relu and behind it are counted at one look; numpy's NaN is a positive one."""
        rng = np.random.default_rng(4)
        mask = np.zeros((1, 16), bool)
        mask[0, 3] = True
        node = lambda op, inputs, output: helper.make_node(op, inputs, [output], output + "_node")
        nodes = [node("MatMul", ["x", "w"], "m"), node("Where", ["mask", "nan", "m"], "n"), node("Relu", ["n"], "r"),
                 node("IsNaN", ["r"], "b"), node("Where", ["b", "zero", "r"], "c"), node("MatMul", ["c", "v"], "y")]
        weights = [("w", (rng.normal(size=(16, 16)) * 0.3).astype(np.float32)), ("v", (rng.normal(size=(16, 16)) * 0.3).astype(np.float32)),
                   ("mask", mask), ("nan", np.float32(np.nan)), ("zero", np.float32(0))]
        models.save(self.model, nodes, [("x", [1, 16])], [("y", [1, 16])], weights)
        self.x = rng.normal(size=(90, 16)).astype(np.float32)
        np.savez(self.data, x=self.x)
        for flags in ([], *(["--method", method, "--fast-ranges"] for method in ("minmax", "entropy", "mse", "percentile"))):
            done = models.seqto("--json", "quantize", self.model, "--data", self.data, "--samples", "30", "--explain", "-o", self.out, *flags)
            self.assertEqual(done.returncode, 0, (flags, done.stderr))
            layers = {l["name"]: l["scheme"] for l in json.loads(done.stdout)["layers"]}
            self.assertEqual([layers[n + "_node"] for n in "mny"], ["int8", "float32", "int8"], flags)
            self.assertLess(self.error(self.out), 0.2, flags)

    def test_an_input_that_decides_a_branch_becomes_a_constant(self):
        """silero_vad's network: all layers lie in the branches of an If that compares an input with a number."""
        rng = np.random.default_rng(3)

        def branch(name, size):
            weight = numpy_helper.from_array(rng.normal(size=(3, 8, size, size)).astype(np.float32).transpose(1, 0, 2, 3), f"{name}_w")
            nodes = [helper.make_node("Conv", ["x", f"{name}_w"], [f"{name}_c"], f"{name}_conv", pads=[size // 2] * 4),
                     helper.make_node("GlobalAveragePool", [f"{name}_c"], [f"{name}_y"], f"{name}_pool")]
            return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, [1, 8, 1, 1])], [weight])

        nodes = [helper.make_node("Equal", ["rate", "wanted"], ["same"], "equal"),
                 helper.make_node("If", ["same"], ["y"], "if", then_branch=branch("then", 3), else_branch=branch("else", 1))]
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, SIDE, SIDE]), helper.make_tensor_value_info("rate", TensorProto.INT64, [])]
        graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 1, 1])],
                                  [numpy_helper.from_array(np.array(16000, np.int64), "wanted")])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8), self.model)
        refused = models.seqto("quantize", self.model, "--data", self.data, "--input", "rate=16000", "-o", self.out)
        self.assertEqual(refused.returncode, 3)
        self.assertIn("--fix-input", refused.stderr)
        wrong = models.seqto("prepare", self.model, "--fix-input", "sr=16000", "-o", self.out)
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("x, rate expected", wrong.stderr)
        for rate, kernel in ((16000, 3), (8000, 1)):
            fixed = self.dir / "fixed.onnx"
            self.seqto("prepare", self.model, "--fix-input", f"rate={rate}", "-o", fixed)
            onnx.checker.check_model(str(fixed), full_check=True)
            kept = onnx.load(str(fixed))
            self.assertEqual([i.name for i in kept.graph.input], ["x"])
            self.assertEqual([list(i.dims)[-1] for i in kept.graph.initializer if len(i.dims) == 4], [kernel])
            session = onnxruntime.InferenceSession(str(self.model))
            expected = np.concatenate([session.run(None, {"x": v[None], "rate": np.array(rate)})[0] for v in self.x[60:]])
            np.testing.assert_allclose(run(fixed, self.x[60:]), expected, rtol=1e-4, atol=1e-6)
            self.seqto("quantize", fixed, "--data", self.data, "-o", self.out)
            self.assertEqual(ops(self.out)["If"], 0)
            self.assertGreater(ops(self.out)["QuantizeLinear"], 1)


if __name__ == "__main__":
    unittest.main()
