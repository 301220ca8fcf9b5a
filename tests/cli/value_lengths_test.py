"""A model whose output is as long as its values say (Compress, NonZero; a voice that speaks slower): what the quantized model answers in another
length is wholly wrong, and every verb says so instead of failing."""
import json
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import onnx

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402

if models.built_with("SEQTO_ONNXRUNTIME:BOOL=OFF"):
    print("skipped: runs models")
    sys.exit(77)
SAMPLES, PLACES = 48, 16


def loud_places(path):
    """Scores of those of 16 places whose sum is above 0."""
    nodes = [models.node("MatMul", ["x", "w"], ["h"]), models.node("ReduceSum", ["h", "last"], ["sum"], keepdims=0),
             models.node("Greater", ["sum", "zero"], ["loud"]), models.node("Compress", ["h", "loud"], ["kept"], axis=0),
             models.node("MatMul", ["kept", "v"], ["y"])]
    return models.save(path, nodes, [("x", [PLACES, 24])], [("y", ["k", 8])],
                       [("w", models.weight(24, 32)), ("v", models.weight(32, 8, seed=1)), ("last", np.array([1])), ("zero", np.float32(0))])


class LengthsByValues(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.dir = pathlib.Path(folder.name)
        cls.model, cls.data = loud_places(cls.dir / "m.onnx"), cls.dir / "x.npz"
        np.savez(cls.data, x=models.weight(SAMPLES, PLACES, 24, seed=2))
        # Coarse enough to change which places are loud.
        cls.coarse = ["--activation-type", "uint8", "--weight-type", "int4"]

    def seqto(self, *words):
        done = models.seqto(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def coarse_model(self):
        out = self.dir / "coarse.onnx"
        return out, self.seqto("quantize", self.model, "--data", self.data, *self.coarse, "-o", out)

    def test_quantize_tells_the_loss(self):
        _, done = self.coarse_model()
        self.assertRegex(done.stderr, r"loses nmse [\d.]+ against float on 16 \S+ samples, of which it answers \d+ in another shape")
        self.assertIn("wrote", done.stdout)

    def test_check_counts_them_as_wholly_wrong(self):
        out, _ = self.coarse_model()
        done = self.seqto("--json", "check", out, "--reference", self.model, "--data", self.data, "--no-latency", "--max-loss", "nmse=1")
        found = json.loads(done.stdout)
        lengths = [self.lengths(model) for model in (self.model, out)]
        others = int((lengths[0] != lengths[1]).sum())
        self.assertGreater(others, 0)
        self.assertTrue(any(f"{others} of {SAMPLES} samples are answered in another shape" in note for note in found["notes"]), found["notes"])
        self.assertGreaterEqual(found["figures"]["top1_disagreement"]["value"], others / SAMPLES)
        self.assertGreaterEqual(found["figures"]["nmse"]["value"], others / SAMPLES)

    def lengths(self, model):
        self.seqto("run", model, "--data", self.data, "-o", self.dir / "y.npz")
        with np.load(self.dir / "y.npz") as arrays:
            return np.array([len(arrays[f"y.{i}"]) for i in range(SAMPLES)])

    def test_tune_writes_a_front(self):
        out = self.dir / "tuned"
        done = self.seqto("tune", self.model, "--data", self.data, "--max-evaluations", "6", "-o", out)
        summary = json.loads((out / "summary.json").read_text())
        self.assertTrue(summary["front"])
        self.assertTrue(any("in another shape than float" in note for note in summary["notes"]), done.stderr)

    def test_a_model_that_draws_is_said(self):
        nodes = [models.node("MatMul", ["x", "w"], ["h"]), models.node("RandomNormalLike", ["h"], ["noise"]), models.node("Add", ["h", "noise"], ["y"])]
        model = models.save(self.dir / "drawn.onnx", nodes, [("x", [PLACES, 24])], [("y", [PLACES, 32])], [("w", models.weight(24, 32))])
        said = self.seqto("quantize", model, "--data", self.data, "-o", self.dir / "q.onnx").stderr
        self.assertIn("RandomNormalLike 'noise_node' draws random numbers", said)

    def test_analyze_says_what_cannot_be_compared(self):
        done = models.seqto("analyze", self.model, "--data", self.data, *self.coarse)
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertRegex(done.stderr, r"\[analyze\] the tensor '(kept|y)' is found in one shape in the float model and in another")
        self.assertIn("--one-in", done.stderr)


if __name__ == "__main__":
    unittest.main()
