"""No benchmark judges on samples that it calibrated with, and peers are of the release that pages name."""

import pathlib
import sys
import tempfile
import unittest

import numpy as np
import onnxruntime

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bench"))
import _peers  # noqa: E402
import improvers  # noqa: E402
import targets  # noqa: E402
import text_forms  # noqa: E402
import weights  # noqa: E402


def rows(arrays):
    return {row.tobytes() for row in next(iter(arrays.values()))}


class Apart(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = folder.name

    def test_improvers(self):
        for count in (178, 600):
            samples = improvers.Samples({"x": np.arange(2 * count).reshape(count, 2)}, self.dir)
            judging = rows(np.load(samples.judging))
            sets = [rows(np.load(samples.calibrating(seed))) for seed in range(1, 6)]
            self.assertEqual({len(one) for one in sets}, {improvers.CALIBRATION})
            self.assertFalse(set.union(*sets) & judging)
            self.assertNotEqual(sets[0], sets[1])

    def test_text_forms(self):
        for name, _, calibration, data in text_forms.networks(self.dir):
            with self.subTest(name):
                self.assertEqual(len(rows(calibration)), text_forms.SAMPLES)
                self.assertFalse(rows(calibration) & rows(data))

    def test_the_file_of_a_target_is_chosen_by_the_study(self):
        folder = pathlib.Path(self.dir)
        (folder / "a.onnx").touch()
        point = {"file": "a.onnx", "losses": {"kl": 0.5}}
        found = targets.points_of({"fully_quantized": point, "front": [{"file": "gone.onnx", "losses": {"kl": 1}}], "others": []}, folder)
        self.assertEqual([p["seen_kl"] for p in found], [0.5])


class Peers(unittest.TestCase):
    def test_release(self):
        pinned = f"onnxruntime=={onnxruntime.__version__}"
        for _, packages in (_peers.NNCF, weights.PEER):
            self.assertIn(pinned, packages)

    def test_gptq_that_rounds_is_told(self):
        same = {"GPTQ, 32": {"kl": 0.5}, "RTN, 32": {"kl": 0.5}, "GPTQ, 128": {"kl": 0.4}, "RTN, 128": {"kl": 0.5}, "RTN, 64": {"kl": 1}}
        self.assertEqual(weights.rounding_only(same), "32")


if __name__ == "__main__":
    unittest.main()
