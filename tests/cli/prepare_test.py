"""seqto prepare beside onnxruntime's quant_pre_process: the same nodes, the same outputs; and where that one fails."""

import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import warnings

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization.shape_inference import quant_pre_process

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models, unit  # noqa: E402

CASES = pathlib.Path(os.environ.get("SEQTO_CASES_DIR", ""))


def ops(path):
    return collections.Counter(n.op_type for n in onnx.load(str(path)).graph.node)


def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def feed(path, seed=0):
    """Random inputs; a symbolic dimension is 1, and long where it is the last. A scalar is a rate, other integers are ids."""
    rng = np.random.default_rng(seed)
    inputs = {}
    for i in session(path).get_inputs():
        last = len(i.shape) - 1
        length = 8 if "int64" in i.type else 512
        shape = [d if isinstance(d, int) else length if k == last > 0 else 1 for k, d in enumerate(i.shape)]
        inputs[i.name] = (np.full(shape, 1 if shape else 16000, np.int64) if "int64" in i.type
                          else rng.normal(size=shape).astype(np.float32))
    return inputs


class Prepare(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-prepare-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.out = self.dir / "out.onnx"

    def prepare(self, model, *words, env=None):
        done = models.seqto("--json", "prepare", model, "-o", self.out, *words, env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        onnx.checker.check_model(str(self.out), full_check=True)
        return json.loads(done.stdout)

    def same_outputs(self, model, inputs=None, rtol=1e-4):
        inputs = inputs or feed(model)
        for a, b in zip(session(model).run(None, inputs), session(self.out).run(None, inputs)):
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * np.abs(a).max())

    def test_cases_beside_quant_pre_process(self):
        found = sorted(CASES.glob("*/case.json")) if CASES.name else []
        if not found:
            self.skipTest("the cases are not there")
        for case in found:
            with self.subTest(case=case.parent.name):
                model = case.parent / json.loads(case.read_text())["model"]
                theirs = self.dir / "theirs.onnx"
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    quant_pre_process(str(model), str(theirs), skip_symbolic_shape=True)
                self.prepare(model, "--opset", "11")
                # A head that shares its table with the embedding keeps the Transpose between; theirs has the table twice.
                shares = int(case.parent.name.startswith("tiny_lm"))
                self.assertEqual(ops(self.out), ops(theirs) + collections.Counter(Transpose=shares))
                self.assertEqual(*({p.key: p.value for p in onnx.load(str(f)).metadata_props
                                    if p.key == "onnx.quant.pre_process"} for f in (self.out, theirs)))
                self.same_outputs(model)

    def conv_with_norm(self, opset=17, weight_as_constant=False):
        path = self.dir / "m.onnx"
        weight = models.weight(4, 3, 3, 3)
        nodes = [helper.make_node("Identity", ["x"], ["i"]),
                 helper.make_node("Conv", ["i", "w"], ["c"], name="conv"),
                 helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["b"], name="norm"),
                 helper.make_node("Relu", ["b"], ["y"], name="relu")]
        if weight_as_constant:
            nodes.insert(0, helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(weight)))
        weights = [(n, np.abs(models.weight(4, seed=k)) + 1) for k, n in enumerate(("scale", "shift", "mean", "var"))]
        return models.save(path, nodes, [("x", [1, 3, 8, 8])], [("y", [1, 4, 6, 6])],
                           weights + ([] if weight_as_constant else [("w", weight)]), opset=opset)

    def test_says_what_it_did(self):
        model = self.conv_with_norm(opset=11)
        said = self.prepare(model)
        self.assertEqual(ops(self.out), {"Conv": 1, "Relu": 1})
        self.assertEqual([n.name for n in onnx.load(str(self.out)).graph.node], ["conv", "relu"])
        self.assertEqual((said["opset"], said["nodes"], said["nodes_before"]), (13, 2, 4))
        text = " ".join(said["actions"])
        for part in ("named 1 nodes", "opset 11 to 13", "-1 BatchNormalization", "-1 Identity", "inferred"):
            self.assertIn(part, text)
        self.same_outputs(model)

    def test_inspect_counts_weights_in_constant_nodes(self):
        sizes = [json.loads(models.seqto("--json", "inspect", self.conv_with_norm(weight_as_constant=constant)).stdout)["weight_bytes"]
                 for constant in (False, True)]
        self.assertEqual(sizes, [4 * (4 * 3 * 3 * 3 + 4 * 4)] * 2)

    def test_flags(self):
        model = self.conv_with_norm(weight_as_constant=True)
        self.prepare(model, "--keep-batch-norms")
        self.assertEqual(ops(self.out), {"Identity": 1, "Conv": 1, "BatchNormalization": 1, "Relu": 1})
        self.prepare(model, "--keep-batch-norms", "--keep-constants")
        self.assertEqual(ops(self.out)["Constant"], 1)
        self.prepare(model, "--skip-optimization")
        self.assertEqual(ops(self.out), {"Identity": 1, "Conv": 1, "Relu": 1})
        self.same_outputs(model)
        self.prepare(model, "--opset", "19")
        self.assertEqual(onnx.load(str(self.out)).opset_import[0].version, 19)

    def test_weights_of_constant_nodes_are_quantized_as_weights(self):
        model = self.conv_with_norm(weight_as_constant=True)
        self.prepare(model)
        data = models.arrays(self.dir / "d.npz")
        quantized = self.dir / "q.onnx"
        done = models.seqto("quantize", self.out, "--data", data, "-o", quantized)
        self.assertEqual(done.returncode, 0, done.stderr)
        kinds = {t.data_type for t in onnx.load(str(quantized)).graph.initializer if list(t.dims) == [4, 3, 3, 3]}
        self.assertEqual(kinds, {TensorProto.INT8})

    def test_old_opsets_and_upsample(self):
        for opset in (7, 8, 9, 10):
            with self.subTest(opset=opset):
                model = self.dir / f"o{opset}.onnx"
                scales = [1.0, 1.0, 2.0, 2.0]
                if opset < 9:
                    up = helper.make_node("Upsample", ["c"], ["y"], name="up", mode="nearest", scales=scales)
                else:
                    up = helper.make_node("Upsample" if opset == 9 else "Resize", ["c", "s"], ["y"], name="up",
                                          mode="nearest")
                weights = [("w", models.weight(4, 3, 3, 3))] + ([("s", np.float32(scales))] if opset >= 9 else [])
                models.save(model, [helper.make_node("Conv", ["x", "w"], ["c"], name="conv"), up],
                            [("x", [1, 3, 8, 8])], [("y", [1, 4, 12, 12])], weights, opset=opset, ir_version=4)
                self.prepare(model)
                converted = onnx.load(str(self.out))
                self.assertEqual({n.op_type for n in converted.graph.node}, {"Conv", "Resize"})
                self.assertEqual(converted.opset_import[0].version, 13)
                self.same_outputs(model)

    def resized(self, opset, mode, scales):
        """Of a model that resizes alone, as written with `opset`."""
        model = self.dir / "resize.onnx"
        op = "Resize" if opset == 10 else "Upsample"
        sizes = [1, 2, *(int(8 * s) for s in scales)]
        models.save(model, [helper.make_node(op, ["x", "s"], ["y"], name="up", mode=mode)], [("x", [1, 2, 8, 8])], [("y", sizes)],
                    [("s", np.float32([1, 1, *scales]))], opset=opset, ir_version=4)
        return model

    def test_old_resizes_place_pixels_where_they_did(self):
        for opset, mode, scales in ((9, "linear", (2, 2)), (9, "nearest", (1.5, 1.5)), (10, "linear", (1.5, 2.5)), (10, "linear", (0.5, 0.5)),
                                    (10, "nearest", (1.5, 1)), (10, "nearest", (2.5, 2.5)), (10, "nearest", (0.5, 0.375))):
            with self.subTest(opset=opset, mode=mode, scales=scales):
                model = self.resized(opset, mode, scales)
                self.prepare(model)
                self.same_outputs(model)
        done = models.seqto("prepare", self.resized(10, "nearest", (1.5, 0.5)), "-o", self.out)
        self.assertEqual(done.returncode, 3)
        self.assertIn("one axis longer and another shorter", done.stderr)
        self.assertIn("`seqto prepare --opset 0` leaves it", done.stderr)

    def test_old_resizes_by_computed_scales(self):
        nodes = [helper.make_node("Mul", ["half", "s"], ["scales"]),
                 helper.make_node("Resize", ["x", "scales"], ["y"], mode="nearest")]
        for half, size in ((0.3, 4), (0.85, 11)):
            with self.subTest(half=half):
                model = models.save(self.dir / "computed.onnx", nodes, [("x", [1, 1, 7, 7]), ("s", [4])], [("y", [1, 1, size, size])],
                                    [("half", np.float32([0.5, 0.5, half, half]))], opset=10, ir_version=6)
                self.prepare(model, "--skip-optimization")
                self.same_outputs(model, {"x": models.weight(1, 1, 7, 7), "s": np.full(4, 2, np.float32)})
        model = models.save(self.dir / "open.onnx", nodes, [("x", [1, 1, 7, 7]), ("s", [4])], [("y", [1, 1, "h", "w"])],
                            [("half", np.float32([0.5, 0.5, 0.3, 0.3]))], opset=10, ir_version=6)
        done = models.seqto("prepare", model, "-o", self.out)
        self.assertEqual(done.returncode, 3)
        self.assertIn("scales are computed", done.stderr)

    def test_old_resizes_inside_bodies(self):
        def body(name, scale):
            scales = numpy_helper.from_array(np.float32([1, 1, scale, scale]), f"{name}_s")
            return helper.make_graph([helper.make_node("Resize", ["x", f"{name}_s"], [name], mode="nearest")], name, [],
                                     [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, "h", "w"])], [scales])
        choice = helper.make_node("If", ["c"], ["y"], then_branch=body("a", 1.7), else_branch=body("b", 0.3))
        model = models.save(self.dir / "if.onnx", [choice], [("x", [1, 1, "n", "n"]), ("c", [], TensorProto.BOOL)], [("y", [1, 1, "h", "w"])],
                            opset=10, ir_version=6)
        self.prepare(model, "--skip-optimization")
        for taken in (True, False):
            self.same_outputs(model, {"x": models.weight(1, 1, 7, 7), "c": np.array(taken)})

    def test_constants_of_old_files_stay_constants(self):
        model = self.dir / "old.onnx"
        nodes = [helper.make_node("Conv", ["x", "w"], ["c"], name="conv"), helper.make_node("Mul", ["c", "m"], ["y"], name="mul")]
        weights = [("w", models.weight(4, 3, 3, 3)), ("m", models.weight(4, 1, 1))]
        models.save(model, nodes, [("x", [1, 3, 8, 8]), ("w", [4, 3, 3, 3]), ("m", [4, 1, 1])], [("y", [1, 4, 6, 6])], weights, opset=9,
                    ir_version=3)
        self.prepare(model)
        self.assertEqual([i.name for i in onnx.load(str(self.out)).graph.input], ["x"])
        self.same_outputs(model, {"x": feed(model)["x"]})
        # Also where there is nothing to convert.
        quantized = self.dir / "q.onnx"
        models.save(model, nodes[:1], [("x", [1, 3, 8, 8]), ("w", [4, 3, 3, 3])], [("c", [1, 4, 6, 6])], weights[:1], opset=13, ir_version=3)
        done = models.seqto("quantize", model, "--data", models.arrays(self.dir / "d.npz"), "-o", quantized)
        self.assertEqual(done.returncode, 0, done.stderr)
        onnx.checker.check_model(str(quantized))
        self.assertEqual([i.name for i in onnx.load(str(quantized)).graph.input], ["x"])

    def test_what_the_runtime_alone_has_is_converted_around(self):
        model = self.dir / "norm.onnx"
        models.save(model, [helper.make_node("LayerNormalization", ["x", "g", "b"], ["y"], name="norm", axis=-1)], [("x", [1, 8])], [("y", [1, 8])],
                    [("g", models.weight(8)), ("b", models.weight(8))], opset=12)
        done = models.seqto("prepare", model, "-o", self.out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(onnx.load(str(self.out)).graph.node[0].domain, "")
        self.same_outputs(model)

    def test_external_data_without_a_length(self):
        values = {name: models.weight(8, 8, seed=seed) for seed, name in enumerate("ab")}
        model = self.dir / "lengths.onnx"
        models.save(model, [helper.make_node("MatMul", ["x", "a"], ["h"], name="first"), helper.make_node("MatMul", ["h", "b"], ["y"], name="second")],
                    [("x", [1, 8])], [("y", [1, 8])], values.items())
        x = {"x": models.weight(1, 8, seed=7)}
        wanted = session(model).run(None, x)[0]
        proto = onnx.load(str(model))
        for k, tensor in enumerate(proto.graph.initializer):
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (("location", "all.bin"), ("offset", str(256 * k))):
                tensor.external_data.add(key=key, value=value)
        (self.dir / "all.bin").write_bytes(b"".join(v.tobytes() for v in values.values()))
        model.write_bytes(proto.SerializeToString())
        self.prepare(model)
        np.testing.assert_allclose(session(self.out).run(None, x)[0], wanted, rtol=1e-5)

    def test_symbolic_dimensions_are_carried_on(self):
        path = self.dir / "s.onnx"
        nodes = [helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
                 helper.make_node("Shape", ["c"], ["shape"]),
                 helper.make_node("Gather", ["shape", "zero"], ["n"]),
                 helper.make_node("Unsqueeze", ["n", "axes"], ["n1"]),
                 helper.make_node("Concat", ["n1", "rest"], ["target"], axis=0),
                 helper.make_node("Reshape", ["c", "target"], ["r"]),
                 helper.make_node("Relu", ["r"], ["y"])]
        weights = [("w", models.weight(4, 3, 3, 3)), ("zero", np.int64(0)), ("axes", np.int64([0])),
                   ("rest", np.int64([4, 36]))]
        models.save(path, nodes, [("x", ["N", 3, 8, 8])], [("y", ["N", 4, 36])], weights)
        self.prepare(path, "--skip-optimization")
        shapes = {v.name: [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
                  for v in onnx.load(str(self.out)).graph.value_info}
        self.assertEqual(shapes["c"], ["N", 4, 6, 6])
        self.assertEqual(shapes["r"], ["N", 4, 36])

    def test_nothing_is_written_beside_the_model(self):
        folder, temporary = self.dir / "models", self.dir / "tmp"
        folder.mkdir(), temporary.mkdir()
        model = shutil.copy(self.conv_with_norm(), folder / "m.onnx")
        folder.chmod(0o555)
        self.addCleanup(folder.chmod, 0o755)
        before = folder.stat().st_mtime_ns
        self.prepare(model, env={"TMPDIR": str(temporary)})
        self.assertEqual(folder.stat().st_mtime_ns, before)
        self.assertEqual(list(folder.iterdir()), [model])
        self.assertEqual(list(temporary.glob("seqto*")), [], "what was temporary is gone")

    def test_many_at_once_to_one_output(self):
        model = self.conv_with_norm()
        self.prepare(model)
        expected = self.out.read_bytes()
        words = [models.BINARY, "prepare", str(model), "-o"]
        outputs = [self.dir / "same.onnx"] * 3 + [self.dir / f"{i}.onnx" for i in range(3)]
        running = [subprocess.Popen([*words, str(o)], stdout=subprocess.DEVNULL) for o in outputs]
        self.assertEqual([p.wait() for p in running], [0] * len(running))
        for o in outputs:
            self.assertEqual(o.read_bytes(), expected)

    def test_float32_reaches_the_bodies_of_an_if(self):
        half = lambda shape, name: numpy_helper.from_array(models.weight(*shape).astype(np.float16), name)
        value = lambda name, kind, *shape: helper.make_tensor_value_info(name, kind, shape)

        def branch(name):
            nodes = [helper.make_node("MatMul", ["x", f"{name}_w"], [f"{name}_m"]),
                     helper.make_node("Cast", [f"{name}_m"], [f"{name}_y"], to=TensorProto.FLOAT16)]
            return helper.make_graph(nodes, name, [], [value(f"{name}_y", TensorProto.FLOAT16, 1, 6)], [half((8, 6), f"{name}_w")])

        nodes = [helper.make_node("If", ["cached"], ["m"], then_branch=branch("then"), else_branch=branch("else")),
                 helper.make_node("Add", ["m", "b"], ["y"])]
        graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT16, 1, 8), value("cached", TensorProto.BOOL)],
                                  [value("y", TensorProto.FLOAT16, 1, 6)], [half((6,), "b")])
        path = self.dir / "merged.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
        self.prepare(path, "--float32")
        x = np.random.default_rng(0).normal(size=(1, 8)).astype(np.float32)
        for cached in (False, True):
            wanted = session(path).run(None, {"x": x.astype(np.float16), "cached": np.array(cached)})[0]
            found = session(self.out).run(None, {"x": x, "cached": np.array(cached)})[0]
            self.assertEqual(found.dtype, np.float32)
            np.testing.assert_allclose(found, wanted, atol=2e-2)

    def test_a_tied_table_stays_one(self):
        nodes = [helper.make_node("Gather", ["table", "ids"], ["h"]), helper.make_node("Transpose", ["table"], ["t"], perm=[1, 0]),
                 helper.make_node("MatMul", ["h", "t"], ["y"])]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("ids", TensorProto.INT64, [1, 8])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 100])],
                                  [numpy_helper.from_array(models.weight(100, 64), "table")])
        path = self.dir / "tied.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
        said = self.prepare(path)
        self.assertIn("not optimized", " ".join(said["actions"]))
        self.assertEqual(ops(self.out)["Transpose"], 1)
        self.assertLess(self.out.stat().st_size, 1.1 * path.stat().st_size)

    def attention(self):
        """Of two heads behind a layer. The runtime's basic optimization fuses that layer; its next ones fuse the attention's
        products, and name what they add as the first did."""
        node, weight = models.node, models.weight
        nodes = [node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "b"], ["a"]), node("LayerNormalization", ["a", "g"], ["h"])]
        for k, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
            nodes += [node("MatMul", ["h", f"w{k}"], [f"m{k}"]), node("Add", [f"m{k}", f"b{k}"], [f"a{k}"]),
                      node("Reshape", [f"a{k}", "apart"], [f"r{k}"]), node("Transpose", [f"r{k}"], [f"t{k}"], perm=perm)]
        nodes += [node("MatMul", ["tq", "tk"], ["s"]), node("Softmax", ["s"], ["p"], axis=-1), node("MatMul", ["p", "tv"], ["c"]),
                  node("Transpose", ["c"], ["ct"], perm=[0, 2, 1, 3]), node("Reshape", ["ct", "together"], ["r"]),
                  node("MatMul", ["r", "wo"], ["mo"]), node("Add", ["mo", "bo"], ["o"]), node("Add", ["o", "h"], ["y"])]
        weights = [(name, weight(8, 8, seed=i)) for i, name in enumerate(("w", "wq", "wk", "wv", "wo"))]
        weights += [(name, weight(8, seed=9 + i)) for i, name in enumerate(("b", "bq", "bk", "bv", "bo", "g"))]
        weights += [("apart", np.int64([1, 4, 2, 4])), ("together", np.int64([1, 4, 8]))]
        return models.save(self.dir / "attention.onnx", nodes, [("x", [1, 4, 8])], [("y", [1, 4, 8])], weights)

    def test_what_is_prepared_can_be_optimized_again(self):
        model, x = self.attention(), {"x": models.weight(1, 4, 8)}
        self.prepare(model)
        self.assertEqual(ops(self.out)["Gemm"], 1)
        self.same_outputs(model, x)
        once = shutil.copy(self.out, self.dir / "once.onnx")
        self.prepare(once)
        self.same_outputs(model, x)
        done = models.seqto("tune", model, "--data", models.arrays(self.dir / "x.npz", shape=(4, 8)), "--prepare-models",
                            "--max-evaluations", 4, "-o", self.dir / "study", "-q")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_of_two_constants_of_one_name_the_first_counts(self):
        nodes = [helper.make_node("Conv", ["x", "w"], ["y"])]
        weights = [numpy_helper.from_array(models.weight(4, 3, 3, 3) * k, "w") for k in (1, 3)]
        models.save(self.dir / "twice.onnx", nodes, [("x", [1, 3, 8, 8])], [("y", [1, 4, 6, 6])], [("w", models.weight(4, 3, 3, 3))])
        model = onnx.load(str(self.dir / "twice.onnx"))
        del model.graph.initializer[:]
        model.graph.initializer.extend(weights)
        onnx.save(model, str(self.dir / "twice.onnx"))
        self.prepare(self.dir / "twice.onnx")
        self.same_outputs(self.dir / "twice.onnx")

    def test_an_output_without_a_shape_is_found_out(self):
        for field in ("shape", "type"):
            with self.subTest(missing=field):
                model = onnx.load(models.conv(self.dir / "open.onnx"))
                output = model.graph.output[0]
                output.ClearField("type") if field == "type" else output.type.tensor_type.ClearField("shape")
                onnx.save(model, self.dir / "open.onnx")
                self.prepare(self.dir / "open.onnx")
                dims = onnx.load(self.out).graph.output[0].type.tensor_type.shape.dim
                self.assertEqual([d.dim_value for d in dims], [1, 4])
                done = models.seqto("tune", self.dir / "open.onnx", "--data", models.arrays(self.dir / "x.npz"),
                                    "--max-evaluations", 4, "-o", self.dir / field, "-q")
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_an_input_without_a_shape_stays_open(self):
        model = onnx.load(models.conv(self.dir / "open.onnx"))
        model.graph.input[0].type.tensor_type.ClearField("shape")
        onnx.save(model, self.dir / "open.onnx")
        done = models.seqto("prepare", self.dir / "open.onnx", "-o", self.out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.same_outputs(self.dir / "open.onnx", {"x": models.weight(1, 3, 8, 8)})

    def test_a_model_that_the_runtime_does_not_take_is_still_prepared(self):
        path = self.dir / "custom.onnx"
        nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Fancy", ["c"], ["y"], domain="mine")]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 6, 6])],
                                  [numpy_helper.from_array(models.weight(4, 3, 3, 3), "w")])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)],
                                    ir_version=8), str(path))
        said = self.prepare(path)
        self.assertIn("not optimized", " ".join(said["actions"]))
        self.assertEqual(ops(self.out), {"Conv": 1, "Fancy": 1})


if __name__ == "__main__":
    unit.main()
