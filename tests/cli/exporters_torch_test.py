"""PyTorch's exports, of the exporter by TorchScript and of the one by dynamo, through prepare, quantize and tune."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing.exporter_checks import ExporterChecks  # noqa: E402

# Weights in codes: static, static per channel, dynamic, weights alone (where codes are smaller than floats).
LAYERS = {
    "torch_opset9_ir3": (3, 3, 3, 3),
    "torch_opset11_detector": (3, 3, 3, 3),
    "torch_opset11_scales": (3, 3, 3, 3),
    "torch_opset12_lstm": (1, 1, 3, 1),
    "torch_opset13_detector": (3, 3, 3, 3),
    "torch_scoped": (3, 3, 3, 3),
    "dynamo_opset18": (3, 3, 3, 3),
    "dynamo_opset20": (7, 7, 7, 6),
}


class Torch(ExporterChecks):
    def test_prepare(self):
        self.check_prepare(LAYERS)

    def test_quantize(self):
        self.check_quantize(LAYERS)

    def test_tune(self):
        self.check_tune(LAYERS)


if __name__ == "__main__":
    unittest.main()
