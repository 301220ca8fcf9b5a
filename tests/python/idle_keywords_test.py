"""Keywords that nothing reads, or that mean nothing: errors, since they would do nothing."""

import tempfile
import unittest

import package  # noqa: F401
import numpy as np

import seqto
from testing import models

MODEL = str(models.DIGITS)
X = np.load(models.DIGITS_DATA)["x"][:48].astype(np.float32)


class IdleKeywords(unittest.TestCase):
    def test_what_no_layer_reads(self):
        for idle, words in (({"weight_bits": 4}, "weight_bits with layers in int8 found, where it does nothing.* weights with 4 bits"),
                            ({"mode": "dynamic", "method": "entropy"}, "method with layers in int8_dynamic"),
                            ({"mode": "weights", "per_token": True}, "per_token with layers in int8_weights"),
                            ({"mode": "weights", "center": True}, "center with layers in int8_weights"),
                            ({"mode": "float16", "weight_only": {"bits": 4}}, "weight_only with layers in float16"),
                            ({"mode": "weights", "scale_search": False, "equalize": True}, "equalize with layers in int8_weights"),
                            ({"smooth_alpha": 0.3}, "smooth_alpha without smooth found")):
            with self.assertRaisesRegex(seqto.Error, words) as raised:
                seqto.quantize(MODEL, X, **idle)
            self.assertEqual(int(raised.exception.code), 2)
        with self.assertRaisesRegex(seqto.Error, "device 'nosuch' found"):
            seqto.quantize(MODEL, mode="weights", device="nosuch")
        seqto.quantize(MODEL, mode="weights", weight_bits=8, per_token=False, symmetric_weights=None, headroom_16_bits=0)

    def test_how_files_are_read_beside_data_in_memory(self):
        for idle in ({"preprocess": "imagenet"}, {"labels": "y.csv"}, {"random_samples": 5}, {"constants": {"x": 1}},
                     {"states": [{"output": "logits", "input": "x"}]}):
            with self.assertRaisesRegex(seqto.Error, f"{next(iter(idle))} found beside data in memory") as raised:
                seqto.calibrate(MODEL, X, **idle)
            self.assertEqual(int(raised.exception.code), 2)

    def test_preprocess_has_no_data(self):
        for keyword in ({"labels": "y.csv"}, {"samples": 3}, {"preprocess": "imagenet"}):
            with self.assertRaisesRegex(TypeError, f"no keyword '{next(iter(keyword))}'"):
                seqto.preprocess(MODEL, **keyword)
        seqto.preprocess(MODEL, device="cpu", threads=1, min_opset=17)

    def test_bounds_that_bound_nothing(self):
        for wrong, words in (({"max_time_seconds": float("nan")}, "max_time_seconds of nan found"), ({"max_evaluations": -3}, "max_evaluations of -3"),
                             ({"threshold": 0.1}, "a threshold with strategy chain")):
            with self.assertRaisesRegex(seqto.Error, words), tempfile.TemporaryDirectory(prefix="seqto-python-") as folder:
                seqto.tune(MODEL, X, folder, **wrong)


if __name__ == "__main__":
    unittest.main()
