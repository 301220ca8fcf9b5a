"""A table that embedding and head share, in 4 bits: onnxruntime gets the same rows of it for both, whatever the blocks."""
import json
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402
from testing.models import seqto  # noqa: E402

WORDS = 64


class TiedTables(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)

    def model(self, width):
        table = models.weight(WORDS, width) + np.linspace(-2, 2, WORDS, dtype=np.float32)[:, None]  # zero points of all kinds
        nodes = [models.node("Gather", ["table", "ids"], ["e"]), models.node("Transpose", ["table"], ["t"], perm=[1, 0]),
                 models.node("MatMul", ["e", "t"], ["y"])]
        return models.save(self.dir / "tied.onnx", nodes, [("ids", [1, "n"], T.INT64)], [("e", [1, "n", width]), ("y", [1, "n", WORDS])],
                           [("table", table)])

    def test_rows_are_right_whatever_the_blocks(self):
        ids = np.arange(WORDS)[None]
        for width, block in ((32, 32), (64, 32), (96, 32), (48, 16)):
            with self.subTest(width=width, block=block):
                model, out = self.model(width), self.dir / "q.onnx"
                layer = {"scheme": "int4_weights", "bits": 4, "block_size": block}
                (self.dir / "plan.json").write_text(json.dumps({"schemes": dict.fromkeys(("e_node", "y_node"), layer)}))
                done = seqto("quantize", model, "--plan", self.dir / "plan.json", "-o", out)
                self.assertEqual(done.returncode, 0, done.stderr)
                graph = onnx.load(out).graph
                gathered = [n for n in graph.node if n.op_type == "GatherBlockQuantized"]
                self.assertEqual(len(gathered), block > 16, "of 16 there are no halves")
                blocks = {i.name: i.dims[-1] for i in graph.initializer if i.dims}
                for n in gathered:
                    self.assertEqual(blocks[n.input[2]] % 2, 0, "releases up to 1.24 read others wrongly")
                wanted, found = (onnxruntime.InferenceSession(str(f), providers=["CPUExecutionProvider"]).run(None, {"ids": ids})
                                 for f in (model, out))
                for a, b in zip(wanted, found):
                    error = np.square(a - b).mean(-1) / np.square(a).mean(-1)
                    self.assertLess(error.max(), 0.02)


if __name__ == "__main__":
    unittest.main()
