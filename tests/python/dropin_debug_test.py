"""seqto.onnxruntime.quantization.qdq_loss_debug beside onnxruntime's: the same tensors, values and figures."""

import inspect
import logging
import pathlib
import tempfile
import unittest

import package  # noqa: F401
import numpy as np
import onnxruntime.quantization.qdq_loss_debug as theirs
from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

import seqto
import seqto.onnxruntime.quantization.qdq_loss_debug as ours
from testing import models
from testing.samples import Samples

NAMES = ["modify_model_output_intermediate_tensors", "collect_activations", "create_activation_matching",
         "create_weight_matching", "compute_signal_to_quantization_noice_ratio", "compute_weight_error",
         "compute_activation_error"]
BATCHES = [{"x": row[None]} for row in np.load(models.DIGITS_DATA)["x"][:12].astype(np.float32)]


class LossDebug(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        logging.disable(logging.CRITICAL)
        scratch = tempfile.TemporaryDirectory(prefix="seqto-dropin-")
        cls.addClassCleanup(scratch.cleanup)
        cls.dir = pathlib.Path(scratch.name)
        cls.float = str(models.DIGITS)
        cls.quantized = {}
        for per_channel in (False, True):
            path = cls.quantized[per_channel] = str(cls.dir / f"{per_channel}.onnx")
            quantize_static(cls.float, path, Samples(BATCHES), activation_type=QuantType.QUInt8, per_channel=per_channel)

    def same(self, a, b):
        """Dicts of dicts of arrays or of lists of arrays."""
        self.assertEqual(a.keys(), b.keys())
        for key, value in a.items():
            if isinstance(value, dict):
                self.same(value, b[key])
            else:
                self.assertEqual(len(value), len(b[key]))
                for x, y in zip(value, b[key]):
                    np.testing.assert_array_equal(np.asarray(x, np.float32), y)

    def near(self, a, b):
        self.assertEqual(a.keys(), b.keys())
        for key, value in a.items():
            if isinstance(value, dict):
                self.near(value, b[key])
            else:
                self.assertAlmostEqual(value, b[key], delta=0.01)

    def saved(self, module, model, **keywords):
        path = str(self.dir / f"{module.__name__}.saved.onnx")
        module.modify_model_output_intermediate_tensors(model, path, **keywords)
        return module.collect_activations(path, Samples(BATCHES))

    def test_signatures(self):
        for name in NAMES:
            a, b = (inspect.signature(getattr(module, name)).parameters for module in (theirs, ours))
            self.assertEqual([(p.name, p.kind) for p in a.values()], [(p.name, p.kind) for p in b.values()])

    def test_activations(self):
        for model in (self.float, *self.quantized.values()):
            self.same(self.saved(theirs, model), self.saved(ours, model))
        few = self.saved(ours, self.float, op_types_for_saving=["Gemm"])
        self.same(self.saved(theirs, self.float, op_types_for_saving=["Gemm"]), few)
        self.assertLess(len(few), len(self.saved(ours, self.float)))
        with self.assertRaisesRegex(RuntimeError, "No data"):
            ours.collect_activations(str(self.dir / f"{ours.__name__}.saved.onnx"), Samples([]))

    def test_matching_and_errors(self):
        original, quantized = self.saved(theirs, self.float), self.saved(theirs, self.quantized[False])
        found = ours.create_activation_matching(quantized, original)
        self.assertTrue(found)
        self.same(theirs.create_activation_matching(quantized, original), found)
        self.near(theirs.compute_activation_error(found), ours.compute_activation_error(found))
        alone = ours.create_activation_matching(quantized)
        self.assertEqual({k for e in ours.compute_activation_error(alone).values() for k in e}, {"qdq_err"})
        # The figures of analyze() are these.
        analyzed = {e.tensor: e for e in seqto.analyze(self.float, self.quantized[False], BATCHES).activations}
        for tensor, errors in ours.compute_activation_error(found).items():
            self.assertAlmostEqual(errors["xmodel_err"], analyzed[tensor].xmodel_err, delta=0.01)

    def test_weights(self):
        for path in self.quantized.values():
            a, b = (module.create_weight_matching(self.float, path) for module in (theirs, ours))
            self.same(a, b)
            self.near(theirs.compute_weight_error(a), ours.compute_weight_error(b))
        self.assertEqual(ours.compute_weight_error(b, lambda x, y: 1.0), dict.fromkeys(b, 1.0))

    def test_weights_of_operators_on_codes(self):
        path = str(self.dir / "qoperator.onnx")
        quantize_static(self.float, path, Samples(BATCHES), quant_format=QuantFormat.QOperator, activation_type=QuantType.QUInt8)
        found = ours.create_weight_matching(self.float, path)
        self.assertEqual(found.keys(), ours.create_weight_matching(self.float, self.quantized[False]).keys())
        self.assertGreater(min(ours.compute_weight_error(found).values()), 25)


if __name__ == "__main__":
    unittest.main()
