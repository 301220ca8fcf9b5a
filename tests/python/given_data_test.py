"""Arrays in memory: what they mean is what the same arrays in a file mean."""

import pathlib
import tempfile
import unittest

import package  # noqa: F401
import numpy as np
import onnx

import seqto
from testing import models

X = models.weight(22, 3, 8, 8, seed=1)
HOW = {"objectives": ["kl", "size"], "calibration_samples": 2, "evaluation_samples": 3, "max_evaluations": 2, "strategy": "incremental"}


class GivenData(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="seqto-python-")
        self.addCleanup(scratch.cleanup)
        self.dir = pathlib.Path(scratch.name)
        np.savez(self.dir / "x.npz", x=X)

    def model(self, batch, *more_inputs, nodes=()):
        path = self.dir / "model.onnx"
        product = models.node("Conv", ["x", "w"], ["c"])
        return str(models.save(path, [product, *(nodes or [models.node("Relu", ["c"], ["y"])])], [("x", [batch, 3, 8, 8]), *more_inputs],
                               [("y", [batch, 4, 6, 6])], [("w", models.weight(4, 3, 3, 3))]))

    def test_of_a_fixed_batch_so_many_rows_are_a_sample(self):
        model = self.model(4)
        wanted, found = (seqto.calibrate(model, data) for data in (str(self.dir / "x.npz"), X))
        self.assertEqual({t: found[t] for t in found}, {t: wanted[t] for t in wanted})
        batches = X[:20].reshape(5, 4, 3, 8, 8)
        for data in (batches, list(batches), [{"x": b} for b in batches]):
            found = seqto.calibrate(model, data)
            self.assertEqual({t: found[t] for t in found}, {t: wanted[t] for t in wanted})
        with self.assertRaisesRegex(seqto.Error, "3 samples found; 4 or more expected, the fixed batch"):
            seqto.calibrate(model, X[:3])
        for data in (X, list(batches)):
            study = seqto.tune(model, data, self.dir / f"out{len(data)}", **HOW)
            self.assertGreater(study.float.size_bytes, 0)

    def test_whole_numbers_do_not_wrap_around(self):
        path = self.dir / "ids.onnx"
        models.save(path, [models.node("Gather", ["w", "ids"], ["c"]), models.node("Relu", ["c"], ["y"])],
                    [("ids", ["n"], onnx.TensorProto.INT32)], [("y", ["n", 4])], [("w", models.weight(9, 4))])
        wanted = seqto.calibrate(path, {"ids": np.array([3, 8], np.int32)})
        found = seqto.calibrate(path, {"ids": np.array([3, 8])})
        self.assertEqual({t: found[t] for t in found}, {t: wanted[t] for t in wanted})
        for ids, named in (([2**32 + 3, 8], 2**32 + 3), ([8, -2**40], -2**40)):
            with self.assertRaisesRegex(seqto.Error, f"{named} found for the input 'ids'; -2147483648 to 2147483647 expected"):
                seqto.calibrate(path, {"ids": np.array(ids)})
        self.assertEqual(len(seqto.calibrate(path, {"ids": np.array([3, 8], np.uint64)})), len(wanted))
        labels = np.array([2**63 + 1, 1], np.uint64)
        with self.assertRaisesRegex(seqto.Error, "found for the labels"):
            seqto.validate(path, path, {"ids": np.array([3, 8], np.int32), "y": labels})

    def test_an_input_that_is_a_constant_needs_no_array(self):
        model = self.model("b", ("factor", []), nodes=[models.node("Mul", ["c", "factor"], ["y"])])
        study = seqto.tune(model, X, self.dir / "out", constants={"factor": 2.0}, **HOW)
        self.assertGreater(study.float.size_bytes, 0)


if __name__ == "__main__":
    unittest.main()
