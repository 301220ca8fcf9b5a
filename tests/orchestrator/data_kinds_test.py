"""`seqto tune` and `seqto run` on data that are no images: tokens of a tokenizer, ONNX's test data, random numbers."""

import json
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402

TOKENS, LENGTH = 60, 12


def text_model(path):
    """The mean of embeddings under a mask, then two layers; the length of the text is open."""
    nodes = [
        models.node("Gather", ["table", "input_ids"], ["embedded"]),
        models.node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        models.node("Unsqueeze", ["mask", "last"], ["weights"]),
        models.node("Mul", ["embedded", "weights"], ["masked"]),
        models.node("ReduceMean", ["masked"], ["mean"], axes=[1], keepdims=0),
        models.node("Gemm", ["mean", "w1"], ["hidden"]),
        models.node("Relu", ["hidden"], ["active"]),
        models.node("Gemm", ["active", "w2"], ["y"]),
    ]
    ids = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
           for name in ("input_ids", "attention_mask")]
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 5])
    weights = [("table", models.weight(TOKENS, 16)), ("last", np.array([-1])),
               ("w1", models.weight(16, 32, seed=1)), ("w2", models.weight(32, 5, seed=2))]
    graph = helper.make_graph(nodes, "g", ids, [out], [numpy_helper.from_array(a, n) for n, a in weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def tokens(count):
    rng = np.random.default_rng(5)
    lengths = rng.integers(3, LENGTH + 1, count)
    return {"input_ids": rng.integers(0, TOKENS, (count, LENGTH)),
            "attention_mask": (np.arange(LENGTH) < lengths[:, None]).astype(np.int64),
            "token_type_ids": np.zeros((count, LENGTH), np.int64)}


class DataKinds(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.model = text_model(self.folder / "text.onnx")

    def good(self, *words):
        done = models.seqto(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_tokens_of_a_tokenizer_are_tuned(self):
        data = self.folder / "tokens.npz"
        np.savez(data, **tokens(60), y=np.arange(60) % 5)
        done = self.good("tune", self.model, "--data", data, "--calibration-samples", 20, "--json", "-o",
                         self.folder / "study")
        summary = json.loads(done.stdout)
        self.assertGreater(len(summary["front"]), 0)
        self.assertEqual(summary["samples"]["evaluation"], 28)
        self.assertEqual(summary["samples"]["search"], 12)
        self.assertIn("top1", summary["baseline"]["metrics"])
        self.assertNotIn("data", summary["options"])

    def test_random_data_are_marked_everywhere(self):
        out = self.folder / "study"
        done = self.good("tune", self.model, "--data", "random", "--dim", f"length={LENGTH}", "--calibration-samples", 10,
                         "--evaluation-samples", 5, "-o", out)
        self.assertIn("inputs are random numbers", done.stderr)
        self.assertIn("random inputs:", done.stdout)
        summary = json.loads((out / "summary.json").read_text())
        self.assertEqual(summary["options"]["data"], "random")
        self.assertTrue(any("random numbers" in note for note in summary["notes"]))
        header = json.loads((out / "study.jsonl").read_text().splitlines()[0])
        self.assertIn("random", json.dumps(header))
        self.assertIn("The inputs are random numbers", (out / "report.html").read_text())
        self.assertIn("inputs are random numbers",
                      self.good("analyze", self.model, "--data", "random", "--dim", "length=9", "--samples", 3).stderr)

        done = models.seqto("tune", self.model, "--data", "random", "-o", out)
        self.assertEqual(done.returncode, 3)
        self.assertIn("--dim length=SIZE", done.stderr)

    def test_onnx_test_data_are_run(self):
        wanted = tokens(3)
        for i in range(3):
            folder = self.folder / "zoo" / f"test_data_set_{i}"
            folder.mkdir(parents=True)
            for k, name in enumerate(("input_ids", "attention_mask")):
                tensor = numpy_helper.from_array(wanted[name][i:i + 1], name)
                (folder / f"input_{k}.pb").write_bytes(tensor.SerializeToString())
        np.savez(self.folder / "same.npz", **wanted)
        outputs = []
        for data in ("zoo", "same.npz"):
            self.good("run", self.model, "--data", self.folder / data, "-o", self.folder / "out.npz")
            outputs.append(np.load(self.folder / "out.npz")["y"])
        self.assertEqual(outputs[0].shape, (3, 5))
        np.testing.assert_array_equal(*outputs)

    def test_prepare_fixes_dimensions(self):
        fixed = self.folder / "fixed.onnx"
        self.good("prepare", self.model, "--dim", f"length={LENGTH}", "--dim", "batch=1", "-o", fixed)
        shapes = [[d.dim_value for d in i.type.tensor_type.shape.dim] for i in onnx.load(str(fixed)).graph.input]
        self.assertEqual(shapes, [[1, LENGTH], [1, LENGTH]])
        done = models.seqto("prepare", self.model, "--dim", "width=3", "-o", fixed)
        self.assertEqual(done.returncode, 2)
        self.assertIn("one of batch, length, or INPUT:AXIS, was expected", done.stderr)


if __name__ == "__main__":
    unittest.main()
