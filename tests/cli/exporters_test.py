"""Exports of TensorFlow, Keras, PaddlePaddle and scikit-learn through prepare, quantize and tune; and what prepare says where
the runtime does not take what it wrote."""

import pathlib
import sys
import unittest

import onnx

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from testing import models  # noqa: E402
from testing.exporter_checks import MODES, ExporterChecks  # noqa: E402

# Weights in codes: static, static per channel, dynamic, weights alone (where codes are smaller than floats).
LAYERS = {
    "tf2onnx_opset11": (2, 2, 1, 1),
    "tf2onnx_opset13": (4, 4, 4, 4),
    "tf2onnx_conv1d": (2, 2, 2, 2),
    "keras2onnx": (3, 3, 3, 3),
    "paddle2onnx": (4, 4, 4, 3),
    "skl2onnx_mlp": (3, 3, 3, 2),
    "skl2onnx_mlp_maps": (3, 3, 3, 2),
}


class Exporters(ExporterChecks):
    def test_prepare(self):
        self.check_prepare([*LAYERS, "skl2onnx_linear"])

    def test_quantize(self):
        self.check_quantize(LAYERS)

    def test_tune(self):
        self.check_tune([name for name in LAYERS if not name.endswith("_maps")])

    def test_nothing_to_quantize_is_said(self):
        self.given("skl2onnx_linear")
        for flags in MODES.values():
            static = ["--data", self.arrays] if "--mode" not in flags else []
            self.assertIn("nothing to quantize", self.seqto("quantize", self.model, *static, *flags, "-o", self.out, code=3))
        self.assertIn("nothing to quantize", self.tune(code=3))

    def test_maps_are_no_scores(self):
        self.given("skl2onnx_mlp_maps")
        said = self.tune(code=3)
        self.assertIn("outputs of the types int64, no tensor found", said)
        self.assertIn("zipmap=False", said)

    def test_prepare_without_a_runtime_says_that_it_did_not_check(self):
        self.given("tf2onnx_opset13")
        done = models.seqto("prepare", self.model, "--skip-optimization", "-o", self.out, env={"SEQTO_ORT_LIBRARY": str(self.dir / "none.so")})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("not checked", done.stdout)

    def test_prepare_says_that_the_runtime_takes_neither(self):
        """An operator of another runtime: the file may be right for that one."""
        self.given("tf2onnx_opset13")
        model = onnx.load(str(self.model))
        node = next(n for n in model.graph.node if n.op_type == "MatMul")
        node.domain, node.op_type = "custom", "Fancy"
        model.opset_import.append(onnx.helper.make_opsetid("custom", 1))
        onnx.save(model, self.model)
        done = models.seqto("prepare", self.model, "--skip-optimization", "-o", self.out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("the runtime takes neither the model as it came nor this one", done.stdout)


if __name__ == "__main__":
    unittest.main()
