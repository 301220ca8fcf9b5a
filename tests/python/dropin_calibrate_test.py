"""Calibrators of seqto.onnxruntime.quantization beside onnxruntime's: calls, providers, ranges that a script changes."""

import importlib
import json
import unittest
import unittest.mock

import package  # noqa: F401
import numpy as np
import onnxruntime
import onnxruntime.quantization as theirs

import seqto
import seqto.onnxruntime.quantization as ours
from dropin_test import Pair, silently
from testing import models
from testing.samples import Samples

DIGITS = str(models.DIGITS)
BATCHES = [{"x": row[None]} for row in np.load(models.DIGITS_DATA)["x"][:40].astype(np.float32)]


def bounds(data):
    return {t: tuple(np.asarray(v).item() for v in data[t].range_value) for t in data.keys()}


class Calibrators(Pair):
    def calibrator(self, module, method="MinMax", **options):
        return silently(module.create_calibrator, DIGITS, ["Conv"], str(self.dir / "augmented.onnx"),
                        module.CalibrationMethod[method], extra_options=options)

    def collected(self, module, calls, method="MinMax", **options):
        calibrator = self.calibrator(module, method, **options)
        for first, last in calls:
            silently(calibrator.collect_data, Samples(BATCHES[first:last]))
        return calibrator

    def test_a_moving_average_moves_between_calls(self):
        for calls in ([(0, 40)], [(0, 10), (10, 20), (20, 25)], [(0, 3), (3, 20), (20, 21), (21, 40)]):
            for symmetric in (False, True):
                options = {"moving_average": True, "averaging_constant": 0.3, "symmetric": symmetric}
                a, b = (bounds(silently(self.collected(module, calls, **options).compute_data)) for module in (theirs, ours))
                self.assertEqual(a.keys(), b.keys())
                for tensor in a:
                    np.testing.assert_allclose(a[tensor], b[tensor], rtol=1e-6, err_msg=tensor)
        means = bounds(silently(self.collected(ours, [(0, 40)], moving_average=True).compute_data))
        self.assertNotEqual(b, means)

    def test_strides(self):
        extra = {"CalibMovingAverage": True, "CalibMovingAverageConstant": 0.3, "CalibStridedMinMax": 8}
        a, b = (self.made(module, "quantize_static", DIGITS, Strided(BATCHES), extra_options=extra) for module in (theirs, ours))
        self.assertIsNone(self.difference(a, b))
        smooth = [self.made(ours, "quantize_static", DIGITS, Strided(BATCHES),
                            extra_options={**extra, "SmoothQuant": True, "CalibStridedMinMax": stride}) for stride in (0, 8, 40)]
        self.assertIsNone(self.difference(smooth[0], smooth[2]))
        self.assertIsNotNone(self.difference(smooth[0], smooth[1]))

    def test_no_batch_is_thrown_away(self):
        for options in ({}, {"moving_average": True}):
            wanted, found = (bounds(self.collected(ours, [(0, 10)], max_intermediate_outputs=most, **options).compute_data())
                             for most in (None, 3))
            self.assertEqual(wanted, found)

    def test_cleared_outputs_leave_the_ranges(self):
        for method in ("MinMax", "Entropy"):
            found = []
            for module in (theirs, ours):
                calibrator = self.collected(module, [(0, 10)], method)
                silently(calibrator.clear_collected_data)
                found.append(bounds(silently(calibrator.compute_data)))
            self.assertEqual(*found)

    def test_ranges_may_be_changed(self):
        for module in (theirs, ours):
            calibrator = self.collected(module, [(0, 10)])
            data = silently(calibrator.compute_data)
            self.assertEqual((data["x"].lowest.shape, data["x"].lowest.dtype), ((1,), np.float32))
            self.assertEqual(data["x"].lowest[0], data["x"].range_value[0][0])
            data["x"].highest = np.array([77], np.float32)
            data.data[max(data)].lowest *= 2
            data["x"] = module.TensorData(lowest=np.array([-3], np.float32), highest=data["x"].highest)
            self.assertEqual(data.data["x"].range_value, (-3, 77))
            self.assertEqual(silently(calibrator.compute_data)["x"].range_value, (-3, 77))
            module.save_tensors_data(data, self.dir / f"{module.__name__}.json")
        texts = [json.loads((self.dir / f"{module.__name__}.json").read_text()) for module in (theirs, ours)]
        self.assertEqual(*texts)
        self.assertEqual(data.ranges["x"], (-3, 77))
        with self.assertRaisesRegex(RuntimeError, "Only an existing tensor"):
            data["none"] = data["x"]

    def test_histograms_are_kept_in_files(self):
        data = self.collected(ours, [(0, 10)], "Entropy").compute_data()
        ours.save_tensors_data(data, self.dir / "entropy.json")
        again = ours.load_tensors_data(self.dir / "entropy.json")
        np.testing.assert_array_equal(again["x"].hist, data["x"].hist)
        self.assertEqual(bounds(theirs.load_tensors_data(self.dir / "entropy.json")), bounds(data))
        self.assertEqual(len(seqto.Ranges.load(self.dir / "entropy.json")), len(data))
        table = ours.TensorsData(theirs.CalibrationMethod.Entropy, dict(theirs.load_tensors_data(self.dir / "entropy.json").items()))
        ours.write_calibration_table(table, self.dir)
        read = json.loads((self.dir / "calibration.json").read_text())
        self.assertEqual(read["data"]["x"]["hist"]["data"], data["x"].hist.tolist())


class Strided(Samples):
    """A reader with a length and ranges."""

    def __init__(self, batches):
        super().__init__(batches)
        self.all = batches

    def __len__(self):
        return len(self.all)

    def set_range(self, start_index, end_index):
        super().__init__(self.all[start_index:end_index])


class Providers(Pair):
    def test_the_first_that_runs_is_taken(self):
        wanted = self.made(ours, "quantize_static", DIGITS, Samples(BATCHES))
        for providers in (onnxruntime.get_available_providers(), ["CUDAExecutionProvider", "CPUExecutionProvider"],
                          [("CUDAExecutionProvider", {"device_id": 99}), ("CPUExecutionProvider", {})],
                          ["NoSuchExecutionProvider"], []):
            with self.subTest(providers):
                self.logged.truncate(0)
                found = self.made(ours, "quantize_static", DIGITS, Samples(BATCHES), calibration_providers=providers)
                self.assertIsNone(self.difference(wanted, found))
                if providers and "CPU" not in str(providers[0]):
                    self.assertRegex(self.logged.getvalue(), "found in the providers, which does not run here")

    def test_options_of_a_provider_are_handed_on(self):
        calibrate = importlib.import_module("seqto.onnxruntime.quantization.calibrate")
        with unittest.mock.patch.object(calibrate._core, "oracle_ranges", side_effect=ZeroDivisionError) as called:
            calibrator = ours.create_calibrator(DIGITS, providers=[("CUDAExecutionProvider", {"device_id": 1})])
            calibrator.collect_data(Samples(BATCHES[:1]))
            with self.assertRaises(ZeroDivisionError):
                calibrator.compute_data()
        self.assertEqual((called.call_args.kwargs["device"], called.call_args.kwargs["provider_options"]), ("cuda", {"device_id": "1"}))


class Truths(Pair):
    def test_what_counts_as_true_is_true(self):
        for yes, no in ((1, 0), (np.bool_(True), np.bool_(False)), ("yes", "")):
            keywords = {"per_channel": yes, "reduce_range": no, "extra_options": {
                "ActivationSymmetric": yes, "WeightSymmetric": yes, "QuantizeBias": yes, "DedicatedQDQPair": no,
                "AddQDQPairToWeight": yes, "CalibTensorRangeSymmetric": yes, "CalibMovingAverage": no}}
            a, b = (self.made(module, "quantize_static", DIGITS, Samples(BATCHES), **keywords) for module in (theirs, ours))
            self.assertNotIsInstance(a, Exception, a)
            self.assertIsNone(self.difference(a, b))


if __name__ == "__main__":
    unittest.main()
