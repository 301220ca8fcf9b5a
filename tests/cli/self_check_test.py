"""quantize measures what it wrote: on samples held back from calibration, in words and as JSON."""

import json
import pathlib
import shutil
import sys
import tempfile
import unittest

import onnx

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402


class SelfCheck(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="seqto-self-check-"))
        self.addCleanup(shutil.rmtree, self.dir)

    def quantize(self, *flags):
        done = models.seqto("quantize", models.DIGITS, "--data", models.DIGITS_DATA, "-o", self.dir / "q.onnx", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_held_back(self):
        self.assertIn("differs from float on 0 % of 16 held-back samples", self.quantize().stderr)
        check = json.loads(self.quantize("--json").stdout)["check"]
        self.assertEqual((check["figure"], check["samples"], check["held_back"], check["ruined"]),
                         ("top1_disagreement", 16, True, False))
        self.assertIn("of 1 held-back sample\n", self.quantize("--samples", 4).stderr)

    def test_quick(self):
        self.assertNotIn("differs from float", self.quantize("--quick").stderr)
        self.assertNotIn("check", json.loads(self.quantize("--quick", "--json").stdout))

    def test_data_improve_what_needs_none(self):
        def content(*flags):
            done = self.quantize(*flags)
            return (self.dir / "q.onnx").read_bytes(), done.stderr

        for mode in (["dynamic"], ["weights"], ["weights", "--weight-bits", 4, "--weight-block-size", 16]):
            improved, said = content("--mode", *mode)
            self.assertRegex(said, r"differs from float on \d+ % of 16 held-back samples")
            plain, said = content("--mode", *mode, "--no-improve")
            self.assertRegex(said, r"differs from float on \d+ % of 16 ")
            quick, said = content("--mode", *mode, "--quick")
            self.assertNotIn("differs from float", said)
            self.assertEqual(plain, quick)
            self.assertNotEqual(plain, improved)
            self.assertNotEqual(plain, content("--mode", *mode, "--rounding", "learned")[0])
            done = models.seqto("quantize", models.DIGITS, "--mode", *mode, "--data", self.dir / "none.npz", "-o", self.dir / "x.onnx")
            self.assertEqual(done.returncode, 3, done.stderr)
        self.assertRegex(content("--mode", "float16")[1], r"differs from float on 0 % of 16 calibration samples")

    def test_of_whole_numbers_the_share_that_changes(self):
        model = onnx.load(models.DIGITS)
        scores = model.graph.output[0].name
        model.graph.node.append(onnx.helper.make_node("ArgMax", [scores], ["digit"], axis=1, keepdims=0))
        del model.graph.output[:]
        model.graph.output.append(onnx.helper.make_tensor_value_info("digit", onnx.TensorProto.INT64, [None]))
        onnx.save(model, self.dir / "labels.onnx")
        done = models.seqto("--json", "quantize", self.dir / "labels.onnx", "--data", models.DIGITS_DATA, "-o", self.dir / "q.onnx",
                            "--activation-type", "uint4", "--weight-type", "int4")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"warning: [\d.]+ % of its whole numbers differ from float's on 16 \S+ samples; try")
        check = json.loads(done.stdout)["check"]
        self.assertEqual(check["figure"], "top1_disagreement"), self.assertGreater(check["value"], 0)

    def test_ruin_is_said_with_a_way_out(self):
        said = self.quantize("--activation-type", "uint4", "--weight-type", "int4").stderr
        self.assertRegex(said, r"warning: differs from float on \d\d % of 16 calibration samples; try --improve")

    def test_slow_convolutions_are_said(self):
        self.assertRegex(self.quantize("--mode", "dynamic", "--weight-type", "int8").stderr, r"warning: \d+ convolutions .* --mode static")


if __name__ == "__main__":
    unittest.main()
