"""`seqto quantize` with no model, and models in which nothing can be quantized."""

import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402

USAGE, INVALID = 2, 3
INT8, OUTPUT = TensorProto.INT8, "artifacts/model.int8.onnx"


class InFolder(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-deploy-"))
        self.addCleanup(shutil.rmtree, self.dir)

    def seqto(self, *words):
        return subprocess.run([models.BINARY, *map(str, words)], capture_output=True, text=True, cwd=self.dir, timeout=300)


class Deploy(InFolder):
    def export(self):
        (self.dir / "artifacts").mkdir()
        shutil.copy(models.DIGITS, self.dir / "artifacts/model.onnx")

    def test_without_an_export(self):
        done = self.seqto("quantize")
        self.assertEqual(done.returncode, INVALID)
        self.assertEqual((done.stdout, done.stderr), ("", "Missing artifacts/model.onnx. Run export first.\n"))
        self.assertEqual(list(self.dir.iterdir()), [])

    def test_dynamic_with_int8_weights(self):
        self.export()
        done = self.seqto("quantize")
        self.assertEqual(done.returncode, 0, done.stderr)
        model = onnx.load(str(self.dir / OUTPUT))
        self.assertIn("DynamicQuantizeLinear", [n.op_type for n in model.graph.node])
        weights = [i for i in model.graph.initializer if i.name.endswith("_quantized")]
        self.assertTrue(weights)
        self.assertEqual({i.data_type for i in weights}, {INT8})
        self.assertRegex(done.stdout, rf"wrote {OUTPUT}: [\d.]+ kB instead of 12\d\.\d+ kB")
        named = self.seqto("quantize", models.DIGITS, "--mode", "dynamic", "-o", "named.onnx")
        self.assertEqual(named.returncode, 0, named.stderr)
        self.assertEqual((self.dir / "named.onnx").read_bytes(), (self.dir / OUTPUT).read_bytes())

    def test_flags_still_count(self):
        self.export()
        done = self.seqto("quantize", "--mode", "weights", "-o", "w.onnx", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout)
        self.assertEqual(said["output"], "w.onnx")
        self.assertLess(said["size_bytes"], said["float_size_bytes"])
        self.assertFalse((self.dir / OUTPUT).exists())

    def test_a_model_still_needs_an_output(self):
        done = self.seqto("quantize", models.DIGITS, "--mode", "dynamic")
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("--output is required", done.stderr)


class Trees(InFolder):
    def tree(self, *before, op="TreeEnsembleRegressor", weights=()):
        leaf = dict(n_targets=1, nodes_treeids=[0] * 3, nodes_nodeids=[0, 1, 2], nodes_featureids=[0] * 3,
                    nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_values=[0.5, 0.0, 0.0], nodes_truenodeids=[1, 0, 0],
                    nodes_falsenodeids=[2, 0, 0], nodes_missing_value_tracks_true=[0] * 3, nodes_hitrates=[1.0] * 3,
                    target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[1.0, 2.0])
        if op == "LinearRegressor":
            leaf = dict(coefficients=[1.0, 2.0, 3.0], intercepts=[0.0])
        last = before[-1].output[0] if before else "x"
        nodes = [*before, helper.make_node(op, [last], ["y"], name="trees", domain="ai.onnx.ml", **leaf)]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1])],
                                  [numpy_helper.from_array(array, name) for name, array in weights])
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(self.dir / "tree.onnx"))
        np.savez(self.dir / "x.npz", x=models.weight(60, 3))
        (self.dir / "plan.json").write_text('{"schemes": {"trees": "float16"}}')

    def refused(self, said, *words):
        done = self.seqto(*words)
        self.assertEqual(done.returncode, INVALID, done.stdout + done.stderr)
        for word in ("nothing to quantize", *said):
            self.assertIn(word, done.stderr)
        self.assertFalse((self.dir / "out").exists(), words)

    def test_every_word_that_quantizes_says_so(self):
        for before in ((), (models.node("Identity", ["x"], ["t"]),)):
            self.tree(*before)
            said = ["a tree ensemble (TreeEnsembleRegressor of ai.onnx.ml)", "deploy this one as it is"]
            for mode in ("static", "dynamic", "weights", "float16"):
                self.refused(said, "quantize", "tree.onnx", "-o", "out", "--mode", mode, "--data", "x.npz")
            self.refused(said, "quantize", "tree.onnx", "-o", "out", "--plan", "plan.json")
            self.refused(said, "tune", "tree.onnx", "-o", "out", "--data", "x.npz")
            self.refused(said, "analyze", "tree.onnx", "--data", "x.npz")
        (self.dir / "artifacts").mkdir()
        (self.dir / "tree.onnx").rename(self.dir / "artifacts/model.onnx")
        self.refused(said, "quantize")
        self.assertEqual([p.name for p in (self.dir / "artifacts").iterdir()], ["model.onnx"])

    def test_other_models_of_that_domain(self):
        self.tree(op="LinearRegressor")
        self.refused(["LinearRegressor of ai.onnx.ml"], "quantize", "tree.onnx", "-o", "out", "--mode", "float16")

    def test_trees_behind_layers_with_weights_are_quantized(self):
        self.tree(models.node("MatMul", ["x", "w"], ["t"]), weights=[("w", models.weight(3, 3))])
        done = self.seqto("quantize", "tree.onnx", "-o", "out", "--data", "x.npz")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("QuantizeLinear", [n.op_type for n in onnx.load(str(self.dir / "out")).graph.node])
        # The trees themselves stay as they are, also where everything goes to float16.
        done = self.seqto("quantize", "tree.onnx", "-o", "half.onnx", "--mode", "float16", "--float16-compute")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.seqto("run", "half.onnx", "--data", "x.npz", "-o", "y.npz")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_inspect_knows(self):
        self.tree()
        layer = json.loads(self.seqto("inspect", "tree.onnx", "--json").stdout)["layers"][0]
        self.assertEqual(layer["schemes"], ["float32"])


if __name__ == "__main__":
    unittest.main()
