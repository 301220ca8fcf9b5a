"""`validate --runtimes`: a runtime with a known fault, whose node has to be named; runtimes that refuse, crash or are not there;
and OpenVINO, OpenCV, ONNX Runtime for the web, an old one and TVM where they are installed."""

import json
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

import numpy as np
import onnx

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402

try:
    import jsonschema
    import referencing
except ImportError:
    jsonschema = None
if models.built_with("SEQTO_ONNXRUNTIME:BOOL=OFF"):
    print("skipped: the runtime is needed")
    sys.exit(77)

GATE, MISSING, USAGE = 5, 4, 2
SCHEMAS = models.SOURCE / "docs/reference/schemas"
CASES = pathlib.Path(os.environ.get("SEQTO_CASES_DIR", ""))
# Other programs as runtimes: onnxruntime with a fault, which sets the border of pools to 0 and counts it; one that takes nothing;
# one that ends at the first model.
OWN = """
import os
import onnx, onnxruntime

class Own:
    name = "onnxruntime with a fault"
    def __init__(self, threads): pass
    def load(self, file, inputs, outputs):
        if {name!r} == "refuses": raise ValueError("no model is good enough")
        if {name!r} == "crashes": os.abort()
        model = onnx.load(file)
        for node in model.graph.node:
            if node.op_type == "AveragePool": node.attribute.append(onnx.helper.make_attribute("count_include_pad", 1))
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        return lambda tensors: session.run(None, dict(zip(inputs, tensors)))
"""


class Runtimes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-runtimes-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        cls.own = cls.dir / "runtimes"
        for name in ("faulty", "refuses", "crashes"):
            models.own_runtime(cls.own, name, OWN.format(name=name))
        cls.data = cls.dir / "data.npz"
        models.arrays(cls.data)
        cls.pooled, cls.plain = cls.network("pooled", 1), cls.network("plain", 0)

    @classmethod
    def network(cls, name, border):
        """Conv, Relu, AveragePool, Conv, Relu: with a border the pool is where the faulty runtime goes wrong."""
        path, random = cls.dir / f"{name}.onnx", np.random.default_rng(1)
        weights = {"w1": random.normal(size=(8, 3, 3, 3)) / 5, "w2": random.normal(size=(8, 8, 3, 3)) / 8}
        make = onnx.helper.make_node
        nodes = [make("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1], name="first"), make("Relu", ["a"], ["b"], name="relu1"),
                 make("AveragePool", ["b"], ["c"], kernel_shape=[3, 3], pads=[border] * 4, name="pool"),
                 make("Conv", ["c", "w2"], ["d"], pads=[1, 1, 1, 1], name="second"), make("Relu", ["d"], ["y"], name="relu2")]
        models.save(path, nodes, [("x", ["n", 3, 8, 8])], [("y", ["n", 8, None, None])], [(n, w.astype(np.float32)) for n, w in weights.items()])
        return path

    def validate(self, *words, code=0, env=None):
        done = models.seqto("-q", "--json", "validate", *words, env={"SEQTO_RUNTIMES": str(self.own), **(env or {})})
        self.assertEqual(done.returncode, code, done.stderr)
        if not done.stdout: return done.stderr
        found = json.loads(done.stdout)
        if jsonschema: self.check_schema(found)
        return {runtime["name"]: runtime for runtime in found["runtimes"]}

    @staticmethod
    def check_schema(found):
        read = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in SCHEMAS.iterdir()}
        registry = referencing.Registry().with_resources((name, referencing.Resource.from_contents(s)) for name, s in read.items())
        jsonschema.Draft202012Validator(read["runtimes.schema.json"], registry=registry).validate(found)

    def test_the_node_with_the_fault_is_named(self):
        found = self.validate(self.pooled, "--data", self.data, "--runtimes", "cpu,cpu:unoptimized,faulty", code=GATE)
        self.assertEqual(found["cpu"]["comparisons"], [])
        [right] = found["cpu:unoptimized"]["comparisons"]
        self.assertTrue(right["passed"] and right["first_difference"] is None and right["error"] < 1e-9, right)
        [wrong] = found["faulty"]["comparisons"]
        self.assertEqual((wrong["first_difference"]["node"], wrong["first_difference"]["tensor"]), ("pool", "c"))
        self.assertGreater(wrong["error"], 1e-3)
        self.assertEqual(found["faulty"]["runner"], "onnxruntime with a fault")

    def test_of_a_quantized_file_the_node_before_the_pair_is_named(self):
        int8 = self.dir / "int8.onnx"
        models.seqto("quantize", self.pooled, "--data", self.data, "--quick", "-o", int8)
        [wrong] = self.validate(int8, "--data", self.data, "--runtimes", "faulty", code=GATE)["faulty"]["comparisons"]
        self.assertEqual(wrong["first_difference"]["node"], "pool")

    def test_two_files(self):
        words = ("--data", self.data, "--runtimes", "cpu,faulty", "--abs-tol", 0.1, "--mean-tol", 0.1)
        int8 = self.dir / "two.onnx"
        models.seqto("quantize", self.plain, "--data", self.data, "--quick", "-o", int8)
        found = self.validate(self.plain, int8, *words)
        self.assertEqual([(c["path"], c["against"]) for c in found["faulty"]["comparisons"]],
                         [(str(self.plain), "cpu"), (str(int8), "cpu"), (str(int8), None)])
        [pair] = found["cpu"]["comparisons"]
        self.assertEqual(pair["parity"]["reference"]["path"], str(self.plain))
        self.assertGreater(pair["parity"]["outputs"][0]["max_abs"], 1e-4)  # what int8 costs on each

    def test_who_refuses_or_crashes_is_a_row(self):
        found = self.validate(self.plain, "--data", self.data, "--runtimes", "cpu, refuses,crashes, faulty", code=GATE)
        self.assertIn("no model is good enough", found["refuses"]["comparisons"][0]["refusal"])
        self.assertIn("Abort", found["crashes"]["comparisons"][0]["refusal"])
        self.assertTrue(found["faulty"]["comparisons"][0]["passed"])

    def test_what_is_missing_is_said_with_what_brings_it(self):
        for name, words in (("openvino", "pip install --no-deps openvino"), ("opencv", "pip install opencv-python-headless"),
                            ("web", "npm install --prefix"), ("cpu@1.21", "'onnxruntime==1.21.*'"), ("nothing", "a worker")):
            said = self.validate(self.plain, "--data", self.data, "--runtimes", name, code=MISSING)
            self.assertIn(words, said)
            self.assertIn(str(self.own), said)
            self.assertEqual("./dev setup runtimes" in said, name in ("openvino", "opencv", "web"), said)
        module = self.own / "web/node_modules/onnxruntime-web/dist/ort.wasm.bundle.min.mjs"
        module.parent.mkdir(parents=True)
        self.addCleanup(shutil.rmtree, self.own / "web")
        module.touch()
        self.assertIn("node, which is not there", self.validate(self.plain, "--data", self.data, "--runtimes", "web", code=MISSING,
                                                               env={"PATH": str(self.dir)}))
        self.validate(self.plain, "--data", self.data, "--runtimes", "cpu,faulty", "--device", "tvm:llvm", code=USAGE)

    def test_weights_in_another_file(self):
        path = self.dir / "external.onnx"
        onnx.save(onnx.load(self.plain), path, save_as_external_data=True, location="external.bin", size_threshold=100)
        self.assertTrue(self.validate(path, "--data", self.data, "--runtimes", "faulty")["faulty"]["comparisons"][0]["passed"])
        found = self.real("web", path, "--data", self.data)
        self.assertTrue(found is None or found["passed"], found)

    def test_reports(self):
        for ending, words in (("md", "AveragePool pool"), ("html", "AveragePool pool"), ("json", '"node": "pool"')):
            report = self.dir / f"report.{ending}"
            self.validate(self.pooled, "--data", self.data, "--runtimes", "faulty", "--report", report, code=GATE)
            self.assertIn(words, report.read_text(encoding="utf-8"))

    def real(self, runtime, *words):
        """What a runtime that is installed makes of a file; None, saying so, where it is not."""
        done = models.seqto("-q", "--json", "validate", *words, "--runtimes", runtime)
        if done.returncode == MISSING:
            print(f"skipped {runtime}: {done.stderr.splitlines()[0]}")
            return None
        return json.loads(done.stdout)["runtimes"][1]["comparisons"][0]

    def test_real_runtimes_agree_on_a_float_network(self):
        for name in ("openvino", "openvino@1.24", "opencv", "web", "cpu@1.20", "tvm:llvm"):
            with self.subTest(name):
                found = self.real(name, models.DIGITS, "--data", models.DIGITS_DATA, "--samples", 20, "--abs-tol", 1e-3, "--mean-tol", 1e-3)
                if found is None: continue
                if name == "openvino" and not found["passed"]:  # where the processor has it, OpenVINO computes in bfloat16
                    first = next(n for n in onnx.load(models.DIGITS).graph.node if n.op_type in ("Conv", "Gemm", "MatMul"))
                    self.assertLess(found["error"], 1e-3)
                    self.assertEqual(found["first_difference"]["node"], first.name)
                    continue
                self.assertTrue(found["passed"], found)
                self.assertLess(found["error"], 1e-9)

    def test_a_real_silent_difference(self):
        """OpenVINO takes the zero point of channels that a Pad appends for that of those before it."""
        random, make = np.random.default_rng(2), onnx.helper.make_node
        weights = {"w1": random.normal(size=(8, 3, 3, 3)) / 5, "w2": random.normal(size=(8, 16, 3, 3)) / 8}
        nodes = [make("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1], name="first"), make("Relu", ["a"], ["b"], name="relu1"),
                 make("Pad", ["b", "pads"], ["c"], name="pad"), make("Conv", ["c", "w2"], ["y"], pads=[1, 1, 1, 1], name="second")]
        path, int8 = self.dir / "padded.onnx", self.dir / "padded_int8.onnx"
        constants = [(n, w.astype(np.float32)) for n, w in weights.items()] + [("pads", np.array([0, 4, 0, 0, 0, 4, 0, 0], np.int64))]
        models.save(path, nodes, [("x", ["n", 3, 8, 8])], [("y", ["n", 8, 8, 8])], constants)
        models.seqto("quantize", path, "--data", self.data, "--quick", "--activation-type", "int8", "-o", int8)
        found = self.real("openvino", int8, "--data", self.data)
        if found is None: return
        self.assertFalse(found["passed"])
        if found["refusal"]:  # where the processor has AMX, OpenVINO does not even compile the file
            self.assertIn("No suitable implementations", found["refusal"])
            return
        self.assertEqual(found["first_difference"]["node"], "pad")

    def test_a_fault_of_an_old_release(self):
        """ONNX Runtime 1.20 takes a Pad into an AveragePool, which then does not count the zeros; 1.31 counts them."""
        make, path = onnx.helper.make_node, self.dir / "pad_pool.onnx"
        nodes = [make("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1], name="conv"), make("Pad", ["a", "pads"], ["b"], name="pad"),
                 make("AveragePool", ["b"], ["c"], kernel_shape=[3, 3], name="pool"), make("Relu", ["c"], ["y"], name="relu")]
        models.save(path, nodes, [("x", ["n", 3, 8, 8])], [("y", ["n", 4, 8, 8])],
                    [("w", models.weight(4, 3, 3, 3)), ("pads", np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64))])
        found = self.real("cpu@1.20", path, "--data", self.data)
        if found is None: return
        self.assertFalse(found["passed"])
        self.assertEqual(found["first_difference"]["node"], "pool")


if __name__ == "__main__":
    unittest.main()
