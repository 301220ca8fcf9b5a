"""Flags that no other test of the command line names: what each changes."""

import json
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models, unit  # noqa: E402
from testing.models import DIGITS, DIGITS_DATA, node, seqto  # noqa: E402
from testing.studies import lines  # noqa: E402

INVALID, UNAVAILABLE = 3, 4


def answers(x):
    """What digits answers as it is written, nothing fused."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(DIGITS), options, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {"x": sample[None]})[0] for sample in x])


class LoneFlags(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="seqto-flags-")
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        self.x = np.load(DIGITS_DATA)["x"].astype(np.float32)

    def done(self, *words, code=0, env=None):
        reply = seqto("-q", *words, env=env)
        self.assertEqual(reply.returncode, code, reply.stderr)
        return reply.stdout if code == 0 else reply.stderr

    def op_types(self, *words):
        self.done(*words, "-o", self.dir / "out.onnx")
        return [n.op_type for n in onnx.load(self.dir / "out.onnx").graph.node]

    def with_constant_node(self):
        """A bound of a Clip that is a node, which `prepare` makes an initializer of."""
        low = onnx.helper.make_node("Constant", [], ["low"], value=onnx.numpy_helper.from_array(np.float32(-1)))
        nodes = [node("Conv", ["x", "w"], ["c"]), low, node("Clip", ["c", "low"], ["k"]), node("Mul", ["k", "s"], ["y"])]
        return models.save(self.dir / "constant.onnx", nodes, [("x", [1, 3, 8, 8])], [("y", [1, 4, 6, 6])],
                           [("w", models.weight(4, 3, 3, 3)), ("s", np.float32(2))])

    def test_reference_device(self):
        """The candidate's stays cpu."""
        gate = ("check", DIGITS, "--reference", DIGITS, "--data", DIGITS_DATA, "--samples", 20, "--max-loss", "mse=1e-3", "--no-latency")
        parity = ("validate", DIGITS, DIGITS, "--data", DIGITS_DATA, "--samples", 20)
        for words in (gate, parity):
            self.assertIn("device 'nowhere' found", self.done(*words, "--reference-device", "nowhere", code=UNAVAILABLE))
            for library in models.openvino_libraries()[:1]:
                self.done(*words, "--reference-device", "openvino", env={"SEQTO_ORT_LIBRARY": str(library)})

    def test_skip_shapes(self):
        shapes = []
        for words in ((), ("--skip-shapes",)):
            self.done("prepare", self.with_constant_node(), "-o", self.dir / "out.onnx", *words)
            shapes.append(len(onnx.load(self.dir / "out.onnx").graph.value_info))
        self.assertGreater(shapes[0], 0)
        self.assertEqual(shapes[1], 0)

    def test_prepare(self):
        model, data, prepared = self.with_constant_node(), models.arrays(self.dir / "data.npz"), self.dir / "prepared.onnx"
        self.done("prepare", model, "--skip-optimization", "-o", prepared)
        quantize, analyze = (lambda *words: self.op_types("quantize", *words, "--data", data),
                             lambda *words: json.loads(self.done("analyze", *words, "--data", data, "--json")))
        self.assertIn("Constant", quantize(model))
        self.assertEqual(quantize(model, "--prepare"), quantize(prepared))
        self.assertNotIn("Constant", quantize(prepared))
        self.assertEqual(analyze(model, "--prepare"), analyze(prepared))

    def test_tvm_plugin(self):
        if not (pathlib.Path(models.BINARY).parent / "seqto-tvm").exists():
            self.skipTest("built without TVM")
        said = self.done("run", DIGITS, "--data", DIGITS_DATA, "--device", "tvm:llvm", "--tvm-plugin", self.dir / "none.so", "-o",
                         self.dir / "out.npz", code=UNAVAILABLE)
        self.assertIn("[tvm] plug-in cannot be loaded", said)

    def test_from(self):
        plan = self.dir / "plan.json"
        plan.write_text(json.dumps({"schema_version": 1, "schemes": {"stem": "int8"}}))
        convert = ("plan", "convert", plan, "--model", DIGITS, "--to", "nncf")
        self.assertEqual(self.done(*convert, "--from", "seqto"), self.done(*convert))
        self.assertIn("nncf's form was expected", self.done(*convert, "--from", "nncf", code=INVALID))

    def test_calibration_and_ranking_data(self):
        np.savez(self.dir / "wide.npz", x=2 * self.x[:40])

        def notes(name, *words):
            self.done("tune", DIGITS, "--data", DIGITS_DATA, "--strategy", "incremental", "--max-evaluations", 2, "-o", self.dir / name, *words)
            found = [json.loads(line) for line in lines(self.dir / name)]
            return {line["note"]: line["value"] for line in found if "note" in line}

        plain = notes("plain", "--calibration-samples", 40)
        ranges = notes("ranges", "--calibration-data", self.dir / "wide.npz")["ranges"]["x"]
        self.assertEqual(ranges, [2 * self.x[:40].min(), 2 * self.x[:40].max()])
        ranked = notes("ranking", "--calibration-samples", 40, "--ranking-data", self.dir / "wide.npz")
        self.assertEqual(ranked["ranges"], plain["ranges"])
        self.assertNotEqual(ranked["sensitivity"]["activations"], plain["sensitivity"]["activations"])

    def test_random_samples(self):
        def drawn(seed):
            self.done("run", DIGITS, "--data", DIGITS_DATA, "--random-samples", 20, "--seed", seed, "-o", self.dir / "out.npz")
            return np.load(self.dir / "out.npz")["logits"]

        self.done("run", DIGITS, "--data", DIGITS_DATA, "-o", self.dir / "all.npz")
        whole = {row.tobytes() for row in np.load(self.dir / "all.npz")["logits"]}
        one, again, other = drawn(1), drawn(1), drawn(2)
        self.assertEqual(len({row.tobytes() for row in one} & whole), 20)
        np.testing.assert_array_equal(one, again)
        self.assertFalse(np.array_equal(one, other))

    def test_float16_strict(self):
        model = models.save(self.dir / "wide.onnx", [node("MatMul", ["x", "w"], ["y"])], [("x", [1, 64])], [("y", [1, 64])],
                            [("w", np.full((64, 64), 1e6, np.float32))])
        words = ("quantize", model, "--mode", "float16", "-o", self.dir / "out.onnx")
        self.done(*words)
        said = self.done(*words, "--float16-strict", code=INVALID)
        self.assertIn("'w'", said)
        self.assertIn("65504", said)

    def test_exact_ranges(self):
        """Those of the model as it is written; the fast ones are equal but for rounding."""
        found, y = {}, answers(self.x)
        for flag in ("--exact-ranges", "--fast-ranges"):
            self.done("calibrate", DIGITS, "--data", DIGITS_DATA, "--threads", 1, flag, "-o", self.dir / "ranges.json")
            data = json.loads((self.dir / "ranges.json").read_text())["data"]
            found[flag] = {tensor: tuple(np.float32(r[end]["data"]) for end in ("lowest", "highest")) for tensor, r in data.items()}
        self.assertEqual(found["--exact-ranges"]["logits"], (y.min(), y.max()))
        for tensor, ends in found["--fast-ranges"].items():
            np.testing.assert_allclose(ends, found["--exact-ranges"][tensor], rtol=1e-4, atol=1e-5)

    def test_matmul_const_b_only(self):
        model = models.save(self.dir / "two.onnx", [node("MatMul", ["x", "w"], ["a"]), node("MatMul", ["a", "a"], ["y"])],
                            [("x", [64, 64])], [("y", [64, 64])], [("w", models.weight(64, 64))])
        dynamic = ("quantize", model, "--mode", "dynamic")
        for words, integers in (((), 1), (("--matmul-const-b-only", "true"), 1), (("--matmul-const-b-only", "false"), 2)):
            self.assertEqual(self.op_types(*dynamic, *words).count("MatMulInteger"), integers)


if __name__ == "__main__":
    unit.main()
